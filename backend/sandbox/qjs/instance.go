package qjs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"helix/backend/sandbox/linear"
	"helix/backend/sandbox/meter"
)

// Options configure one instance. Rand and Clock are required.
type Options struct {
	Clock func() int64 // nanoseconds since 1970
	Rand  io.Reader
	Host  func(in *Instance, args []Value) Value
}

// Instance is one JavaScript world with its own memory. One goroutine uses it at a time;
// only Stop, Halt, Fuel and MemoryBytes may be called from others.
type Instance struct {
	o      Options
	t      *Template
	mod    api.Module
	mem    api.Memory
	linear *linear.Memory
	gauge  *meter.Gauge
	sp     api.MutableGlobal
	fns    [fnCount]entry
	frames [maxDepth][8]uint64 // of the calls in progress
	depth  int
	ctx    *door
	stop   atomic.Bool
	broken error
	lost   bool // the memory could not be restored
	resets int
	top    uint32 // of the scratch memory in use
	stack  int64  // limits set last
	memory int64
	base   int64 // the clock when Seed was called, and the time of that call
	since  time.Time
}

// fn identifies an export of the engine that the host calls.
type fn uint8

const (
	fnInitialize fn = iota
	fnInit
	fnInit2
	fnInterrupt
	fnMemoryLimit
	fnStackLimit
	fnCollect
	fnCollectAt
	fnMalloc
	fnFree
	fnEval
	fnCompile
	fnBytecode
	fnCall
	fnJob
	fnFreeValue
	fnUndefined
	fnTrue
	fnFalse
	fnNewNumber
	fnNewString
	fnNewBuffer
	fnNewHost
	fnString
	fnFreeString
	fnIsString
	fnIsError
	fnIsBuffer
	fnBuffer
	fnException
	fnGlobal
	fnProperty
	fnPromiseState
	fnPromiseResult
	fnCount
)

var fnNames = [fnCount]string{
	"_initialize", "qjs_init", "qjs_init2", "qjs_set_interrupt_handler", "qjs_set_memory_limit", "qjs_set_max_stack_size", "qjs_run_gc", "qjs_set_gc_threshold", "wasm_malloc", "wasm_free",
	"qjs_eval", "qjs_compile", "qjs_eval_bytecode", "qjs_call", "qjs_execute_pending_job", "qjs_free_value", "qjs_get_undefined", "qjs_get_true", "qjs_get_false",
	"qjs_new_number", "qjs_new_string", "qjs_new_array_buffer", "qjs_new_host_function", "qjs_get_string_len", "qjs_free_cstring", "qjs_is_string", "qjs_is_error",
	"qjs_is_array_buffer", "qjs_get_array_buffer", "qjs_get_exception", "qjs_get_global", "qjs_get_prop_string",
	"qjs_promise_state", "qjs_promise_result",
}

// entry is an export together with the native stack that its calls use. While one is in progress, a
// nested call needs another.
type entry struct {
	f     api.Function
	busy  bool
	inner []api.Function // for nested calls, kept for reuse
}

// maxDepth is the maximum nesting of calls between host and guest.
const maxDepth = 32

// scratchSize is the size in bytes of the scratch memory, enough for most inputs and programs.
// Calls into the guest cost more than anything else in a short run, and it saves those for
// allocating and freeing memory.
const scratchSize = 64 << 10

// Exception is a JavaScript exception that reached the host.
type Exception struct {
	Name, Message, Stack string
}

func (e *Exception) Error() string {
	if e.Name == "" {
		return e.Message
	}
	return e.Name + ": " + e.Message
}

// instance creates the WASM instance. Its memory starts as that of the template, or empty without
// one.
func (v *VM) instance(ctx context.Context, t *Template, o Options) (*Instance, error) {
	in := &Instance{o: o, t: t, base: o.Clock(), since: time.Now()}
	image := linear.NewImage(0, nil, 0)
	if t != nil {
		image = t.image
	}
	var err error
	if in.linear, err = linear.New(image, MaxMemory); err != nil {
		return nil, fmt.Errorf("reserve memory: %w", err)
	}
	alloc := experimental.MemoryAllocatorFunc(func(_, _ uint64) experimental.LinearMemory { return in.linear })
	in.With(ctx)
	cfg := wazero.NewModuleConfig().WithName("").WithStartFunctions().WithRandSource(in.o.Rand)
	if in.mod, err = v.rt.InstantiateModule(experimental.WithMemoryAllocator(ctx, alloc), v.mod, cfg); err != nil {
		in.Close()
		return nil, fmt.Errorf("instantiate engine: %w", err)
	}
	in.mem = in.mod.Memory()
	var ok bool
	if in.sp, ok = in.mod.ExportedGlobal("__stack_pointer").(api.MutableGlobal); !ok {
		err = errors.New("the engine does not export its stack pointer")
	} else {
		in.gauge, err = meter.NewGauge(in.mod)
	}
	if err != nil {
		in.Close()
		return nil, err
	}
	return in, nil
}

// With sets the context of the following calls. Only a VM created with Crosscheck uses it: when it
// ends, the guest is stopped and the instance can only be closed.
func (in *Instance) With(ctx context.Context) { in.ctx = &door{ctx, in} }

// Arm sets the fuel budget of the next run. Without it the instance has none.
func (in *Instance) Arm(fuel uint64) { in.gauge.Arm(fuel) }

// Fuel returns the fuel used since Arm. It may be called from any goroutine.
func (in *Instance) Fuel() uint64 { return in.gauge.Used() }

// Exhausted reports whether the fuel budget is used up.
func (in *Instance) Exhausted() bool { return in.gauge.Exhausted() }

// Stop makes JavaScript end with an uncatchable exception at its next check. It may be called from
// any goroutine.
func (in *Instance) Stop() { in.stop.Store(true) }

// Halt is Stop, but ends the guest's code at any point. It may be called from any goroutine.
func (in *Instance) Halt() {
	in.stop.Store(true)
	in.gauge.Stop()
}

// errStopped is the error of a call that was ended by Stop.
var errStopped = errors.New("stopped")

func (in *Instance) stopped() bool { return in.stop.Load() }

// SetLimits sets the JavaScript stack and the linear memory in bytes. The engine's own heap limit
// is 2 MiB lower, so that code gets a catchable error first.
func (in *Instance) SetLimits(stack, memory int64) error {
	in.linear.Limit = uint64(memory)
	if memory != in.memory {
		if _, err := in.call(fnMemoryLimit, uint64(max(memory-2<<20, 1<<20))); err != nil {
			return err
		}
	}
	if stack != in.stack {
		if _, err := in.call(fnStackLimit, uint64(stack)); err != nil {
			return err
		}
	}
	in.memory, in.stack = memory, stack
	return nil
}

// MemoryBytes returns the size of linear memory, which never shrinks, so it is also the peak. It
// may be called from any goroutine.
func (in *Instance) MemoryBytes() int64 { return int64(in.linear.Size()) }

// MemoryRefused reports whether growth was refused because of the limit.
func (in *Instance) MemoryRefused() bool { return in.linear.Refused() }

// Close frees the instance. It may be called more than once.
func (in *Instance) Close() {
	if in.mod != nil {
		_ = in.mod.Close(context.Background()) // fails only for a start function's exit code
		in.mod = nil
	}
	if in.broken == nil {
		in.broken = errors.New("instance is closed")
	}
	if in.linear != nil {
		in.linear.Release()
		in.linear = nil
	}
}

// clock returns the time for the guest in nanoseconds. The monotonic clock starts at the wall clock
// of the call of Seed.
func (in *Instance) clock(id uint32) int64 {
	const realtime = 0
	if id == realtime {
		return in.o.Clock()
	}
	if in.since.IsZero() {
		return in.base
	}
	return in.base + int64(time.Since(in.since))
}

// call calls an export. After the first failure every call returns that error, because memory may
// be inconsistent.
func (in *Instance) call(f fn, args ...uint64) (uint64, error) {
	if in.broken != nil {
		return 0, in.broken
	}
	if in.depth == maxDepth {
		in.broken = errors.New("too many calls inside calls")
		return 0, in.broken
	}
	e := &in.fns[f]
	target, outer := e.f, !e.busy
	if !outer {
		if n := len(e.inner); n > 0 {
			target, e.inner = e.inner[n-1], e.inner[:n-1]
		} else {
			target = nil
		}
	}
	if target == nil {
		if target = in.mod.ExportedFunction(fnNames[f]); target == nil {
			return 0, fmt.Errorf("engine has no export %s", fnNames[f])
		}
		if outer {
			e.f = target
		}
	}
	frame := &in.frames[in.depth]
	copy(frame[:], args)
	in.depth++
	e.busy = true
	err := target.CallWithStack(in.ctx, frame[:])
	in.depth--
	if outer {
		e.busy = false
	} else {
		e.inner = append(e.inner, target)
	}
	if err != nil {
		in.broken = err
		return 0, err
	}
	return frame[0], nil
}

// must is call for use inside a host function, where a failure can only unwind.
func (in *Instance) must(f fn, args ...uint64) uint64 {
	r, err := in.call(f, args...)
	if err != nil {
		panic(err)
	}
	return r
}

// put copies b and a zero byte into the guest, to the scratch memory if there is room. Release it
// with drop, in reverse order.
func (in *Instance) put(b []byte) (uint64, error) {
	n := (uint32(len(b)) + 1 + 7) &^ 7
	var p uint32
	if in.hasScratch() && n <= scratchSize-in.top {
		p = in.t.Scratch + in.top
		in.top += n
	} else {
		q, err := in.call(fnMalloc, uint64(len(b)+1))
		if err != nil {
			return 0, err
		}
		if p = uint32(q); p == 0 {
			return 0, ErrMemory
		}
	}
	if !in.mem.Write(p, b) || !in.mem.WriteByte(p+uint32(len(b)), 0) {
		return 0, errBounds
	}
	return uint64(p), nil
}

func (in *Instance) hasScratch() bool { return in.t != nil && in.t.Scratch != 0 }

// drop releases what put allocated.
func (in *Instance) drop(p uint64) error {
	if q := uint32(p); in.hasScratch() && q >= in.t.Scratch && q-in.t.Scratch < scratchSize {
		in.top = q - in.t.Scratch
		return nil
	}
	_, err := in.call(fnFree, p)
	return err
}

// Compile compiles source to bytecode for EvalBytecode, without the source text. A syntax error is
// a *Exception, with the position in Stack.
func (in *Instance) Compile(source, file string, module bool) ([]byte, error) {
	src, err := in.put([]byte(source))
	if err != nil {
		return nil, err
	}
	name, err := in.put([]byte(file))
	if err != nil {
		return nil, err
	}
	size, err := in.put(make([]byte, 4))
	if err != nil {
		return nil, err
	}
	var flags uint64
	if module {
		flags = 1
	}
	const stripSource = 1 << 4
	p, err := in.call(fnCompile, src, uint64(len(source)), name, flags, stripSource, size)
	if err != nil {
		return nil, err
	}
	if uint32(p) == 0 {
		return nil, in.exception()
	}
	n, _ := in.mem.ReadUint32Le(uint32(size))
	b, ok := in.mem.Read(uint32(p), n)
	if !ok {
		return nil, errBounds
	}
	out := append([]byte(nil), b...)
	if _, err := in.call(fnFree, p); err != nil {
		return nil, err
	}
	for _, q := range []uint64{size, name, src} {
		if err := in.drop(q); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// EvalBytecode runs bytecode made by Compile of the same engine version and returns its completion
// value, which for a module is a promise of its namespace.
func (in *Instance) EvalBytecode(code []byte) (Value, error) {
	p, err := in.put(code)
	if err != nil {
		return 0, err
	}
	r, err := in.call(fnBytecode, p, uint64(len(code)))
	if err != nil {
		return 0, err
	}
	if err := in.drop(p); err != nil {
		return 0, err
	}
	return in.result(r)
}

// Call calls fn with undefined as this.
func (in *Instance) Call(f Value, args ...Value) (Value, error) {
	var argv [4 * 8]byte
	for i, a := range args {
		binary.LittleEndian.PutUint32(argv[4*i:], uint32(a))
	}
	p, err := in.put(argv[:4*len(args)])
	if err != nil {
		return 0, err
	}
	r, err := in.call(fnCall, uint64(f), uint64(in.t.Handles.Undefined), uint64(len(args)), p)
	if err != nil {
		return 0, err
	}
	if err := in.drop(p); err != nil {
		return 0, err
	}
	return in.result(r)
}

// Enter calls the function that the prelude returned. A result that is undefined need not be freed.
func (in *Instance) Enter(what int, args ...Value) (Value, error) {
	var all [5]Value
	all[0] = in.t.Handles.Small[what]
	return in.Call(in.t.Handles.Enter, all[:1+copy(all[1:], args)]...)
}

// The states of a promise.
const (
	Pending = iota
	Fulfilled
	Rejected
)

// PromiseState returns the state of a promise, and Pending for anything else.
func (in *Instance) PromiseState(v Value) (int, error) {
	r, err := in.call(fnPromiseState, uint64(v))
	return max(int(int32(r)), Pending), err
}

// PromiseResult returns the result or the reason of a promise that is not pending.
func (in *Instance) PromiseResult(v Value) (Value, error) {
	return in.value(in.call(fnPromiseResult, uint64(v)))
}

func (in *Instance) value(r uint64, err error) (Value, error) { return Value(r), err }

// Free releases a handle.
func (in *Instance) Free(v Value) error {
	_, err := in.call(fnFreeValue, uint64(v))
	return err
}

func (in *Instance) result(r uint64) (Value, error) {
	if v := Value(r); !in.isException(v) {
		return v, nil
	}
	return 0, in.exception()
}

// RunJob runs one pending promise job; more is false if there was none.
func (in *Instance) RunJob() (more bool, err error) {
	r, err := in.call(fnJob)
	if err != nil {
		return false, err
	}
	if int32(r) < 0 {
		return false, in.exception()
	}
	return int32(r) > 0, nil
}

// exception returns the pending exception. Reading it may run guest code (a getter), under the same
// limits as everything else.
func (in *Instance) exception() error {
	if in.stopped() {
		return errStopped
	}
	v, err := in.call(fnException)
	if err != nil {
		return err
	}
	e := &Exception{}
	isErr, err := in.call(fnIsError, v)
	if err != nil {
		return err
	}
	if uint32(isErr) == 0 {
		if e.Message, err = in.String(Value(v)); err != nil {
			return err
		}
		return e
	}
	for _, f := range []struct {
		name string
		dst  *string
	}{{"name", &e.Name}, {"message", &e.Message}, {"stack", &e.Stack}} {
		p, err := in.put([]byte(f.name))
		if err != nil {
			return err
		}
		s, err := in.call(fnProperty, v, p)
		if err != nil {
			return err
		}
		if *f.dst, err = in.String(Value(s)); err != nil {
			return err
		}
		if err := in.drop(p); err != nil {
			return err
		}
	}
	return e
}

// NewString returns a new JavaScript string with the UTF-8 text s.
func (in *Instance) NewString(s []byte) (Value, error) {
	p, err := in.put(s)
	if err != nil {
		return 0, err
	}
	v, err := in.call(fnNewString, p, uint64(len(s)))
	if err != nil {
		return 0, err
	}
	if err := in.drop(p); err != nil {
		return 0, err
	}
	return in.result(v)
}

// NewNumber returns a new number.
func (in *Instance) NewNumber(f float64) (Value, error) {
	v, err := in.call(fnNewNumber, math.Float64bits(f))
	return Value(v), err
}

// NewBool returns a boolean.
func (in *Instance) NewBool(b bool) (Value, error) {
	f := fnFalse
	if b {
		f = fnTrue
	}
	v, err := in.call(f)
	return Value(v), err
}

// String converts a value to text and copies it out of the guest; lone surrogates become U+FFFD.
// For a value that cannot be converted it returns "".
func (in *Instance) String(v Value) (string, error) {
	b, err := in.Bytes(v)
	if err != nil {
		return "", err
	}
	return text(b), nil
}

// Bytes is String without a check of the encoding: lone surrogates are three bytes each.
func (in *Instance) Bytes(v Value) ([]byte, error) {
	size, err := in.put(zeros[:])
	if err != nil {
		return nil, err
	}
	p, err := in.call(fnString, uint64(v), size)
	if err != nil {
		return nil, err
	}
	var out []byte
	if uint32(p) != 0 {
		n, _ := in.mem.ReadUint32Le(uint32(size))
		b, ok := in.mem.Read(uint32(p), n)
		if !ok {
			return nil, errBounds
		}
		out = append(make([]byte, 0, len(b)), b...)
		if _, err := in.call(fnFreeString, p); err != nil {
			return nil, err
		}
	}
	return out, in.drop(size)
}

var zeros [4]byte

// Snapshot returns a copy of the whole linear memory, for tests and for Build.
func (in *Instance) Snapshot() []byte {
	b, _ := in.mem.Read(0, in.mem.Size())
	return append([]byte(nil), b...)
}
