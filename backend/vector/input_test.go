package vector

import (
	"math"
	"slices"
	"strings"
	"testing"

	"helix/backend/fault"
)

// An invalid vector is rejected with a message, and the others are kept.
func TestVectorsThatDoNotFitAreRefused(t *testing.T) {
	t.Parallel()
	ix := open(t, t.TempDir(), 512)
	s := newSource(1, 512)
	m := model{}
	for i := range uint32(50) {
		m[i] = Vector{ID: i, Tag: uint64(i), Values: s.vector()}
		must(t, ix.Add(i, uint64(i), m[i].Values))
	}
	with := func(x float64) []float32 {
		v := s.vector()
		v[17] = float32(x)
		return v
	}
	for name, v := range map[string][]float32{
		"384 values": newSource(2, 384).vector(),
		"none":       nil,
		"zeros":      make([]float32, 512),
		"NaN":        with(math.NaN()),
		"infinite":   with(math.Inf(1)),
		"-infinite":  with(math.Inf(-1)),
	} {
		if err := ix.Add(7, 1, v); !fault.Is(err, fault.Invalid) || strings.Contains(err.Error(), "%!") {
			t.Errorf("%s: %v", name, err)
		}
		if err := ix.AddBatch([]Vector{{ID: 90, Values: s.vector()}, {ID: 91, Values: v}}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s in a batch: %v", name, err)
		}
		if hits := ix.Search(v, 5, SearchOptions{}); hits != nil {
			t.Errorf("%s as a query found %v", name, hits)
		}
	}
	m.same(t, ix)
	if _, err := Open(t.TempDir(), 0, testModel); !fault.Is(err, fault.Invalid) {
		t.Errorf("an index of no values: %v", err)
	}
}

// Only the direction of a vector matters, not its length.
func TestLengthDoesNotCount(t *testing.T) {
	t.Parallel()
	s := newSource(2, 128)
	plain, scaled := open(t, t.TempDir(), 128), open(t, t.TempDir(), 128)
	for i := range uint32(400) {
		v := s.vector()
		must(t, plain.Add(i, 0, v))
		f := []float32{10, 1, 1e-30, 1e30}[i%4]
		w := slices.Clone(v)
		for j := range w {
			w[j] *= f
		}
		must(t, scaled.Add(i, 0, w))
	}
	for range 20 {
		q := s.vector()
		a := plain.Search(q, 10, SearchOptions{})
		for j := range q {
			q[j] *= 10
		}
		b := scaled.Search(q, 10, SearchOptions{})
		for i := range a {
			if a[i].ID != b[i].ID || math.Abs(float64(a[i].Score-b[i].Score)) > 1e-6 {
				t.Fatalf("hit %d: %v and %v", i, a[i], b[i])
			}
		}
	}
}

func TestClosedIndex(t *testing.T) {
	t.Parallel()
	s := newSource(3, 32)
	ix := open(t, t.TempDir(), 32)
	must(t, ix.Add(1, 1, s.vector()))
	must(t, ix.Close())
	must(t, ix.Close())
	if err := ix.Add(2, 2, s.vector()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Add: %v", err)
	}
	if err := ix.Remove(1); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Remove: %v", err)
	}
	if err := ix.Flush(); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Flush: %v", err)
	}
	if hits := ix.Search(s.vector(), 3, SearchOptions{}); len(hits) != 0 {
		t.Errorf("Search found %v", hits)
	}
	if _, ok := ix.Vector(1, nil); ok || ix.Len() != 0 {
		t.Error("a closed index holds vectors")
	}
	if _, ok := ix.Tag(1); ok {
		t.Error("a closed index knows tags")
	}
	ix.IDs()
	ix.Stats()
}

func TestEmptyIndexAndInvalidQueries(t *testing.T) {
	t.Parallel()
	s := newSource(6, 32)
	ix := open(t, t.TempDir(), 32)
	ask := func(k int, o SearchOptions) int { return len(ix.Search(s.vector(), k, o)) }
	if ask(5, SearchOptions{}) != 0 || ask(5, SearchOptions{Allow: NewBitmap(9), Exact: true}) != 0 {
		t.Error("an empty index found something")
	}
	must(t, ix.Remove(12))
	for i := range uint32(10) {
		must(t, ix.Add(i, 0, s.vector()))
	}
	for _, below := range []int{0, exactBelow} {
		ix.exactBelow = below
		if n := ask(0, SearchOptions{}); n != 0 {
			t.Errorf("k 0 found %d", n)
		}
		if n := ask(-1, SearchOptions{}); n != 0 {
			t.Errorf("k -1 found %d", n)
		}
		if n := ask(1000, SearchOptions{Rescore: -5}); n != 10 {
			t.Errorf("k 1000 found %d", n)
		}
		if n := ask(10, SearchOptions{Allow: NewBitmap(100)}); n != 0 {
			t.Errorf("a filter of nothing found %d", n)
		}
	}
}
