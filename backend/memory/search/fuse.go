package search

// Weights are those of the lists that are fused; all zero takes the defaults, which were
// chosen by leaving one conversation of the development set out at a time.
type Weights struct {
	Keyword float64 // BM25 of the item itself
	Vector  float64 // cosine of its text with the query
	Window  float64 // BM25 of the item with what stands around it
}

// defaultWeights: the window list contains what the keyword list knows.
var defaultWeights = Weights{Keyword: 0, Vector: 0.4, Window: 1}

// Tuning are the settings of ranking.
type Tuning struct {
	Weights       Weights
	RRF           float64 // added to ranks: the higher, the less the first places count
	Depth         int     // of each list
	Keyword       BM25
	Window        BM25
	Cues          CueWeights
	Floor         float64 // cosine under which an item without a word of the query is noise
	KeepStopWords bool
}

// DefaultTuning holds for every user; K1 and B of the keyword list are those of FTS5.
func DefaultTuning(w Weights) Tuning {
	if w == (Weights{}) {
		w = defaultWeights
	}
	return Tuning{
		Weights: w, RRF: 60, Depth: 200, Floor: 0.35, Cues: CueWeights{Speaker: 0.3, Time: 0.6},
		Keyword: BM25{K1: 1.2, B: 0.75},
		Window:  BM25{K1: 0.6, B: 0.3, Smooth: true, Window: neighborWeights},
	}
}

// weightsOf are the weights of the lists in a mode: one list alone is not weighed.
func (t *Tuning) weightsOf(mode string) Weights {
	if mode == ModeHybrid {
		return t.Weights
	}
	return Weights{Keyword: 1, Vector: 1}
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
func (t *Tuning) fuse(r rankings, w Weights) []candidate {
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
			out[j].fused += weight / (t.RRF + float64(i+1))
		}
	}
	join(r.keyword, w.Keyword, func(c *candidate, p place) { c.keyword = p })
	join(r.window, w.Window, func(c *candidate, p place) { c.window = p })
	join(r.meaning, w.Vector, func(c *candidate, p place) { c.vector = p })
	return out
}

// noise tells whether nothing speaks for an item: no word of the query in it or around it, and
// a meaning too far away.
func (t *Tuning) noise(c *candidate) bool {
	return c.keyword.rank == 0 && c.window.rank == 0 && c.vector.score < t.Floor
}
