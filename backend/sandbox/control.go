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

// outcome is how a run ended; err is nil on success.
type outcome struct {
	output json.RawMessage
	err    *Error
}

// control is what all kinds of runs share: the limits and their watchdog, the single outcome, the
// counts of host calls, logs and usage. A kind of run embeds a pointer to it, sets the hooks before
// do, and does its work in the body passed to do.
type control struct {
	e      *Engine
	c      Call
	limits Limits
	start  time.Time
	caller context.Context
	ctx    context.Context // of host calls; it ends with the run
	logs   logBuffer
	usage  Usage // set when do returns

	// Set by the kind of run before do; each may be nil.
	halt func()        // stops guest code at any point; from any goroutine, repeatable
	fuel func() uint64 // units used since the start; from any goroutine
	peak func() int64  // bytes of linear memory

	cpu     *cpuClock // of the run's thread during do
	inside  atomic.Bool
	ended   atomic.Pointer[outcome]
	own     bool         // the guest itself ended the run
	grace   atomic.Int64 // Unix nanoseconds at which guest code that is still running is halted; 0: never
	stopped atomic.Bool  // it was halted
	crashed bool         // the host side of the run panicked
	context runContext

	// State of the watchdog.
	watching  sync.Mutex // held while the watchdog checks the run
	unwatched bool
	forget    func() bool // stops the AfterFunc on the caller's context; nil: there is none
	cpuNext   time.Time   // when to read the CPU clock again
	place     int

	started atomic.Int64 // host calls
	fetches int          // how many of them are fetches; only the run's goroutine uses it

	extraCPU, extraCalls atomic.Int64 // of inner runs
	extraFuel            atomic.Uint64
}

func newControl(ctx context.Context, e *Engine, c Call, l Limits) *control {
	r := &control{e: e, c: c, limits: l, start: time.Now(), caller: ctx}
	// The caller's cancellation goes through end, so that it becomes the outcome.
	r.context.run = r
	r.ctx = &r.context
	r.logs = newLogBuffer(l.LogBytes, e.o.Now, c.Log)
	return r
}

// end sets the outcome, unless it is already set, and stops the guest at any point. Only the run's
// goroutine may call it, and the watchdog while it holds watching: a late end must not stop the
// next run on the same instance.
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

// over reports whether the outcome is set.
func (r *control) over() bool { return r.ended.Load() != nil }

// cancel ends the context of host calls.
func (r *control) cancel() { r.context.cancel() }

// endGrace is how long a guest may continue after it reported its own end.
const endGrace = 50 * time.Millisecond

// settle is end for an outcome that the guest itself reports, on its goroutine. The guest is about
// to return, so its code is stopped only if it does not.
func (r *control) settle(o outcome) {
	if !r.ended.CompareAndSwap(nil, &o) {
		return
	}
	r.own = true
	r.grace.Store(time.Now().Add(endGrace).UnixNano())
	r.cancel()
}

func (r *control) settleError(err *Error) { r.settle(outcome{err: err}) }

// do runs body on a locked OS thread under the limits and returns the outcome. body drives the
// guest until the outcome is set; if it returns without one, the run ends as one whose guest never
// finished. wait, which may be nil, is called afterwards and waits for everything that the run
// started.
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

// pause is called before body waits for something outside the guest. Until resume, others can use
// the thread, and the time does not count as CPU time. resume may continue on another thread.
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

// cpuUsed returns the CPU time of the run and its inner runs. It may be called from any goroutine.
func (r *control) cpuUsed() time.Duration {
	used := time.Duration(r.extraCPU.Load())
	if r.cpu != nil {
		used += r.cpu.used()
	}
	return used
}

// fuelUsed returns the fuel used by the run and its inner runs. It may be called from any
// goroutine.
func (r *control) fuelUsed() uint64 {
	used := r.extraFuel.Load()
	if r.fuel != nil {
		used += r.fuel()
	}
	return used
}

// guarded runs f. A panic of host code ends this run only.
func (r *control) guarded(f func()) {
	defer func() {
		if x := recover(); x != nil {
			r.crashed = true
			r.fail(&Error{Class: ClassTrap, Message: "The sandbox met an internal error. The run was ended.", Err: fmt.Errorf("%v\n%s", x, debug.Stack())})
		}
	}()
	f()
}

// account sets usage.
func (r *control) account() {
	r.usage = Usage{
		Wall: time.Since(r.start), CPU: r.cpuUsed(), Fuel: r.fuelUsed(), HostCalls: r.hostCalls(),
		OutputBytes: int64(len(r.ended.Load().output)),
	}
	if r.peak != nil {
		r.usage.PeakMemory = r.peak()
	}
}

// take counts one host call, or returns why the run may not make another. Only the run's goroutine
// may call it.
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

// ask calls the host and waits for its answer. It may be called from any goroutine.
func (r *control) ask(op string, req json.RawMessage) (resp json.RawMessage, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fault.Internalf(fmt.Errorf("host operation %s: panic: %v", op, x), "Helix has an internal error.")
		}
	}()
	if r.c.Host == nil {
		return nil, fault.Deniedf("This run may not use %s.", op).WithDetails(Refusal{Reason: ReasonCapability})
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

// outOfFuel is the outcome of a guest that has used up its budget.
func (r *control) outOfFuel(used uint64) *Error {
	return &Error{
		Class: ClassCPU, Message: fmt.Sprintf("The tool computed for longer than its limit of %d units.", r.limits.Fuel),
		Details: LimitDetail{"fuel", int64(min(r.limits.Fuel, math.MaxInt64)), int64(min(used, math.MaxInt64))},
	}
}

// outOfMemory is the outcome of a guest that needed more memory than its limit.
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

// remaining returns what an inner run may use. It may be called from any goroutine.
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

// runContext is the context of a run's host calls. It has the values of the caller's context,
// carries the run, and ends with it. The underlying context is created on demand.
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

// Value returns the run for its key, or the value of the caller's context.
func (c *runContext) Value(key any) any {
	if _, ok := key.(runKey); ok {
		return c.run
	}
	return c.real().Value(key)
}
