package search

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"helix/backend/storage"
	"helix/backend/vector"
)

// rankings are the lists that a query is answered from, best first.
type rankings struct{ keyword, window, meaning []scored }

// retrieve ranks the items of o that the filters allow. The caller holds the catalog.
func (c *catalog) retrieve(o *owner, q *query, lists []weighted, m meaning) (r rankings) {
	allow := c.allowed(o, q.filters, q.turns)
	if n, ok := c.numberOf(q.except); ok {
		allow.Clear(n)
	}
	t := q.tuning
	if q.mode == ModeKeyword || q.mode == ModeHybrid && (t.Weights.Keyword != 0 || q.explain) { // the window list has what it has
		r.keyword = c.rank(t.Keyword, o, lists, allow, t.Depth)
	}
	if q.mode == ModeHybrid {
		r.window = c.rank(t.Window, o, lists, allow, t.Depth)
	}
	if m.vec != nil {
		for _, h := range m.index.Search(m.vec, t.Depth, vector.SearchOptions{Allow: allow}) {
			r.meaning = append(r.meaning, scored{h.ID, float64(h.Score)})
		}
		slices.SortStableFunc(r.meaning, func(a, b scored) int {
			return cmp.Or(cmp.Compare(b.score, a.score), c.tie(a.item, b.item))
		})
	}
	return r
}

// meaning is the vector that a query looks for and the index to look in.
type meaning struct {
	index    *vector.Index // nil: no search by meaning
	vec      []float32     // nil: as well
	model    string
	degraded string
}

// meaningOf embeds a query, unless the request does not want it or, in hybrid mode, there is no
// model.
func (x *Index) meaningOf(ctx context.Context, q *query) (m meaning, err error) {
	v := x.o.Meaning.Serving()
	if v == nil && q.mode == ModeVector {
		if v, err = x.o.Meaning.Open(ctx); err != nil {
			return m, err
		}
	}
	if v != nil {
		m.model = v.Model
	}
	if q.mode == ModeKeyword {
		return m, nil
	}
	m.degraded = x.o.Meaning.Degraded()
	switch {
	case v == nil:
		return m, nil
	case q.vec != nil:
		m.index, m.vec = v.Index, q.vec
		return m, nil
	case len(q.words) == 0: // it means nothing
		return m, nil
	}
	vec, err := v.Embed(ctx, q.text)
	if err != nil {
		if q.mode == ModeVector || ctx.Err() != nil {
			return m, err
		}
		x.log.Warn("a query was not embedded", "err", err)
		m.degraded = "no_vectors"
		return m, nil
	}
	m.index, m.vec = v.Index, vec
	return m, nil
}

// postingLists gives the lists of the terms and phrases of a query, those that are not held from
// search_fts.
func (x *Index) postingLists(ctx context.Context, q *query) ([]weighted, error) {
	if q.mode == ModeVector {
		return nil, nil
	}
	out := make([]weighted, 0, len(q.terms)+len(q.phrases))
	var missing []int
	for i, t := range q.terms {
		ps, ok := x.postings.get(t.stem)
		out = append(out, weighted{ps: ps, count: t.count})
		if !ok {
			missing = append(missing, i)
		}
	}
	if x.o.Private { // no order of words is kept: a phrase is all of its words
		for _, p := range q.phrases {
			out = append(out, weighted{ps: x.postings.both(p), count: float64(strings.Count(p, " ") + 1)})
		}
		return out, nil
	}
	if len(missing) == 0 && len(q.phrases) == 0 {
		return out, nil
	}
	mine := make([]bool, len(q.terms))
	for _, i := range missing {
		mine[i] = x.postings.begin(q.terms[i].stem)
	}
	read := make([]bool, len(q.terms))
	err := x.db.Read(ctx, func(tx *storage.Tx) error {
		for _, i := range missing {
			ps, err := readPostings(tx, q.terms[i])
			if err != nil {
				return err
			}
			out[i].ps, read[i] = ps, true
		}
		for _, p := range q.phrases {
			ps, err := readMatches(tx, p)
			if err != nil {
				return err
			}
			out = append(out, weighted{ps: ps, count: float64(strings.Count(p, " ") + 1)})
		}
		return nil
	})
	for _, i := range missing {
		if mine[i] {
			x.postings.end(q.terms[i].stem, out[i].ps, read[i])
		}
	}
	return out, err
}
