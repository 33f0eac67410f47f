package sandbox

import (
	"context"
	"errors"
	"strings"
	"time"

	"helix/backend/sandbox/qjs"
)

// run is one execution of JavaScript. Only its goroutine uses the guest.
type run struct {
	*control
	g      *guest
	p      *Program
	result qjs.Value // the promise of the tool's result
	calls  calls
	timers timers
}

// run executes the program under c.
func (p *Program) run(c *control) outcome {
	g, err := c.e.guest(c.c.Seed)
	if err != nil {
		c.fail(&Error{Class: ClassTrap, Message: "The sandbox could not make an instance.", Err: err})
		return *c.ended.Load()
	}
	r := newRun(c, g, p)
	defer c.crosscheck(g.in)()
	out := r.do()
	c.e.spares.release(g, r.reusable())
	return out
}

// crosscheck gives the instance a context that ends with its run, if Options.Crosscheck is set, so
// that wazero stops it too. The returned function releases it.
func (r *control) crosscheck(in *qjs.Instance) (free func()) {
	if !r.e.o.Crosscheck {
		return func() {}
	}
	ctx, kill := context.WithCancel(r.e.background)
	in.With(ctx)
	halt := r.halt
	r.halt = func() {
		halt()
		kill()
	}
	return kill
}

func newRun(c *control, g *guest, p *Program) *run {
	r := &run{control: c, g: g, p: p}
	c.halt, c.fuel, c.peak = g.in.Halt, g.in.Fuel, g.in.MemoryBytes
	g.run = r
	return r
}

func (r *run) do() outcome { return r.control.do(r.drive, r.calls.wait) }

// reusable reports, after do, whether the instance can be reset and used again. How the run ended
// does not matter, since a reset restores everything.
func (r *run) reusable() bool { return !r.crashed && r.g.in.Intact() }

// drive runs the program until the outcome is set.
func (r *run) drive() {
	err := r.begin()
	for err == nil && !r.over() {
		if err = r.jobs(); err != nil || r.over() {
			break
		}
		ev, ok := r.wait()
		if !ok {
			break
		}
		err = ev(r)
	}
	switch {
	case err != nil:
		r.fail(r.classify(err))
	case !r.over() && r.memoryFull():
		r.fail(r.outOfMemory("")) // it waits for a promise whose job could not be allocated
	}
}

// memoryFull reports whether the guest has probably been refused memory. If the engine has no
// memory even for the error that reports this, it throws null, or loses a job.
func (r *run) memoryFull() bool {
	return r.g.in.MemoryRefused() || r.g.in.MemoryBytes() > r.limits.MemoryBytes/8*7
}

// begin starts the program. The start of the instance itself is not charged.
func (r *run) begin() error {
	in := r.g.in
	in.Arm(r.limits.Fuel)
	if err := in.SetLimits(r.limits.StackBytes, r.limits.MemoryBytes); err != nil {
		return err
	}
	if err := r.setUp(); err != nil {
		return err
	}
	tool, err := in.EvalBytecode(r.p.code)
	if err != nil {
		return err
	}
	// A module returns a promise, usually a fulfilled one, for what it exports.
	state, err := in.PromiseState(tool)
	if err != nil {
		return err
	}
	start := enterStart
	if state == qjs.Fulfilled {
		start = enterModule
		if tool, err = in.PromiseResult(tool); err != nil {
			return err
		}
	}
	r.result, err = in.Enter(start, tool)
	return err
}

// nothingGiven is the setup that the world starts with.
const nothingGiven = `[{},"","",""]`

// setUp passes the guest its params and its name, version and author.
func (r *run) setUp() error {
	in, m := r.g.in, r.c.Meta
	text := make([]byte, 0, len(r.c.Input)+len(m.Name)+len(m.Version)+len(m.Author)+32)
	text = append(append(text, '['), r.c.Input...)
	for _, s := range [...]string{m.Name, m.Version, m.Author} {
		text = appendJSON(append(text, ','), s)
	}
	if text = append(text, ']'); string(text) == nothingGiven {
		return nil
	}
	v, err := in.NewString(text)
	if err != nil {
		return err
	}
	if _, err := in.Enter(enterSetUp, v); err != nil {
		return err
	}
	return in.Free(v) // an input may be large
}

// appendJSON appends s as a JSON string.
func appendJSON(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return append(b, jsonObject(s)...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// lookEvery is the number of jobs between two checks of the tool's promise.
const lookEvery = 8

// jobs runs promise jobs until the tool's promise is settled or no jobs are left.
func (r *run) jobs() error {
	for n := 0; !r.over(); n++ {
		if n%lookEvery == 0 {
			if n > 0 {
				r.release()
			}
			if settled, err := r.settled(); settled || err != nil {
				return err
			}
		}
		more, err := r.g.in.RunJob()
		if err != nil {
			return err
		}
		if !more {
			_, err := r.settled()
			return err
		}
	}
	return nil
}

// settled reports whether the tool's promise is settled, and if so makes the guest report its
// result.
func (r *run) settled() (bool, error) {
	in := r.g.in
	state, err := in.PromiseState(r.result)
	if err != nil || state == qjs.Pending {
		return false, err
	}
	v, err := in.PromiseResult(r.result)
	if err != nil {
		return false, err
	}
	what := enterDone
	if state == qjs.Rejected {
		what = enterFail
	}
	_, err = in.Enter(what, v)
	return true, err
}

// wait blocks until a host call has ended or a timer is due. ok is false if the run has ended or
// nothing is pending.
func (r *run) wait() (ev func(*run) error, ok bool) {
	if p, ok := r.alone(); ok {
		return func(r *run) error {
			resp, err := r.ask(p.op, p.req)
			return r.deliver(answer{p.id, &r.calls.other, len(p.req), resp, err})
		}, true
	}
	r.release()
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
	r.pause()
	defer r.resume()
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
			_, err = r.g.in.Enter(enterFire, id)
			return err
		}, true
	}
}

// classify converts an error of the engine to an outcome.
func (r *run) classify(err error) *Error {
	var x *qjs.Exception
	if errors.As(err, &x) {
		return r.exception(x.Name, x.Message, x.Stack)
	}
	if r.g.in.Exhausted() {
		return r.outOfFuel(r.g.in.Fuel())
	}
	if errors.Is(err, qjs.ErrMemory) || r.g.in.MemoryRefused() {
		return r.outOfMemory("")
	}
	// wazero reports a panic on the host side this way: the instance may be in any state.
	r.crashed = r.crashed || !r.over() && strings.Contains(err.Error(), "recovered by wazero")
	return &Error{Class: ClassTrap, Message: "The tool crashed its engine and was ended.", Err: err}
}

// exception is the outcome of an uncaught exception of the guest.
func (r *run) exception(name, message, stack string) *Error {
	if name == "InternalError" && message == "out of memory" || name == "" && message == "null" && r.memoryFull() {
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
