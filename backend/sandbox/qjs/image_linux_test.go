//go:build !portable

package qjs

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestImageIsSealed: nothing in this process can change what instances begin with.
func TestImageIsSealed(t *testing.T) {
	t.Parallel()
	im, err := readImage(writeImage(world(1)))
	if err != nil {
		t.Fatal(err)
	}
	defer im.close()
	if im.cow == nil {
		t.Skip("no memory files here")
	}
	if _, err := unix.Pwrite(im.cow.fd, []byte{1}, 0); err == nil {
		t.Error("the file can be written to")
	}
	if err := unix.Ftruncate(im.cow.fd, 0); err == nil {
		t.Error("the file can be cut")
	}
	if b, err := unix.Mmap(im.cow.fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
		_ = unix.Munmap(b)
		t.Error("the file can be mapped for writing")
	}
}

// TestImageWithoutPagemap puts memories back where the system does not say which pages are
// private.
func TestImageWithoutPagemap(t *testing.T) {
	t.Parallel()
	want := world(4)
	im, err := readImage(writeImage(want))
	if err != nil {
		t.Fatal(err)
	}
	defer im.close()
	if im.cow == nil {
		t.Skip("no memory files here")
	}
	im.cow.opened.Do(func() {}) // it stays closed
	l := newLinear(16 << 20)
	defer l.release()
	if l.Reallocate(uint64(len(want))) == nil || im.place(l) != nil {
		t.Fatal("no memory")
	}
	for run := range 3 * maxLooks {
		for i := range 6 {
			l.bytes()[(i*10+run%3)*page+run] ^= 0xff
		}
		l.bytes()[len(want)-1-run] = 9
		if err := im.restore(l); err != nil {
			t.Fatal(err)
		}
		if string(l.bytes()) != string(want) {
			t.Fatalf("after run %d the memory is not the image", run)
		}
	}
}
