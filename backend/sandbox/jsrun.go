package sandbox

import (
	"context"
	"errors"
	"time"

	"helix/backend/sandbox/qjs"
)

// run is one execution of JavaScript. Its goroutine, locked to an OS thread, is the only
// one that touches the guest.
type run struct {
	*control
	g    *guest
	p    *Program
	code context.Context // of the guest's machine code
	kill context.CancelFunc

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
	out := r.do()
	c.e.spares.giveBack(g, r.reusable())
	return out
}

func newRun(c *control, g *guest, p *Program) *run {
	r := &run{control: c, g: g, p: p}
	r.code, r.kill = context.WithCancel(context.WithoutCancel(c.caller))
	c.halt = func() {
		g.in.Stop()
		r.kill()
	}
	c.ease = g.in.Stop
	c.peak = g.in.MemoryBytes
	r.calls.init()
	g.run = r
	return r
}

func (r *run) do() outcome {
	defer r.kill()
	return r.control.do(r.drive, r.calls.wait)
}

// reusable reports, after do, whether the instance may serve again.
func (r *run) reusable() bool { return r.inOrder() && r.g.in.Intact(r.e.template) }

// drive runs the program until something has decided the outcome.
func (r *run) drive() {
	err := r.begin()
	for err == nil && !r.over() {
		if err = r.jobs(); err != nil || r.over() {
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
	if err != nil {
		r.fail(r.classify(err))
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
