package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
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
	cancel context.CancelFunc
	logs   logBook
	usage  Usage // filled when do returns

	// Set by the kind of run before do; each may be nil.
	halt func()        // stops guest code wherever it is; from any goroutine, repeatable
	ease func()        // asks guest code that has reported its own end to return soon; on the run's goroutine
	fuel func() uint64 // units used since the start; from any goroutine
	peak func() int64  // bytes of linear memory

	cpu     *cpuClock // of the run's thread while do runs; nil where the guest runs elsewhere
	ended   atomic.Pointer[outcome]
	own     bool        // the guest itself ended the run
	grace   *time.Timer // then halts guest code that goes on all the same
	crashed bool        // the host side of the run panicked

	started atomic.Int64 // host calls
	fetches int          // of them; only the run's goroutine uses it

	extraCPU, extraCalls atomic.Int64 // of inner runs
	extraFuel            atomic.Uint64
}

func newControl(ctx context.Context, e *Engine, c Call, l Limits) *control {
	r := &control{e: e, c: c, limits: l, start: time.Now(), caller: ctx}
	// The caller's cancellation goes through end, so that it is the outcome.
	r.ctx, r.cancel = context.WithCancel(context.WithValue(context.WithoutCancel(ctx), runKey{}, r))
	r.logs = newLogBook(l.LogBytes, e.o.Now, c.Log)
	return r
}

// end decides the outcome if nothing has before, and stops the guest wherever it is. Safe
// from any goroutine.
func (r *control) end(o outcome) {
	if !r.ended.CompareAndSwap(nil, &o) {
		return
	}
	if r.halt != nil {
		r.halt()
	}
	r.cancel()
}

func (r *control) fail(err *Error) { r.end(outcome{err: err}) }

// over reports whether the outcome is decided.
func (r *control) over() bool { return r.ended.Load() != nil }

// endGrace is how long a guest may go on that has reported its own end.
const endGrace = 50 * time.Millisecond

// settle is end for what the guest itself reports, on its goroutine: it is about to return,
// so its code is stopped only when it does not, and the instance stays whole.
func (r *control) settle(o outcome) {
	if !r.ended.CompareAndSwap(nil, &o) {
		return
	}
	r.own = true
	if r.halt != nil {
		r.grace = time.AfterFunc(endGrace, r.halt)
	}
	if r.ease != nil {
		r.ease()
	}
	r.cancel()
}

func (r *control) settleError(err *Error) { r.settle(outcome{err: err}) }

// inOrder reports, after do, whether nothing was stopped in the middle.
func (r *control) inOrder() bool { return r.own && !r.crashed && (r.grace == nil || r.grace.Stop()) }

// do runs body on a locked OS thread under the limits and gives the outcome. body drives
// the guest until the outcome is decided; one that returns without a decision ends the run
// as a guest that never finished. wait, which may be nil, runs afterwards and waits for
// what the run has started.
func (r *control) do(body, wait func()) outcome {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r.cpu = newCPUClock()
	defer r.cpu.close()
	stopCaller := context.AfterFunc(r.caller, func() { r.fail(contextError(r.caller)) })
	stopWatch := r.watch()
	r.cpu.enter()
	r.guarded(body)
	r.cpu.leave()
	if !r.over() {
		r.fail(failf(ClassThrown, "the tool never finished: it waits for something that will not happen"))
	}
	stopWatch()
	r.cancel()
	if wait != nil {
		wait()
	}
	stopCaller()
	r.account()
	return *r.ended.Load()
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
	u := Usage{Wall: time.Since(r.start), CPU: time.Duration(r.extraCPU.Load()), Fuel: r.extraFuel.Load(), HostCalls: r.hostCalls()}
	if r.cpu != nil {
		u.CPU += r.cpu.used()
	}
	if r.fuel != nil {
		u.Fuel += r.fuel()
	}
	if r.peak != nil {
		u.PeakMemory = r.peak()
	}
	u.OutputBytes = int64(len(r.ended.Load().output))
	r.usage = u
}

// take counts one host call, or says why the run may not make another. Only the run's
// goroutine calls it.
func (r *control) take(op string) (id int64, refused string) {
	if r.hostCalls() >= r.limits.HostCalls {
		return 0, fmt.Sprintf("this run has made its %d host calls", r.limits.HostCalls)
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
			err = fault.Internalf(fmt.Errorf("host operation %s: panic: %v", op, x), "Something went wrong inside Helix.")
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

// watch ends the run at its limits. The returned function stops watching and waits for a
// check in progress.
func (r *control) watch() (stop func()) {
	var mu sync.Mutex
	over := false
	wall := time.AfterFunc(r.limits.Wall, func() {
		r.fail(r.overLimit(ClassTimeout, "wallMs", r.limits.Wall, r.limits.Wall))
	})
	if r.cpu == nil {
		return func() { wall.Stop() }
	}
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

func (r *control) overLimit(c Class, name string, limit, value time.Duration) *Error {
	what := map[Class]string{ClassTimeout: "ran", ClassCPU: "computed"}[c]
	return &Error{
		Class: c, Message: fmt.Sprintf("The tool %s for longer than its limit of %s.", what, limit),
		Details: LimitDetail{name, limit.Milliseconds(), value.Milliseconds()},
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
	l.CPU -= time.Duration(r.extraCPU.Load())
	if r.cpu != nil {
		l.CPU -= r.cpu.used()
	}
	l.CPU = max(l.CPU, time.Nanosecond)
	used := r.extraFuel.Load()
	if r.fuel != nil {
		used += r.fuel()
	}
	l.Fuel = max(l.Fuel, used+1) - used
	l.HostCalls = max(l.HostCalls-r.hostCalls(), 0)
	return l
}

func (r *control) charge(u Usage) {
	r.extraCPU.Add(int64(u.CPU))
	r.extraCalls.Add(int64(u.HostCalls))
	r.extraFuel.Add(u.Fuel)
}

func (r *control) hostCalls() int { return int(r.started.Load() + r.extraCalls.Load()) }
