package memory

import (
	"cmp"
	"context"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/vector"
)

// The modes of search.
const (
	modeHybrid  = "hybrid"
	modeKeyword = "keyword"
	modeVector  = "vector"
)

const (
	maxQuery    = 8 << 10 // bytes
	defaultHits = 10
	maxHits     = 100
)

// searchState is what search keeps in a Service.
type searchState struct {
	catalog  catalog
	postings postings
	tuning   tuning
	turns    chan struct{} // see turn
}

func (s *Service) initSearch() {
	s.search.tuning = defaultTuning(s.o.Weights)
	s.search.turns = make(chan struct{}, runtime.NumCPU())
	s.background = append(s.background, s.runSearch)
	cancel := bus.Subscribe(s.db.Bus(), func(uuid.UUID, storage.Replaced) { s.search.reset() })
	s.closing = append(s.closing, func() error { cancel(); return nil })
}

// runSearch loads the catalog before the first query needs it.
func (s *Service) runSearch(ctx context.Context) error {
	if err := s.catalogLoaded(ctx); err != nil && ctx.Err() == nil {
		s.log.Warn("search is not ready", "err", err)
	}
	return nil
}

// turn waits, first come first served, until the query may compute: as many do at a time as
// there are processors. More would take turns on them all the same, and all of them would end
// late.
func (st *searchState) turn(ctx context.Context) (done func(), err error) {
	select {
	case st.turns <- struct{}{}:
		return func() { <-st.turns }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// request is a checked search.
type request struct {
	text    string
	limit   int
	mode    string
	filters *Filters
	turns   bool
	priors  bool
	lambda  float64 // below 0: no MMR
	min     float64
	explain bool
	facets  bool
	query   query
	tuning  *tuning
	except  uuid.UUID // the item that others are to be like
	vec     []float32 // the meaning looked for, when it is not that of text
}

func (s *Service) check(p SearchParams) (*request, error) {
	r := &request{text: p.Query, limit: p.Limit, mode: cmp.Or(p.Mode, modeHybrid), filters: p.Filters, turns: p.IncludeTurns == nil || *p.IncludeTurns,
		priors: p.Priors == nil || *p.Priors, lambda: -1, min: p.MinScore, tuning: &s.search.tuning}
	if len(p.Query) > maxQuery {
		return nil, fault.Invalidf("The query is longer than 8 KiB.")
	}
	if r.limit == 0 {
		r.limit = defaultHits
	}
	if r.limit < 1 || r.limit > maxHits {
		return nil, fault.Invalidf("limit is 1 to 100")
	}
	if !slices.Contains([]string{modeHybrid, modeKeyword, modeVector}, r.mode) {
		return nil, fault.Invalidf("mode is hybrid, keyword or vector")
	}
	if math.IsNaN(p.MinScore) || p.MinScore < 0 {
		return nil, fault.Invalidf("minScore is 0 or more")
	}
	if p.MMR != nil {
		r.lambda = 0.7
		if p.MMR.Lambda != nil {
			r.lambda = *p.MMR.Lambda
		}
		if !(r.lambda >= 0 && r.lambda <= 1) {
			return nil, fault.Invalidf("mmr.lambda is 0 to 1")
		}
	}
	if err := r.filters.check(); err != nil {
		return nil, err
	}
	r.query = readQueryOr(p.Query, r.tuning.stopList)
	return r, nil
}

// Search finds what a query is about, best first. Without a model, or before its index is
// ready, hybrid answers by words and says so in degraded; vector is then unavailable. An empty
// query finds nothing.
func (s *Service) Search(ctx context.Context, p SearchParams) (SearchResult, error) {
	r, err := s.check(p)
	if err != nil {
		return SearchResult{}, err
	}
	found, err := s.find(ctx, r)
	if err != nil {
		return SearchResult{}, err
	}
	return found.SearchResult, s.handedOut(ctx, found.Results...)
}

// found is an answer with what an enhanced answer needs besides.
type found struct {
	SearchResult
	picked []picked
	facets *Facets
}

// picked is a candidate that is shown, with a copy of its row.
type picked struct {
	candidate
	row     row
	tags    []string
	speaker string
}

// find runs a request.
func (s *Service) find(ctx context.Context, r *request) (*found, error) {
	start := time.Now()
	out := &found{SearchResult: SearchResult{Results: []Hit{}, Mode: r.mode}}
	if err := s.catalogLoaded(ctx); err != nil {
		return nil, err
	}
	done, err := s.search.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	var lists []weighted
	if r.mode != modeVector {
		if lists, err = s.postingsOf(ctx, r.query); err != nil {
			return nil, err
		}
	}
	index, vec, err := s.meaningOf(ctx, r, out)
	if err != nil {
		return nil, err
	}
	s.pick(identity.UserID(ctx), r, lists, index, vec, start, out)
	if err := s.show(ctx, r, out); err != nil {
		return nil, err
	}
	out.TookMs = float64(time.Since(start).Microseconds()) / 1000
	return out, nil
}

// meaningOf gives the vector to look for and the index to look in; none when the request does
// not want them or, in hybrid mode, when there are none.
func (s *Service) meaningOf(ctx context.Context, r *request, out *found) (*vector.Index, []float32, error) {
	g := s.meaning()
	if g != nil {
		out.ModelID = g.id
	}
	if r.mode == modeKeyword {
		return nil, nil, nil
	}
	out.Degraded = s.degraded()
	if g == nil {
		if r.mode == modeVector {
			return nil, nil, s.noMeaning()
		}
		return nil, nil, nil
	}
	if r.vec != nil {
		return g.index, r.vec, nil
	}
	if len(tokenize(r.text)) == 0 {
		return nil, nil, nil // nothing that a word could mean
	}
	vec, err := s.embedFor(ctx, g, r.text)
	if err != nil {
		if r.mode == modeVector || ctx.Err() != nil {
			return nil, nil, err
		}
		s.log.Warn("a query was not embedded", "err", err)
		out.Degraded = "no_vectors"
		return nil, nil, nil
	}
	return g.index, vec, nil
}

// pick ranks and chooses, without the database.
func (s *Service) pick(user uuid.UUID, r *request, lists []weighted, index *vector.Index, vec []float32, now time.Time, out *found) {
	c := &s.search.catalog
	c.mu.RLock()
	defer c.mu.RUnlock()
	o := c.people[user]
	if o == nil {
		if r.facets {
			out.facets = c.facets(nil)
		}
		return
	}
	allow := c.allowed(o, r.filters, r.turns)
	if n, ok := c.numberOf(r.except); ok {
		allow.Clear(n)
	}
	cs := r.tuning.candidates(c, o, r, lists, allow, index, vec)
	cs = slices.DeleteFunc(cs, func(x candidate) bool { return r.tuning.noise(&x) })
	var q cues
	if r.mode == modeHybrid && r.except == uuid.Nil {
		q = c.cuesOf(r.text, now)
	}
	for i := range cs {
		x := &cs[i]
		x.cue = q.factor(c.row(x.item), r.tuning.cues)
		x.prior = priors{1, 1, 1, 1}
		if r.priors {
			x.prior = priorsOf(c.row(x.item), now)
		}
		x.score = x.fused * x.cue * x.prior.product()
	}
	cs = slices.DeleteFunc(cs, func(x candidate) bool { return x.score < r.min })
	slices.SortFunc(cs, func(a, b candidate) int {
		if a.score != b.score {
			return cmp.Compare(b.score, a.score)
		}
		return c.tie(a.item, b.item)
	})
	if r.facets {
		out.facets = c.facets(cs)
	}
	if r.lambda >= 0 && index != nil {
		cs = diversify(cs, r.lambda, index)
	}
	for _, x := range cs[:min(r.limit, len(cs))] {
		row := c.row(x.item)
		out.picked = append(out.picked, picked{x, *row, c.tagsOf(row), c.names.text[row.speaker]})
	}
}

// candidates makes the lists that a mode has and fuses them.
func (t *tuning) candidates(c *catalog, o *owner, r *request, lists []weighted, allow *vector.Bitmap, index *vector.Index, vec []float32) []candidate {
	var keyword, window, meaning []scored
	mode := r.mode
	if mode == modeKeyword || mode == modeHybrid && (t.weights.Keyword != 0 || r.explain) { // the window list has what it has
		keyword = c.rank(t.keyword, o, lists, allow, t.depth)
	}
	if mode == modeHybrid {
		window = c.rank(t.window, o, lists, allow, t.depth)
	}
	if mode != modeKeyword && index != nil && vec != nil {
		for _, h := range index.Search(vec, t.depth, vector.SearchOptions{Allow: allow}) {
			meaning = append(meaning, scored{h.ID, float64(h.Score)})
		}
		slices.SortStableFunc(meaning, func(a, b scored) int {
			if a.score != b.score {
				return cmp.Compare(b.score, a.score)
			}
			return c.tie(a.item, b.item)
		})
	}
	if mode != modeHybrid {
		alone := *t
		alone.weights = Weights{Keyword: 1, Vector: 1}
		t = &alone
	}
	return t.fuse(keyword, window, meaning)
}

// numberOf finds an item of any kind by its id.
func (c *catalog) numberOf(id uuid.UUID) (uint32, bool) {
	if id == uuid.Nil {
		return 0, false
	}
	for kind := range kindNames {
		if n, ok := c.numbers[itemKey{uint8(kind), id}]; ok {
			return n, true
		}
	}
	return 0, false
}

// reset forgets what was read from a database that another took the place of.
func (st *searchState) reset() {
	st.postings.clear()
	st.catalog.mu.Lock()
	defer st.catalog.mu.Unlock()
	if st.catalog.state == catalogReady {
		st.catalog.state = catalogEmpty
	}
}
