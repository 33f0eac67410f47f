package memory

import (
	"context"
	"log/slog"

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
	Embedder  Embedder // nil: search by words only
	Why       string   // why there is no embedder, for a person
	VectorDir string   // where the vector index keeps its files; "" leaves them in a temporary folder
	TempDir   string
	Zone      func() string // the zone of times that have none; nil is UTC
	Weights   Weights
}

// Service answers for the memory of all users of this device.
type Service struct {
	db  *storage.DB
	o   Options
	log *slog.Logger
}

// New makes the service; Run does its background work.
func New(db *storage.DB, o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Service{db: db, o: o, log: o.Logger}
}

// Run imports, embeds and cleans up until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Close ends what calls have started.
func (s *Service) Close() error { return nil }
