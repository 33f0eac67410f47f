package memory

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/storage"
	"helix/backend/vector"
)

const (
	embedBatch      = 64 // jobs that are claimed and stored together
	embedAttempts   = 3
	vectorNewsEvery = 250 * time.Millisecond
	flushEvery      = 30 * time.Second
	yieldAtMost     = 100 * time.Millisecond

	// Texts, or bytes, to embed between two checks whether a query or a stop is waiting. It is as
	// much as the encoder processes at a time, about 30 ms.
	embedPiece      = 8
	embedPieceBytes = 700
)

// embeddingState holds the models, the vector indexes and the state of the embedding workers.
type embeddingState struct {
	models  map[string]Embedder // by id
	workers int
	retry   func(attempts int) time.Duration // delay before the next attempt

	plan    atomic.Pointer[plan]       // nil: read it from the database
	serving atomic.Pointer[generation] // answers queries; nil: none yet
	epoch   atomic.Int64               // incremented when the database is replaced
	running atomic.Bool                // Run opens the indexes; without it, the first query does
	paused  atomic.Bool
	front   frontDoor
	queries queryCache

	wake chan struct{} // wakes the workers
	keep chan struct{} // wakes the keeper

	opening  sync.Mutex // held while indexes are opened
	failedAt time.Time  // time of the last failure to open; guarded by opening
	dir      string     // directory of the indexes; guarded by opening

	mu      sync.Mutex // held while rows are read and applied to the indexes
	gens    map[string]*generation
	retired []*generation
	closed  bool

	following following

	claims   claims
	progress progressState
	trouble  atomic.Pointer[string]
}

func (s *Service) initEmbedding() {
	e := &s.embedding
	e.models, e.gens = map[string]Embedder{}, map[string]*generation{}
	for _, m := range append([]Embedder{s.o.Embedder}, s.o.Models...) {
		if m != nil && e.models[m.ModelID()] == nil {
			e.models[m.ModelID()] = m
		}
	}
	e.workers = 1
	if runtime.NumCPU() > 4 {
		e.workers = 2
	}
	e.retry = func(attempts int) time.Duration { return time.Duration(attempts*attempts) * 15 * time.Second }
	e.wake, e.keep = make(chan struct{}, e.workers), make(chan struct{}, 1)
	e.claims.items = map[jobKey]bool{}
	e.progress.users = map[uuid.UUID]*progress{}
	if len(e.models) == 0 {
		return
	}
	cancel := bus.Subscribe(s.db.Bus(), func(_ uuid.UUID, _ storage.Replaced) { s.databaseReplaced() })
	s.background = append(s.background, s.runEmbedding)
	s.closing = append(s.closing, func() error {
		cancel()
		return s.closeIndexes()
	})
}

// kick wakes the workers and the keeper.
func (e *embeddingState) kick() {
	for range e.workers {
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
	select {
	case e.keep <- struct{}{}:
	default:
	}
}

// foreground makes background work wait, yieldAtMost at a time, until done is called. Queries hold
// it so that a batch of texts does not delay them.
func (s *Service) foreground() (done func()) {
	s.embedding.front.enter()
	return s.embedding.front.leave
}

// generation returns the generation that answers queries: a model together with the index of its
// vectors. It is nil if there is no model or the index is not open yet. It must not be called
// within a transaction.
func (s *Service) generation() *generation {
	e := &s.embedding
	if g := e.serving.Load(); g != nil || len(e.models) == 0 || e.running.Load() {
		return g
	}
	if err := s.openIndexes(s.life); err != nil && s.life.Err() == nil {
		s.log.Warn("the vector index cannot be opened", "err", err)
	}
	return e.serving.Load()
}

// index returns the index that answers queries, or nil.
func (s *Service) index() *vector.Index {
	if g := s.generation(); g != nil {
		return g.index
	}
	return nil
}

// lagChanged discards the cached answer of behind.
func (s *Service) lagChanged() {
	if g := s.embedding.serving.Load(); g != nil {
		g.lag.mu.Lock()
		g.lag.at = time.Time{}
		g.lag.mu.Unlock()
	}
}

// modelIDs returns the ids of the available models, sorted.
func (s *Service) modelIDs() []string {
	return slices.Sorted(maps.Keys(s.embedding.models))
}

// frontDoor counts the callers that background work should give way to.
type frontDoor struct {
	mu    sync.Mutex
	count int
	empty chan struct{} // closed when the count drops to 0
}

func (f *frontDoor) enter() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count++; f.count == 1 {
		f.empty = make(chan struct{})
	}
}

func (f *frontDoor) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count--; f.count == 0 {
		close(f.empty)
	}
}

// yield waits until no caller is in front, but at most yieldAtMost, so that background work
// progresses even under constant queries.
func (f *frontDoor) yield(ctx context.Context) {
	f.mu.Lock()
	busy, empty := f.count > 0, f.empty
	f.mu.Unlock()
	if !busy {
		return
	}
	timer := time.NewTimer(yieldAtMost)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-empty:
	case <-timer.C:
	}
}

// queryCache keeps the vectors of the most recent queries, because typing, filtering and paging
// repeat the same query.
type queryCache struct {
	mu   sync.Mutex
	vecs map[queryKey][]float32
	last []queryKey // oldest first
}

type queryKey struct{ model, text string }

const queryCacheSize = 128

func (c *queryCache) get(k queryKey) []float32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	vec := c.vecs[k]
	if vec != nil {
		i := slices.Index(c.last, k)
		c.last = append(slices.Delete(c.last, i, i+1), k)
	}
	return vec
}

func (c *queryCache) put(k queryKey, vec []float32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.vecs == nil {
		c.vecs = map[queryKey][]float32{}
	}
	if c.vecs[k] == nil {
		c.last = append(c.last, k)
	}
	c.vecs[k] = vec
	if len(c.last) > queryCacheSize {
		delete(c.vecs, c.last[0])
		c.last = slices.Delete(c.last, 0, 1)
	}
}
