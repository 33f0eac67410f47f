package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"helix/backend/lru"
	"helix/backend/sandbox/linear"
	"helix/backend/sandbox/meter"
)

// maxPrivate is the size in bytes of the private pages that an idle memory may keep: those that
// nearly every run writes.
const maxPrivate = 1 << 20

// Limits on the modules kept in memory: by number and by total bytes of WASM.
const (
	maxModules     = 32
	maxModuleBytes = 128 << 20
)

// modules is the part of an engine that runs modules. Nothing is allocated before the first one.
type modules struct {
	compiling chan struct{}
	kept      *lru.Cache[[32]byte, *Module]

	mu     sync.Mutex
	rt     wazero.Runtime
	broken error
	codes  map[*moduleCode]struct{} // not yet freed
	closed bool
}

func newModules() *modules {
	return &modules{
		compiling: make(chan struct{}, 1), codes: map[*moduleCode]struct{}{},
		kept: lru.New[[32]byte](maxModules, maxModuleBytes, func(m *Module) int64 { return m.info.Size }),
	}
}

// open creates the runtime for modules.
func (s *modules) open(e *Engine) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rt != nil || s.broken != nil {
		return s.broken
	}
	ctx := context.Background()
	// No memory limit here: the allocator refuses growth, and so knows that it was refused.
	cfg := wazero.NewRuntimeConfigCompiler().
		WithCoreFeatures(meter.Features).
		WithDebugInfoEnabled(false).
		WithCloseOnContextDone(e.o.Crosscheck)
	if e.cache != nil && e.cache.c != nil {
		cfg = cfg.WithCompilationCache(e.cache.c)
	}
	rt := wazero.NewRuntimeWithConfig(ctx, cfg)
	if err := linkImports(ctx, rt); err != nil {
		s.broken = errors.Join(err, rt.Close(ctx))
		return s.broken
	}
	s.rt = rt
	return nil
}

// close frees everything; no run may be active.
func (s *modules) close() error {
	s.mu.Lock()
	codes := s.codes
	s.codes, s.closed = nil, true
	rt := s.rt
	s.rt = nil
	s.mu.Unlock()
	s.kept.Clear()
	for c := range codes {
		c.close()
	}
	if rt == nil {
		return nil
	}
	return rt.Close(context.Background())
}

// forget frees the code of a module that is no longer referenced.
func (s *modules) forget(c *moduleCode) {
	s.mu.Lock()
	_, alive := s.codes[c]
	delete(s.codes, c)
	s.mu.Unlock()
	if alive {
		c.close()
	}
}

// trim closes instances that have not been used for a while.
func (s *modules) trim(age time.Duration) {
	s.mu.Lock()
	codes := make([]*moduleCode, 0, len(s.codes))
	for c := range s.codes {
		codes = append(codes, c)
	}
	s.mu.Unlock()
	for _, c := range codes {
		c.trim(time.Now().Add(-age))
	}
}

// link compiles a prepared module to machine code.
func (s *modules) link(ctx context.Context, e *Engine, p *preparedModule) (c *moduleCode, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("the compiler gave up: %v", x)
		}
	}()
	if err := s.open(e); err != nil {
		return nil, err
	}
	compiled, err := s.native(ctx, e, p.wasm)
	if err != nil {
		return nil, err
	}
	pages := max(p.Info.Memory, 1) // the meter adds a page if there is no memory
	c = &moduleCode{
		rt: s.rt, compiled: compiled, calls: p.Calls, globals: p.Globals, restorable: p.Restorable,
		image: linear.NewImage(int(pages)<<16, p.data, maxPrivate), max: uint64(max(p.MaxPages, pages)) << 16, keep: max(e.o.Idle, 0),
		// wazero's own random source is never read, and creating it takes longer than the rest.
		config: wazero.NewModuleConfig().WithName("").WithStartFunctions().WithRandSource(e.o.Rand),
	}
	s.mu.Lock()
	s.codes[c] = struct{}{}
	s.mu.Unlock()
	return c, nil
}

// moduleCode is the machine code of a module and its idle instances.
type moduleCode struct {
	rt         wazero.Runtime
	compiled   wazero.CompiledModule
	config     wazero.ModuleConfig
	calls      []string
	globals    []string
	restorable bool
	image      *linear.Image
	max        uint64 // bytes that the memory may grow to
	keep       int    // maximum number of idle instances and of memories

	mu       sync.Mutex
	idle     []*moduleInstance // the most recently used last
	memories []*linear.Memory  // of closed instances
	closed   bool
}

// moduleInstance is an instance of a module, used by one run at a time.
type moduleInstance struct {
	mod     api.Module
	mem     *linear.Memory
	gauge   *meter.Gauge
	globals []savedGlobal
	calls   []api.Function // nil: not looked up yet
	used    time.Time
}

type savedGlobal struct {
	g     api.MutableGlobal
	value uint64
}

// take returns an instance in its initial state.
func (c *moduleCode) take() (*moduleInstance, error) {
	c.mu.Lock()
	if n := len(c.idle); n > 0 {
		in := c.idle[n-1]
		c.idle[n-1] = nil
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		return in, nil
	}
	var mem *linear.Memory
	if n := len(c.memories); n > 0 {
		mem = c.memories[n-1]
		c.memories = c.memories[:n-1]
	}
	c.mu.Unlock()
	if mem == nil {
		var err error
		if mem, err = linear.New(c.image, c.max); err != nil {
			return nil, err
		}
	}
	in, err := c.instantiate(mem)
	if err != nil {
		mem.Release()
		return nil, err
	}
	return in, nil
}

func (c *moduleCode) instantiate(mem *linear.Memory) (*moduleInstance, error) {
	mem.Limit = c.max
	ctx := experimental.WithMemoryAllocator(context.Background(), experimental.MemoryAllocatorFunc(
		func(_, _ uint64) experimental.LinearMemory { return mem }))
	mod, err := c.rt.InstantiateModule(ctx, c.compiled, c.config)
	if err != nil {
		return nil, err
	}
	in := &moduleInstance{mod: mod, mem: mem}
	if in.gauge, err = meter.NewGauge(mod); err != nil {
		return nil, errors.Join(err, mod.Close(ctx))
	}
	for _, name := range c.globals {
		g := mod.ExportedGlobal(name).(api.MutableGlobal) // Prepare made it mutable
		in.globals = append(in.globals, savedGlobal{g, g.Get()})
	}
	return in, nil
}

// shortRun is the number of units up to which a run counts as short. Each word that a guest puts on
// its native stack takes an instruction, so after a short run the stack is still small.
const shortRun = 200_000

// functions returns the functions to call, in order.
func (in *moduleInstance) functions(names []string) []api.Function {
	if in.calls == nil {
		for _, name := range names {
			in.calls = append(in.calls, in.mod.ExportedFunction(name))
		}
	}
	return in.calls
}

// release takes back an instance after its run. If the run ended normally and the instance can be
// restored to its initial state, it is kept for the next run; otherwise only the address range is
// kept.
func (c *moduleCode) release(in *moduleInstance, inOrder bool) {
	if inOrder && c.restorable && in.restore(c.image.Size()) {
		c.mu.Lock()
		if !c.closed && len(c.idle) < c.keep {
			in.used = time.Now()
			c.idle = append(c.idle, in)
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
	}
	_ = in.mod.Close(context.Background()) // has nothing to close that could fail
	if in.mem.Restore() == nil {
		c.mu.Lock()
		if !c.closed && len(c.memories) < c.keep {
			c.memories = append(c.memories, in.mem)
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
	}
	in.mem.Release()
}

// restore restores the instance to its initial state and reports whether that worked.
func (in *moduleInstance) restore(size int) bool {
	if in.mod.IsClosed() {
		return false
	}
	mem := in.mod.Memory()
	if int(mem.Size()) != size {
		// wazero requests a memory of a new size and uses what it gets: the initial size.
		in.mem.Shrink = true
		mem.Grow(1)
		in.mem.Shrink = false
		if int(mem.Size()) != size {
			return false
		}
	}
	for _, g := range in.globals {
		g.g.Set(g.value)
	}
	if in.gauge.Used() > shortRun {
		in.calls = nil // each has a native stack, which may have grown large
	}
	return in.mem.Restore() == nil
}

func (c *moduleCode) trim(before time.Time) {
	c.mu.Lock()
	var old []*moduleInstance
	for len(c.idle) > 0 && c.idle[0].used.Before(before) {
		old, c.idle = append(old, c.idle[0]), c.idle[1:]
	}
	mems := c.memories
	if len(old) > 0 || len(c.idle) == 0 {
		c.memories = nil
	} else {
		mems = nil
	}
	c.mu.Unlock()
	for _, in := range old {
		_ = in.mod.Close(context.Background())
		in.mem.Release()
	}
	for _, m := range mems {
		m.Release()
	}
}

func (c *moduleCode) close() {
	c.mu.Lock()
	idle, memories := c.idle, c.memories
	c.idle, c.memories, c.closed = nil, nil, true
	c.mu.Unlock()
	ctx := context.Background()
	for _, in := range idle {
		_ = in.mod.Close(ctx)
		in.mem.Release()
	}
	for _, m := range memories {
		m.Release()
	}
	c.image.Close()
	_ = c.compiled.Close(ctx)
}
