package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"helix/backend/fault"
	"helix/backend/jcs"
)

// moduleRun is one execution of a module. Except as noted in control, only the run's goroutine uses
// it.
type moduleRun struct {
	*control
	code *moduleCode
	in   *moduleInstance
	rand io.Reader

	files        fileTable
	foldersGiven bool
	output       []byte
	line         []byte // of standard error, incomplete
	tail         []byte // the last bytes of standard error
	tailCut      bool   // tail was cut at the start

	hostFuel atomic.Uint64 // see work

	exited   bool // the guest called proc_exit
	exitCode uint32
	finished bool // the guest ended by itself without an error

	response []byte // the text that helix.read returns
	refusal  *Error // the last operation of the guest was refused
	asked    bool   // the host was called at least once
	hosts    sync.WaitGroup
}

// moduleContext carries the run to the functions that guests import.
type moduleContext struct {
	context.Context
	run *moduleRun
}

type moduleRunKey struct{}

// Value implements context.Context.
func (c *moduleContext) Value(key any) any {
	if _, ok := key.(moduleRunKey); ok {
		return c.run
	}
	return c.Context.Value(key)
}

func runOf(ctx context.Context) *moduleRun {
	if c, ok := ctx.(*moduleContext); ok {
		return c.run
	}
	return ctx.Value(moduleRunKey{}).(*moduleRun)
}

// run executes the module under r.
func (m *Module) run(r *control) outcome {
	if m == nil {
		r.fail(failf(ClassUnavailable, "Nothing to run."))
		return *r.ended.Load()
	}
	defer runtime.KeepAlive(m) // its code is freed when it is no longer referenced
	if err := m.load(r.caller, r.e); err != nil {
		r.fail(err)
		return *r.ended.Load()
	}
	r.start = time.Now() // do not charge the loading
	c := m.code
	if int64(c.image.Size()) > r.limits.MemoryBytes {
		r.fail(&Error{
			Class:   ClassMemory,
			Message: fmt.Sprintf("The module begins with %s of memory, its limit is %s.", size(int64(c.image.Size())), size(r.limits.MemoryBytes)),
			Details: LimitDetail{"memoryBytes", r.limits.MemoryBytes, int64(c.image.Size())},
		})
		return *r.ended.Load()
	}
	in, err := c.take()
	if err != nil {
		r.fail(&Error{Class: ClassTrap, Message: "The sandbox could not make an instance.", Err: err})
		return *r.ended.Load()
	}
	w := &moduleRun{control: r, code: c, in: in, rand: r.e.o.Rand}
	if s := r.c.Seed; s != nil {
		w.rand = w.seeded(*s)
	}
	in.mem.Limit = min(uint64(r.limits.MemoryBytes), c.max)
	in.gauge.Arm(r.limits.Fuel)
	r.halt, r.fuel, r.peak = in.gauge.Stop, func() uint64 { return in.gauge.Used() + w.hostFuel.Load() }, func() int64 { return int64(in.mem.Peak()) }
	out := r.do(w.drive, w.waitHosts)
	inOrder := w.finished && !r.crashed
	if inOrder && in.gauge.Used() <= shortRun { // little to restore, so it is faster here than on another goroutine
		c.release(in, true)
		return out
	}
	r.e.runs.Add(1) // Execute still counts as a run, so Close waits for both
	go func() {
		defer r.e.runs.Done()
		c.release(in, inOrder)
	}()
	return out
}

// seeded returns an endless stream of bytes that depends only on seed.
func (w *moduleRun) seeded(seed [8]byte) io.Reader { return repeatable(seed) }

// waitHosts waits for host calls that are still running after the end of the run.
func (w *moduleRun) waitHosts() {
	if !w.asked {
		return
	}
	waitAWhile(&w.hosts)
}

// drive calls the module and sets the outcome.
func (w *moduleRun) drive() {
	w.openStandard()
	ctx := &moduleContext{context.Background(), w}
	if w.e.o.Crosscheck { // wazero then watches it too
		ctx.Context = w.ctx
	}
	var err error
	for _, f := range w.in.functions(w.code.calls) {
		if err = f.CallWithStack(ctx, nil); err != nil || w.exited || w.over() {
			break
		}
	}
	w.flushErrors()
	if w.over() {
		return
	}
	switch {
	case w.exited && w.exitCode == 0, err == nil:
		w.finished = true
		w.end(w.result())
	case w.exited:
		w.finished = true
		w.fail(w.failure(w.exitError(), nil))
	default:
		w.fail(w.failure(nil, err))
	}
}

// result is the outcome of a module that ended normally.
func (w *moduleRun) result() outcome {
	text := strings.TrimSpace(string(w.output))
	switch {
	case text == "":
		return outcome{err: failf(ClassOutput, "The module wrote nothing to its standard output. It must write its result there as JSON.")}
	case !utf8.ValidString(text) || !json.Valid([]byte(text)):
		return outcome{err: failf(ClassOutput, "The result is not valid JSON: %q", head(w.output))}
	}
	if err := jcs.CheckNumbers([]byte(text)); err != nil {
		return outcome{err: failf(ClassOutput, "The result cannot be used: %s.", fault.As(err).Message)}
	}
	return outcome{output: json.RawMessage(text)}
}

// failure returns why a module failed: exit if the module itself exited with an error, else based
// on wazero's error. If an operation of the module was refused before it failed, the refusal is the
// reason.
func (w *moduleRun) failure(exit *Error, err error) *Error {
	switch {
	case exit == nil && w.in.gauge.Exhausted():
		e := w.outOfFuel(w.in.gauge.Used())
		e.Err = err
		return e
	case exit == nil && w.in.gauge.TooDeep():
		return &Error{Class: ClassTrap, Message: "The module trapped: stack overflow.", Stack: stackOf(err), Err: err}
	case w.in.mem.Refused():
		e := w.outOfMemory(stackOf(err))
		e.Err = err
		return e
	case w.refusal != nil:
		e := *w.refusal
		if e.Err == nil {
			e.Err = err
		}
		return &e
	case exit != nil:
		return exit
	}
	return trapError(err)
}

func (w *moduleRun) exitError() *Error {
	text := fmt.Sprintf("exit %d", w.exitCode)
	end := string(w.tail)
	if w.tailCut { // drop the first line, which is incomplete
		if _, rest, more := strings.Cut(end, "\n"); more {
			end = rest
		}
	}
	if end = strings.TrimSpace(strings.ToValidUTF8(end, "\uFFFD")); end != "" {
		text += ": " + end
	}
	return &Error{Class: ClassTrap, Message: text, Details: ExitDetail{w.exitCode}}
}

// trapError is the outcome of a guest that trapped, or of a bug on the host side.
func trapError(err error) *Error {
	var bug runtime.Error
	if errors.As(err, &bug) {
		return &Error{Class: ClassTrap, Message: "The sandbox met an internal error. The run was ended.", Err: err}
	}
	return &Error{
		Class: ClassTrap, Message: "The module trapped: " + strings.TrimPrefix(firstLine(err.Error()), "wasm error: ") + ".",
		Stack: stackOf(err), Err: err,
	}
}

// maxTrace is the maximum length in bytes of a guest's stack trace.
const maxTrace = 8 << 10

// stackOf returns the guest's part of wazero's message.
func stackOf(err error) string {
	if err == nil {
		return ""
	}
	_, trace, _ := strings.Cut(err.Error(), "wasm stack trace:")
	trace = strings.ReplaceAll(strings.TrimSpace(trace), "\n\t", "\n")
	return strings.ToValidUTF8(trace[:min(len(trace), maxTrace)], "\uFFFD")
}

// writeOutput appends what the guest writes to its standard output.
func (w *moduleRun) writeOutput(b []byte) {
	if have := int64(len(w.output)) + int64(len(b)); have > w.limits.OutputBytes {
		begin := bytes.Join([][]byte{w.output[:min(len(w.output), 200)], b[:min(len(b), 200)]}, nil)
		w.fail(&Error{
			Class: ClassOutput, Message: fmt.Sprintf("The result is larger than %s. It begins with %q", size(w.limits.OutputBytes), head(begin)),
			Details: LimitDetail{"outputBytes", w.limits.OutputBytes, have},
		})
		return
	}
	w.work(len(b) / 16)
	w.output = append(w.output, b...)
}

// Limits on standard error, in bytes.
const (
	maxLine = 8 << 10 // a longer line is split
	maxTail = 1 << 10 // kept for the error message of a failed run
)

// writeErrors splits what the guest writes to its standard error into lines of the run's log.
func (w *moduleRun) writeErrors(b []byte) {
	w.keepTail(b)
	b = b[:min(int64(len(b)), w.limits.LogBytes+maxLine)] // more does not fit into the log
	if !w.logs.full {
		w.work(len(b))
	}
	for len(b) > 0 && !w.logs.full {
		n := len(b)
		for i, c := range b {
			if c == '\n' {
				n = i
				break
			}
		}
		part := b[:min(n, maxLine-len(w.line))]
		w.line = append(w.line, part...)
		b = b[len(part):]
		switch {
		case len(b) > 0 && b[0] == '\n':
			b = b[1:]
			w.flushErrors()
		case len(w.line) == maxLine:
			w.flushErrors()
		}
	}
}

// flushErrors logs the last, incomplete line.
func (w *moduleRun) flushErrors() {
	if text := strings.TrimRight(string(w.line), "\r"); text != "" {
		w.logs.add("info", text, "")
	}
	w.line = w.line[:0]
}

// keepTail keeps the last bytes that are written.
func (w *moduleRun) keepTail(b []byte) {
	if over := len(w.tail) + len(b) - maxTail; over > 0 {
		w.tailCut = true
		if drop := min(over, len(w.tail)); drop > 0 {
			w.tail = append(w.tail[:0], w.tail[drop:]...)
		}
		b = b[max(len(b)-maxTail, 0):]
	}
	w.tail = append(w.tail, b...)
}
