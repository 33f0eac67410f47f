package memory

import (
	"math"
	"sync"

	"helix/backend/vector"
)

// weighted is the list of one term and how often the query says it.
type weighted struct {
	ps    []posting
	count float64
}

// bm25 are the settings of one BM25 score (Robertson and Zaragoza, The probabilistic relevance
// framework, 2009).
type bm25 struct {
	k1, b float64
	// window weighs what stands at distance 1, 2, … in the same conversation or document as
	// further fields of the item: BM25F (Robertson, Zaragoza and Taylor, Simple BM25 extension
	// to multiple weighted fields, 2004). Frequencies add up before they saturate, so that a
	// word in each of three turns counts less than three words.
	window []float64
	smooth bool // idf = ln(1 + …), never 0; else as FTS5 has it
}

// idf is the weight of a term that df of n items have.
func (p bm25) idf(n, df float64) float64 {
	x := (n - df + 0.5) / (df + 0.5)
	if p.smooth {
		return math.Log1p(x)
	}
	return max(math.Log(x), 1e-6)
}

// scored is an item and its score in one list.
type scored struct {
	item  uint32
	score float64
}

// scratch is working memory of one query, indexed by item.
type scratch struct {
	freq    []int32 // in hundredths: sums do not depend on their order
	score   []float32
	length  []float32 // of what is around, of those found
	touched []uint32  // freq is not 0
	found   []uint32  // score is not 0
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func takeScratch(n int) *scratch {
	sc := scratches.Get().(*scratch)
	if len(sc.freq) < n {
		sc.freq, sc.score, sc.length = make([]int32, n+n/4), make([]float32, n+n/4), make([]float32, n+n/4)
	}
	return sc
}

func (sc *scratch) add(item uint32, freq int32) {
	if sc.freq[item] == 0 {
		sc.touched = append(sc.touched, item)
	}
	sc.freq[item] += freq
}

// rank scores the items of o that have, or stand near, terms of the query, and gives the best
// limit of those that are allowed. A neighbour counts whether or not it is allowed, so that a
// filter takes items away and changes nothing else. The caller holds the catalog.
func (c *catalog) rank(p bm25, o *owner, lists []weighted, allow *vector.Bitmap, limit int) []scored {
	if o == nil || o.count == 0 {
		return nil
	}
	sc := takeScratch(len(c.pages) * rowsPerPage)
	defer scratches.Put(sc)
	n := float64(o.count)
	mean := float64(o.tokens) / n
	reach := 1.0
	hundredths := make([]int32, len(p.window))
	for d, w := range p.window {
		reach += 2 * w
		hundredths[d] = int32(math.Round(100 * w))
	}
	for _, l := range lists {
		df := 0.0
		for _, ps := range l.ps {
			if !o.live.Has(ps.item) {
				continue
			}
			df++
			sc.add(ps.item, int32(100*int(ps.text)+50*int(ps.head)))
			if len(p.window) == 0 || ps.text == 0 {
				continue
			}
			r := c.row(ps.item)
			for d, w := range hundredths {
				if near, ok := r.neighbour(d + 1); ok {
					sc.add(near, w*int32(ps.text))
				}
				if near, ok := r.neighbour(-d - 1); ok {
					sc.add(near, w*int32(ps.text))
				}
			}
		}
		idf := l.count * p.idf(n, df) * (p.k1 + 1)
		for _, item := range sc.touched {
			f := float64(sc.freq[item]) / 100
			sc.freq[item] = 0
			if !allow.Has(item) {
				continue
			}
			if sc.score[item] == 0 {
				sc.found = append(sc.found, item)
				sc.length[item] = float32(c.windowLength(item, p.window) / (reach * max(mean, 1)))
			}
			sc.score[item] += float32(idf * f / (f + p.k1*(1-p.b+p.b*float64(sc.length[item]))))
		}
		sc.touched = sc.touched[:0]
	}
	out := make([]scored, 0, len(sc.found))
	for _, item := range sc.found {
		out = append(out, scored{item, float64(sc.score[item])})
		sc.score[item] = 0
	}
	sc.found = sc.found[:0]
	return c.best(out, limit)
}

// windowLength is the number of words of an item and, weighted, of its neighbours.
func (c *catalog) windowLength(item uint32, window []float64) float64 {
	r := c.row(item)
	length := float64(r.tokens)
	for d, w := range window {
		if near, ok := r.neighbour(d + 1); ok {
			length += w * float64(c.row(near).tokens)
		}
		if near, ok := r.neighbour(-d - 1); ok {
			length += w * float64(c.row(near).tokens)
		}
	}
	return length
}
