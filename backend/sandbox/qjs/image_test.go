package qjs

import (
	"testing"

	"helix/backend/sandbox/linear"
)

// world returns a memory that is mostly zero.
func world(pages int) []byte {
	mem := make([]byte, pages<<16)
	for i := 0; i < len(mem); i += 3 * linear.Page {
		mem[i], mem[i+linear.Page-1] = byte(i>>12)|1, 7
	}
	return mem
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
			im.Close()
			t.Errorf("%s: accepted", name)
		}
	}
	im, err := readImage(good)
	if err != nil {
		t.Fatal(err)
	}
	im.Close()
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
			im.Close()
		}
	})
}
