package sandbox

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"helix/backend/sandbox/worker"
)

// killGrace is how long a child may take to exit after it was told to end or has reported its end.
// So a child lives at most this much longer than its wall time.
const killGrace = time.Second

// refillAfter is the delay between the start of a run and that of the next spare child.
const refillAfter = 20 * time.Millisecond

// tierRun is one run in a child. Its goroutine reads the child's frames and checks everything in
// them, since a guest may have taken over the child.
type tierRun struct {
	*control
	what     Runnable
	child    *child
	calls    remoteCalls
	lanes    map[string]int // running operations, by lane
	refusals map[int64]*Error
	lastCall int64
	folders  bool // the child has requested them
	logLines int64

	finished  atomic.Bool // the child has reported its end, so there is nothing to stop
	childCPU  time.Duration
	usedFuel  atomic.Uint64
	usedBytes atomic.Int64
}

// sendRun sends the run to the child.
func (t *tierRun) sendRun() error {
	stop := context.AfterFunc(t.caller, t.child.p.Kill) // a child that does not read would block us
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

// maxMeta is the maximum length in bytes of a name, version or author that is passed to a child.
const maxMeta = 4 << 10

// run drives the child until it ends.
func (t *tierRun) run() outcome {
	t.start = time.Now() // do not charge the start of the child
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

// stop tells the child to end, and kills it if it does not.
func (t *tierRun) stop() {
	if !t.finished.Load() {
		t.e.children.cancelRun(t.child)
	}
}

// wait waits for everything that the run started here.
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
		return nil // it is being stopped: ignore the rest
	case f.Log != nil:
		return t.log(f.Log, body)
	}
	return t.call(f.Call, body)
}

// lost ends the run of a child that is gone, or must be killed, without a report.
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

// maxNotice is the maximum length in bytes of the line which says that a log is full.
const maxNotice = 256

// log adds a line. The log has its own limit; only the number of frames is limited here.
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
