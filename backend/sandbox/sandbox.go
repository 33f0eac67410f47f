// Package sandbox runs code nobody trusts: TypeScript and JavaScript tools on quickjs-ng
// under wazero, inside this process. A run can compute and can ask its Host through one
// function; it can do nothing else, it sees nothing of other runs, and it always ends.
//
// It is an engine: no tables, no settings, no network. backend/tools may import it; it
// imports only fault.
package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"runtime"
	"sync"
	"time"

	"helix/backend/sandbox/prelude"
	"helix/backend/sandbox/qjs"
)

// Engine compiles and runs programs. It is safe for use by many goroutines.
type Engine struct {
	o        Options
	art      *artefacts
	vm       *qjs.VM
	cache    *diskCache
	prelude  []byte
	template *qjs.Template
	broken   *Error // why nothing can run; nil when ready
	queue    *queue
	spares   *spares
	programs *lru
	modules  *modules
	children *children // of tier t1

	mu     sync.Mutex
	closed bool
	runs   sync.WaitGroup // runs and compilations in progress
	done   chan struct{}  // closed by Close
}

// Open loads the engine artefacts and compiles them, or reads the compiled code from the
// cache folder; it keeps no instance yet. Without a cache this takes a few hundred
// milliseconds, with it about twenty.
//
// When the artefacts are missing or unusable the error is Unavailable and says what to do,
// and the Engine is still returned: it answers unavailable to everything, and the
// application goes on.
func Open(ctx context.Context, o Options) (*Engine, error) {
	sub, err := fs.Sub(embedded, "artefacts")
	if err != nil {
		return nil, err
	}
	return open(ctx, o, sub)
}

func open(ctx context.Context, o Options, files fs.FS) (*Engine, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.Workers <= 0 {
		o.Workers = min(max(2*runtime.GOMAXPROCS(0), 2), 16)
	}
	if o.Queue <= 0 {
		o.Queue = 256
	}
	if o.Idle == 0 {
		o.Idle = 4
	}
	e := &Engine{
		o: o, modules: newModules(), queue: newQueue(o.Workers, o.Queue), programs: newLRU(256), done: make(chan struct{}),
	}
	e.children = newChildren(e)
	e.spares = newSpares(max(o.Idle, 0), func() (*guest, error) { return e.instance(nil) }, e.reset)
	if err := e.load(ctx, files); err != nil {
		e.broken = err
		return e, err
	}
	return e, nil
}

func (e *Engine) load(ctx context.Context, files fs.FS) *Error {
	art, err := loadArtefacts(files)
	if errors.Is(err, errMissing) {
		return failf(ClassUnavailable, "engine artefacts missing, run make engines")
	}
	if err != nil {
		return &Error{Class: ClassUnavailable, Message: "The engine artefacts are damaged, run make engines.", Err: err}
	}
	e.art = art
	e.cache = openCache(e.o.CacheDir)
	if e.vm, err = e.cache.compile(ctx, art.engine); err != nil {
		return &Error{Class: ClassUnavailable, Message: "The JavaScript engine could not be started.", Err: err}
	}
	art.engine = nil
	e.prelude = art.prelude
	if e.prelude == nil { // the prelude's source is newer than the artefacts
		e.prelude, err = e.bytecode(ctx, prelude.Source(), prelude.Name, false)
		if err != nil {
			return &Error{Class: ClassUnavailable, Message: "The engine artefacts are stale, run make engines.", Err: err}
		}
	}
	if err := e.makeTemplate(); err != nil {
		return &Error{Class: ClassUnavailable, Message: "The engine artefacts do not fit, run make engines.", Err: err}
	}
	return nil
}

// Close refuses new runs, waits for those in progress and frees everything. It may be
// repeated.
func (e *Engine) Close() error {
	e.mu.Lock()
	first := !e.closed
	e.closed = true
	e.mu.Unlock()
	if first {
		close(e.done)
	}
	e.runs.Wait()
	if !first {
		return nil
	}
	e.children.close()
	e.spares.close()
	merr := e.modules.close()
	if e.template != nil {
		e.template.Close()
	}
	var err error
	if e.vm != nil {
		err = e.vm.Close()
	}
	return errors.Join(err, merr, e.cache.close())
}

// begin registers a run or compilation; the caller calls e.runs.Done when it ends.
func (e *Engine) begin() *Error {
	if e.broken != nil {
		return e.broken
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return failf(ClassUnavailable, "The sandbox is shutting down.")
	}
	e.runs.Add(1)
	return nil
}

// Run keeps spare instances ready and the cache folder small until ctx ends. The engine
// works without it; runs then make their instances themselves.
func (e *Engine) Run(ctx context.Context) error {
	if e.broken != nil {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	e.cache.sweep()
	for {
		e.fill(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-e.done:
			<-ctx.Done()
			return nil
		case <-e.spares.wanted:
		case <-tick.C:
			e.spares.trim(5 * time.Minute)
			e.modules.trim(5 * time.Minute)
			e.children.trim(5 * time.Minute)
			e.cache.sweep()
		}
	}
}

func (e *Engine) fill(ctx context.Context) {
	for more := true; more && ctx.Err() == nil; {
		if e.begin() != nil {
			return
		}
		more, _ = e.spares.fill() // after an error the next run meets the same one and reports it
		e.runs.Done()
	}
}

// EngineInfo names the JavaScript engine.
type EngineInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
}

// PoolStatus counts instances: Idle are ready, Busy run, Queued calls wait for a worker,
// Discarded were thrown away after a run since the start.
type PoolStatus struct {
	Idle      int   `json:"idle"`
	Busy      int   `json:"busy"`
	Queued    int   `json:"queued"`
	Discarded int64 `json:"discarded"`
}

// TierStatus says whether a tier can be used, and why not, or what weakens it.
type TierStatus struct {
	Tier      string   `json:"tier"`
	Available bool     `json:"available"`
	Reasons   []string `json:"reasons"`
}

// CacheStatus describes the folder of compiled code. Reason says in words why it is not
// used, and is empty when it is.
type CacheStatus struct {
	Bytes   int64  `json:"bytes"`
	Modules int    `json:"modules"`
	Reason  string `json:"reason,omitempty"`
}

// Status is what the engine says about itself.
type Status struct {
	Engine   EngineInfo   `json:"engine"`
	Ready    bool         `json:"ready"`
	Reason   string       `json:"reason,omitempty"` // why it is not ready
	CPUMeter string       `json:"cpuMeter"`         // thread, or elapsed where threads have no clock
	Snapshot string       `json:"snapshot"`         // how each run gets a fresh world: cow shares a prepared one's pages until they are written, copy copies it
	Pool     PoolStatus   `json:"pool"`
	Tiers    []TierStatus `json:"tiers"`
	Cache    CacheStatus  `json:"cache"`
}

// Status says how the engine is. It never blocks for long.
func (e *Engine) Status() Status {
	s := Status{
		Ready: e.broken == nil, CPUMeter: cpuMeter, Snapshot: "copy",
		Tiers: []TierStatus{
			{Tier: "t0", Available: e.broken == nil, Reasons: []string{}},
			e.children.status(),
		},
	}
	if e.template != nil && e.template.Shared() {
		s.Snapshot = "cow"
	}
	if e.broken != nil {
		s.Reason = e.broken.Message
		s.Tiers[0].Reasons = append(s.Tiers[0].Reasons, "engine_unavailable")
	}
	if e.art != nil {
		m := e.art.manifest
		s.Engine = EngineInfo{m.Engine.Name, m.Engine.Version, m.Files["engine.wasm"].SHA256}
	}
	s.Pool.Busy, s.Pool.Queued = e.queue.counts()
	s.Pool.Idle, s.Pool.Discarded = e.spares.counts()
	s.Cache = e.cache.status()
	return s
}

// instance makes a guest that is ready for a program. A nil seed is a random one.
func (e *Engine) instance(seed *[8]byte) (*guest, error) {
	g := &guest{}
	o := qjs.Options{
		Clock: func() int64 { return e.o.Now().UnixNano() },
		Rand:  e.o.Rand,
		Host:  g.host,
	}
	var err error
	if o.Seed, err = e.seed(seed); err != nil {
		return nil, err
	}
	if e.template == nil {
		g.in, err = e.vm.Instantiate(context.Background(), o)
	} else {
		g.in, err = e.vm.Copy(context.Background(), e.template, o)
	}
	if err != nil {
		return nil, err
	}
	if e.template != nil {
		g.enter = e.template.Roots()[0]
		return g, nil
	}
	if err := g.prepare(e.prelude); err != nil {
		g.in.Close()
		return nil, err
	}
	return g, nil
}

// seed is the given one or a random one.
func (e *Engine) seed(given *[8]byte) (s [8]byte, err error) {
	if given != nil {
		return *given, nil
	}
	_, err = io.ReadFull(e.o.Rand, s[:])
	return s, err
}

// makeTemplate prepares the world that every guest starts as a copy of. Without one, each
// guest is prepared by itself.
func (e *Engine) makeTemplate() error {
	var g [2]*guest
	for i, seed := range [2][8]byte{{0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x12}, {0x99, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22}} {
		var err error
		if g[i], err = e.instance(&seed); err != nil {
			return err
		}
		defer g[i].in.Close()
		std := Limits{}.effective(false)
		if err := g[i].in.SetLimits(std.StackBytes, std.MemoryBytes); err != nil {
			return err
		}
		if err := g[i].in.Settle(); err != nil {
			return err
		}
	}
	t, err := qjs.NewTemplate(g[0].in, g[1].in, g[0].enter)
	e.template = t
	return err
}
