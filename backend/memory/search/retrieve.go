package search

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"helix/backend/storage"
	"helix/backend/vector"
)

// rankings are the ranked lists that a query is answered from, best first.
type rankings struct{ keyword, window, meaning []scored }

// retrieve ranks the items of o that pass the filters. The caller must hold the lock of the catalog.
func (c *catalog) retrieve(o *owner, q *query, lists []weighted, m meaning) (r rankings) {
	allow := c.allowed(o, q.filters, q.turns)
	if n, ok := c.numberOf(q.except); ok {
		allow.Clear(n)
	}
	t := q.tuning
	if q.mode == ModeKeyword || q.mode == ModeHybrid && (t.Weights.Keyword != 0 || q.explain) { // the window list includes the keyword list
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

// meaning is the vector to search for, and the index to search.
type meaning struct {
	index    *vector.Index // nil: no semantic search
	vec      []float32     // nil: no semantic search
	model    string
	degraded string
}

// meaningOf embeds a query. It returns no vector if the request does not use one or, in hybrid
// mode, if there is no model.
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
	case len(q.words) == 0: // there is nothing to embed
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

// postingLists returns the posting lists of the terms and phrases of a query. Lists that are not
// cached are read from search_fts.
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
	if x.o.Private { // the order of words is not stored, so a phrase matches if all its words do
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
