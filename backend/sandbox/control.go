package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"helix/backend/fault"
)

// outcome is how a run ended; err is nil when it ended well.
type outcome struct {
	output json.RawMessage
	err    *Error
}

// control is what every run has, whatever its kind: the limits and their watch, the one
// outcome, the host calls' count, logs and usage. A kind of run embeds it by pointer, sets
// the hooks before do, and does the rest inside do's body.
type control struct {
	e      *Engine
	c      Call
	limits Limits
	start  time.Time
	caller context.Context
	ctx    context.Context // of host calls; it ends with the run
	logs   logBuffer
	usage  Usage // filled when do returns

	// Set by the kind of run before do; each may be nil.
	halt func()        // stops guest code wherever it is; from any goroutine, repeatable
	fuel func() uint64 // units used since the start; from any goroutine
	peak func() int64  // bytes of linear memory

	cpu     *cpuClock // of the run's thread while do runs
	inside  atomic.Bool
	ended   atomic.Pointer[outcome]
	own     bool         // the guest itself ended the run
	grace   atomic.Int64 // when, in Unix nanoseconds, guest code is halted that goes on all the same; 0: not
	stopped atomic.Bool  // it was halted
	crashed bool         // the host side of the run panicked
	context runContext

	// Of the watchdog.
	watching  sync.Mutex // held while it looks at the run
	unwatched bool
	forget    func() bool // undoes that the caller's end is heard at once; nil: it is not
	cpuNext   time.Time   // when to look at the CPU clock again
	place     int

	started atomic.Int64 // host calls
	fetches int          // of them; only the run's goroutine uses it

	extraCPU, extraCalls atomic.Int64 // of inner runs
	extraFuel            atomic.Uint64
}

func newControl(ctx context.Context, e *Engine, c Call, l Limits) *control {
	r := &control{e: e, c: c, limits: l, start: time.Now(), caller: ctx}
	// The caller's cancellation goes through end, so that it is the outcome.
	r.context.run = r
	r.ctx = &r.context
	r.logs = newLogBuffer(l.LogBytes, e.o.Now, c.Log)
	return r
}

// end decides the outcome if nothing has before, and stops the guest wherever it is. Only
// the run's goroutine calls it, and the watchdog, which holds watching: an end that comes
// too late must not stop the next run on the same instance.
func (r *control) end(o outcome) {
	if r.ended.CompareAndSwap(nil, &o) {
		r.stopGuest()
		r.cancel()
	}
}

func (r *control) stopGuest() {
	r.stopped.Store(true)
	if r.halt != nil {
		r.halt()
	}
}

func (r *control) fail(err *Error) { r.end(outcome{err: err}) }

// over reports whether the outcome is decided.
func (r *control) over() bool { return r.ended.Load() != nil }

// cancel ends the context of host calls.
func (r *control) cancel() { r.context.cancel() }

// endGrace is how long a guest may go on that has reported its own end.
const endGrace = 50 * time.Millisecond

// settle is end for what the guest itself reports, on its goroutine: it is about to return,
// so its code is stopped only when it does not.
func (r *control) settle(o outcome) {
	if !r.ended.CompareAndSwap(nil, &o) {
		return
	}
	r.own = true
	r.grace.Store(time.Now().Add(endGrace).UnixNano())
	r.cancel()
}

func (r *control) settleError(err *Error) { r.settle(outcome{err: err}) }

// do runs body on a locked OS thread under the limits and gives the outcome. body drives
// the guest until the outcome is decided; one that returns without a decision ends the run
// as a guest that never finished. wait, which may be nil, runs afterwards and waits for
// what the run has started.
func (r *control) do(body, wait func()) outcome {
	r.cpu = newCPUClock(r)
	r.e.watchdog.add(r)
	r.resume()
	r.guarded(body)
	if !r.over() {
		r.fail(failf(ClassThrown, "the tool never finished: it waits for something that never happens"))
	}
	r.e.watchdog.remove(r)
	r.pause()
	r.cancel()
	if wait != nil {
		wait()
	}
	r.account()
	return *r.ended.Load()
}

// pause is for a body that waits for something outside the guest: the thread is free for
// others meanwhile, and its time does not count. resume goes on, maybe on another thread.
func (r *control) pause() {
	r.inside.Store(false)
	r.cpu.leave()
	runtime.UnlockOSThread()
}

func (r *control) resume() {
	runtime.LockOSThread()
	r.cpu.enter()
	r.inside.Store(true)
}

// cpuUsed is the run's processor time with that of inner runs. Any goroutine.
func (r *control) cpuUsed() time.Duration {
	used := time.Duration(r.extraCPU.Load())
	if r.cpu != nil {
		used += r.cpu.used()
	}
	return used
}

// fuelUsed is the run's fuel with that of inner runs. Any goroutine.
func (r *control) fuelUsed() uint64 {
	used := r.extraFuel.Load()
	if r.fuel != nil {
		used += r.fuel()
	}
	return used
}

// guarded runs f; a panic of the host side ends the run, and only it.
func (r *control) guarded(f func()) {
	defer func() {
		if x := recover(); x != nil {
			r.crashed = true
			r.fail(&Error{Class: ClassTrap, Message: "The sandbox met an internal error. The run was ended.", Err: fmt.Errorf("%v\n%s", x, debug.Stack())})
		}
	}()
	f()
}

// account fills usage.
func (r *control) account() {
	r.usage = Usage{
		Wall: time.Since(r.start), CPU: r.cpuUsed(), Fuel: r.fuelUsed(), HostCalls: r.hostCalls(),
		OutputBytes: int64(len(r.ended.Load().output)),
	}
	if r.peak != nil {
		r.usage.PeakMemory = r.peak()
	}
}

// take counts one host call, or says why the run may not make another. Only the run's
// goroutine calls it.
func (r *control) take(op string) (id int64, refused string) {
	if r.hostCalls() >= r.limits.HostCalls {
		return 0, fmt.Sprintf("this run has made its %d host calls", max(r.limits.HostCalls, 0))
	}
	if op == OpFetch {
		if r.fetches >= maxFetches {
			return 0, fmt.Sprintf("this run has made its %d fetches", maxFetches)
		}
		r.fetches++
	}
	return r.started.Add(1), ""
}

// ask asks the host and waits for its answer. Any goroutine.
func (r *control) ask(op string, req json.RawMessage) (resp json.RawMessage, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fault.Internalf(fmt.Errorf("host operation %s: panic: %v", op, x), "Helix has an internal error.")
		}
	}()
	if r.c.Host == nil {
		return nil, fault.Deniedf("This run isn't allowed to use %s.", op).WithDetails(Refusal{Reason: ReasonCapability})
	}
	if err := r.ctx.Err(); err != nil {
		return nil, err
	}
	return r.c.Host.Call(r.ctx, op, req)
}

func (r *control) overLimit(c Class, name string, limit, value time.Duration) *Error {
	what := map[Class]string{ClassTimeout: "ran", ClassCPU: "computed"}[c]
	return &Error{
		Class: c, Message: fmt.Sprintf("The tool %s for longer than its limit of %s.", what, limit),
		Details: LimitDetail{name, limit.Milliseconds(), value.Milliseconds()},
	}
}

// outOfFuel is the outcome of a guest that has used its budget.
func (r *control) outOfFuel(used uint64) *Error {
	return &Error{
		Class: ClassCPU, Message: fmt.Sprintf("The tool computed for longer than its limit of %d units.", r.limits.Fuel),
		Details: LimitDetail{"fuel", int64(min(r.limits.Fuel, math.MaxInt64)), int64(min(used, math.MaxInt64))},
	}
}

// outOfMemory is the outcome of a guest that wanted more than it may have.
func (r *control) outOfMemory(stack string) *Error {
	var have int64
	if r.peak != nil {
		have = r.peak()
	}
	return &Error{
		Class: ClassMemory, Stack: stack,
		Message: fmt.Sprintf("The tool used more memory than its limit of %s.", size(r.limits.MemoryBytes)),
		Details: LimitDetail{"memoryBytes", r.limits.MemoryBytes, have},
	}
}

// remaining is what an inner run may use. Safe from any goroutine.
func (r *control) remaining() Limits {
	l := r.limits
	l.Wall = max(l.Wall-time.Since(r.start), time.Nanosecond)
	l.CPU = max(l.CPU-r.cpuUsed(), time.Nanosecond)
	used := r.fuelUsed()
	l.Fuel = max(l.Fuel, used+1) - used
	if l.HostCalls -= r.hostCalls(); l.HostCalls <= 0 {
		l.HostCalls = NoHostCalls
	}
	return l
}

func (r *control) charge(u Usage) {
	r.extraCPU.Add(int64(u.CPU))
	r.extraCalls.Add(int64(u.HostCalls))
	r.extraFuel.Add(u.Fuel)
}

func (r *control) hostCalls() int { return int(r.started.Load() + r.extraCalls.Load()) }

// runContext is the context of a run's host calls. It has the values of the caller's, knows
// its run, and ends with it. What context needs for that is made when somebody asks.
type runContext struct {
	run   *control
	mu    sync.Mutex
	inner context.Context
	stop  context.CancelFunc
	over  bool
}

func (c *runContext) real() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inner == nil {
		c.inner, c.stop = context.WithCancel(context.WithoutCancel(c.run.caller))
		if c.over {
			c.stop()
		}
	}
	return c.inner
}

func (c *runContext) cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.stop != nil {
		c.stop()
	}
}

// Deadline, Done, Err and Value implement context.Context.
func (c *runContext) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done is closed when the run has ended.
func (c *runContext) Done() <-chan struct{} { return c.real().Done() }

// Err is canceled when the run has ended.
func (c *runContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return context.Canceled
	}
	return nil
}

// Value gives the run, or what the caller's context has.
func (c *runContext) Value(key any) any {
	if _, ok := key.(runKey); ok {
		return c.run
	}
	return c.real().Value(key)
}
