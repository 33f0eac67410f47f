package memory

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/memory/search"
	"helix/backend/pause"
	"helix/backend/storage"
)

// Embedder turns texts into vectors of unit length. Its vectors are compared only with its
// own: another model has another id.
type Embedder interface {
	ModelID() string
	Dims() int
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// Options configure a Service; the zero value works, without search by meaning.
type Options struct {
	Logger    *slog.Logger
	Embedder  Embedder   // nil: search by words only
	Models    []Embedder // others that memory.reembed may change to
	Why       string     // why there is no embedder, for a person
	VectorDir string     // where the vector index keeps its files; "" leaves them in a temporary folder
	TempDir   string
	Zone      func() string // the zone of times that have none; nil is UTC
	Weights   search.Weights
	TrashAge  func() time.Duration                 // how long what was deleted can be restored; nil is 30 days
	Pause     *pause.Pause                         // embeddings wait for its end, imports for room on the disk; nil is never
	Audit     func(*storage.Tx, audit.Entry) error // nil: nothing is audited
	Private   bool                                 // texts are sealed and the words of search are kept in memory only
	Retention RetentionOf                          // what is left of memories as they are read; nil: what was stored last
}

// Service answers for the memory of all users of this device. Its methods are safe for
// concurrent use.
type Service struct {
	db  *storage.DB
	o   Options
	log *slog.Logger

	store     storeState
	search    *search.Index
	imports   importState
	watch     watchState
	embedding embeddingState

	background []func(context.Context) error // what Run does, until its context ends
	closing    []func() error                // what Close ends, in reverse order

	life   context.Context // ends with Close; work that a call leaves behind runs under it
	end    context.CancelFunc
	ending sync.RWMutex
	work   sync.WaitGroup
	once   sync.Once
	err    error // of Close
}

// New makes the service; Run does its background work. Close it also when Run was never called.
func New(db *storage.DB, o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s := &Service{db: db, o: o, log: o.Logger}
	s.life, s.end = context.WithCancel(context.Background())
	s.initStore()
	s.initEmbedding()
	s.initSearch()
	s.initImports()
	s.initWatch()
	return s
}

// initSearch makes the index, which background work reads before the first query needs it.
func (s *Service) initSearch() {
	s.search = search.New(s.db, search.Options{Logger: s.log, Meaning: meaning{s}, Weights: s.o.Weights, Private: s.o.Private, Unseal: s.open})
	s.closing = append(s.closing, s.search.Close)
	s.background = append(s.background, func(ctx context.Context) error {
		if err := s.search.Load(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("search is not ready", "err", err)
		}
		return nil
	})
}

// Index is what can be found, for measurements.
func (s *Service) Index() *search.Index { return s.search }

// Run imports, embeds and cleans up until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, run := range s.background {
		g.Go(func() error { return fault.Catch(func() error { return run(ctx) }) })
	}
	<-ctx.Done()
	return g.Wait()
}

// leave does work that outlives the call it came from. It ends with Close, which waits for it:
// fn must return soon after its context has ended. It reports false after Close.
func (s *Service) leave(fn func(context.Context)) bool {
	s.ending.RLock() // Close must not begin to wait between the look and the start
	defer s.ending.RUnlock()
	if s.life.Err() != nil {
		return false
	}
	s.work.Go(func() {
		if err := fault.Catch(func() error { fn(s.life); return nil }); err != nil {
			s.log.Error("background work of memory", "err", err)
		}
	})
	return true
}

// Close ends what calls have started. It may be called twice.
func (s *Service) Close() error {
	s.once.Do(func() {
		s.ending.Lock()
		s.end()
		s.ending.Unlock()
		s.work.Wait()
		for i := len(s.closing) - 1; i >= 0; i-- {
			s.err = errors.Join(s.err, s.closing[i]())
		}
	})
	return s.err
}
