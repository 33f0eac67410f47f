package search

import (
	"math"
	"slices"
	"sync"

	"helix/backend/vector"
)

// weighted is the posting list of one term and the frequency of the term in the query.
type weighted struct {
	ps    []posting
	count float64
}

// BM25 holds the parameters of one BM25 score (Robertson and Zaragoza, The probabilistic relevance
// framework, 2009).
type BM25 struct {
	K1, B float64
	// Window is the weights of the neighbors at distance 1, 2, … in the same conversation or document,
	// which are treated as additional fields of the item: BM25F (Robertson, Zaragoza and Taylor, Simple
	// BM25 extension to multiple weighted fields, 2004). Frequencies are summed before saturation, so that
	// one word in each of three turns counts less than three different words.
	Window []float64
	Smooth bool // idf = ln(1 + …), always positive; otherwise as in FTS5
}

// idf returns the weight of a term that occurs in df of n items.
func (p BM25) idf(n, df float64) float64 {
	x := (n - df + 0.5) / (df + 0.5)
	if p.Smooth {
		return math.Log1p(x)
	}
	return max(math.Log(x), 1e-6)
}

// scored is an item and its score in one list.
type scored struct {
	item  uint32
	score float64
}

// scratch is the working memory of one query.
type scratch struct {
	items   []itemScore // by item
	touched []uint32    // items with freq != 0
	found   []uint32    // items with score != 0
}

// itemScore is the state of one item in a query. Its fields are stored together, because queries
// access items at random.
type itemScore struct {
	freq   int32 // in hundredths, as integers: sums do not depend on the order
	score  float32
	length float32 // windowLength, for found items
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func takeScratch(n int) *scratch {
	sc := scratches.Get().(*scratch)
	if len(sc.items) < n {
		sc.items = make([]itemScore, n+n/4)
	}
	return sc
}

func (sc *scratch) add(item uint32, freq int32) {
	t := &sc.items[item]
	if t.freq == 0 {
		sc.touched = append(sc.touched, item)
	}
	t.freq += freq
}

// rank scores the items of o that contain terms of the query, or have neighbors that do, and
// returns the best limit of those that are allowed. Neighbors count even if they are not allowed,
// so that a filter removes items without changing the scores of others. The caller must hold the
// lock of the catalog.
func (c *catalog) rank(p BM25, o *owner, lists []weighted, allow *vector.Bitmap, limit int) []scored {
	if o == nil || o.count == 0 {
		return nil
	}
	sc := takeScratch(len(c.pages) * rowsPerPage)
	defer scratches.Put(sc)
	n := float64(o.count)
	mean := float64(o.tokens) / n
	reach := 1.0
	hundredths := make([]int32, len(p.Window))
	for d, w := range p.Window {
		reach += 2 * w
		hundredths[d] = int32(math.Round(100 * w))
	}
	usual := slices.Equal(p.Window, neighborWeights)
	for _, l := range lists {
		df := 0.0
		for _, ps := range l.ps {
			if !o.live.Has(ps.item) {
				continue
			}
			df++
			sc.add(ps.item, int32(100*int(ps.text)+50*int(ps.head)))
			if len(p.Window) > 0 && ps.text > 0 {
				c.spread(sc, ps, hundredths)
			}
		}
		idf := l.count * p.idf(n, df) * (p.K1 + 1)
		for _, item := range sc.touched {
			t := &sc.items[item]
			f := float64(t.freq) / 100
			t.freq = 0
			if !allow.Has(item) {
				continue
			}
			if t.score == 0 {
				sc.found = append(sc.found, item)
				length := 0.0
				if usual {
					length = c.columns[item/rowsPerPage].length[item%rowsPerPage]
				} else {
					length = c.windowLength(item, p.Window)
				}
				t.length = float32(length / (reach * max(mean, 1)))
			}
			t.score += float32(idf * f / (f + p.K1*(1-p.B+p.B*float64(t.length))))
		}
		sc.touched = sc.touched[:0]
	}
	return c.bestOf(sc, limit)
}

// spread adds the frequency of a term to the neighbors of the item that contains it.
func (c *catalog) spread(sc *scratch, ps posting, hundredths []int32) {
	b := c.columns[ps.item/rowsPerPage].beside[ps.item%rowsPerPage]
	if b&besideOdd != 0 || len(hundredths) > len(neighborWeights) {
		r := c.row(ps.item)
		for d, w := range hundredths {
			if near, ok := r.neighbor(d + 1); ok {
				sc.add(near, w*int32(ps.text))
			}
			if near, ok := r.neighbor(-d - 1); ok {
				sc.add(near, w*int32(ps.text))
			}
		}
		return
	}
	for d, w := range hundredths[:min(b.after(), len(hundredths))] {
		sc.add(ps.item+uint32(d+1), w*int32(ps.text))
	}
	for d, w := range hundredths[:min(b.before(), len(hundredths))] {
		sc.add(ps.item-uint32(d+1), w*int32(ps.text))
	}
}

// bestOf returns the limit best items found, in order, and clears the scores.
func (c *catalog) bestOf(sc *scratch, limit int) []scored {
	best := leading[scored]{limit: limit, less: c.before, heap: make([]scored, 0, min(limit, len(sc.found)))}
	for _, item := range sc.found {
		x := scored{item, float64(sc.items[item].score)}
		sc.items[item].score = 0
		if len(best.heap) < limit || x.score >= best.heap[0].score {
			best.add(x)
		}
	}
	sc.found = sc.found[:0]
	return best.sorted()
}

// windowLength returns the number of words of an item plus the weighted ones of its neighbors.
func (c *catalog) windowLength(item uint32, window []float64) float64 {
	r := c.row(item)
	length := float64(r.tokens)
	for d, w := range window {
		if near, ok := r.neighbor(d + 1); ok {
			length += w * float64(c.row(near).tokens)
		}
		if near, ok := r.neighbor(-d - 1); ok {
			length += w * float64(c.row(near).tokens)
		}
	}
	return length
}
