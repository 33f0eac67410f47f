package vector

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// After any sequence of additions, replacements and removals, with any filter, a search returns the
// same as comparing all vectors; also after closing the file and after a process was killed.
func TestIndexEqualsComparingAll(t *testing.T) {
	t.Parallel()
	cases := 8
	if os.Getenv("HELIX_LONG") == "1" {
		cases = 300
	}
	for c := range cases {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			t.Parallel()
			walk(t, uint64(c))
		})
	}
}

func walk(t *testing.T, seed uint64) {
	dims := []int{3, 64, 100, 512}[seed%4]
	s := newSource(seed, dims)
	r := s.r
	dir := t.TempDir()
	ix := open(t, dir, dims)
	m := model{}
	byCode := func() { // every second case uses codes, with all vectors as candidates
		if seed%2 == 1 {
			ix.exactBelow = 0
		}
	}
	byCode()
	ids := uint32(100 + r.IntN(900))
	stray := func(id uint32) uint32 { // some ids are far from the others
		if id%97 == 0 {
			return id * 40_000
		}
		return id
	}
	for step := range 40 {
		switch op := r.IntN(10); {
		case op < 5:
			batch := make([]Vector, 1+r.IntN(200))
			for i := range batch {
				batch[i] = Vector{ID: stray(r.Uint32N(ids)), Tag: r.Uint64(), Values: s.vector()}
			}
			must(t, ix.AddBatch(batch))
			for _, v := range batch {
				m[v.ID] = v
			}
		case op < 7:
			for range r.IntN(150) {
				id := stray(r.Uint32N(ids))
				must(t, ix.Remove(id))
				delete(m, id)
			}
		case op == 7:
			must(t, ix.Flush())
		case op == 8:
			must(t, ix.Close())
			ix = open(t, dir, dims)
			byCode()
		default: // as after kill -9
			copied := t.TempDir()
			b, err := os.ReadFile(filepath.Join(dir, fileName))
			must(t, err)
			must(t, os.WriteFile(filepath.Join(copied, fileName), b, 0o600))
			must(t, ix.Close())
			dir = copied
			ix = open(t, dir, dims)
			byCode()
		}
		if st := ix.Stats(); st.Rebuilt != "" || st.Dropped != 0 || st.Count != len(m) {
			t.Fatalf("step %d: %+v, want %d vectors", step, st, len(m))
		}
		q := s.vector()
		if len(m) > 0 && step%2 == 0 {
			for _, v := range m {
				q = s.near(v.Values)
				break
			}
		}
		k := 1 + r.IntN(30)
		all := SearchOptions{Rescore: len(m)}
		m.agrees(t, fmt.Sprintf("step %d", step), q, k, nil, ix.Search(q, k, all))
		allow := NewBitmap(r.IntN(int(ids)))
		share := r.Float64()
		for i := range ids {
			if r.Float64() < share {
				allow.Set(stray(i))
			}
		}
		all.Allow = allow
		m.agrees(t, fmt.Sprintf("step %d with a filter", step), q, k, allow, ix.Search(q, k, all))
		all.Exact = true
		m.agrees(t, fmt.Sprintf("step %d exactly", step), q, k, allow, ix.Search(q, k, all))
	}
	m.same(t, ix)
	held := slices.Collect(ix.IDs().All())
	if len(held) != len(m) {
		t.Fatalf("%d ids, want %d", len(held), len(m))
	}
}

// The candidates selected by codes are the nearest allowed ones, by distance and then by id.
func TestCandidatesAreTheNearestCodes(t *testing.T) {
	t.Parallel()
	s := newSource(3, 64)
	for range 200 {
		n, want := 1+s.r.IntN(3000), 1+s.r.IntN(60)
		spread := 1 + s.r.IntN(64)
		all := make([]candidate, n)
		for i, id := range s.r.Perm(n) {
			all[i] = candidate{slot: uint32(i), id: uint32(id), dist: uint16(s.r.IntN(spread))}
		}
		var p selection
		p.begin(want, 64)
		for _, c := range all {
			if int(c.dist) <= p.limit {
				p.add(c)
			}
		}
		p.shrink()
		nearer := func(a, b candidate) int {
			if a.dist != b.dist {
				return int(a.dist) - int(b.dist)
			}
			return int(a.id) - int(b.id)
		}
		slices.SortFunc(all, nearer)
		slices.SortFunc(p.found, nearer)
		if !slices.Equal(p.found, all[:min(want, n)]) {
			t.Fatalf("%d of %d: %v, want %v", want, n, p.found, all[:min(want, n)])
		}
	}
}

func TestTiesAreOrderedByID(t *testing.T) {
	t.Parallel()
	for _, below := range []int{0, exactBelow} {
		ix := open(t, t.TempDir(), 64)
		ix.exactBelow = below
		s := newSource(4, 64)
		v := s.vector()
		for _, i := range s.r.Perm(3000) {
			must(t, ix.Add(uint32(i+5), 0, v))
		}
		for i, h := range ix.Search(s.near(v), 20, SearchOptions{}) {
			if h.ID != uint32(i+5) {
				t.Fatalf("hit %d has id %d", i, h.ID)
			}
		}
	}
}

func TestBitmap(t *testing.T) {
	t.Parallel()
	r := newSource(5, 1).r
	a, b := NewBitmap(100), &Bitmap{}
	in := map[*Bitmap]map[uint32]bool{a: {}, b: {}}
	equal := func() {
		t.Helper()
		for x, want := range in {
			if x.Count() != len(want) {
				t.Fatalf("%d ids, want %d", x.Count(), len(want))
			}
			last := -1
			for id := range x.All() {
				if !want[id] || int(id) <= last {
					t.Fatalf("%d is in the set, or not in order", id)
				}
				last = int(id)
			}
			for range 50 {
				if id := r.Uint32N(1200); x.Has(id) != want[id] {
					t.Fatalf("Has(%d) is %v", id, x.Has(id))
				}
			}
		}
	}
	for range 300 {
		for x, want := range in {
			id := r.Uint32N(1000)
			if r.IntN(3) > 0 {
				x.Set(id)
				want[id] = true
			} else {
				x.Clear(id)
				delete(want, id)
			}
		}
		equal()
	}
	both, either, only := a.Clone(), a.Clone(), a.Clone()
	both.And(b)
	either.Or(b)
	only.AndNot(b)
	for id := range uint32(1100) {
		x, y := a.Has(id), b.Has(id)
		if both.Has(id) != (x && y) || either.Has(id) != (x || y) || only.Has(id) != (x && !y) {
			t.Fatalf("sets disagree on %d", id)
		}
	}
	equal()
	for id := range a.All() {
		if id > 0 {
			break // ending early is fine
		}
	}
}
