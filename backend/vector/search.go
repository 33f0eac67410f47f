package vector

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"helix/backend/kernel"
)

const (
	scanRows    = 1024 // codes between two updates of the limit
	widen       = 2    // ratio of candidates that are weighed to those scored exactly
	readGap     = 3    // vectors this near to each other are read together
	readRecords = 64   // per read: they fit in the processor's cache
)

// scratch is the working memory of one search, reused by later ones.
type scratch struct {
	query   []float32
	records []float32
	scores  []float32
	weights []float32 // the query, padded to the length of a code
	chunks  []*chunk
	live    [][chunkRows / 64]uint64
	codes   []queryCode
	dist    [scanRows]uint16
	near    [scanRows / 64]uint64
	marks   []uint64 // bitmap of slots
	slots   []uint32
	pick    selection
	hits    []Hit
	worst   Hit       // the last of k hits
	k       int       // number of hits wanted
	exact   []float32 // scores of the slots read last
	narrow  narrowing
}

// queryCode is the code of the query for the mean of one generation.
type queryCode struct {
	centre *centre
	code   []uint64
}

// Search returns the k vectors with the greatest cosine to q, best first; ties are ordered by id.
// It finds everything added and nothing removed before the call. If q is not a valid vector, it
// returns nothing.
func (ix *Index) Search(q []float32, k int, o SearchOptions) []Hit {
	if k <= 0 || Check(q, ix.dims) != nil {
		return nil
	}
	ix.searching.RLock()
	defer ix.searching.RUnlock()
	s := ix.scratches.Get().(*scratch)
	defer ix.release(s)
	s.query = slices.Grow(s.query[:0], ix.dims)[:ix.dims]
	unit(s.query, q)
	if ix.snapshot(s, o) {
		if !o.Exact {
			s.slots = ix.narrow(s, s.slots, k)
		}
		return ix.score(s, s.slots, k)
	}
	want := max(cmp.Or(o.Rescore, DefaultRescore), 10*k)
	ix.scan(s, widen*want, o.Allow)
	return ix.scoreHeaviest(s, want, k, o.Rescore == 0)
}

func (ix *Index) release(s *scratch) {
	clear(s.chunks) // do not keep codes alive in the pool
	clear(s.codes[:cap(s.codes)])
	ix.scratches.Put(s)
}

// snapshot records which slots are live now. If there are few candidates it lists them and returns true.
func (ix *Index) snapshot(s *scratch, o SearchOptions) (exact bool) {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	s.slots = s.slots[:0]
	s.chunks = append(s.chunks[:0], ix.chunks...)
	if o.Allow != nil && (o.Exact || ix.rows.common(o.Allow, ix.exactBelow) < ix.exactBelow) {
		s.marks = slices.Grow(s.marks[:0], len(ix.chunks)*chunkRows/64)[:len(ix.chunks)*chunkRows/64]
		clear(s.marks)
		ix.rows.markSlots(s.marks, o.Allow)
		s.slots = appendMarked(s.slots, s.marks, 0)
		return true
	}
	if o.Allow == nil && (o.Exact || ix.count < ix.exactBelow) {
		for c, ch := range ix.chunks {
			s.slots = appendMarked(s.slots, ch.live[:], uint32(c*chunkRows))
		}
		return true
	}
	s.live = s.live[:0]
	for _, ch := range ix.chunks {
		s.live = append(s.live, ch.live)
	}
	return false
}

// appendMarked appends the numbers of the set bits, counted from first, to slots.
func appendMarked(slots []uint32, marks []uint64, first uint32) []uint32 {
	for w, m := range marks {
		for ; m != 0; m &= m - 1 {
			slots = append(slots, first+uint32(w*64+bits.TrailingZeros64(m)))
		}
	}
	return slots
}

// scan selects the want allowed slots whose codes are nearest to that of the query. It starts with
// a limit estimated from a sample, and starts again if that was too low.
func (ix *Index) scan(s *scratch, want int, allow *Bitmap) {
	s.codes = s.codes[:0]
	s.weights = slices.Grow(s.weights[:0], ix.words*64)[:ix.words*64]
	clear(s.weights[copy(s.weights, s.query):])
	for limit := ix.likelyLimit(s, want, allow); ; limit = ix.words * 64 {
		s.pick.begin(want, ix.words*64)
		s.pick.limit = limit
		for c, ch := range s.chunks {
			ix.scanChunk(s, uint32(c*chunkRows), ch, &s.live[c], allow)
		}
		if len(s.pick.found) >= want || limit == ix.words*64 {
			break
		}
	}
	s.pick.shrink()
}

// likelyLimit samples one of scanRows/kernel.Group codes and returns a distance within which there
// are very likely more than want codes, but not many more.
func (ix *Index) likelyLimit(s *scratch, want int, allow *Bitmap) int {
	const share = scanRows / kernel.Group
	most := ix.words * 64
	enough := float64(want) / share
	enough = 1.2*enough + 3*math.Sqrt(enough)
	if len(s.chunks)*chunkRows < 8*want {
		return most
	}
	s.pick.begin(want, most)
	counts := s.pick.counts
	for c, ch := range s.chunks {
		ix.mu.RLock()
		q := s.code(ch.centre, ix.words)
		for at := (c * kernel.Group) % scanRows; at < chunkRows; at += scanRows {
			if m := s.live[c][at/64]; m != 0 {
				kernel.Scan(q, ch.codes[at*ix.words:(at+kernel.Group)*ix.words], most, s.dist[:kernel.Group], s.near[:1])
				for ; m != 0; m &= m - 1 {
					if i := bits.TrailingZeros64(m); allow == nil || allow.Has(ch.ids[at+i]) {
						counts[s.dist[i]]++
					}
				}
			}
		}
		ix.mu.RUnlock()
	}
	seen := 0.0
	for d, n := range counts {
		if seen += float64(n); seen >= enough {
			return d
		}
	}
	return most
}

// scanChunk scans the codes of one chunk, holding mu. The Hamming distance ignores how much of the
// query is in each dimension; weighing the bits of a code with the query does not, and orders far
// better. It is done here because the code is in the cache.
func (ix *Index) scanChunk(s *scratch, first uint32, ch *chunk, live *[chunkRows / 64]uint64, allow *Bitmap) {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	q := s.code(ch.centre, ix.words)
	for at := 0; at < chunkRows; at += scanRows {
		words := live[at/64 : (at+scanRows)/64]
		if !slices.ContainsFunc(words, func(w uint64) bool { return w != 0 }) {
			continue
		}
		kernel.Scan(q, ch.codes[at*ix.words:(at+scanRows)*ix.words], s.pick.limit, s.dist[:], s.near[:])
		for w, m := range words {
			for m &= s.near[w]; m != 0; m &= m - 1 {
				i := w*64 + bits.TrailingZeros64(m)
				if id := ch.ids[at+i]; allow == nil || allow.Has(id) {
					row := at + i
					weight := kernel.Weigh(s.weights, ch.codes[row/kernel.Lanes*kernel.Lanes*ix.words+row%kernel.Lanes:])
					s.pick.add(candidate{slot: first + uint32(row), id: id, dist: s.dist[i], weight: weight})
				}
			}
		}
	}
}

// code returns the code of the query for a mean. During a change of generation there are two.
func (s *scratch) code(c *centre, words int) []uint64 {
	for _, q := range s.codes {
		if q.centre == c {
			return q.code
		}
	}
	code := make([]uint64, words)
	kernel.Signs(code, s.query, c.mean)
	s.codes = append(s.codes, queryCode{centre: c, code: code})
	return code
}

// score reads the vectors of slots, which are sorted, and returns the best k.
func (ix *Index) score(s *scratch, slots []uint32, k int) []Hit {
	s.beginHits(k)
	ix.read(s, slots)
	return slices.Clone(best(s.hits, k))
}

func (s *scratch) beginHits(k int) {
	s.hits, s.k = s.hits[:0], k
	s.worst = Hit{ID: none, Score: float32(math.Inf(-1))}
}

// read scores slots, which are sorted, into s.exact, and keeps the best as hits.
func (ix *Index) read(s *scratch, slots []uint32) {
	most := max(4*s.k, 256) // number of hits at which all but k are dropped
	stride := ix.file.stride
	s.exact = slices.Grow(s.exact[:0], len(slots))
	for len(slots) > 0 {
		n := 1 // number of slots in this read
		for n < len(slots) && slots[n]-slots[n-1] <= readGap && slots[n]-slots[0] < readRecords {
			n++
		}
		span := int(slots[n-1]-slots[0]) + 1
		recs, err := ix.file.read(&s.records, slots[0], span)
		if err != nil {
			ix.readErrors.Add(int64(n))
			for range n {
				s.exact = append(s.exact, float32(math.NaN()))
			}
			slots = slots[n:]
			continue
		}
		s.scores = slices.Grow(s.scores[:0], span)[:span]
		kernel.DotRows(s.query, recs[recordFloats:], stride, s.scores)
		for _, slot := range slots[:n] {
			i := int(slot - slots[0])
			s.exact = append(s.exact, s.scores[i])
			h := Hit{ID: math.Float32bits(recs[i*stride+1]), Score: s.scores[i]}
			if compare(h, s.worst) >= 0 {
				continue
			}
			if s.hits = append(s.hits, h); len(s.hits) == most {
				s.keepBest()
			}
		}
		slots = slots[n:]
	}
}

// keepBest drops all but the k best hits.
func (s *scratch) keepBest() {
	if s.hits = best(s.hits, s.k); len(s.hits) == s.k {
		s.worst = s.hits[s.k-1]
	}
}

// compare orders hits: best first, ties by id.
func compare(a, b Hit) int {
	if a.Score != b.Score {
		return cmp.Compare(b.Score, a.Score)
	}
	return cmp.Compare(a.ID, b.ID)
}

// best sorts hits and keeps the first k.
func best(hits []Hit, k int) []Hit {
	slices.SortFunc(hits, compare)
	return hits[:min(k, len(hits))]
}
