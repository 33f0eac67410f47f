package qjs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync/atomic"
	"unicode/utf8"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// Options of one instance. Rand and Clock are required.
type Options struct {
	Eval  bool         // keep eval, Function and import(), for compiling
	Clock func() int64 // nanoseconds since 1970
	Rand  io.Reader
	Seed  [8]byte // of Math.random
	Host  func(in *Instance, args []Value) Value
}

// Value is a handle to a JavaScript value inside one instance. 0 is none.
type Value uint32

// Instance is one JavaScript world with its own memory. One goroutine uses it at a time;
// only Stop may be called from others.
type Instance struct {
	o      Options
	mod    api.Module
	mem    api.Memory
	linear *linear
	fns    map[string]api.Function
	ctx    context.Context
	stop   atomic.Bool
	init   bool // while the engine starts: the clock gives the seed
	broken error
	fixed
	top    uint32 // of the scratch memory in use
	stack  int64  // limits set last
	memory int64
}

// fixed are the places of an instance that its copies have in common.
type fixed struct {
	scratch   uint32 // scratchSize bytes for what the host hands over
	undefined Value
	small     [4]Value // the numbers 0 to 3
}

// scratchSize is enough for most inputs and programs. Calls into the guest cost more than
// anything else of a short run, so it saves those for getting and freeing memory.
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

// intrinsicsWithoutEval is every built-in but the ones that make code from text.
const intrinsicsWithoutEval = uint64(^uint32(2))

// Instantiate makes an instance whose memory may grow to MaxMemory. It must be closed.
func (v *VM) Instantiate(ctx context.Context, o Options) (*Instance, error) {
	in, err := v.instance(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := in.start(); err != nil {
		in.Close()
		return nil, fmt.Errorf("initialise engine: %w", err)
	}
	return in, nil
}

// instance makes the WASM instance; the engine in it has not started.
func (v *VM) instance(ctx context.Context, o Options) (*Instance, error) {
	in := &Instance{o: o, fns: map[string]api.Function{}, init: true}
	in.linear = newLinear(MaxMemory)
	alloc := experimental.MemoryAllocatorFunc(func(_, _ uint64) experimental.LinearMemory { return in.linear })
	in.With(ctx)
	cfg := wazero.NewModuleConfig().WithName("").WithStartFunctions().WithRandSource(in.o.Rand)
	var err error
	in.mod, err = v.rt.InstantiateModule(experimental.WithMemoryAllocator(in.ctx, alloc), v.mod, cfg)
	if err != nil {
		in.Close()
		return nil, fmt.Errorf("instantiate engine: %w", err)
	}
	in.mem = in.mod.Memory()
	return in, nil
}

func (in *Instance) start() error {
	if _, err := in.call("_initialize"); err != nil {
		return err
	}
	name, args := "qjs_init2", []uint64{intrinsicsWithoutEval}
	if in.o.Eval {
		name, args = "qjs_init", nil
	}
	r, err := in.call(name, args...)
	if err == nil && uint32(r) != 0 {
		err = fmt.Errorf("code %d", r)
	}
	if err != nil {
		return err
	}
	in.init = false
	if _, err = in.call("qjs_set_interrupt_handler", 1); err != nil {
		return err
	}
	p, err := in.call("wasm_malloc", scratchSize)
	if err != nil {
		return err
	}
	in.scratch = uint32(p)
	if in.undefined, err = in.value(in.call("qjs_get_undefined")); err != nil {
		return err
	}
	for i := range in.small {
		if in.small[i], err = in.value(in.call("qjs_new_number", math.Float64bits(float64(i)))); err != nil {
			return err
		}
	}
	return nil
}

func (in *Instance) value(r uint64, err error) (Value, error) { return Value(r), err }

// With makes ctx the context of the following calls: when it ends, the guest is stopped
// wherever it is and the instance can only be closed.
func (in *Instance) With(ctx context.Context) {
	in.ctx = context.WithValue(ctx, instanceKey{}, in)
}

// SetLimits sets the JavaScript stack and the linear memory in bytes. The engine's own
// heap limit is 2 MiB below, so that code sees a catchable error first.
func (in *Instance) SetLimits(stack, memory int64) error {
	in.linear.limit = uint64(memory)
	if memory != in.memory {
		heap := max(memory-2<<20, 1<<20)
		if _, err := in.call("qjs_set_memory_limit", uint64(heap)); err != nil {
			return err
		}
	}
	if stack != in.stack {
		if _, err := in.call("qjs_set_max_stack_size", uint64(stack)); err != nil {
			return err
		}
	}
	in.memory, in.stack = memory, stack
	return nil
}

// MemoryBytes is the size of linear memory, which never shrinks: the peak.
func (in *Instance) MemoryBytes() int64 { return int64(in.linear.size.Load()) }

// MemoryRefused reports whether growth was refused because of the limit.
func (in *Instance) MemoryRefused() bool { return in.linear.refused.Load() }

// Stop makes JavaScript end with an uncatchable exception at its next check.
func (in *Instance) Stop() { in.stop.Store(true) }

// errStopped is the error of a call that Stop has ended.
var errStopped = errors.New("stopped")

func (in *Instance) stopped() bool { return in.stop.Load() || in.ctx.Err() != nil }

// Close frees the instance. It may be repeated.
func (in *Instance) Close() {
	if in.mod != nil {
		in.mod.Close(context.Background())
		in.mod = nil
	}
	if in.linear != nil {
		in.linear.release()
		in.linear = nil
	}
}

func (in *Instance) clock() int64 {
	if in.init {
		// The engine seeds Math.random from the first time that it is shown.
		return int64(binary.LittleEndian.Uint64(in.o.Seed[:]) >> 1)
	}
	return in.o.Clock()
}

// call calls an export. After the first failure every call gives that failure: memory may
// be half written, and after a stop it must not be touched again.
func (in *Instance) call(name string, args ...uint64) (uint64, error) {
	if in.broken != nil {
		return 0, in.broken
	}
	f := in.fns[name]
	if f == nil {
		if f = in.mod.ExportedFunction(name); f == nil {
			return 0, fmt.Errorf("engine has no export %s", name)
		}
		in.fns[name] = f
	}
	var stack [8]uint64
	copy(stack[:], args)
	if err := f.CallWithStack(in.ctx, stack[:]); err != nil {
		in.broken = err
		return 0, err
	}
	return stack[0], nil
}

// must is call inside a host function, where a failure can only unwind.
func (in *Instance) must(name string, args ...uint64) uint64 {
	r, err := in.call(name, args...)
	if err != nil {
		panic(err)
	}
	return r
}

// put copies b and a zero byte into the guest, on the scratch memory when there is room.
// Give it back with drop, the last one first.
func (in *Instance) put(b []byte) (uint64, error) {
	n := (uint32(len(b)) + 1 + 7) &^ 7
	var p uint32
	if in.scratch != 0 && n <= scratchSize-in.top {
		p = in.scratch + in.top
		in.top += n
	} else {
		q, err := in.call("wasm_malloc", uint64(len(b)+1))
		if err != nil {
			return 0, err
		}
		if p = uint32(q); p == 0 {
			return 0, ErrMemory
		}
	}
	if !in.mem.Write(p, b) || !in.mem.WriteByte(p+uint32(len(b)), 0) {
		return 0, errors.New("engine gave memory out of bounds")
	}
	return uint64(p), nil
}

// drop gives back what put gave.
func (in *Instance) drop(p uint64) error {
	if q := uint32(p); in.scratch != 0 && q >= in.scratch && q < in.scratch+scratchSize {
		in.top = q - in.scratch
		return nil
	}
	_, err := in.call("wasm_free", p)
	return err
}

// Compile turns source into bytecode for EvalBytecode, without the source text. A
// *Exception is a syntax error, its position in Stack.
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
	p, err := in.call("qjs_compile", src, uint64(len(source)), name, flags, stripSource, size)
	if err != nil {
		return nil, err
	}
	if uint32(p) == 0 {
		return nil, in.exception()
	}
	n, _ := in.mem.ReadUint32Le(uint32(size))
	b, ok := in.mem.Read(uint32(p), n)
	if !ok {
		return nil, errors.New("engine gave bytecode out of bounds")
	}
	out := append([]byte(nil), b...)
	if _, err := in.call("wasm_free", p); err != nil {
		return nil, err
	}
	for _, q := range []uint64{size, name, src} {
		if err := in.drop(q); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// EvalBytecode runs bytecode made by Compile of the same engine version and gives its
// completion value, for a module a promise of its namespace.
func (in *Instance) EvalBytecode(code []byte) (Value, error) {
	p, err := in.put(code)
	if err != nil {
		return 0, err
	}
	r, err := in.call("qjs_eval_bytecode", p, uint64(len(code)))
	if err != nil {
		return 0, err
	}
	if err := in.drop(p); err != nil {
		return 0, err
	}
	return in.result(r)
}

// Call calls fn with undefined as this.
func (in *Instance) Call(fn Value, args ...Value) (Value, error) {
	argv := make([]byte, 4*len(args))
	for i, a := range args {
		binary.LittleEndian.PutUint32(argv[4*i:], uint32(a))
	}
	p, err := in.put(argv)
	if err != nil {
		return 0, err
	}
	r, err := in.call("qjs_call", uint64(fn), uint64(in.undefined), uint64(len(args)), p)
	if err != nil {
		return 0, err
	}
	if err := in.drop(p); err != nil {
		return 0, err
	}
	return in.result(r)
}

// Free gives a handle back.
func (in *Instance) Free(v Value) error {
	_, err := in.call("qjs_free_value", uint64(v))
	return err
}

func (in *Instance) result(r uint64) (Value, error) {
	bad, err := in.call("qjs_is_exception", r)
	if err != nil {
		return 0, err
	}
	if uint32(bad) != 0 {
		return 0, in.exception()
	}
	return Value(r), nil
}

// RunJob runs one pending promise job; more is false when there was none.
func (in *Instance) RunJob() (more bool, err error) {
	r, err := in.call("qjs_execute_pending_job")
	if err != nil {
		return false, err
	}
	if int32(r) < 0 {
		return false, in.exception()
	}
	return int32(r) > 0, nil
}

// exception takes the pending exception. Reading it may run guest code (a getter), under
// the same limits as everything.
func (in *Instance) exception() error {
	if in.stopped() {
		if err := context.Cause(in.ctx); err != nil {
			return err
		}
		return errStopped
	}
	v, err := in.call("qjs_get_exception")
	if err != nil {
		return err
	}
	e := &Exception{}
	isErr, err := in.call("qjs_is_error", v)
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
		s, err := in.call("qjs_get_prop_string", v, p)
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

// NewString makes a JavaScript string from UTF-8.
func (in *Instance) NewString(s []byte) (Value, error) {
	p, err := in.put(s)
	if err != nil {
		return 0, err
	}
	v, err := in.call("qjs_new_string", p, uint64(len(s)))
	if err != nil {
		return 0, err
	}
	if err := in.drop(p); err != nil {
		return 0, err
	}
	return in.result(v)
}

// Small is the number n, from 0 to 3. It is never freed.
func (in *Instance) Small(n int) Value { return in.small[n] }

// NewNumber makes a number.
func (in *Instance) NewNumber(f float64) (Value, error) {
	v, err := in.call("qjs_new_number", math.Float64bits(f))
	return Value(v), err
}

// NewBool makes a boolean.
func (in *Instance) NewBool(b bool) (Value, error) {
	name := "qjs_get_false"
	if b {
		name = "qjs_get_true"
	}
	v, err := in.call(name)
	return Value(v), err
}

// String copies a value, converted to text, out of the guest; lone surrogates become
// U+FFFD. A value that cannot be converted gives "".
func (in *Instance) String(v Value) (string, error) {
	b, err := in.Bytes(v)
	if err != nil {
		return "", err
	}
	if !utf8.Valid(b) {
		return toValid(b), nil
	}
	return string(b), nil
}

// Bytes is String without a check of the encoding: lone surrogates are three bytes each.
func (in *Instance) Bytes(v Value) ([]byte, error) {
	size, err := in.put(make([]byte, 4))
	if err != nil {
		return nil, err
	}
	p, err := in.call("qjs_get_string_len", uint64(v), size)
	if err != nil {
		return nil, err
	}
	var out []byte
	if uint32(p) != 0 {
		n, _ := in.mem.ReadUint32Le(uint32(size))
		b, ok := in.mem.Read(uint32(p), n)
		if !ok {
			return nil, errors.New("engine gave a string out of bounds")
		}
		out = append([]byte{}, b...)
		if _, err := in.call("qjs_free_cstring", p); err != nil {
			return nil, err
		}
	}
	return out, in.drop(size)
}

// Snapshot is a copy of the whole linear memory, for tests.
func (in *Instance) Snapshot() []byte {
	b, _ := in.mem.Read(0, in.mem.Size())
	return append([]byte(nil), b...)
}

// headroom is how much a settled instance has free, so that small runs never grow: an
// instance that grew cannot be used again.
const headroom = 2 << 20

// Settle collects garbage and gets memory in advance, so that copies of this instance start
// clean and with room.
func (in *Instance) Settle() error {
	if _, err := in.call("qjs_run_gc"); err != nil {
		return err
	}
	p, err := in.call("wasm_malloc", headroom)
	if err != nil {
		return err
	}
	_, err = in.call("wasm_free", p)
	return err
}
