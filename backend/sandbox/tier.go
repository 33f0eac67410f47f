package sandbox

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"helix/backend/sandbox/worker"
)

// The tiers: t0 runs in this process, t1 in a child that is locked down.
const (
	tier0 = "t0"
	tier1 = "t1"
)

// tierOf is where a run takes place: the module's trust decides, unless the call names a
// tier.
func tierOf(r Runnable, c Call) string {
	if c.Tier != "" {
		return c.Tier
	}
	if _, module := r.(*Module); module && c.Trust != TrustOwn && c.Trust != TrustSigned {
		return tier1
	}
	return tier0
}

// isolationRank orders the kinds of isolation; unknown ones rank above all, so that a
// requirement that cannot be read is never met.
func isolationRank(s string) int {
	if s == "" {
		s = IsolationProcess
	}
	i := slices.Index([]string{IsolationInProcess, IsolationProcess, IsolationLandlock, IsolationBwrap}, s)
	if i < 0 {
		return 1 << 10
	}
	return i
}

// isolationOf names what a child has around it. Bubblewrap without Landlock has no name of
// its own and counts as a plain process.
func isolationOf(landlock, bwrap bool) string {
	switch {
	case landlock && bwrap:
		return IsolationBwrap
	case landlock:
		return IsolationLandlock
	}
	return IsolationProcess
}

// The most that a run in a child waits for its child to be ready, and that a child waits
// after it was told to end.
const (
	startTime = 30 * time.Second
	killGrace = time.Second
)

// tier1 runs what in a child process and reports how it was isolated. It never runs it
// here instead.
func (e *Engine) tier1(r *control, what Runnable, res *Result) outcome {
	job, err := newJob(r, what)
	if err == nil {
		err = e.children.refusal(&res.Isolation, &res.Reasons)
	}
	if err != nil {
		r.fail(err)
		return *r.ended.Load()
	}
	t := &tierRun{control: r, what: what, lanes: map[string]int{}, refusals: map[int64]*Error{}}
	if err := t.begin(job); err != nil {
		r.fail(err)
		return *r.ended.Load()
	}
	res.Isolation, res.Reasons = t.isolation, t.reasons
	if isolationRank(t.isolation) < isolationRank(e.o.MinIsolation) {
		t.child.p.Kill()
		t.release(0)
		r.fail(tooWeak(t.isolation, e.o.MinIsolation, t.reasons))
		return *r.ended.Load()
	}
	return t.run()
}

// job is what a child is told to do.
type job struct {
	kind  string
	frame worker.Run
	code  []byte
	input []byte
}

func newJob(r *control, what Runnable) (job, *Error) {
	l := r.limits
	j := job{input: r.c.Input, frame: worker.Run{
		Name: r.c.Meta.Name, Ver: r.c.Meta.Version, Author: r.c.Meta.Author,
		Limits: worker.Limits{
			Wall: l.Wall, CPU: l.CPU, Fuel: l.Fuel, MemoryBytes: l.MemoryBytes, StackBytes: l.StackBytes,
			InputBytes: l.InputBytes, OutputBytes: l.OutputBytes, LogBytes: l.LogBytes, HostCalls: l.HostCalls,
		},
		NeedLandlock: isolationRank(r.e.o.MinIsolation) >= isolationRank(IsolationLandlock),
	}}
	if r.c.Seed != nil {
		j.frame.Seed = r.c.Seed[:]
	}
	switch w := what.(type) {
	case *Program:
		j.kind, j.code = worker.KindJS, w.code
	case *Module:
		return j, j.module(w)
	}
	j.frame.CodeSize = len(j.code)
	return j, nil
}

// tierRun is one run in a child. Its goroutine reads what the child says; everything in
// that is checked, since a guest may have taken the child over.
type tierRun struct {
	*control
	what      Runnable
	child     *child
	isolation string
	reasons   []string
	calls     remoteCalls
	lanes     map[string]int // operations in progress, by lane
	refusals  map[int64]*Error
	lastCall  int64
	logLines  int

	finished  atomic.Bool // the child has reported its end: nothing to stop
	childCPU  time.Duration
	usedFuel  atomic.Uint64
	usedBytes atomic.Int64
}

// begin gets a child and waits until it is locked down and starts. A child that dies before
// has run nothing, so another is tried once.
func (t *tierRun) begin(j job) *Error {
	for attempt := 0; ; attempt++ {
		err := t.try(j)
		if err == nil {
			return nil
		}
		if t.caller.Err() != nil {
			return contextError(t.caller)
		}
		var final *Error
		if errors.As(err, &final) {
			return final
		}
		if attempt > 0 {
			return &Error{Class: ClassUnavailable, Message: "The separate process for this run could not be started.", Err: err}
		}
	}
}

func (t *tierRun) try(j job) error {
	ctx, cancel := context.WithTimeout(t.caller, startTime)
	defer cancel()
	c, err := t.e.children.take(ctx, j.kind)
	if err != nil {
		return err
	}
	t.child = c
	started, err := c.start(ctx, j)
	if err != nil {
		c.p.Kill()
		t.release(0)
		return err
	}
	t.isolation = isolationOf(started.Lock.Landlock > 0, c.bwrap)
	t.reasons = reasonsOf(started.Lock.Reasons, c.reasons)
	t.childCPU = started.CPU
	t.e.children.refill(j.kind)
	return nil
}

// run drives the child until its end.
func (t *tierRun) run() outcome {
	t.start = time.Now() // the child was started at our expense
	t.halt = t.stop
	t.fuel = t.usedFuel.Load
	t.peak = t.usedBytes.Load
	out := t.do(t.drive, t.calls.wait)
	grace := killGrace
	if !t.finished.Load() {
		t.child.p.Kill()
		grace = 0
	}
	t.release(grace)
	return out
}

// stop asks the child to end and kills it when it does not.
func (t *tierRun) stop() {
	if t.finished.Load() {
		return
	}
	t.child.cancel()
}

// release lets the child go, without waiting for it when it ends by itself.
func (t *tierRun) release(grace time.Duration) { t.e.children.release(t.child, grace) }

// drive reads the child's frames until it has ended.
func (t *tierRun) drive() {
	t.cpu.leave()
	defer t.cpu.enter()
	for {
		f, body, err := t.child.p.Out.ReadFromChild()
		if err == nil {
			err = t.handle(f, body)
		}
		if err != nil {
			t.child.p.Kill()
			t.fail(t.lost(err))
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
	case f.Ready != nil || f.Started != nil:
		return errProtocol
	case t.over():
		return nil // it is being stopped: what it still says does not count
	case f.Log != nil:
		return t.log(f.Log, body)
	}
	return t.call(f.Call, body)
}

// lost is the outcome of a child that is gone, or was ended, without a report.
func (t *tierRun) lost(err error) *Error {
	if errors.Is(err, errProtocol) || errors.Is(err, worker.ErrFrame) {
		return &Error{Class: ClassTrap, Message: "The separate process of this run misbehaved and was ended.", Err: err}
	}
	t.child.p.Release(killGrace)
	return &Error{Class: ClassTrap, Message: "The separate process of this run ended unexpectedly.", Err: errors.New(t.child.p.Said())}
}

// log takes a line. The log has its own cap; here only the number of frames counts.
func (t *tierRun) log(l *worker.Log, body []byte) error {
	if t.logLines++; int64(t.logLines) > t.limits.LogBytes/lineCost+2 {
		return errProtocol
	}
	text := string(body[:l.TextSize])
	if p, ok := t.what.(*Program); ok {
		text = p.positions(text)
	}
	t.logs.add(l.Level, text, string(body[l.TextSize:]))
	return nil
}

func tooWeak(have, want string, reasons []string) *Error {
	return &Error{
		Class: ClassUnavailable, Message: "This run needs stronger isolation (" + want + ") than this computer offers (" + have + ").",
		Details: IsolationDetail{Isolation: have, Required: want, Reasons: reasons},
	}
}

// IsolationDetail is the Details of a run that was refused because it could not be isolated
// as Options.MinIsolation demands.
type IsolationDetail struct {
	Isolation string   `json:"isolation"`
	Required  string   `json:"required"`
	Reasons   []string `json:"reasons"`
}
