// Package tools manages tools: small TypeScript or JavaScript programs with a JSON Schema for their
// parameters and a list of requested capabilities. It stores and versions them, checks them, runs
// them in the sandbox with all access decided by package permission, and exchanges them between
// people as signed bundles. Only the composition root imports it; the domains that run tools use it
// through interfaces of their own.
package tools

import (
	"context"
	"log/slog"
	"sync"
	"time"
	"weak"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/lifecycle"
	"helix/backend/lru"
	"helix/backend/permission"
	"helix/backend/safehttp"
	"helix/backend/sandbox"
	"helix/backend/schema"
	"helix/backend/storage"
	"helix/backend/wasmtools"
)

// subjectKind is the kind of tools in packages permission and audit.
const subjectKind = "tool"

// Options configure New. The zero value works: no files for tools, 4 runs of a tool at once.
type Options struct {
	Logger *slog.Logger
	// StateDir contains a folder for the files of each tool; "" gives tools no files.
	StateDir string
	// Home is the value of ~ and $HOME in paths, and Workspace that of $WORKSPACE.
	Home, Workspace string
	// Own lists Helix's own folders, which no tool can read.
	Own []string
	// OwnPort reports whether a port belongs to Helix; nil: none does.
	OwnPort func(port int) bool
	// Parallel is the number of concurrent runs of one tool; 0: 4. MaxWaiting is the number of
	// queued runs above which calls are rejected; 0: 256.
	Parallel, MaxWaiting int
	// MaxTools is the maximum number of tools of a user; 0: 1,000.
	MaxTools int
	// Hub stores shared tools; nil: links open on this device only.
	Hub lifecycle.Hub
	// HTTP changes the options of the HTTP client for fetches and imports, for tests.
	HTTP func(*safehttp.Options)
}

func (o *Options) maxTools() int {
	if o.MaxTools > 0 {
		return o.MaxTools
	}
	return maxTools
}

func (o *Options) parallel() int {
	if o.Parallel > 0 {
		return o.Parallel
	}
	return 4
}

func (o *Options) maxWaiting() int {
	if o.MaxWaiting > 0 {
		return o.MaxWaiting
	}
	return 256
}

// Service manages tools. There is one per database; its methods are safe for concurrent use. Run
// does the background work.
type Service struct {
	db    *storage.DB
	perm  *permission.Service
	audit *audit.Service
	box   *sandbox.Engine
	o     Options
	log   *slog.Logger

	kind *lifecycle.Kind
	wasm *wasmtools.Service

	web    *safehttp.Client // for tools: every address is asked of permission
	direct *safehttp.Client // for imports that the user started

	schemas schema.Cache
	drafts  *lru.Cache[string, permission.SubjectInfo]
	modules *lru.Cache[string, weak.Pointer[sandbox.Module]] // by content address; the engine decides which remain compiled

	mu      sync.Mutex
	running map[uuid.UUID]*execution // by execution id
	slots   map[uuid.UUID]*slot      // by tool id
	large   chan struct{}            // see checker
	keys    map[string]bool          // idempotency keys of calls in progress
	reviews map[reviewKey]review     // imports that can be committed
	undo    map[string]*clearing
	wg      sync.WaitGroup  // runs started by an answered approval
	again   chan struct{}   // the database was replaced
	writes  *storage.Group  // of runs that begin and end
	life    context.Context // ended by Close
	stop    context.CancelFunc
}

// New returns a Service and registers tools as a kind of permission subject.
func New(db *storage.DB, perm *permission.Service, aud *audit.Service, box *sandbox.Engine, wasm *wasmtools.Service, o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s := &Service{
		db: db, perm: perm, audit: aud, box: box, wasm: wasm, o: o, log: o.Logger,
		drafts: lru.New[string, permission.SubjectInfo](64, 0, nil), modules: lru.New[string, weak.Pointer[sandbox.Module]](256, 0, nil),
		running: map[uuid.UUID]*execution{}, slots: map[uuid.UUID]*slot{}, keys: map[string]bool{},
		large: make(chan struct{}, 1), reviews: map[reviewKey]review{}, undo: map[string]*clearing{},
		again: make(chan struct{}, 1), writes: db.Together(),
	}
	s.kind = s.toolKind()
	s.life, s.stop = context.WithCancel(context.Background())
	s.web, s.direct = s.clients()
	perm.Register(subjectKind, s, s.rerun)
	perm.Register(wasmtools.Kind, s, s.rerunSkill)
	bus.Subscribe(db.Bus(), func(_ uuid.UUID, e wasmtools.WasmChanged) {
		if e.Kind == "deleted" {
			s.cancelTool(e.SkillID)
		}
	})
	bus.Subscribe(db.Bus(), func(uuid.UUID, storage.Replaced) { s.replaced() })
	return s
}

// replaced drops the state that belongs to the previous database, and makes Run fail the runs that
// were active when the new database was saved.
func (s *Service) replaced() {
	s.mu.Lock()
	clear(s.reviews)
	clear(s.undo)
	s.mu.Unlock()
	select {
	case s.again <- struct{}{}:
	default:
	}
}

// sweepEvery is the interval of sweep.
const sweepEvery = time.Hour

// Close ends the runs that were started by answered approvals and waits for them. It may be called
// more than once, and is not necessary after Run has returned.
func (s *Service) Close() error {
	s.mu.Lock()
	s.stop()
	s.mu.Unlock()
	s.wg.Wait()
	s.web.Close()
	s.direct.Close()
	return nil
}

// Run fails runs interrupted by a crash, then cleans up periodically until ctx ends, and finally
// waits for runs that were started by answered approvals.
func (s *Service) Run(ctx context.Context) error {
	recovered := func() {
		if err := fault.Catch(func() error { return s.Recover(ctx) }); err != nil && ctx.Err() == nil {
			s.log.Error("close interrupted tool runs", "error", err)
		}
	}
	recovered()
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		s.sweep()
		select {
		case <-t.C:
		case <-s.again:
			recovered()
		case <-ctx.Done():
			return s.Close()
		}
	}
}

// announce publishes Changed after the commit.
func (s *Service) announce(tx *storage.Tx, id uuid.UUID, kind string) {
	user := identity.UserID(tx.Context())
	tx.AfterCommit(func() { bus.Publish(tx.Bus(), user, Changed{ToolID: id, Kind: kind}) })
}

// answer calls do in a transaction and completes the returned tool.
func (s *Service) answer(ctx context.Context, run func(context.Context, func(*storage.Tx) error) error, do func(*storage.Tx) (*Tool, error)) (out ToolResult, err error) {
	err = run(ctx, func(tx *storage.Tx) error {
		t, err := do(tx)
		if err == nil {
			err = s.complete(tx, t)
		}
		if err == nil {
			out.Tool = *t
		}
		return err
	})
	return out, err
}

// complete sets the fields that are not in the row: the state of the signature and whether grants
// are suspended.
func (s *Service) complete(tx *storage.Tx, t *Tool) error {
	user := identity.UserID(tx.Context())
	t.ApproxTokens = approxTokens("tool_"+slug(t.Name), t.Description, t.Parameters)
	var err error
	t.Signature, err = lifecycle.Trust(tx, s.db, user, t.sig, t.sig.Verify(t.hash, t.Code))
	if err != nil || !t.Mine {
		return err
	}
	list := []Summary{{ID: t.ID}}
	if err := s.markSuspended(tx, list); err != nil {
		return err
	}
	t.Suspended = list[0].Suspended
	return nil
}
