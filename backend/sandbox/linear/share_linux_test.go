//go:build !portable

package linear

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestImageIsSealed checks that nothing in this process can change the initial memory of instances.
func TestImageIsSealed(t *testing.T) {
	t.Parallel()
	im := NewImage(1<<20, Chunks(world(16)), keep)
	defer im.Close()
	if !im.Shared() {
		t.Skip("no memory files here")
	}
	if _, err := unix.Pwrite(im.shared.fd, []byte{1}, 0); err == nil {
		t.Error("the file can be written to")
	}
	if err := unix.Ftruncate(im.shared.fd, 0); err == nil {
		t.Error("the file can be cut")
	}
	if b, err := unix.Mmap(im.shared.fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
		_ = unix.Munmap(b)
		t.Error("the file can be mapped for writing")
	}
}

// TestImageWithoutPagemap restores memories on a system that does not report which pages are
// private.
func TestImageWithoutPagemap(t *testing.T) {
	t.Parallel()
	want := world(16)
	im := NewImage(len(want), Chunks(world(16)), keep)
	t.Cleanup(im.Close)
	if !im.Shared() {
		t.Skip("no memory files here")
	}
	im.shared.opened.Do(func() {}) // it stays closed
	m := memory(t, im)
	for run := range 3 * maxLooks {
		for i := range 6 {
			m.buf[(i*10+run%3)*Page+run] ^= 0xff
		}
		m.buf[len(want)-1-run] = 9
		if err := m.Restore(); err != nil {
			t.Fatal(err)
		}
		if string(m.buf[:m.Size()]) != string(want) {
			t.Fatalf("after run %d the memory is not the image", run)
		}
	}
}
