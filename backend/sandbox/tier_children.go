package sandbox

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"helix/backend/sandbox/worker"
)

// children starts the child processes of one engine. After a child has been used, a spare is kept
// that has loaded the same code, is locked down, and waits for its single run.
type children struct {
	e *Engine

	once    sync.Once // of probe
	command []string  // nil: children are not available
	bwrap   *worker.Bwrap
	reasons []string // for protections missing around every child

	wg      sync.WaitGroup
	mu      sync.Mutex
	starter *worker.Starter
	spares  []*spare // the most recently used last
	last    time.Time
	closed  bool
	ctx     context.Context // for starting children; it ends with Close
	cancel  context.CancelFunc
}

// wanted describes what a child must be ready for.
type wanted struct {
	key   string // equal for everything that the same child can serve
	hello worker.Hello
	code  func() []byte // of a module; nil for JavaScript
}

// wantedFor returns the description of a child that can run what. Any child for JavaScript can run
// any program, one for a module only that module.
func wantedFor(what Runnable) *wanted {
	if m, ok := what.(*Module); ok {
		return m.wanted()
	}
	return &wanted{key: worker.KindJS, hello: worker.Hello{Kind: worker.KindJS}}
}

// maxSpares is the maximum number of spare children, and startTime how long one may take until it
// is ready.
const (
	maxSpares = 3
	startTime = 30 * time.Second
)

// spare is a child that is ready, or will be once done is closed.
type spare struct {
	want *wanted
	done chan struct{}
	c    *child
	err  error
}

// child is a process before and during its run.
type child struct {
	p         *worker.Process
	want      *wanted
	isolation string
	reasons   []string
	readyCPU  time.Duration

	stopping sync.Once
	killer   atomic.Pointer[time.Timer]
}

func newChildren(e *Engine) *children {
	c := &children{e: e, command: e.o.WorkerCommand}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// probeTime is the time limit of a trial start.
const probeTime = 15 * time.Second

// probe determines, once, how children can be started here. It returns an error if they cannot.
func (c *children) probe() *Error {
	if c.command == nil {
		return failf(ClassUnavailable, "This program cannot start a separate process for a run.")
	}
	c.once.Do(func() {
		c.reasons = []string{}
		if bwrapUsual {
			c.useBwrap(worker.FindBwrap())
		}
	})
	return nil
}

// useBwrap enables the bubblewrap at path, "" for none, if it works here: a system may forbid what
// it needs.
func (c *children) useBwrap(path string) {
	if path == "" {
		c.reasons = append(c.reasons, worker.ReasonBwrapMissing)
		return
	}
	b := worker.NewBwrap(path, c.command[0], c.cacheDir())
	ctx, cancel := context.WithTimeout(c.ctx, probeTime)
	defer cancel()
	probe := b.Wrap(append(slices.Clone(c.command), worker.ProbeArgument))
	cmd := exec.CommandContext(ctx, probe[0], probe[1:]...)
	cmd.Env, cmd.Dir = []string{}, "/"
	if cmd.Run() != nil {
		c.reasons = append(c.reasons, worker.ReasonBwrapBlocked)
		return
	}
	c.bwrap = b
}

func (c *children) cacheDir() string {
	if c.e.cache == nil {
		return ""
	}
	return c.e.cache.root
}

// refusal returns why a run cannot be executed in a child, before one is started, and sets what the
// isolation would be.
func (c *children) refusal(isolation *string, reasons *[]string) *Error {
	if err := c.probe(); err != nil {
		return err
	}
	*isolation, *reasons = c.expected()
	if want := c.e.o.MinIsolation; isolationRank(*isolation) < isolationRank(want) {
		return tooWeak(*isolation, want, *reasons)
	}
	return nil
}

// expected returns the isolation of the next child, as far as it is known in advance.
func (c *children) expected() (isolation string, reasons []string) {
	abi := worker.LandlockABI()
	return isolationOf(abi > 0, c.bwrap != nil), reasonsOf(worker.LandlockReasons(abi), c.reasons)
}

// status returns the status of tier t1.
func (c *children) status() TierStatus {
	s := TierStatus{Tier: tier1, Reasons: []string{}}
	switch {
	case c.e.broken != nil:
		s.Reasons = append(s.Reasons, "engine_unavailable")
	case c.probe() != nil:
		s.Reasons = append(s.Reasons, "worker_unavailable")
	default:
		s.Isolation, s.Reasons = c.expected()
		s.Available = isolationRank(s.Isolation) >= isolationRank(c.e.o.MinIsolation)
		if !s.Available {
			s.Reasons = append(s.Reasons, "below_min_isolation")
		}
	}
	return s
}

// take returns a child that is ready for its run.
func (c *children) take(ctx context.Context, w *wanted) (*child, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if s := c.pop(w.key); s != nil {
		select {
		case <-s.done:
		case <-ctx.Done():
			c.forget(s)
			return nil, ctx.Err()
		}
		if s.err == nil && s.c.alive() {
			return s.c, nil
		}
		c.forget(s)
	}
	return c.make(ctx, w)
}

// pop removes and returns the spare with the given key, or nil if there is none.
func (c *children) pop(key string) *spare {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = time.Now()
	for i, s := range c.spares {
		if s.want.key == key {
			c.spares = slices.Delete(c.spares, i, i+1)
			return s
		}
	}
	return nil
}

func (c *child) alive() bool {
	select {
	case <-c.p.Ended():
		return false
	default:
		return true
	}
}

// forget ends a spare that will not be used.
func (c *children) forget(s *spare) {
	c.wg.Add(1)
	go func() {
		defer c.wg.Done()
		<-s.done
		if s.c != nil {
			s.c.p.Release(0)
		}
	}()
}

// refill starts a spare like the one that was used, if there is none. The least recently used spare
// makes room for it.
func (c *children) refill(w *wanted) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || slices.ContainsFunc(c.spares, func(s *spare) bool { return s.want.key == w.key }) {
		return
	}
	if len(c.spares) >= maxSpares {
		c.forget(c.spares[0])
		c.spares = slices.Delete(c.spares, 0, 1)
	}
	s := &spare{want: w, done: make(chan struct{})}
	c.spares = append(c.spares, s)
	c.wg.Add(1)
	go func() {
		defer c.wg.Done()
		defer close(s.done)
		ctx, cancel := context.WithTimeout(c.ctx, startTime)
		defer cancel()
		s.c, s.err = c.make(ctx, w)
	}()
}

// make starts a child and waits until it is ready.
func (c *children) make(ctx context.Context, w *wanted) (*child, error) {
	p, ready, err := c.launch(ctx, w, childMemory)
	if err != nil {
		return nil, err
	}
	ch := &child{
		p: p, want: w, readyCPU: ready.CPU, isolation: isolationOf(ready.Lock.Landlock > 0, c.bwrap != nil),
		reasons: reasonsOf(ready.Lock.Reasons, c.reasons, p.Reasons),
	}
	if isolationRank(ch.isolation) < isolationRank(c.e.o.MinIsolation) {
		p.Release(0)
		return nil, tooWeak(ch.isolation, c.e.o.MinIsolation, ch.reasons)
	}
	return ch, nil
}

// launch starts a process and waits until it is ready.
func (c *children) launch(ctx context.Context, w *wanted, memory int64) (*worker.Process, *worker.Ready, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, nil, failf(ClassUnavailable, "The sandbox is shutting down.")
	}
	if c.starter == nil {
		c.starter = worker.NewStarter()
	}
	starter := c.starter
	c.wg.Add(1)
	c.mu.Unlock()
	defer c.wg.Done()
	p, err := starter.Start(ctx, worker.StartOptions{Command: c.command, Bwrap: c.bwrap, MemoryBytes: memory})
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, p.Kill)
	ready, err := c.greet(p, w)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		p.Release(0)
		return nil, nil, errors.Join(err, errors.New(p.Said()))
	}
	return p, ready, nil
}

// greet tells a child what to load and waits until it has done so and is locked down. No guest code
// has run in it by then, so its report can be trusted.
func (c *children) greet(p *worker.Process, w *wanted) (*worker.Ready, error) {
	h := w.hello
	h.CacheDir, h.Crosscheck, h.UnitTime = c.cacheDir(), c.e.o.Crosscheck, c.e.unitTime
	var code []byte
	if w.code != nil {
		code = w.code()
	}
	if err := p.In.Write(worker.ToChild{Hello: &h}, code); err != nil {
		return nil, err
	}
	f, _, err := p.Out.ReadFromChild()
	if err == nil && f.Ready == nil {
		err = errProtocol
	}
	return f.Ready, err
}

// childMemory is the memory limit of a child, in bytes, where the parent sets it.
const childMemory = 1 << 30

// cancelRun tells a child to end its run, and kills it if it does not. It never blocks.
func (c *children) cancelRun(ch *child) {
	ch.stopping.Do(func() {
		ch.killer.Store(time.AfterFunc(killGrace, ch.p.Kill))
		c.wg.Add(1)
		go func() {
			defer c.wg.Done()
			_ = ch.p.In.Write(worker.ToChild{Cancel: &worker.Cancel{}}) // fails at the latest when the child ends
		}()
	})
}

// release lets a child exit within grace, in the background.
func (c *children) release(ch *child, grace time.Duration) {
	c.wg.Add(1)
	go func() {
		defer c.wg.Done()
		ch.p.Release(grace)
		if t := ch.killer.Load(); t != nil {
			t.Stop()
		}
	}()
}

// trim ends the spares if nothing has run in a child for a while.
func (c *children) trim(idle time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.last) >= idle {
		c.drop()
	}
}

// drop ends the spares; the caller must hold mu.
func (c *children) drop() {
	for _, s := range c.spares {
		c.forget(s)
	}
	c.spares = nil
}

// close ends all children and waits for them. No run may be in progress.
func (c *children) close() {
	c.mu.Lock()
	c.closed = true
	c.cancel()
	c.drop()
	starter := c.starter
	c.mu.Unlock()
	c.wg.Wait()
	if starter != nil {
		starter.Close()
	}
}
