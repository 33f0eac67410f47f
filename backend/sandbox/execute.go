package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"helix/backend/sandbox/qjs"
)

// Execute runs a program and waits for its end. The error is a *Error; Result.Logs and
// Result.Usage are filled in either case. Time spent waiting for a worker is not part of
// the run's limits. A run started from another run's host call does not wait for a worker,
// since its caller already has one.
func (e *Engine) Execute(ctx context.Context, r Runnable, c Call) (Result, error) {
	res := Result{Logs: []LogLine{}, Tier: "t0"}
	p, ok := r.(*Program)
	if !ok || p == nil {
		return res, failf(ClassUnavailable, "WASM modules cannot run in this version of Helix.")
	}
	if err := e.begin(); err != nil {
		return res, err
	}
	defer e.runs.Done()
	limits := c.Limits.effective()
	if err := checkInput(&c, limits); err != nil {
		return res, err
	}
	if _, inner := ctx.Value(runKey{}).(*run); !inner {
		if err := e.queue.acquire(ctx, c.Meta.User); err != nil {
			return res, err
		}
		defer e.queue.release()
	}
	if ctx.Err() != nil {
		return res, contextError(ctx)
	}
	g, err := e.guest(c.Seed)
	if err != nil {
		return res, &Error{Class: ClassTrap, Message: "The sandbox could not make an instance.", Err: err}
	}
	run := newRun(ctx, e, g, p, c, limits)
	out := run.do()
	e.spares.giveBack(g, run.inOrder)
	res.Logs, res.Usage, res.Output = run.logs.lines, run.usage, out.output
	if out.err != nil {
		out.err.Stack = p.positions(out.err.Stack)
		return res, out.err
	}
	return res, nil
}

func checkInput(c *Call, l Limits) *Error {
	if len(c.Input) == 0 {
		c.Input = json.RawMessage("{}")
	}
	if int64(len(c.Input)) > l.InputBytes {
		return &Error{
			Class: ClassInput, Message: fmt.Sprintf("The input is larger than %s.", size(l.InputBytes)),
			Details: LimitDetail{"inputBytes", l.InputBytes, int64(len(c.Input))},
		}
	}
	if !json.Valid(c.Input) {
		return failf(ClassInput, "The input is not valid JSON.")
	}
	return nil
}

// outcome is how a run ended; err is nil when it ended well.
type outcome struct {
	output json.RawMessage
	err    *Error
}

// run is one execution. Its goroutine, locked to an OS thread, is the only one that
// touches the guest.
type run struct {
	e      *Engine
	g      *guest
	p      *Program
	c      Call
	limits Limits
	start  time.Time
	cpu    *cpuClock

	caller context.Context
	ctx    context.Context // of host calls
	cancel context.CancelFunc
	code   context.Context // of the guest's machine code
	kill   context.CancelFunc
	ended  atomic.Pointer[outcome]
	usage  Usage

	own     bool        // the guest itself ended the run
	grace   *time.Timer // then ends guest code that goes on all the same
	crashed bool
	inOrder bool // nothing was stopped in the middle: the guest can be used again

	logs   logBook
	calls  calls
	timers timers

	extraCPU   atomic.Int64 // of inner runs
	extraCalls atomic.Int64
}

func newRun(ctx context.Context, e *Engine, g *guest, p *Program, c Call, l Limits) *run {
	r := &run{e: e, g: g, p: p, c: c, limits: l, start: time.Now(), caller: ctx}
	// The caller's cancellation goes through end, so that it is the outcome and not a trap.
	r.code, r.kill = context.WithCancel(context.WithoutCancel(ctx))
	r.ctx, r.cancel = context.WithCancel(context.WithValue(r.code, runKey{}, r))
	r.logs = newLogBook(l.LogBytes, e.o.Now, c.Log)
	r.calls.init()
	g.run = r
	return r
}

// end decides the outcome if nothing has before, and stops the guest wherever it is.
func (r *run) end(o outcome) {
	if r.ended.CompareAndSwap(nil, &o) {
		r.g.in.Stop()
		r.kill()
	}
}

func (r *run) fail(err *Error) { r.end(outcome{err: err}) }

// endGrace is how long a guest may go on that has reported its own end.
const endGrace = 50 * time.Millisecond

// settle is end for what the guest itself reports, on its goroutine: it is about to return,
// so its code is stopped only when it does not, and the instance stays whole.
func (r *run) settle(o outcome) {
	if !r.ended.CompareAndSwap(nil, &o) {
		return
	}
	r.own = true
	r.grace = time.AfterFunc(endGrace, r.kill)
	r.g.in.Stop()
	r.cancel()
}

func (r *run) settleError(err *Error) { r.settle(outcome{err: err}) }

func (r *run) do() (out outcome) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r.cpu = newCPUClock()
	defer r.cpu.close()
	stopCaller := context.AfterFunc(r.caller, func() { r.fail(contextError(r.caller)) })
	stopWatch := r.watch()
	func() {
		defer func() {
			if x := recover(); x != nil {
				r.crashed = true
				r.fail(&Error{Class: ClassTrap, Message: "The sandbox met an internal error. The run was ended.", Err: fmt.Errorf("%v\n%s", x, debug.Stack())})
			}
		}()
		r.drive()
	}()
	stopWatch()
	r.inOrder = r.own && !r.crashed && r.grace.Stop() && r.g.in.Intact(r.e.template)
	r.cancel()
	r.calls.wait()
	stopCaller()
	r.kill()
	r.usage = Usage{
		Wall:       time.Since(r.start),
		CPU:        r.cpu.used() + time.Duration(r.extraCPU.Load()),
		PeakMemory: r.g.in.MemoryBytes(),
		HostCalls:  r.hostCalls(),
	}
	out = *r.ended.Load()
	r.usage.OutputBytes = int64(len(out.output))
	return out
}

// drive runs the program until something has decided the outcome.
func (r *run) drive() {
	r.cpu.enter()
	err := r.begin()
	for err == nil && r.ended.Load() == nil {
		if err = r.jobs(); err != nil || r.ended.Load() != nil {
			break
		}
		r.cpu.leave()
		ev, ok := r.wait()
		r.cpu.enter()
		if !ok {
			break
		}
		err = ev(r)
	}
	r.cpu.leave()
	if err != nil {
		r.fail(r.classify(err))
	}
	if r.ended.Load() == nil {
		r.fail(failf(ClassThrown, "the tool never finished: it waits for something that will not happen"))
	}
}

func (r *run) begin() error {
	in := r.g.in
	in.With(r.code)
	if err := in.SetLimits(r.limits.StackBytes, r.limits.MemoryBytes); err != nil {
		return err
	}
	m := r.c.Meta
	text := make([]byte, 0, len(r.c.Input)+128)
	text = append(append(append(text, '['), r.c.Input...), ',')
	text = append(text, jsonObject([]string{m.Name, m.Version, m.Author})[1:]...)
	setUp, err := in.NewString(text)
	if err != nil {
		return err
	}
	if err := r.g.call(enterSetUp, setUp); err != nil {
		return err
	}
	if err := in.Free(setUp); err != nil {
		return err
	}
	tool, err := in.EvalBytecode(r.p.code)
	if err != nil {
		return err
	}
	return r.g.call(enterStart, tool)
}

// jobs runs promise jobs until none is left.
func (r *run) jobs() error {
	for r.ended.Load() == nil {
		more, err := r.g.in.RunJob()
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// wait blocks until a host call has ended or a timer is due. ok is false when the run has
// ended or nothing is outstanding.
func (r *run) wait() (ev func(*run) error, ok bool) {
	next, timer := r.timers.next()
	if r.calls.outstanding() == 0 && !timer {
		return nil, false
	}
	var due <-chan time.Time
	if timer {
		t := time.NewTimer(time.Until(next))
		defer t.Stop()
		due = t.C
	}
	select {
	case <-r.ctx.Done():
		return nil, false
	case a := <-r.calls.ended:
		return func(r *run) error { return r.deliver(a) }, true
	case <-due:
		return func(r *run) error {
			id, err := r.g.in.NewNumber(float64(r.timers.pop()))
			if err != nil {
				return err
			}
			return r.g.call(enterFire, id)
		}, true
	}
}

// watch ends the run at its limits. The returned function stops watching and waits for a
// check in progress.
func (r *run) watch() (stop func()) {
	var mu sync.Mutex
	over := false
	wall := time.AfterFunc(r.limits.Wall, func() {
		r.fail(r.overLimit(ClassTimeout, "wallMs", r.limits.Wall, r.limits.Wall))
	})
	var cpu *time.Timer
	check := func() {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		used := r.cpu.used() + time.Duration(r.extraCPU.Load())
		if used >= r.limits.CPU {
			r.fail(r.overLimit(ClassCPU, "cpuMs", r.limits.CPU, used))
			return
		}
		// One thread cannot use what is left sooner than that.
		cpu.Reset(max(r.limits.CPU-used, time.Millisecond))
	}
	mu.Lock()
	cpu = time.AfterFunc(r.limits.CPU, check)
	mu.Unlock()
	return func() {
		wall.Stop()
		mu.Lock()
		over = true
		cpu.Stop()
		mu.Unlock()
	}
}

func (r *run) overLimit(c Class, name string, limit, value time.Duration) *Error {
	what := map[Class]string{ClassTimeout: "ran", ClassCPU: "computed"}[c]
	return &Error{
		Class: c, Message: fmt.Sprintf("The tool %s for longer than its limit of %s.", what, limit),
		Details: LimitDetail{name, limit.Milliseconds(), value.Milliseconds()},
	}
}

// classify turns an error of the engine into an outcome.
func (r *run) classify(err error) *Error {
	var x *qjs.Exception
	if errors.As(err, &x) {
		return r.exception(x.Name, x.Message, x.Stack)
	}
	if errors.Is(err, qjs.ErrMemory) || r.g.in.MemoryRefused() {
		return r.outOfMemory("")
	}
	return &Error{Class: ClassTrap, Message: "The tool crashed its engine and was ended.", Err: err}
}

// exception is an uncaught exception of the guest.
func (r *run) exception(name, message, stack string) *Error {
	if name == "InternalError" && message == "out of memory" || name == "" && message == "null" && r.g.in.MemoryRefused() {
		return r.outOfMemory(stack)
	}
	text := message
	switch {
	case name != "" && message != "":
		text = name + ": " + message
	case name != "":
		text = name
	}
	return &Error{Class: ClassThrown, Message: text, Stack: stack, Details: ThrownDetail{name}}
}

func (r *run) outOfMemory(stack string) *Error {
	return &Error{
		Class: ClassMemory, Stack: stack,
		Message: fmt.Sprintf("The tool used more memory than its limit of %s.", size(r.limits.MemoryBytes)),
		Details: LimitDetail{"memoryBytes", r.limits.MemoryBytes, r.g.in.MemoryBytes()},
	}
}

// remaining is what an inner run may use. Safe from any goroutine.
func (r *run) remaining() Limits {
	l := r.limits
	l.Wall = max(l.Wall-time.Since(r.start), time.Nanosecond)
	l.CPU = max(l.CPU-r.cpu.used()-time.Duration(r.extraCPU.Load()), time.Nanosecond)
	l.HostCalls = max(l.HostCalls-r.hostCalls(), 0)
	return l
}

func (r *run) charge(u Usage) {
	r.extraCPU.Add(int64(u.CPU))
	r.extraCalls.Add(int64(u.HostCalls))
}

func (r *run) hostCalls() int { return int(r.calls.started.Load() + r.extraCalls.Load()) }

// contextError is how a caller's ended context ends a run.
func contextError(ctx context.Context) *Error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &Error{Class: ClassTimeout, Message: "The caller's time for the run was over.", Err: ctx.Err()}
	}
	return &Error{Class: ClassCanceled, Message: "The run was canceled.", Err: ctx.Err()}
}

// size writes a number of bytes for people.
func size(n int64) string {
	switch {
	case n >= mebibyte && n%mebibyte == 0:
		return fmt.Sprintf("%d MiB", n/mebibyte)
	case n >= kibibyte && n%kibibyte == 0:
		return fmt.Sprintf("%d KiB", n/kibibyte)
	}
	return fmt.Sprintf("%d bytes", n)
}

// jsonObject is v as JSON; v is one of this package's types, which always marshal.
func jsonObject(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
