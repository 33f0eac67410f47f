package linear

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// world returns a memory that is mostly zero.
func world(pages int) []byte {
	mem := make([]byte, pages<<16)
	for i := 0; i < len(mem); i += 3 * Page {
		mem[i], mem[i+Page-1] = byte(i>>12)|1, 7
	}
	return mem
}

const keep = 384 << 10

// images returns one that is copied and one that is shared if the system supports it.
func images(t *testing.T) map[string][]byte {
	t.Helper()
	return map[string][]byte{"small": world(4), "large": world(16)}
}

// memory returns a new memory that starts as im.
func memory(t *testing.T, im *Image) *Memory {
	t.Helper()
	m, err := New(im, 16<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Release)
	if m.Reallocate(uint64(im.Size())) == nil {
		t.Fatal("no memory")
	}
	return m
}

func TestRestoreMakesAUsedMemoryTheImage(t *testing.T) {
	t.Parallel()
	for name, want := range images(t) {
		im := NewImage(len(want), Chunks(bytes.Clone(want)), keep)
		t.Cleanup(im.Close) // after its memories
		m := memory(t, im)
		r := rand.New(rand.NewPCG(1, 2))
		for run := range 40 {
			b := m.buf[:m.Size()]
			if !bytes.Equal(b, want) {
				t.Fatalf("%s: run %d does not begin with the image", name, run)
			}
			if run%3 == 2 {
				b = m.Reallocate(uint64(len(want)) + uint64(run)<<16)
			}
			touched := 5
			if run%5 == 4 {
				touched = 2000 // more than an idle memory may keep
			}
			for range touched {
				b[r.IntN(len(b))] ^= 0xff
			}
			m.Limit = uint64(len(b))
			if m.Reallocate(uint64(len(b))+1<<16) != nil || !m.Refused() {
				t.Fatalf("%s: grown above its limit", name)
			}
			m.Limit = 16 << 20
			m.Shrink = true
			m.Reallocate(uint64(len(b)))
			m.Shrink = false
			if err := m.Restore(); err != nil {
				t.Fatal(err)
			}
			if m.Refused() || m.Peak() != uint64(len(want)) {
				t.Fatalf("%s: after run %d the peak is %d, refused %v", name, run, m.Peak(), m.Refused())
			}
			for i, x := range m.Reallocate(uint64(len(want)) + 41<<16)[len(want):] {
				if x != 0 {
					t.Fatalf("%s: after run %d, byte %d behind the image is %d", name, run, i, x)
				}
			}
			m.Shrink = true
			m.Reallocate(0)
			m.Shrink = false
			if err := m.Restore(); err != nil {
				t.Fatal(err)
			}
		}
		if own, ok := m.PrivateBytes(); ok && own > keep {
			t.Errorf("%s: %d bytes of its own at rest", name, own)
		}
		if other := memory(t, im); !bytes.Equal(other.buf[:other.Size()], want) {
			t.Errorf("%s: a second memory is not the image: the first wrote through", name)
		}
	}
}
