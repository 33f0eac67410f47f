// Package container runs programs in locked-down containers through the Engine API of Docker or Podman.
// A run has no network, a read-only root, no capabilities and hard limits; it always ends and leaves
// nothing behind. Without an engine every run fails as unavailable. The package has no tables; domains
// and the composition root import it.
package container

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
)

// maxRunning is how many containers run at once.
const maxRunning = 8

// reapEvery is how often Run looks for containers that were left over, and for a missing engine.
const reapEvery = 60 * time.Second

// Options configure Open.
type Options struct {
	Logger *slog.Logger // nil: slog.Default
	// Owner identifies the data folder. Only containers with this owner are ever removed.
	Owner string
	// Host is the socket of the engine as unix:///path; "": found by itself; "off": no engine is used.
	Host string
	// Getenv reads DOCKER_HOST, HOME and XDG_RUNTIME_DIR; nil: os.Getenv.
	Getenv func(string) string
	// Dir is where the init process of containers is kept, and Runtime where their sockets are. Both are
	// private to the user; "": a temporary folder.
	Dir, Runtime string
	// Workspaces contains the folders of which sessions may see parts: USER/shared and USER/tmp; "": none.
	Workspaces string
	// Transport is how the init process is reached: socket or attach; "": whatever works with the engine.
	Transport string
	// TLS has the certificates for requests that are made for a container, for tests; nil: the system's.
	TLS *tls.Config
	// Changed is called when the status has changed.
	Changed func()
}

// Engine is a connection to a container engine, which may be missing. It is safe for concurrent use.
type Engine struct {
	o        Options
	log      *slog.Logger
	owner    string
	instance string
	slots    chan struct{}

	probing sync.Mutex // one probe at a time
	mu      sync.Mutex
	client  *client // nil: no engine
	info    *Info
	reasons []Reason
	runtime string // "": the engine's default
	checked time.Time
	running map[uuid.UUID]*Running
	images  map[string]*program // by id
	volumes map[string]*volumeState
	held    map[uuid.UUID]bool // containers of this process, by the label of their run
	pool    []*prepared        // oldest first

	pooling    context.Context //nolint:containedctx // of Run, while it keeps the pool; nil: there is none
	preparing  map[string]bool // keys of containers that are being created for the pool
	background sync.WaitGroup

	files     sync.Mutex // held while the folders are changed
	temporary []string   // folders that Close removes
	init      string     // path of the init process; "": not written yet
}

// Open returns an Engine. It does not connect: the first use, Recheck or Run does. A missing engine is
// no error but a status.
func Open(o Options) *Engine {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	sum := sha256.Sum256([]byte("helix-container-owner\x00" + o.Owner))
	return &Engine{
		o: o, log: o.Logger, owner: hex.EncodeToString(sum[:16]), instance: uuid.NewString(),
		slots: make(chan struct{}, maxRunning), running: map[uuid.UUID]*Running{}, images: map[string]*program{}, volumes: map[string]*volumeState{},
		held: map[uuid.UUID]bool{}, preparing: map[string]bool{},
	}
}

// Close closes idle connections. Runs in progress end with their contexts.
func (e *Engine) Close() error {
	e.background.Wait()
	e.drain(all)
	e.files.Lock()
	for _, dir := range e.temporary {
		os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	}
	e.temporary = nil
	e.files.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.client != nil {
		e.client.close()
	}
	return nil
}

// Run removes what earlier processes left over, at once and then every minute, until ctx ends. Meanwhile a tool that
// has run finds its next container prepared.
func (e *Engine) Run(ctx context.Context) error {
	defer e.keepPool(ctx)()
	t := time.NewTicker(reapEvery)
	defer t.Stop()
	for {
		if e.present() || e.Recheck(ctx).Engine != nil {
			if ids, err := e.Reap(ctx); err != nil && ctx.Err() == nil {
				e.log.Warn("remove containers that were left over", "err", err)
			} else if len(ids) > 0 {
				e.log.Warn("removed containers that were left over", "count", len(ids))
			}
		}
		e.drain(expired)
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// engineInfo returns what is known about the engine.
func (e *Engine) engineInfo() Info {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.info == nil {
		return Info{Kind: "docker"}
	}
	return *e.info
}

func (e *Engine) present() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.client != nil
}

// Code is why a tier, or a part of it, is not available.
type Code string

// The codes on the wire.
const (
	EngineNotFound          Code = "EngineNotFound"
	EnginePermission        Code = "EnginePermission"
	EngineTooOld            Code = "EngineTooOld"
	RuntimeRefused          Code = "RuntimeRefused"
	UlimitRefused           Code = "UlimitRefused"
	SeccompMissing          Code = "SeccompMissing"
	SwapNotLimited          Code = "SwapNotLimited"
	PidsNotLimited          Code = "PidsNotLimited"
	QuotaGuardOnly          Code = "QuotaGuardOnly"
	EgressUnavailable       Code = "EgressUnavailable"
	InitMissing             Code = "InitMissing"
	ImageMissing            Code = "ImageMissing"
	SidecarConnectionFailed Code = "SidecarConnectionFailed"
	NoKVM                   Code = "NoKvm"
	NoFirecracker           Code = "NoFirecracker"
	MicroVMSmokeOnly        Code = "MicroVmSmokeOnly"
)

// Reason is one limitation, with what to do about it.
type Reason struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

// Refusal is the detail of an Unavailable error.
type Refusal struct {
	Code Code   `json:"code"`
	Hint string `json:"hint,omitempty"`
}

func unavailable(r Reason) *fault.Error {
	message := r.Message
	if r.Hint != "" {
		message += " " + r.Hint
	}
	return fault.Unavailablef("%s", message).WithDetails(Refusal{r.Code, r.Hint})
}

// Info describes the engine.
type Info struct {
	Kind          string `json:"kind"` // docker or podman
	Version       string `json:"version"`
	APIVersion    string `json:"apiVersion"`
	Endpoint      string `json:"endpoint"`
	Rootless      bool   `json:"rootless"`
	Runtime       string `json:"runtime"`
	Cgroup        string `json:"cgroup"`
	StorageDriver string `json:"storageDriver"`

	hardQuota bool // its file system limits volumes
}

// Tier is one level of isolation.
type Tier struct {
	Tier      string   `json:"tier"` // process, container or microvm
	Available bool     `json:"available"`
	Reasons   []Reason `json:"reasons"`
}

// Running is a run in progress.
type Running struct {
	RunID       uuid.UUID `json:"runId"`
	ContainerID string    `json:"containerId,omitempty"` // "": it is being created
	Name        string    `json:"name"`                  // of the tool, or what else runs
	Session     bool      `json:"session,omitempty"`     // a shell session
	Image       string    `json:"image"`
	Phase       string    `json:"phase"`
	StartedAt   time.Time `json:"startedAt"`
	Deadline    time.Time `json:"deadline,omitzero"`

	kill context.CancelCauseFunc
}

// Status is what is available on this computer.
type Status struct {
	Engine    *Info     `json:"engine,omitempty"` // absent: none was found
	Tiers     []Tier    `json:"tiers"`
	Egress    string    `json:"egress"` // how containers reach granted hosts: socket, attach or none
	Quota     string    `json:"quota"`  // how stored data is limited: hard by the file system, or guard by measuring
	Pool      int       `json:"pool"`   // containers that wait for a run
	Running   []Running `json:"running"`
	CheckedAt time.Time `json:"checkedAt,omitzero"`
}

// Status returns the result of the last check.
func (e *Engine) Status() Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := Status{Engine: e.info, Egress: "none", Quota: "guard", Pool: len(e.pool), Running: []Running{}, CheckedAt: e.checked}
	tier := Tier{Tier: "container", Available: e.client != nil, Reasons: slices.Clone(e.reasons)}
	if tier.Available {
		s.Egress = e.transport(e.client)
		if e.info != nil && e.info.hardQuota {
			s.Quota = "hard"
		}
	}
	if tier.Reasons == nil {
		tier.Reasons = []Reason{}
	}
	s.Tiers = []Tier{{Tier: "process", Available: true, Reasons: []Reason{}}, tier, microVM(kvmDevice, exec.LookPath)}
	for _, r := range e.running {
		s.Running = append(s.Running, *r)
	}
	slices.SortFunc(s.Running, func(a, b Running) int { return a.StartedAt.Compare(b.StartedAt) })
	return s
}

// connected returns the client of the engine. It looks for the engine if there was none.
func (e *Engine) connected(ctx context.Context) (*client, string, error) {
	get := func() (*client, string, []Reason) {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.client, e.runtime, e.reasons
	}
	c, runtime, _ := get()
	if c == nil {
		e.Recheck(ctx)
		var reasons []Reason
		if c, runtime, reasons = get(); c == nil {
			if err := ctx.Err(); err != nil {
				return nil, "", fault.As(err)
			}
			return nil, "", unavailable(reasons[0])
		}
	}
	return c, runtime, nil
}

// lost records that the engine no longer answers, so that the next use looks for it again.
func (e *Engine) lost(c *client, err error) error {
	var api *apiError
	var known *fault.Error
	if err == nil || errors.As(err, &api) || errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	e.mu.Lock()
	if e.client == c {
		e.client.close()
		e.client, e.info = nil, nil
		e.reasons = []Reason{{EngineNotFound, "The container engine stopped answering.", "Start it again."}}
	}
	e.mu.Unlock()
	e.o.Changed()
	return fault.Unavailablef("The container engine was lost. Start it again.").WithDetails(Refusal{EngineNotFound, "Start it again."}).WithCause(err)
}
