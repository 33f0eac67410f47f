package vector

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"testing"

	"helix/backend/kernel"
)

// The scan selects the nearest codes whatever the sample suggests, even if only the sampled part is
// near, so that the limit is too low.
func TestScanDoesNotDependOnItsSample(t *testing.T) {
	t.Parallel()
	for _, misled := range []bool{false, true} {
		const dims, n, want = 64, 4 * chunkRows, 900
		ix := open(t, t.TempDir(), dims)
		s := newSource(6, dims)
		q := s.vector()
		batch := make([]Vector, n)
		for i := range batch {
			batch[i] = Vector{ID: uint32(i), Values: s.vector()}
			if c := i / chunkRows; misled && i%scanRows/kernel.Group == c*kernel.Group%scanRows/kernel.Group {
				batch[i].Values = s.near(q)
			}
		}
		must(t, ix.AddBatch(batch))
		ix.exactBelow = 0
		allow := NewBitmap(n)
		for i := range uint32(n) {
			if i%11 != 0 {
				allow.Set(i)
			}
		}
		sc := &scratch{query: make([]float32, dims)}
		unit(sc.query, q)
		ix.snapshot(sc, SearchOptions{})
		limit := ix.likelyLimit(sc, want, allow)
		if limit == dims {
			t.Fatal("the sample tells nothing")
		}
		var all []candidate
		under := 0
		for c, ch := range ix.chunks {
			code := sc.code(ch.centre, 1)
			for i := range chunkRows {
				if id := ch.ids[i]; allow.Has(id) {
					d := bits.OnesCount64(code[0] ^ ch.codes[i])
					all = append(all, candidate{slot: uint32(c*chunkRows + i), id: id, dist: uint16(d)})
					if d <= limit {
						under++
					}
				}
			}
		}
		if (under < want) != misled {
			t.Fatalf("misled %v: %d codes are within %d, %d are wanted", misled, under, limit, want)
		}
		ix.scan(sc, want, allow)
		nearer := func(a, b candidate) int { return cmp.Or(cmp.Compare(a.dist, b.dist), cmp.Compare(a.id, b.id)) }
		for i := range sc.pick.found {
			sc.pick.found[i].weight = 0
		}
		slices.SortFunc(all, nearer)
		slices.SortFunc(sc.pick.found, nearer)
		if !slices.Equal(sc.pick.found, all[:want]) {
			t.Errorf("misled %v: other candidates than the nearest", misled)
		}
	}
}

// Reading ends when the remaining candidates cannot matter, and returns the same results as reading
// all. An explicit number of reads is respected.
func TestSearchStopsWhenUpperBoundIsBelowWorstHit(t *testing.T) {
	t.Parallel()
	const dims, n = 512, 6000
	ix := open(t, t.TempDir(), dims)
	ix.exactBelow = 0
	s := newSource(7, dims)
	batch := make([]Vector, n)
	for i := range batch {
		batch[i] = Vector{ID: uint32(i), Values: s.vector()}
	}
	for i := range 20 { // the expected results; the others are dissimilar
		batch[i*200].Values = s.near(batch[0].Values)
	}
	must(t, ix.AddBatch(batch))
	counted := &countingDisk{disk: ix.file.f}
	ix.file.f = counted
	q := s.near(batch[0].Values)
	all := ix.Search(q, 10, SearchOptions{Rescore: DefaultRescore})
	if counted.reads < DefaultRescore*9/10 {
		t.Errorf("%d reads for %d candidates", counted.reads, DefaultRescore)
	}
	counted.reads = 0
	if few := ix.Search(q, 10, SearchOptions{}); !slices.Equal(few, all) || counted.reads > 150 {
		t.Errorf("%d reads found %v, want %v", counted.reads, few, all)
	}
}

type countingDisk struct {
	disk
	reads int
}

func (d *countingDisk) ReadAt(b []byte, at int64) (int, error) {
	d.reads++
	return d.disk.ReadAt(b, at)
}

func TestRegression(t *testing.T) {
	t.Parallel()
	s := newSource(8, 0)
	r := regression{sure: 4}
	r.add(1, math.NaN())
	if got := r.upperBound(0); !math.IsInf(got, 1) {
		t.Errorf("nothing is known, and yet at most %v", got)
	}
	for range 4000 {
		x := s.r.Float64()
		r.add(x, 0.2+0.5*x+0.1*s.r.NormFloat64())
	}
	if got, want := r.upperBound(0.5), 0.45+4*0.1; math.Abs(got-want) > 0.03 {
		t.Errorf("at most %v, want %v", got, want)
	}
}
