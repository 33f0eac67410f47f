package vector

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// One goroutine adds, replaces and removes while others search. A vector that is constantly
// replaced is found by every search, one that was removed before is found by none, and no search
// returns an id twice or a score that no version of a vector has.
func TestSearchReadsOneSnapshot(t *testing.T) {
	t.Parallel()
	t.Run("by code", func(t *testing.T) { t.Parallel(); searchWhileWriting(t, 0) })
	t.Run("by compact rows", func(t *testing.T) { t.Parallel(); searchWhileWriting(t, exactBelow) })
}

func searchWhileWriting(t *testing.T, below int) {
	const dims, still = 64, 3000
	ix := open(t, t.TempDir(), dims)
	ix.exactBelow, ix.compacting = below, true
	s := newSource(1, dims)
	batch := make([]Vector, still)
	for i := range batch {
		batch[i] = Vector{ID: uint32(i), Values: s.vector()}
	}
	must(t, ix.AddBatch(batch))
	aim := s.vector()
	const moving, gone = 90_000, 90_001
	must(t, ix.Add(moving, 0, aim))
	must(t, ix.Add(gone, 0, aim))
	must(t, ix.Remove(gone))
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for !stop.Load() {
				hits := ix.Search(aim, 10, SearchOptions{})
				if len(hits) != 10 || hits[0].ID != moving || hits[0].Score < 0.9999 {
					t.Errorf("the vector that is replaced is not the first of %v", hits)
					return
				}
				ids := map[uint32]bool{}
				for _, h := range hits {
					if h.ID == gone || ids[h.ID] || h.Score > 1.0001 {
						t.Errorf("found %v", hits)
						return
					}
					ids[h.ID] = true
				}
				ix.Vector(moving, nil)
				ix.Tag(moving)
				ix.Stats()
				ix.Len()
			}
		})
	}
	rounds := 1500
	if raced {
		rounds = 200
	}
	for i := range rounds {
		must(t, ix.Add(moving, uint64(i), aim))
		id := uint32(10_000 + i%2000)
		must(t, ix.Add(id, 1, s.vector()))
		if i%3 == 0 {
			must(t, ix.Remove(id))
			if tag, ok := ix.Tag(id); ok {
				t.Fatalf("removed, but its tag is %d", tag)
			}
		}
		if i%100 == 0 {
			must(t, ix.Flush())
		}
	}
	stop.Store(true)
	wg.Wait()
	// Slots given up while there was no search are reused, so the file does not keep growing.
	before := ix.Stats().Slots
	for i := range 300 {
		must(t, ix.Add(moving, uint64(i), aim))
	}
	if after := ix.Stats().Slots; after > before+1 {
		t.Errorf("replacing one vector made the file grow from %d to %d slots", before, after)
	}
}

func TestAddsAndRemovesAreVisibleToTheNextSearch(t *testing.T) {
	t.Parallel()
	ix := open(t, t.TempDir(), 96)
	s := newSource(2, 96)
	for i := range uint32(3000) {
		v := s.vector()
		ix.exactBelow = int(i%2) * exactBelow
		must(t, ix.Add(i, 0, v))
		if i%29 > 1 {
			continue
		}
		if hits := ix.Search(v, 1, SearchOptions{}); len(hits) != 1 || hits[0].ID != i {
			t.Fatalf("%d was added, found %v", i, hits)
		}
		must(t, ix.Remove(i))
		if hits := ix.Search(v, 1, SearchOptions{}); len(hits) == 1 && hits[0].ID == i {
			t.Fatalf("%d was removed, but found", i)
		}
		must(t, ix.Add(i, 0, v))
	}
}

// A long search does not block writers: here a search is in progress while vectors are added,
// replaced, removed and flushed.
func TestLongSearchDoesNotBlockWriters(t *testing.T) {
	t.Parallel()
	const dims = 64
	ix := open(t, t.TempDir(), dims)
	s := newSource(3, dims)
	first := s.vector()
	must(t, ix.Add(1, 1, first))
	ix.searching.RLock() // a search has started and taken its snapshot
	scratch := &scratch{}
	ix.exactBelow = 0
	ix.snapshot(scratch, SearchOptions{})
	for i := range uint32(2000) {
		must(t, ix.Add(i, uint64(i), s.vector()))
		if i%3 == 0 {
			must(t, ix.Remove(i/2))
		}
	}
	must(t, ix.Flush())
	scratch.query = slices.Clone(first)
	unit(scratch.query, first)
	ix.scan(scratch, 10, nil)
	hits := ix.score(scratch, slotsOf(nil, scratch.pick.found), 5)
	if len(hits) != 1 || hits[0].ID != 1 || hits[0].Score < 0.9999 {
		t.Errorf("the search sees %v, not the one vector of its snapshot", hits)
	}
	ix.searching.RUnlock()
	must(t, ix.Add(1, 1, first))
	if hits := ix.Search(first, 1, SearchOptions{}); hits[0].ID != 1 {
		t.Errorf("found %v", hits)
	}
}

// slotsOf appends the slots of candidates, sorted.
func slotsOf(dst []uint32, all []candidate) []uint32 {
	for _, c := range all {
		dst = append(dst, c.slot)
	}
	slices.Sort(dst)
	return dst
}
