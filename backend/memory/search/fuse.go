package search

// Weights are the weights of the fused lists. If all are zero the defaults apply, which were tuned
// by leave-one-conversation-out cross-validation on the development set.
type Weights struct {
	Keyword float64 // BM25 of the item itself
	Vector  float64 // cosine of its text with the query
	Window  float64 // BM25 of the item together with its neighbors
}

// defaultWeights does not weigh the keyword list, because the window list includes its information.
var defaultWeights = Weights{Keyword: 0, Vector: 0.4, Window: 1}

// Tuning is the configuration of ranking.
type Tuning struct {
	Weights       Weights
	RRF           float64 // added to ranks: a higher value reduces the weight of the first places
	Depth         int     // of each list
	Keyword       BM25
	Window        BM25
	Cues          CueWeights
	Floor         float64 // cosine below which an item without a query word is noise
	KeepStopWords bool
}

// DefaultTuning returns the configuration for all users. K1 and B of the keyword list are those of FTS5.
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

// weightsOf returns the weights of the lists in a mode. A single list has weight 1.
func (t *Tuning) weightsOf(mode string) Weights {
	if mode == ModeHybrid {
		return t.Weights
	}
	return Weights{Keyword: 1, Vector: 1}
}

// candidate is an item in at least one of the lists.
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

// place is the rank of an item in a list, with its score there. Rank 0 means that the item
// is not in the list.
type place struct {
	rank  int
	score float64
}

// fuse combines lists by reciprocal rank (Cormack, Clarke and Büttcher, Reciprocal rank fusion
// outperforms Condorcet and individual rank learning methods, 2009): each list adds weight/(k +
// rank). Scores are not normalized, so a single poor match does not get a perfect score.
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

// noise reports whether an item does not match: it and its neighbors contain no word of the query,
// and its cosine is too low.
func (t *Tuning) noise(c *candidate) bool {
	return c.keyword.rank == 0 && c.window.rank == 0 && c.vector.score < t.Floor
}
