package qjs

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// world is a memory with something here and there.
func world(pages int) []byte {
	mem := make([]byte, pages<<16)
	for i := 0; i < len(mem); i += 3 * page {
		mem[i], mem[i+page-1] = byte(i>>12)|1, 7
	}
	return mem
}

func TestImage(t *testing.T) {
	t.Parallel()
	want := world(4)
	im, err := readImage(writeImage(want))
	if err != nil {
		t.Fatal(err)
	}
	defer im.close()
	l := newLinear(16 << 20)
	defer l.release()
	if l.Reallocate(uint64(len(want))) == nil {
		t.Fatal("no memory")
	}
	if err := im.place(l); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for run := range 20 {
		if !bytes.Equal(l.bytes(), want) {
			t.Fatalf("run %d does not begin with the image", run)
		}
		touched := 5
		if run%5 == 4 {
			touched = 300 // more than a memory at rest may keep
		}
		for range touched {
			l.bytes()[r.IntN(len(want))] ^= 0xff
		}
		if err := im.restore(l); err != nil {
			t.Fatal(err)
		}
	}
	if im.cow != nil {
		if own, ok := im.cow.privateBytes(l); ok && own > maxPrivate {
			t.Errorf("%d bytes of its own at rest", own)
		}
	}
	other := newLinear(16 << 20)
	defer other.release()
	if other.Reallocate(uint64(len(want))) == nil || im.place(other) != nil || !bytes.Equal(other.bytes(), want) {
		t.Error("a second memory is not the image: the first wrote through")
	}
}

func TestSnapshotRefused(t *testing.T) {
	t.Parallel()
	good := writeImage(world(2))
	change := func(at int, b byte) []byte {
		c := append([]byte{}, good...)
		c[at] ^= b
		return c
	}
	for name, b := range map[string][]byte{
		"empty": nil, "magic": change(0, 1), "size": change(9, 1), "large": change(11, 0x80), "count": change(12, 4), "many": change(15, 0x80), "offset": change(16, 1), "length": change(21, 0x10),
		"cut": good[:len(good)-1], "more": append(append([]byte{}, good...), 0),
	} {
		if im, err := readImage(b); err == nil {
			im.close()
			t.Errorf("%s: accepted", name)
		}
	}
	im, err := readImage(good)
	if err != nil {
		t.Fatal(err)
	}
	im.close()
	l := Layout{Pages: 2, StackPointer: 4096, Scratch: 8192, Random: []uint32{16}, Handles: Handles{Undefined: 8, Small: [7]Value{8, 8, 8, 8, 8, 8, 8}}}
	if tpl, err := NewTemplate(good, l); err != nil {
		t.Errorf("a layout that fits: %v", err)
	} else {
		tpl.Close()
	}
	for name, damage := range map[string]func(*Layout){
		"pages": func(l *Layout) { l.Pages = 3 }, "random": func(l *Layout) { l.Random[0] = 2<<16 - 4 }, "no random": func(l *Layout) { l.Random = nil },
		"origin": func(l *Layout) { l.TimeOrigin = []uint32{1 << 30} }, "scratch": func(l *Layout) { l.Scratch = 2<<16 - 100 }, "handle": func(l *Layout) { l.Handles.Small[3] = 0 },
		"enter": func(l *Layout) { l.Handles.Enter = 1 << 31 },
	} {
		bad := l
		bad.Random = append([]uint32{}, l.Random...)
		damage(&bad)
		if tpl, err := NewTemplate(good, bad); err == nil {
			tpl.Close()
			t.Errorf("%s: accepted", name)
		}
	}
}

func FuzzSnapshot(f *testing.F) {
	f.Add(writeImage(world(1)))
	f.Add([]byte(snapshotMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		if im, err := readImage(b); err == nil {
			im.close()
		}
	})
}
