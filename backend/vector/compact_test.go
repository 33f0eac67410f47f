package vector

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"helix/backend/kernel"
)

// Searches with compact rows return exactly the results of reading every vector, while vectors are
// added, replaced and removed.
func TestCompactRowsChangeNoResult(t *testing.T) {
	t.Parallel()
	for _, dims := range []int{5, 64, 100, 512} {
		t.Run(fmt.Sprint(dims), func(t *testing.T) {
			t.Parallel()
			ix := open(t, t.TempDir(), dims)
			ix.compacting, ix.compacts.most = true, 4500
			s := newSource(uint64(dims), dims)
			aims := [][]float32{s.vector(), s.vector()}
			for round := range 12 {
				batch := make([]Vector, 100+s.r.IntN(700))
				for i := range batch {
					batch[i] = Vector{ID: s.r.Uint32N(5000), Values: s.near(aims[s.r.IntN(2)])}
					if i%10 == 0 { // ties
						batch[i].Values = aims[0]
					}
				}
				must(t, ix.AddBatch(batch))
				for range s.r.IntN(100) {
					must(t, ix.Remove(s.r.Uint32N(5000)))
				}
				span, some := NewBitmap(0), NewBitmap(0)
				for i := range uint32(5000) {
					if i/1000 == uint32(round)%5 {
						span.Set(i)
					}
					if s.r.IntN(3) == 0 {
						some.Set(i)
					}
				}
				for _, allow := range []*Bitmap{nil, span, some, span} {
					q, k := s.near(aims[round%2]), 1+s.r.IntN(120)
					got := ix.Search(q, k, SearchOptions{Allow: allow})
					want := ix.Search(q, k, SearchOptions{Allow: allow, Exact: true})
					if !slices.Equal(got, want) {
						t.Fatalf("round %d: the best %d are\n%v, want\n%v", round, k, got, want)
					}
				}
				rows := 0
				for _, ch := range ix.chunks {
					if ch.compact != nil {
						rows += len(ch.compact.rows)
					}
				}
				if rows != ix.compacts.rows || rows > ix.compacts.most {
					t.Fatalf("round %d: %d compact rows, %d were counted", round, rows, ix.compacts.rows)
				}
			}
		})
	}
}

// The score that a search would compute is within the bounds, for arbitrary vectors.
func TestBytesBoundScores(t *testing.T) {
	t.Parallel()
	s := newSource(8, 0)
	for i := range 3000 {
		dims := 1 + s.r.IntN(700)
		vec := func() []float32 {
			v, u := make([]float32, dims), make([]float32, dims)
			for j := range v {
				switch i % 4 {
				case 0:
					v[j] = float32(s.r.NormFloat64())
				case 1:
					v[j] = float32(math.Ldexp(s.r.Float64()-0.5, s.r.IntN(40)-20))
				case 2:
					v[j] = 1
				default:
					v[j] = float32(s.r.IntN(2))
				}
			}
			v[s.r.IntN(dims)] += 3
			unit(u, v)
			return u
		}
		q, row := vec(), vec()
		if i%5 == 0 {
			row = slices.Clone(q)
		}
		stride := (dims + kernel.ByteLanes - 1) / kernel.ByteLanes * kernel.ByteLanes
		var b byteQuery
		b.set(q, stride)
		sizes := 0
		for _, x := range b.values {
			sizes += int(math.Abs(float64(x)))
		}
		if sizes >= 1<<24 {
			t.Fatalf("the sizes of %d words add up to %d", dims, sizes)
		}
		values, sum := make([]int8, stride), make([]int32, 1)
		scale, slack := squeeze(values, row)
		kernel.DotBytes(b.values, values, sum)
		got, score := float64(sum[0])*b.scale*float64(scale), float64(kernel.Dot(q, row))
		if math.Abs(got-score) > b.slack(slack) {
			t.Fatalf("%d values: %v by bytes, %v exactly, bound %v", dims, got, score, b.slack(slack))
		}
		if dims > 300 && i%4 == 0 && b.slack(slack) > 0.02 {
			t.Fatalf("a bound of %v is of no use", b.slack(slack))
		}
	}
}

// Compact rows avoid nearly all reads, take the memory reported by Stats, and are freed by Rest.
func TestCompactRowsSpareReads(t *testing.T) {
	t.Parallel()
	const dims, n = 256, 3000
	ix := open(t, t.TempDir(), dims)
	ix.compacting = true
	s := newSource(9, dims)
	batch := make([]Vector, n)
	for i := range batch {
		batch[i] = Vector{ID: uint32(i), Values: s.vector()}
	}
	must(t, ix.AddBatch(batch))
	bare := ix.Stats().MemoryBytes
	q := s.near(batch[7].Values)
	ix.Search(q, 10, SearchOptions{})
	if more := ix.Stats().MemoryBytes - bare; more < n*dims || more > n*(dims+16) {
		t.Errorf("%d compact rows take %d bytes", n, more)
	}
	ix.Rest(time.Hour)
	scratch := &scratch{query: make([]float32, dims)}
	unit(scratch.query, q)
	ix.snapshot(scratch, SearchOptions{})
	if left := ix.narrow(scratch, scratch.slots, 10); len(left) > n/20 || ix.compacts.rows != n {
		t.Errorf("%d of %d vectors are read", len(left), n)
	}
	ix.Rest(0)
	if got := ix.Stats().MemoryBytes; got != bare || ix.compacts.rows != 0 {
		t.Errorf("%d bytes after a rest, %d before the first search", got, bare)
	}
	if hits := ix.Search(q, 1, SearchOptions{}); len(hits) != 1 || hits[0].ID != 7 {
		t.Errorf("after a rest %v is found", hits)
	}
}
