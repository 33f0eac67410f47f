package sandbox

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"helix/backend/sandbox/worker"
)

// killGrace is how long a child may take to end after the request to end, or has reported its
// end. With it a child lives at most this much longer than its wall time.
const killGrace = time.Second

// refillAfter is how long a run is left alone before the next spare child is started.
const refillAfter = 20 * time.Millisecond

// tierRun is one run in a child. Its goroutine reads what the child says; everything in
// that is checked, since a guest may have taken the child over.
type tierRun struct {
	*control
	what     Runnable
	child    *child
	calls    remoteCalls
	lanes    map[string]int // operations in progress, by lane
	refusals map[int64]*Error
	lastCall int64
	folders  bool // it has asked for them
	logLines int64

	finished  atomic.Bool // the child has reported its end: nothing to stop
	childCPU  time.Duration
	usedFuel  atomic.Uint64
	usedBytes atomic.Int64
}

// sendRun hands the child its run.
func (t *tierRun) sendRun() error {
	stop := context.AfterFunc(t.caller, t.child.p.Kill) // a child that does not read would hold us
	defer stop()
	l := t.limits
	m := t.c.Meta
	f := worker.Run{
		Name: clip(m.Name, maxMeta), Version: clip(m.Version, maxMeta), Author: clip(m.Author, maxMeta),
		Limits: worker.Limits{
			Wall: l.Wall, CPU: l.CPU, Fuel: l.Fuel, MemoryBytes: l.MemoryBytes, StackBytes: l.StackBytes,
			InputBytes: l.InputBytes, OutputBytes: l.OutputBytes, LogBytes: l.LogBytes, HostCalls: l.HostCalls,
		},
	}
	if t.c.Seed != nil {
		f.Seed = t.c.Seed[:]
	}
	var code []byte
	if p, ok := t.what.(*Program); ok {
		code = p.code
	}
	f.CodeSize = len(code)
	return t.child.p.In.Write(worker.ToChild{Run: &f}, code, t.c.Input)
}

// maxMeta is the longest name, version or author that is passed to a child, in bytes.
const maxMeta = 4 << 10

// run drives the child until its end.
func (t *tierRun) run() outcome {
	t.start = time.Now() // the child was started at our expense
	t.halt = t.stop
	t.fuel = t.usedFuel.Load
	t.peak = t.usedBytes.Load
	refill := time.AfterFunc(refillAfter, func() { t.e.children.refill(t.child.want) })
	out := t.do(t.drive, t.wait)
	grace := killGrace
	if !t.finished.Load() {
		grace = 0
	}
	t.e.children.release(t.child, grace)
	if refill.Stop() {
		t.e.children.refill(t.child.want)
	}
	t.usage.CPU = t.childCPU + time.Duration(t.extraCPU.Load())
	return out
}

// stop asks the child to end and kills it when it does not.
func (t *tierRun) stop() {
	if !t.finished.Load() {
		t.e.children.cancelRun(t.child)
	}
}

// wait waits for what the run has started here.
func (t *tierRun) wait() {
	if !t.finished.Load() {
		t.child.p.Kill()
	}
	t.calls.wait()
}

// drive reads the child's frames until it has ended.
func (t *tierRun) drive() {
	t.pause()
	defer t.resume()
	for {
		f, body, err := t.child.p.Out.ReadFromChild()
		if err == nil {
			err = t.handle(f, body)
		}
		if err != nil {
			t.lost(err)
			return
		}
		if f.End != nil {
			return
		}
	}
}

var errProtocol = errors.New("the child broke the rules")

func (t *tierRun) handle(f worker.FromChild, body []byte) error {
	switch {
	case f.End != nil:
		t.finish(f.End, body)
		return nil
	case f.Ready != nil:
		return errProtocol
	case t.over():
		return nil // it is being stopped: what it still says does not count
	case f.Log != nil:
		return t.log(f.Log, body)
	}
	return t.call(f.Call, body)
}

// lost ends the run of a child that is gone, or has to be, without a report.
func (t *tierRun) lost(err error) {
	t.child.p.Release(0)
	t.childCPU = max(t.child.p.CPU()-t.child.readyCPU, 0)
	if t.over() {
		return
	}
	switch {
	case errors.Is(err, errProtocol) || errors.Is(err, worker.ErrFrame):
		t.fail(&Error{Class: ClassTrap, Message: "The separate process of this run misbehaved and was ended.", Err: err})
	case t.childCPU >= t.limits.CPU:
		t.fail(t.overLimit(ClassCPU, "cpuMs", t.limits.CPU, t.childCPU))
	default:
		t.fail(&Error{Class: ClassTrap, Message: "The separate process of this run ended unexpectedly.", Err: errors.New(t.child.p.Said())})
	}
}

// maxNotice is the most that the line is long that says that a log is full.
const maxNotice = 256

// log takes a line. The log has its own cap; here only the number of frames counts.
func (t *tierRun) log(l *worker.Log, body []byte) error {
	t.logLines++
	if t.logLines > t.limits.LogBytes/lineCost+2 || int64(len(body)) > t.limits.LogBytes+maxNotice {
		return errProtocol
	}
	if t.logs.full {
		return nil
	}
	text := string(body[:l.TextSize])
	if p, ok := t.what.(*Program); ok {
		text = p.positions(text)
	}
	t.logs.add(l.Level, text, string(body[l.TextSize:]))
	return nil
}
