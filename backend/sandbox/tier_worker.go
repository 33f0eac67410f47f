package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"helix/backend/fault"
	"helix/backend/sandbox/linear"
	"helix/backend/sandbox/worker"
)

// ServeWorker runs the child of tier t1 and exits, if this process was started as one. Otherwise it
// returns the value for Options.WorkerCommand, the command that starts a child; it is nil if the
// system does not report the path of the program. Call it first in main, before reading arguments
// and opening anything.
func ServeWorker() (command []string) {
	if len(os.Args) > 1 && os.Args[1] == worker.Argument {
		os.Exit(serveArguments())
	}
	program, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{program, worker.Argument}
}

func serveArguments() (code int) {
	if os.Args[len(os.Args)-1] == worker.ProbeArgument {
		return 0
	}
	if err := serveWorker(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// workerHeap is the heap size in bytes from which a child collects garbage after all.
const workerHeap = 48 << 20

// serveWorker is the child: it loads the code, locks itself down, reports that it is ready, waits
// for its run, runs it, reports the result, and exits.
func serveWorker() error {
	if err := worker.Prepare(); err != nil {
		return err
	}
	// One run leaves little garbage, and a collection would slow it down.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(workerHeap)
	in := worker.NewReader(os.Stdin, worker.ToChildLimits)
	out := worker.NewWriter(os.Stdout, worker.FromChildLimits)
	f, body, err := in.ReadToChild()
	if err != nil || f.Hello == nil {
		return fmt.Errorf("no greeting: %w", err)
	}
	if f.Hello.Kind == worker.KindCompile {
		return serveCompiler(in, out)
	}
	e, m, err := openWorker(f.Hello, body)
	if err != nil {
		return err
	}
	top, _ := Profile("permissive")
	lock, err := worker.LockDown(worker.LockOptions{
		MemoryBytes: top.MemoryBytes, CPUSeconds: uint64(top.CPU/time.Second) + 2,
	})
	if err != nil {
		return err
	}
	if err := out.Write(worker.FromChild{Ready: &worker.Ready{Lock: lock, CPU: worker.SelfCPU()}}); err != nil {
		return err
	}
	f, body, err = in.ReadToChild()
	if err != nil || f.Run == nil {
		return fmt.Errorf("no run: %w", err)
	}
	w := &workerRun{e: e, in: in, out: out, host: remoteHost{out: out, waiting: map[int64]chan reply{}}}
	code, input := body[:f.Run.CodeSize:f.Run.CodeSize], body[f.Run.CodeSize:]
	if m != nil {
		return w.run(f.Run, m, input)
	}
	// Without a name and lines, the parent maps the positions.
	return w.run(f.Run, &Program{code: code, warnings: []Warning{}}, input)
}

// openWorker loads what a child needs; the module is nil for JavaScript.
func openWorker(h *worker.Hello, code []byte) (*Engine, *Module, error) {
	e, err := Open(context.Background(), Options{
		CacheDir: h.CacheDir, Workers: 1, Idle: 1, Crosscheck: h.Crosscheck,
		modulesOnly: h.Kind == worker.KindWASM, unitTime: h.UnitTime,
	})
	if err != nil {
		return nil, nil, err
	}
	if h.Kind == worker.KindWASM {
		e.unitTime = h.UnitTime
		m, err := e.workerModule(code)
		return e, m, err
	}
	_, err = e.spares.fill()
	return e, nil, err
}

// loadModules does the work of Open for an engine that only runs modules.
func (e *Engine) loadModules() {
	e.cache = openCache(e.o.CacheDir)
	if e.cache.root == "" {
		return
	}
	if err := e.cache.open(); err != nil { // without the cache, the module is compiled again
		e.cache.root, e.cache.reason = "", err.Error()
	}
}

// workerRun is the child's single run.
type workerRun struct {
	e    *Engine
	in   *worker.Reader
	out  *worker.Writer
	host remoteHost
}

// run executes the run and reports its result.
func (w *workerRun) run(r *worker.Run, what Runnable, input []byte) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go w.listen(cancel)
	c := Call{
		Input: input, Host: &w.host, Trust: TrustOwn, Tier: tier0, Log: w.log,
		Meta: Meta{Name: r.Name, Version: r.Version, Author: r.Author},
		Limits: Limits{
			Wall: r.Limits.Wall, CPU: r.Limits.CPU, Fuel: r.Limits.Fuel, MemoryBytes: r.Limits.MemoryBytes,
			StackBytes: r.Limits.StackBytes, InputBytes: r.Limits.InputBytes, OutputBytes: r.Limits.OutputBytes,
			LogBytes: r.Limits.LogBytes, HostCalls: r.Limits.HostCalls,
		},
	}
	if len(r.Seed) == 8 {
		c.Seed = (*[8]byte)(r.Seed)
	}
	if linear.OnHeap {
		debug.SetMemoryLimit(workerHeap + c.Limits.MemoryBytes)
	}
	res, err := w.e.Execute(ctx, what, c)
	return w.end(err, res.Output, res.Usage)
}

// listen reads the parent's frames. When the parent is gone, the child exits.
func (w *workerRun) listen(cancel context.CancelFunc) {
	for {
		f, body, err := w.in.ReadToChild()
		switch {
		case err != nil:
			os.Exit(1)
		case f.Cancel != nil:
			cancel()
		case f.Answer != nil:
			w.host.answer(f.Answer, body)
		}
	}
}

func (w *workerRun) log(l LogLine) {
	text := clip(l.Message, 2*maxMessage)
	// A parent that no longer listens is detected elsewhere.
	_ = w.out.Write(worker.FromChild{Log: &worker.Log{Level: l.Level, TextSize: len(text)}}, []byte(text), l.Fields)
}

func (w *workerRun) end(err error, output json.RawMessage, u Usage) error {
	f := worker.End{Usage: worker.Usage{
		CPU: max(u.CPU-w.host.innerCPU(), 0), Fuel: u.Fuel, PeakMemory: max(u.PeakMemory, 0),
	}}
	if err != nil {
		f.Error, output = reportOf(err), nil
	}
	return w.out.Write(worker.FromChild{End: &f}, output)
}

// reportOf converts an error for the parent.
func reportOf(err error) *worker.RunError {
	var e *Error
	if !errors.As(err, &e) {
		return &worker.RunError{Class: string(ClassTrap), Message: "The sandbox met an internal error.", Cause: clip(err.Error(), 8<<10)}
	}
	out := &worker.RunError{Class: string(e.Class), Message: clip(e.Message, maxMessage), Stack: clip(e.Stack, maxStack)}
	if e.Err != nil {
		out.Cause = clip(e.Err.Error(), 8<<10)
	}
	if ref, ok := e.Details.(Refusal); ok {
		out.Call, _ = ref.Extra.(int64)
		ref.Extra = nil
		e.Details = ref
	}
	if e.Details != nil {
		if b, err := json.Marshal(e.Details); err == nil && len(b) <= 16<<10 {
			out.Details = b
		}
	}
	return out
}

// remoteHost is a Host that sends calls to the parent.
type remoteHost struct {
	out     *worker.Writer
	mu      sync.Mutex
	last    int64
	waiting map[int64]chan reply
	inner   worker.Charge // usage of inner runs, as last reported by the parent
}

type reply struct {
	body   []byte
	err    *worker.HostError
	charge worker.Charge // new since the last answer
}

// maxOp is the maximum length in bytes of an operation's name.
const maxOp = 64

// Call sends the call to the parent and waits for its answer.
func (h *remoteHost) Call(ctx context.Context, op string, req json.RawMessage) (json.RawMessage, error) {
	if len(op) > maxOp {
		return nil, fault.Invalidf("Unknown operation.")
	}
	if len(req) > worker.FromChildLimits.Body {
		return nil, fault.Limitf("The request is too large.")
	}
	if !json.Valid(req) {
		return nil, fault.Invalidf("The request is not valid JSON.")
	}
	ch := make(chan reply, 1)
	h.mu.Lock()
	h.last++
	id := h.last
	h.waiting[id] = ch
	err := h.out.Write(worker.FromChild{Call: &worker.Call{ID: id, Op: op}}, req)
	h.mu.Unlock()
	if err != nil {
		return nil, fault.Unavailablef("The host does not answer.").WithCause(err)
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case r := <-ch:
		Charge(ctx, Usage{CPU: r.charge.CPU, Fuel: r.charge.Fuel, HostCalls: r.charge.HostCalls})
		if r.err == nil {
			return r.body, nil
		}
		f := fault.New(fault.Kind(r.err.Kind), "%s", r.err.Message)
		if f.Kind == fault.Denied {
			f.Details = Refusal{Reason: r.err.Reason, Capability: r.err.Capability, Resource: r.err.Resource, Extra: id}
		}
		return nil, f
	}
}

// answer delivers the parent's answer to the waiting call.
func (h *remoteHost) answer(a *worker.Answer, body []byte) {
	h.mu.Lock()
	ch := h.waiting[a.ID]
	delete(h.waiting, a.ID)
	r := reply{body: body, err: a.Error}
	if a.Charge != nil {
		r.charge = worker.Charge{
			CPU: max(a.Charge.CPU-h.inner.CPU, 0), Fuel: max(a.Charge.Fuel, h.inner.Fuel) - h.inner.Fuel,
			HostCalls: max(a.Charge.HostCalls-h.inner.HostCalls, 0),
		}
		h.inner.CPU += r.charge.CPU
		h.inner.Fuel += r.charge.Fuel
		h.inner.HostCalls += r.charge.HostCalls
	}
	h.mu.Unlock()
	if ch != nil {
		ch <- r
	}
}

func (h *remoteHost) innerCPU() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.inner.CPU
}
