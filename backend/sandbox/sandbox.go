// Package sandbox runs untrusted code: TypeScript and JavaScript tools on quickjs-ng under wazero,
// in this process, and WASM modules. A run can compute and can call its Host through one function.
// It cannot do anything else, it sees nothing of other runs, and it always ends.
//
// It is an engine: no tables, no settings, no network. backend/tools may import it; it
// imports only fault and lru.
package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"runtime"
	"sync"
	"time"

	"helix/backend/lru"
	"helix/backend/sandbox/qjs"
)

// Engine compiles and runs programs. It is safe for use by many goroutines.
type Engine struct {
	o         Options
	loaded    sync.Once // guards art, vm, cache, template, broken and unitTime
	load      func()    // fills them
	art       *artefacts
	vm        *qjs.VM
	cache     *diskCache
	template  *qjs.Template // of the world that runs tools
	broken    *Error        // why nothing can run; nil if ready
	watchdog  watchdog
	unitTime  float64 // nanoseconds per unit of fuel, where threads have no clock
	queue     *queue
	spares    *spares
	programs  *lru.Cache[[32]byte, *Program]
	modules   *modules
	children  *children // of tier t1
	compilers *compilers

	background    context.Context // for work that belongs to no run
	mu            sync.Mutex
	closed        bool
	compiling     *qjs.Template // of the world that compiles, created on demand
	compilerSpare *qjs.Instance
	runs          sync.WaitGroup // runs and compilations in progress
	done          chan struct{}  // closed by Close
}

// Open loads the engine artefacts and compiles them, or reads the compiled code from the
// cache folder; it does not create an instance yet. Without a cache this takes about a second, with
// it about fifteen milliseconds.
//
// If the artefacts are missing or unusable, the error is Unavailable and says what to do. The
// Engine is still returned, so that the application can continue: every call to it is unavailable.
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
		o: o, modules: newModules(), queue: newQueue(o.Workers, o.Queue), done: make(chan struct{}), background: context.Background(),
		programs: lru.New[[32]byte](maxPrograms, maxProgramBytes, func(p *Program) int64 { return int64(len(p.code)) }),
	}
	e.children = newChildren(e)
	e.compilers = newCompilers(e.children)
	e.spares = newSpares(max(o.Idle, 0), e.instance, reset)
	e.watchdog.after = e.spares.signal
	if o.Lazy {
		ctx = e.background // the first use may be after ctx has ended
	}
	e.load = func() { e.broken = e.loadFrom(ctx, files) }
	if o.Lazy {
		return e, nil
	}
	if e.ready(); e.broken != nil {
		return e, e.broken
	}
	return e, nil
}

// ready loads the engine, if that has not been done.
func (e *Engine) ready() { e.loaded.Do(e.load) }

func (e *Engine) loadFrom(ctx context.Context, files fs.FS) *Error {
	if e.o.modulesOnly {
		e.loadModules()
		return nil
	}
	art, err := loadArtefacts(files)
	if errors.Is(err, errMissing) {
		return failf(ClassUnavailable, "engine artefacts missing, run make engines")
	}
	if errors.Is(err, errStale) {
		return failf(ClassUnavailable, "The engine artefacts belong to another version, run make engines.")
	}
	if err != nil {
		return damaged(err)
	}
	e.art = art
	e.cache = openCache(e.o.CacheDir)
	module, err := art.read("run.wasm")
	if err != nil {
		return damaged(err)
	}
	if e.template, err = art.template(art.manifest.Run, "run.snap"); err != nil {
		return damaged(err)
	}
	if e.vm, err = e.cache.engine(ctx, module, e.o.Crosscheck); err != nil {
		return &Error{Class: ClassUnavailable, Message: "The JavaScript engine could not be started.", Err: err}
	}
	if e.unitTime = e.o.unitTime; e.unitTime > 0 {
		return nil
	}
	if err := e.calibrate(); err != nil {
		return &Error{Class: ClassUnavailable, Message: "The engine artefacts don't match. Run make engines.", Err: err}
	}
	return nil
}

func damaged(err error) *Error {
	return &Error{Class: ClassUnavailable, Message: "The engine artefacts are damaged, run make engines.", Err: err}
}

// Close refuses new runs, waits for running ones and frees everything. It may be called more than
// once.
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
	e.loaded.Do(func() {}) // wait for a load in progress, and prevent a later one
	e.watchdog.close()
	e.compilers.close()
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
	e.cache.sweep() // the process may have been too short-lived for Run
	return errors.Join(err, merr, e.cache.close())
}

// begin registers a run or compilation; the caller must call e.runs.Done when it ends.
func (e *Engine) begin() *Error {
	e.ready()
	if e.broken != nil {
		return e.broken
	}
	return e.enter()
}

// enter is begin for work that does not need the engine.
func (e *Engine) enter() *Error {
	e.ready()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return failf(ClassUnavailable, "The sandbox is shutting down.")
	}
	e.runs.Add(1)
	return nil
}

// Run prepares spare instances and limits the size of the cache folder until ctx ends. The engine
// works without it; runs then create their instances themselves.
func (e *Engine) Run(ctx context.Context) error {
	e.ready()
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
			e.compilers.trim(5 * time.Minute)
			e.cache.sweep()
		}
	}
}

func (e *Engine) fill(ctx context.Context) {
	for more := true; more && ctx.Err() == nil; {
		if e.begin() != nil {
			return
		}
		more, _ = e.spares.fill() // after an error, the next run meets the same one and reports it
		e.runs.Done()
	}
}

// EngineInfo names the JavaScript engine.
type EngineInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
}

// PoolStatus counts instances: Idle are ready, Busy are running, Queued are calls waiting for a
// worker, Discarded were not reused after a run since the start.
type PoolStatus struct {
	Idle      int   `json:"idle"`
	Busy      int   `json:"busy"`
	Queued    int   `json:"queued"`
	Discarded int64 `json:"discarded"`
}

// TierStatus reports whether a tier can be used, and why not, or what weakens it.
type TierStatus struct {
	Tier      string   `json:"tier"`
	Available bool     `json:"available"`
	Isolation string   `json:"isolation,omitempty"` // how runs in it are isolated: one of the Isolation constants
	Reasons   []string `json:"reasons"`
}

// CacheStatus describes the folder of compiled code. Reason is why it is not used, and empty if it
// is used.
type CacheStatus struct {
	Bytes   int64  `json:"bytes"`
	Modules int    `json:"modules"`
	Reason  string `json:"reason,omitempty"`
}

// Status is the state of the engine.
type Status struct {
	Engine   EngineInfo   `json:"engine"`
	Ready    bool         `json:"ready"`
	Reason   string       `json:"reason,omitempty"` // why it is not ready
	CPUMeter string       `json:"cpuMeter"`         // thread, or fuel if threads have no clock
	Snapshot string       `json:"snapshot"`         // how a run gets a new world: cow shares the pages of a prepared one until they are written, copy copies it
	Pool     PoolStatus   `json:"pool"`
	Tiers    []TierStatus `json:"tiers"`
	Cache    CacheStatus  `json:"cache"`
}

// Status returns the state of the engine. It never blocks for long.
func (e *Engine) Status() Status {
	e.ready()
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
		s.Engine = EngineInfo{m.Engine.Name, m.Engine.Version, m.Engine.SHA256}
	}
	s.Pool.Busy, s.Pool.Queued = e.queue.counts()
	s.Pool.Idle, s.Pool.Discarded = e.spares.counts()
	s.Cache = e.cache.status()
	return s
}

func (e *Engine) clock() int64 { return e.o.Now().UnixNano() }

// instance creates a guest.
func (e *Engine) instance() (*guest, error) {
	g := &guest{}
	var err error
	g.in, err = e.vm.Copy(e.background, e.template, qjs.Options{Clock: e.clock, Rand: e.o.Rand, Host: g.host})
	return g, err
}
