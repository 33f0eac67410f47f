package vector

import (
	"slices"
	"testing"
)

// The mean does not change until the number of vectors doubles. Then all codes are updated chunk by
// chunk; searches return good results throughout.
func TestGenerations(t *testing.T) {
	t.Parallel()
	const dims = 128
	dir := t.TempDir()
	ix := open(t, dir, dims)
	ix.exactBelow = 0
	s := newSource(1, dims)
	m := model{}
	add := func(n int) {
		batch := make([]Vector, n)
		for i := range batch {
			batch[i] = Vector{ID: uint32(len(m) + i), Values: s.vector()}
		}
		must(t, ix.AddBatch(batch))
		for _, v := range batch {
			m[v.ID] = v
		}
	}
	stale := func() int {
		n := 0
		for _, c := range ix.chunks {
			if c.centre != ix.centre {
				n++
			}
		}
		return n
	}
	add(firstMean - 1)
	if g := ix.Stats().Generation; g != 0 {
		t.Fatalf("generation %d with few vectors", g)
	}
	add(1)
	mean := slices.Clone(ix.centre.mean)
	if g := ix.Stats().Generation; g != 1 || mean[0] < 0.01 {
		t.Fatalf("generation %d, mean %v", g, mean[:3])
	}
	add(firstMean - 100)
	if !slices.Equal(mean, ix.centre.mean) {
		t.Fatal("the mean moved within a generation")
	}
	mixed := 0
	for len(m) < 20*firstMean {
		add(300)
		if stale() > 0 && stale() < len(ix.chunks) {
			mixed++
		}
		if len(m)%900 < 300 {
			q := s.near(m[uint32(s.r.IntN(len(m)))].Values)
			got := ix.Search(q, 10, SearchOptions{})
			want := ix.Search(q, 10, SearchOptions{Exact: true})
			if got[0] != want[0] { // the others are noise, at nearly equal distance
				t.Fatalf("%d vectors: %v, want %v", len(m), got[0], want[0])
			}
		}
	}
	if mixed == 0 {
		t.Error("never was one generation followed by the next while adding")
	}
	add(int(chunkRows) * len(ix.chunks) / 8)
	if stale() > 0 {
		t.Errorf("%d of %d chunks have codes of an older generation", stale(), len(ix.chunks))
	}
	// Every code is that of its vector under the mean, also after reopening.
	check := func() {
		t.Helper()
		code := make([]uint64, ix.words)
		v := make([]float32, dims)
		for id := range m {
			slot, _ := ix.rows.get(id)
			c, row := ix.chunks[slot/chunkRows], int(slot%chunkRows)
			v, _ = ix.Vector(id, v)
			signsOf(code, v, c.centre.mean)
			for w, want := range code {
				if got := c.codes[row/8*8*ix.words+w*8+row%8]; got != want {
					t.Fatalf("word %d of the code of %d is %x, want %x", w, id, got, want)
				}
			}
		}
	}
	check()
	generation := ix.Stats().Generation
	mean = slices.Clone(ix.centre.mean)
	must(t, ix.Close())
	ix = open(t, dir, dims)
	if st := ix.Stats(); st.Generation != generation || !slices.Equal(mean, ix.centre.mean) {
		t.Errorf("opened again: generation %d, want %d", st.Generation, generation)
	}
	check()
	// As after a kill: the latest mean was not flushed.
	for enough := 2*ix.trained + 10; len(m) < enough; {
		add(2000)
	}
	generation = ix.Stats().Generation
	abandon(ix)
	ix = open(t, dir, dims)
	if st := ix.Stats(); st.Generation != generation || st.Count != len(m) {
		t.Errorf("after a kill: %+v, want generation %d of %d", st, generation, len(m))
	}
	check()
}

func signsOf(dst []uint64, v, mean []float32) {
	clear(dst)
	for i := range v {
		if v[i] > mean[i] {
			dst[i/64] |= 1 << (i % 64)
		}
	}
}
