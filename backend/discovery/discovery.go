// Package discovery turns API descriptions that other people wrote into tools: it inspects a
// description, keeps the operations that the user chose, waits for the approval of exactly that
// definition, and then runs operations under the permissions, limits and audit log of every other
// tool. Package openapi does the reading and the requests; the composition root imports this package.
package discovery

import (
	"context"
	"hash/maphash"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/callable/netgate"
	"helix/backend/fault"
	"helix/backend/lru"
	"helix/backend/oauth"
	"helix/backend/openapi"
	"helix/backend/permission"
	"helix/backend/safehttp"
	"helix/backend/storage"
)

// Kind is the kind of these tools as callables and as permission subjects.
const Kind callable.Kind = "api"

// Limits of a user.
const (
	maxTools      = 500
	maxOperations = 200 // of one tool
	manyChosen    = 60  // operations beyond which an import warns
	perTool       = 4   // runs at once
	perUser       = 16
	fetchTime     = 30 * time.Second
	keptOutput    = 64 << 10 // bytes of an output in the log
)

// Options configure New.
type Options struct {
	Logger     *slog.Logger // nil: slog.Default
	Permission *permission.Service
	Audit      *audit.Service
	Secrets    *storage.Secrets
	OAuth      *oauth.Service // nil: no sign-in with OAuth
	// Tokens returns the number of tokens of a text for a model; nil: estimated by its length.
	Tokens func(ctx context.Context, text string) int64
	// Scrub removes the user's secrets from text; nil: nothing is removed.
	Scrub func(ctx context.Context, text string) string
	// DenyPort reports whether a port of this computer belongs to Helix; nil: none does.
	DenyPort func(port int) bool
	// Online reports whether lists of APIs on the web may be read; nil: they may not.
	Online   func() bool
	Embedder Embedder // nil: search uses only words
	// HTTP creates HTTP clients, for tests; nil: safehttp.New.
	HTTP func(safehttp.Options) *safehttp.Client
}

// Service manages the tools of all users. It is safe for concurrent use.
type Service struct {
	db     *storage.DB
	o      Options
	log    *slog.Logger
	gate   callable.Gate
	calls  *netgate.Client  // of operations; each address passes the gate
	fetch  *safehttp.Client // of descriptions
	dialer *safehttp.Client // of connections that aren't HTTP; allow decides before each
	specs  *lru.Cache[specKey, *spec]
	loaded *lru.Cache[loadedKey, *loaded]
	began  time.Time
	wake   chan struct{} // a request was added

	ctx  context.Context // of verifications; Close ends it
	stop context.CancelFunc
	jobs sync.WaitGroup

	mu      sync.Mutex
	running map[uuid.UUID]map[uuid.UUID]context.CancelCauseFunc // by tool and run
	users   map[uuid.UUID]int
	buckets map[uuid.UUID]*bucket
	lists   map[uuid.UUID]cachedList // by catalog

	textVectors textVectors
	nextVerify  time.Time // not before

	unsubscribe func()
}

// Changed is the event discovery.changed: a tool was imported, or its state changed.
type Changed struct {
	ManifestID uuid.UUID `json:"manifestId"`
	Status     string    `json:"status"`
}

// ExecutionChanged is the event discovery.execution: a run has started or ended.
type ExecutionChanged struct {
	ExecutionID uuid.UUID `json:"executionId"`
	ManifestID  uuid.UUID `json:"manifestId"`
	State       string    `json:"state"` // as in the log: running, success, failure, timeout or cancelled
}

// AuthChanged is the event discovery.auth_changed: a credential was stored or removed.
type AuthChanged struct {
	ManifestID uuid.UUID `json:"manifestId"`
	Scheme     string    `json:"scheme"`
	State      string    `json:"state"`           // missing, ready or error
	Error      string    `json:"error,omitempty"` // why a sign-in failed; former credentials are kept
}

// New returns a Service on db. Close it when it is no longer used.
func New(db *storage.DB, o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.HTTP == nil {
		o.HTTP = safehttp.New
	}
	if o.Scrub == nil {
		o.Scrub = func(_ context.Context, text string) string { return text }
	}
	if o.Tokens == nil {
		o.Tokens = func(_ context.Context, text string) int64 { return int64(len(text)+3) / 4 }
	}
	s := &Service{
		db: db, o: o, log: o.Logger, gate: callable.Gate{Permission: o.Permission, Record: o.Audit.RecordWith, Logger: o.Logger},
		specs:   lru.New[specKey](8, 20<<20, func(x *spec) int64 { return x.bytes }),
		loaded:  lru.New[loadedKey](100, 30<<20, func(x *loaded) int64 { return x.bytes }),
		running: map[uuid.UUID]map[uuid.UUID]context.CancelCauseFunc{}, users: map[uuid.UUID]int{}, buckets: map[uuid.UUID]*bucket{},
		lists: map[uuid.UUID]cachedList{}, textVectors: textVectors{seed: maphash.MakeSeed(), vectors: map[uint64][]float32{}},
	}
	s.began, s.wake = time.Now(), make(chan struct{}, 1)
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.unsubscribe = bus.Subscribe(db.Bus(), func(user uuid.UUID, e storage.Changed) {
		if e.Table == "tool_manifest" {
			s.reconcileSoon(user)
		}
	})
	s.fetch = o.HTTP(safehttp.Options{DenyPorts: o.DenyPort, MaxBody: openapi.MaxBytes, MaxRedirects: 3, Timeout: fetchTime})
	s.dialer = o.HTTP(safehttp.Options{DenyPorts: o.DenyPort, AllowLoopback: func(int) bool { return true }})
	s.calls = netgate.NewClient(safehttp.Options{DenyPorts: o.DenyPort, MaxRequest: openapi.MaxBody, MaxBody: openapi.MaxResponse, MaxRedirects: 3, Timeout: 10 * time.Minute}, o.HTTP, s.allow)
	return s
}

// Close ends verifications and drops idle connections.
func (s *Service) Close() error {
	s.unsubscribe()
	s.mu.Lock()
	s.stop()
	s.mu.Unlock()
	s.jobs.Wait()
	s.fetch.Close()
	s.calls.Close()
	s.dialer.Close()
	return nil
}

// Recover ends the runs in the log that were in progress when the last process ended, and applies the changes
// by other devices that the last process did not.
func (s *Service) Recover(ctx context.Context) error {
	if err := s.reconcile(ctx, s.db.LocalUser().ID); err != nil {
		return err
	}
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		if err := s.recoverInstalls(tx); err != nil {
			return err
		}
		_, err := tx.Exec(`UPDATE tool_execution_log SET status = 'failure', error_class = 'interrupted', error_message = 'Helix was stopped during the run.', completed_at = ?1, updated_at = ?1 WHERE status = 'running' AND started_at < ?2`, tx.Now, s.began)
		return err
	})
}

// Retention is the policy for the log of runs.
func Retention() storage.Retention {
	return storage.Retention{Table: "tool_execution_log", Time: "started_at", Payloads: []string{"output"}, Only: `status <> 'running'`}
}

func (s *Service) announce(tx *storage.Tx, user uuid.UUID, e any) {
	tx.AfterCommit(func() {
		s.publish(user, e)
	})
}

func (s *Service) publish(user uuid.UUID, e any) {
	switch e := e.(type) {
	case Changed:
		bus.Publish(s.db.Bus(), user, e)
	case ExecutionChanged:
		bus.Publish(s.db.Bus(), user, e)
	case JobChanged:
		bus.Publish(s.db.Bus(), user, e)
	case RequestChanged:
		bus.Publish(s.db.Bus(), user, e)
	case AuthChanged:
		bus.Publish(s.db.Bus(), user, e)
	}
}

func errNoTool() error { return fault.NotFoundf("Tool not found.") }
