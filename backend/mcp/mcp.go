// Package mcp connects Helix to servers of the Model Context Protocol, whose tools become callables,
// and serves chosen callables to other MCP programs. A server runs only after its command was
// approved, a tool only after its definition was; a changed definition must be approved again. The
// package owns the tables mcp_*.
package mcp

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/lru"
	"helix/backend/oauth"
	"helix/backend/permission"
	"helix/backend/schema"
	"helix/backend/storage"
)

// Kind is the kind of MCP tools among callables, and of their permission subjects. The subject of a
// server has its name as id, that of a tool server.tool.
const Kind callable.Kind = "mcp"

// Options configure New. Gate is required.
type Options struct {
	Gate   callable.Gate
	Logger *slog.Logger
	// StateDir is the folder for the record of running processes; "": none is kept.
	StateDir string
	// Secret returns the value of a stored secret of the caller, or NotFound.
	Secret func(ctx context.Context, name string) ([]byte, error)
	// SetSecret stores a secret of the caller.
	SetSecret func(tx *storage.Tx, name string, value []byte) error
	// Getenv reads the environment. It must not return settings or keys of Helix.
	Getenv func(name string) string
	// OAuth signs the user in to servers with a URL; nil: it is not offered.
	OAuth *oauth.Service
	// OwnPort reports ports of this computer that Helix listens on.
	OwnPort func(port int) bool
	// Scrub removes the caller's secrets from text; nil: nothing is removed.
	Scrub func(ctx context.Context, text string) string
	// Callables are what may be served to other programs; nil: nothing.
	Callables *callable.Registry
	Version   string
	// ShellPath returns additional folders of programs; nil: those of the login shell.
	ShellPath func() []string
	Now       func() time.Time // nil: time.Now
}

// Service manages the MCP servers of all users on this device. It is safe for concurrent use.
type Service struct {
	db   *storage.DB
	bus  *bus.Bus
	perm *permission.Service
	o    Options
	log  *slog.Logger
	left *leftovers

	began time.Time // calls that run since before it were interrupted

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	off    func()

	spawning sync.Mutex // guards closed, and work against goroutines after it
	closed   bool
	work     sync.WaitGroup

	schemas schema.Cache // of the tools that are called
	tools   *lru.Cache[toolKey, *storedTool]
	writes  atomic.Int64 // how often servers or tools were written
	lists   atomic.Int64 // how often a list of tools was stored

	mu      sync.Mutex
	links   map[uuid.UUID]*link           // by server id
	changed map[uuid.UUID]map[string]bool // subjects whose approval may have changed, by user
	running map[uuid.UUID]*runningCall    // calls in progress, by execution id
	asking  map[askKey]*asking            // questions of servers that wait for a person
	served  map[uuid.UUID]*served         // by user
}

// Bounds of the tools that are kept in memory for their next call.
const (
	keptTools     = 256
	keptToolBytes = 4 << 20
)

// New returns a Service. It ends what an earlier process left running.
func New(db *storage.DB, o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.ShellPath == nil {
		o.ShellPath = shellPath
	}
	if o.Scrub == nil {
		o.Scrub = func(_ context.Context, text string) string { return text }
	}
	s := &Service{
		db: db, bus: db.Bus(), perm: o.Gate.Permission, o: o, log: o.Logger, left: &leftovers{log: o.Logger}, began: time.Now(),
		tools: lru.New[toolKey](keptTools, keptToolBytes, (*storedTool).size),
		links: map[uuid.UUID]*link{}, changed: map[uuid.UUID]map[string]bool{}, running: map[uuid.UUID]*runningCall{}, asking: map[askKey]*asking{}, served: map[uuid.UUID]*served{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if o.StateDir != "" {
		s.left.file = filepath.Join(o.StateDir, "mcp-processes.json")
		if n := s.left.end(); n > 0 {
			s.log.Warn("ended MCP servers of a process that did not stop properly", "count", n)
		}
	}
	offApprovals := bus.Subscribe(s.bus, s.approvalMayHaveChanged)
	offReplaced := bus.Subscribe(s.bus, func(uuid.UUID, storage.Replaced) { s.writes.Add(1) })
	s.off = func() { offApprovals(); offReplaced() }
	return s
}

// write runs fn in a transaction that may change servers or tools. Those in memory are read again.
func (s *Service) write(ctx context.Context, fn func(*storage.Tx) error) error {
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		tx.AfterCommit(func() { s.writes.Add(1) })
		return fn(tx)
	})
	if err != nil { // what fn itself read was rolled back
		s.writes.Add(1)
	}
	return err
}

// idleCheck is how often Run looks for idle servers.
const idleCheck = 30 * time.Second

// Run closes the calls that a crash interrupted, and stops idle servers until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	if err := s.closeInterrupted(ctx); err != nil && ctx.Err() == nil {
		s.log.Error("close interrupted MCP calls", "err", err)
	}
	t := time.NewTicker(idleCheck)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			s.stopIdle()
		}
	}
}

// Close stops all servers and waits for them. It may be called twice.
func (s *Service) Close() error {
	s.cancel()
	s.off()
	s.spawning.Lock()
	s.closed = true
	s.spawning.Unlock()
	s.closeServed()
	s.mu.Lock()
	all := make([]*link, 0, len(s.links))
	for _, l := range s.links {
		all = append(all, l)
	}
	s.mu.Unlock()
	var stopping sync.WaitGroup
	for _, l := range all {
		stopping.Go(func() { l.stop(StateStopped) })
	}
	stopping.Wait()
	s.work.Wait()
	return nil
}

// spawn runs fn in a goroutine that Close waits for. It returns false after Close.
func (s *Service) spawn(fn func()) bool {
	s.spawning.Lock()
	defer s.spawning.Unlock()
	if !s.closed {
		s.work.Go(fn)
	}
	return !s.closed
}

// as returns a context for background work of a user.
func (s *Service) as(user uuid.UUID) context.Context {
	return identity.With(s.ctx, identity.Identity{User: user, Scopes: identity.Write.Closed(), Client: identity.ClientProgram, Label: "mcp", Pipe: "background"})
}

// Changed is published when the state of a server changes.
type Changed struct {
	Name  string `json:"name"`
	State string `json:"state"`
}

// ToolsChanged is published when a list shows other tools than the last.
type ToolsChanged struct {
	Name    string   `json:"name"`
	Added   []string `json:"added"`
	Changed []string `json:"changed"`
	Removed []string `json:"removed"`
}

// Progress is published when a server reports the progress of a call.
type Progress struct {
	ExecutionID uuid.UUID `json:"executionId"`
	Progress    float64   `json:"progress"`
	Total       float64   `json:"total,omitempty"`
	Message     string    `json:"message,omitempty"`
}

// LogAdded is published when a server's log has a new line.
type LogAdded struct {
	Name string `json:"name"`
	Seq  int64  `json:"seq"`
}

var errNeedsAuth = errors.New("the server asks for authentication")

func errNoServer(name string) error {
	return fault.NotFoundf("No MCP server is named %q.", visible(name, 64))
}
