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
	embedBatch      = 64 // jobs that are taken and stored together
	embedAttempts   = 3
	vectorNewsEvery = 250 * time.Millisecond
	flushEvery      = 30 * time.Second
	yieldAtMost     = 100 * time.Millisecond

	// So many texts, or bytes, are between two looks at whether a query or a stop is waiting:
	// as much as the encoder takes through its layers at a time, some 30 ms.
	embedPiece      = 8
	embedPieceBytes = 700
)

// embeddingState is what makes vectors and finds by them.
type embeddingState struct {
	models  map[string]Embedder // by id
	workers int
	retry   func(attempts int) time.Duration // how long a text that failed waits

	plan    atomic.Pointer[plan]       // nil: read it from the database
	serving atomic.Pointer[generation] // what answers queries; nil: none yet
	epoch   atomic.Int64               // counts the databases that were put in place
	running atomic.Bool                // Run opens indexes; without it, the first query does
	paused  atomic.Bool
	front   frontDoor
	queries queryCache

	wake chan struct{} // there may be jobs
	keep chan struct{} // there is something for the keeper to do

	opening  sync.Mutex // one at a time opens indexes
	failedAt time.Time  // of the last opening that failed; under opening
	dir      string     // of indexes; under opening

	mu      sync.Mutex // held while rows are read and what they say is brought to the indexes
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

// kick lets the workers and the keeper look.
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

// foreground makes background work wait, for a moment at most, until the function that it
// gives is called. Queries hold it so that a batch of texts does not stand in their way.
func (s *Service) foreground() (done func()) {
	s.embedding.front.enter()
	return s.embedding.front.leave
}

// generation gives the generation that answers queries: a model and the index of its vectors,
// which belong together. It is nil with no model, and until the index has been opened.
// It must not be called within a transaction.
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

// index gives the index that serves; nil is none.
func (s *Service) index() *vector.Index {
	if g := s.generation(); g != nil {
		return g.index
	}
	return nil
}

// lagChanged has the next answer of degraded counted anew.
func (s *Service) lagChanged() {
	if g := s.embedding.serving.Load(); g != nil {
		g.lag.mu.Lock()
		g.lag.at = time.Time{}
		g.lag.mu.Unlock()
	}
}

// modelIDs lists the models that can be used.
func (s *Service) modelIDs() []string {
	return slices.Sorted(maps.Keys(s.embedding.models))
}

// frontDoor counts what should not wait for background work.
type frontDoor struct {
	mu    sync.Mutex
	count int
	empty chan struct{} // closed when the last leaves
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

// yield waits until nobody is in front, at most yieldAtMost, so that background work goes on
// under queries without end.
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

// queryCache keeps the vectors of the latest queries: a query that is typed, filtered and
// paged comes again and again.
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
