package memory

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Weights are those of the lists that are fused; all zero takes the defaults, which were
// chosen by leaving one conversation of the development set out at a time.
type Weights struct {
	Keyword float64 // BM25 of the item itself
	Vector  float64 // cosine of its text with the query
	Window  float64 // BM25 of the item with what stands around it
}

// defaultWeights: the window list contains what the keyword list knows.
var defaultWeights = Weights{Keyword: 0, Vector: 0.4, Window: 1}

// tuning are the settings of ranking.
type tuning struct {
	weights  Weights
	rrf      float64 // added to ranks: the higher, the less the first places count
	depth    int     // of each list
	keyword  bm25
	cues     cueWeights
	window   bm25
	floor    float64 // cosine under which an item without a word of the query is noise
	stopList map[string]bool
}

// defaultTuning holds for every user; k1 and b of the keyword list are those of FTS5.
func defaultTuning(w Weights) tuning {
	if w == (Weights{}) {
		w = defaultWeights
	}
	return tuning{
		weights: w, rrf: 60, depth: 200, floor: 0.35, stopList: stopWords, cues: cueWeights{speaker: 0.3, time: 0.6},
		keyword: bm25{k1: 1.2, b: 0.75},
		window:  bm25{k1: 0.6, b: 0.3, smooth: true, window: neighbourWeights},
	}
}

// candidate is an item that at least one list has.
type candidate struct {
	item    uint32
	keyword place
	vector  place
	window  place
	fused   float64
	cue     float64
	prior   priors
	score   float64
}

// place is where a list has an item; rank 0: it has not.
type place struct {
	rank  int
	score float64
}

// fuse joins lists by reciprocal rank (Cormack, Clarke and Büttcher, Reciprocal rank fusion
// outperforms Condorcet and individual rank learning methods, 2009): each adds
// weight/(k + rank). A score that stands alone is never stretched to look perfect.
func (t *tuning) fuse(keyword, window, meaning []scored) []candidate {
	at := map[uint32]int{}
	var out []candidate
	join := func(list []scored, weight float64, set func(*candidate, place)) {
		for i, s := range list {
			j, ok := at[s.item]
			if !ok {
				j = len(out)
				at[s.item] = j
				out = append(out, candidate{item: s.item})
			}
			set(&out[j], place{i + 1, s.score})
			out[j].fused += weight / (t.rrf + float64(i+1))
		}
	}
	join(keyword, t.weights.Keyword, func(c *candidate, p place) { c.keyword = p })
	join(window, t.weights.Window, func(c *candidate, p place) { c.window = p })
	join(meaning, t.weights.Vector, func(c *candidate, p place) { c.vector = p })
	return out
}

// noise tells whether nothing speaks for an item: no word of the query in it or around it, and
// a meaning too far away.
func (t *tuning) noise(c *candidate) bool {
	return c.keyword.rank == 0 && c.window.rank == 0 && c.vector.score < t.floor
}

// priors multiply a score. They are near 1, so that they settle near ties only.
type priors struct{ recency, salience, retention, pinned float64 }

// priorsOf weighs what is known of an item besides its text. Age counts whole days, so that a
// call gives the same answer all day.
func priorsOf(r *row, now time.Time) priors {
	p := priors{recency: 1, salience: 1 + 0.1*(float64(r.salience)-50)/50, retention: 1, pinned: 1}
	at := r.occurred
	if at == noTime && r.kind == nameIndex(kindNames, KindMemory) {
		at = r.created
	}
	if at != noTime {
		const day = int64(24 * time.Hour / time.Microsecond)
		days := max(0, floorDiv(now.UnixMicro(), day)-floorDiv(at, day))
		p.recency = 1 + 0.1*math.Exp2(-float64(days)/30)
	}
	if r.retention >= 0 {
		p.retention = 0.9 + 0.1*float64(r.retention)
	}
	if r.pinned {
		p.pinned = 1.05
	}
	return p
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func (p priors) product() float64 { return p.recency * p.salience * p.retention * p.pinned }

// before orders a list: the highest scores first; ties go by what happened later, then by id.
func (c *catalog) before(a, b scored) int {
	if a.score != b.score {
		return cmp.Compare(b.score, a.score)
	}
	return c.tie(a.item, b.item)
}

// tie orders items of equal score.
func (c *catalog) tie(a, b uint32) int {
	if a == b {
		return 0
	}
	x, y := c.row(a), c.row(b)
	if x.occurred != y.occurred { // noTime is the least: last
		return cmp.Compare(y.occurred, x.occurred)
	}
	return slices.Compare(x.id[:], y.id[:])
}

// leading keeps the least limit of the elements that it is given.
type leading[T any] struct {
	limit int
	less  func(a, b T) int
	heap  []T // the greatest of what is kept first, once it is full
}

func (l *leading[T]) add(x T) {
	switch {
	case len(l.heap) < l.limit:
		if l.heap = append(l.heap, x); len(l.heap) == l.limit {
			for i := l.limit/2 - 1; i >= 0; i-- {
				sink(l.heap, i, l.less)
			}
		}
	case l.limit > 0 && l.less(x, l.heap[0]) < 0:
		l.heap[0] = x
		sink(l.heap, 0, l.less)
	}
}

// sorted gives what was kept, in order.
func (l *leading[T]) sorted() []T {
	slices.SortFunc(l.heap, l.less)
	return l.heap
}

// sink restores a heap that has its greatest element first.
func sink[T any](heap []T, i int, less func(a, b T) int) {
	for {
		j := 2*i + 1
		if j >= len(heap) {
			return
		}
		if j+1 < len(heap) && less(heap[j+1], heap[j]) > 0 {
			j++
		}
		if less(heap[j], heap[i]) <= 0 {
			return
		}
		heap[i], heap[j] = heap[j], heap[i]
		i = j
	}
}
