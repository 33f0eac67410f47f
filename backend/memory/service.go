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

// Embedder converts texts to unit-length vectors. Vectors of different models, which have different
// ids, are never compared.
type Embedder interface {
	ModelID() string
	Dims() int
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// Options configure a Service. The zero value works, without semantic search.
type Options struct {
	Logger    *slog.Logger
	Embedder  Embedder   // nil: keyword search only
	Models    []Embedder // other models that memory.reembed can switch to
	Why       string     // why there is no embedder, for people
	VectorDir string     // directory of the vector index files; "" uses a temporary one
	TempDir   string
	Zone      func() string // name of the time zone for times without one; nil is UTC
	Weights   search.Weights
	TrashAge  func() time.Duration                 // how long deleted items can be restored; nil is 30 days
	Pause     *pause.Pause                         // suspends embeddings, and imports for lack of disk space; nil: never
	Audit     func(*storage.Tx, audit.Entry) error // nil: nothing is audited
	Private   bool                                 // seal texts and keep the words of search in memory only
	Retention RetentionOf                          // computes the current retention of memories; nil: the last stored one
}

// Service manages the memory of all users of this device. Its methods are safe for concurrent use.
type Service struct {
	db  *storage.DB
	o   Options
	log *slog.Logger

	store     storeState
	search    *search.Index
	imports   importState
	watch     watchState
	embedding embeddingState

	previewFor, embedUpsertFor time.Duration // longest times of a call's work, which tests raise

	background []func(context.Context) error // run by Run until its context ends
	closing    []func() error                // run by Close, in reverse order

	life   context.Context // ended by Close; context of work that outlives a call
	end    context.CancelFunc
	ending sync.RWMutex
	work   sync.WaitGroup
	once   sync.Once
	err    error // result of Close
}

// New returns a Service on db. Run does its background work. Close it even if Run was never called.
func New(db *storage.DB, o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s := &Service{db: db, o: o, log: o.Logger, previewFor: previewFor, embedUpsertFor: embedUpsertFor}
	s.life, s.end = context.WithCancel(context.Background())
	s.initStore()
	s.initEmbedding()
	s.initSearch()
	s.initImports()
	s.initWatch()
	return s
}

// initSearch creates the search index, which background work loads before the first query needs it.
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

// Index returns the search index, for measurements.
func (s *Service) Index() *search.Index { return s.search }

// Run does the background work until ctx ends: it imports, embeds and cleans up.
func (s *Service) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, run := range s.background {
		g.Go(func() error { return fault.Catch(func() error { return run(ctx) }) })
	}
	<-ctx.Done()
	return g.Wait()
}

// leave runs work that outlives the call that started it. Close cancels its context and waits for
// it, so fn must return soon after that. It returns false after Close.
func (s *Service) leave(fn func(context.Context)) bool {
	s.ending.RLock() // Close must not start to wait between this check and the start of fn
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

// Close stops work that calls have started. It may be called more than once.
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
