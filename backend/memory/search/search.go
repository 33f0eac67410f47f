// Package search searches the items of memory, by words and by meaning.
//
// A request is processed in steps: parse validates it, retrieve ranks items by their words and by
// their meaning, fuse combines the rankings, choose scores and selects, and present reads the texts
// of the selected items. The package owns search_items, search_fts and the in-memory data derived
// from them. Package memory calls it to index items, and implements Meaning.
package search

import (
	"context"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/vector"
)

// Meaning computes and searches the vectors of texts.
type Meaning interface {
	// Serving returns the active model and index; nil if there is no model or its index is not open yet.
	Serving() *Vectors
	// Degraded returns what semantic search lacks: "", no_vectors or reindexing.
	Degraded() string
	// Open returns the active model and index, and waits while the index is being opened. The error
	// is the reason why semantic search is unavailable.
	Open(ctx context.Context) (*Vectors, error)
	// Queue requests the vector of a newly numbered item.
	Queue(tx *storage.Tx, item int64, user uuid.UUID) error
	// Dropped is called when an item leaves the index.
	Dropped(tx *storage.Tx, item int64)
}

// Vectors is a model and the index of its vectors, keyed by the numbers of search_items.
type Vectors struct {
	Model string
	Index *vector.Index
	Embed func(ctx context.Context, text string) ([]float32, error)
}

// Options configure an Index.
type Options struct {
	Logger  *slog.Logger
	Meaning Meaning
	Weights Weights
	Private bool // keep words in memory only
	// Unseal returns a text from the form in which memory stores it.
	Unseal func(table, column string, id uuid.UUID, stored []byte) (string, error)
}

// Index is the search index for all users of a database. Its methods are safe for concurrent use.
type Index struct {
	db  *storage.DB
	o   Options
	log *slog.Logger

	catalog  catalog
	postings postings
	tuning   Tuning
	slots    chan struct{} // see acquire

	unsubscribe []func()
}

// New returns an index on db. It is loaded by the first query, or by Load.
func New(db *storage.DB, o Options) *Index {
	x := &Index{db: db, o: o, log: o.Logger, tuning: DefaultTuning(o.Weights), slots: make(chan struct{}, runtime.NumCPU())}
	x.unsubscribe = []func(){
		bus.Subscribe(db.Bus(), func(uuid.UUID, storage.Replaced) { x.reset() }),
		bus.Subscribe(db.Bus(), func(_ uuid.UUID, c storage.Changed) { // storage has written to our tables directly
			if slices.ContainsFunc(kinds, func(k kind) bool { return k.table == c.Table }) {
				x.reset()
			}
		}),
	}
	return x
}

// Close ends the subscriptions of the index.
func (x *Index) Close() error {
	for _, end := range x.unsubscribe {
		end()
	}
	return nil
}

// reset discards everything that was read from the database.
func (x *Index) reset() {
	x.postings.clear()
	x.catalog.mu.Lock()
	defer x.catalog.mu.Unlock()
	if x.catalog.state == catalogReady {
		x.catalog.state = catalogEmpty
	}
}

// Search returns the items that match a query, best first. If there is no model, or its index is
// not ready, mode hybrid searches by words only and says so in Degraded; mode vector fails with
// Unavailable. An empty query matches nothing.
func (x *Index) Search(ctx context.Context, p Params) (Result, error) {
	return x.SearchTuned(ctx, p, &x.tuning)
}

// SearchTuned is Search with a different configuration of ranking, for measurements.
func (x *Index) SearchTuned(ctx context.Context, p Params, t *Tuning) (Result, error) {
	q, err := parse(p, t)
	if err != nil {
		return Result{}, err
	}
	a, err := x.answer(ctx, q)
	if err != nil {
		return Result{}, err
	}
	return a.Result, nil
}

// answer is a result with the data that an enhanced result needs.
type answer struct {
	Result
	chosen []chosen // parallel to Results
	facets *Facets
}

// answer runs a query.
func (x *Index) answer(ctx context.Context, q *query) (*answer, error) {
	if err := x.Load(ctx); err != nil {
		return nil, err
	}
	release, err := x.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	lists, err := x.postingLists(ctx, q)
	if err != nil {
		return nil, err
	}
	m, err := x.meaningOf(ctx, q)
	if err != nil {
		return nil, err
	}
	selected, facets := x.choose(identity.UserID(ctx), q, lists, m)
	a := &answer{Result: Result{Mode: q.mode, ModelID: m.model, Degraded: m.degraded}, facets: facets}
	if a.chosen, a.Results, err = x.present(ctx, q, selected); err != nil {
		return nil, err
	}
	a.TookMs = milliseconds(time.Since(q.asked))
	return a, nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// acquire waits, in order of arrival, until a query may compute. As many queries compute at a time
// as there are processors; more would only share them, and all would finish later.
func (x *Index) acquire(ctx context.Context) (release func(), err error) {
	select {
	case x.slots <- struct{}{}:
		return func() { <-x.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// relatedWords is the number of words of an item to search for.
const relatedWords = 24

// Related returns items of any kind that are similar to one item, best first, without the item itself.
func (x *Index) Related(ctx context.Context, p RelatedParams) (Result, error) {
	id, err := uuid.Parse(strings.TrimPrefix(p.ID, "note-"))
	if err != nil {
		return Result{}, errNoItem()
	}
	q, err := parse(Params{Limit: p.Limit}, &x.tuning)
	if err != nil {
		return Result{}, err
	}
	if err := x.Load(ctx); err != nil {
		return Result{}, err
	}
	item, ok := x.chosenByID(identity.UserID(ctx), id)
	if !ok {
		return Result{}, errNoItem()
	}
	texts, err := x.texts(ctx, []chosen{item})
	if err != nil {
		return Result{}, err
	}
	t := texts[id]
	if t == nil {
		return Result{}, errNoItem()
	}
	q.text, q.except = t.text, id
	q.queryTerms = termsOf(strings.ReplaceAll(t.text, `"`, " "), true)
	q.terms = q.terms[:min(len(q.terms), relatedWords)]
	if v := x.o.Meaning.Serving(); v != nil {
		if vec, ok := v.Index.Vector(item.item, nil); ok {
			q.vec = vec
		}
	}
	a, err := x.answer(ctx, q)
	if err != nil {
		return Result{}, err
	}
	return a.Result, nil
}

func errNoItem() error { return fault.NotFoundf("Memory not found.") }

// chosenByID returns the item with an id if it belongs to user.
func (x *Index) chosenByID(user, id uuid.UUID) (chosen, bool) {
	c := &x.catalog
	c.mu.RLock()
	defer c.mu.RUnlock()
	n, ok := c.numberOf(id)
	if !ok || c.row(n).owner.id != user {
		return chosen{}, false
	}
	return chosen{candidate: candidate{item: n}, row: *c.row(n)}, true
}
