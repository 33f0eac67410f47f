package search

import (
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"helix/backend/kernel"
	"helix/backend/vector"
)

// chosen is a candidate that will be shown, with a copy of its row.
type chosen struct {
	candidate
	row     row
	tags    []string
	speaker string
}

// choose ranks the items of user and selects those to show. It does not use the database.
func (x *Index) choose(user uuid.UUID, q *query, lists []weighted, m meaning) (out []chosen, f *Facets) {
	c := &x.catalog
	c.mu.RLock()
	defer c.mu.RUnlock()
	var cs []candidate
	if o := c.people[user]; o != nil {
		cs = q.tuning.fuse(c.retrieve(o, q, lists, m), q.tuning.weightsOf(q.mode))
		cs = c.score(cs, q)
	}
	if q.facets {
		f = c.facets(cs)
	}
	if q.lambda >= 0 && m.index != nil {
		cs = diversify(cs, q.lambda, m.index)
	}
	for _, x := range cs[:min(q.limit, len(cs))] {
		row := c.row(x.item)
		out = append(out, chosen{x, *row, c.tagsOf(row), c.names.text[row.speaker]})
	}
	return out, f
}

// score multiplies the fused scores by the cues of the query and the priors of each item, and drops
// noise and low scores.
func (c *catalog) score(cs []candidate, q *query) []candidate {
	cs = slices.DeleteFunc(cs, func(x candidate) bool { return q.tuning.noise(&x) })
	var named cues
	if q.mode == ModeHybrid && q.except == uuid.Nil {
		named = cues{speakers: c.speakersIn(q.words), spans: q.spans}
	}
	for i := range cs {
		x := &cs[i]
		x.cue = named.factor(c.row(x.item), q.tuning.Cues)
		x.prior = priors{1, 1, 1, 1}
		if q.priors {
			x.prior = priorsOf(c.row(x.item), q.asked)
		}
		x.score = x.fused * x.cue * x.prior.product()
	}
	cs = slices.DeleteFunc(cs, func(x candidate) bool { return x.score < q.min })
	slices.SortFunc(cs, func(a, b candidate) int { return c.before(scored{a.item, a.score}, scored{b.item, b.score}) })
	return cs
}

// priors are factors of a score. They are close to 1, so that they only decide between near ties.
type priors struct{ recency, salience, retention, pinned float64 }

// priorsOf returns the priors of an item, which do not depend on its text. Age is in whole days, so
// that a call returns the same result all day.
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

// mmrDepth is the number of leading candidates that are reordered.
const mmrDepth = 50

// diversify orders the first candidates by maximal marginal relevance (Carbonell and Goldstein, The
// use of MMR, 1998): each next one maximizes lambda·relevance − (1−lambda)·(greatest cosine with
// those before). Relevance is the score divided by the best score. The first candidate stays first.
func diversify(cs []candidate, lambda float64, index *vector.Index) []candidate {
	n := min(mmrDepth, len(cs))
	if n < 3 || cs[0].score <= 0 {
		return cs
	}
	vecs := make([][]float32, n)
	for i := range vecs {
		if v, ok := index.Vector(cs[i].item, nil); ok {
			vecs[i] = v
		}
	}
	left := make([]int, 0, n)
	near := make([]float64, n) // greatest cosine with the chosen ones
	for i := 1; i < n; i++ {
		left = append(left, i)
	}
	order := make([]candidate, 0, len(cs))
	order = append(order, cs[0])
	last := 0
	for len(left) > 0 {
		best, bestAt := 0.0, -1
		for at, i := range left {
			if vecs[i] != nil && vecs[last] != nil {
				near[i] = max(near[i], float64(kernel.Dot(vecs[i], vecs[last])))
			}
			if v := lambda*cs[i].score/cs[0].score - (1-lambda)*near[i]; bestAt < 0 || v > best {
				best, bestAt = v, at
			}
		}
		last = left[bestAt]
		order = append(order, cs[last])
		left = append(left[:bestAt], left[bestAt+1:]...)
	}
	return append(order, cs[n:]...)
}
