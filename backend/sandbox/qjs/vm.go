// Package qjs drives the quickjs-ng engine, built as a metered WASM module, under wazero:
// it loads prepared worlds, creates instances of them, each with its own memory, and resets used
// instances. It does not know about tools, and the guest has only a clock, random bytes and one
// host function; backend/sandbox builds everything else. Only backend/sandbox and the program that
// builds the engine artefacts may import it.
package qjs

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// MaxMemory is the largest linear memory, in bytes, that an instance may be given.
const MaxMemory = 256 << 20

// Config configures a VM. The zero value works.
type Config struct {
	Cache      wazero.CompilationCache // for machine code; nil: none
	Crosscheck bool                    // also stop guests through their context; slower
}

// VM is the compiled engine. It is safe for use by many goroutines.
type VM struct {
	rt         wazero.Runtime
	mod        wazero.CompiledModule
	crosscheck bool
}

// The WASI errno that every file operation returns: the guest has no files.
const badFile = 8

// New compiles an instrumented engine, or loads its machine code from the cache. Compilation takes
// about a second; ctx can cancel it.
func New(ctx context.Context, wasm []byte, c Config) (*VM, error) {
	cfg := wazero.NewRuntimeConfigCompiler().
		WithCloseOnContextDone(c.Crosscheck).
		WithMemoryLimitPages(MaxMemory >> 16).
		WithCoreFeatures(api.CoreFeaturesV2)
	if c.Cache != nil {
		cfg = cfg.WithCompilationCache(c.Cache)
	}
	v := &VM{rt: wazero.NewRuntimeWithConfig(ctx, cfg), crosscheck: c.Crosscheck}
	if err := v.link(ctx); err != nil {
		v.rt.Close(ctx)
		return nil, fmt.Errorf("link engine: %w", err)
	}
	mod, err := v.rt.CompileModule(experimental.WithCompilationWorkers(ctx, 2), wasm)
	if err != nil {
		v.rt.Close(ctx)
		return nil, fmt.Errorf("compile engine: %w", err)
	}
	v.mod = mod
	return v, nil
}

// Close frees the compiled code. Close every Instance first.
func (v *VM) Close() error { return v.rt.Close(context.Background()) }

// link defines the twelve imports of the engine.
func (v *VM) link(ctx context.Context) error {
	const i32, i64 = api.ValueTypeI32, api.ValueTypeI64
	type fn = func(ctx context.Context, m api.Module, s []uint64)
	def := func(b wazero.HostModuleBuilder, name string, f fn, in, out []api.ValueType) {
		b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(f), in, out).Export(name)
	}
	constant := func(n uint64) fn { return func(_ context.Context, _ api.Module, s []uint64) { s[0] = n } }
	is := func(n int) []api.ValueType {
		t := make([]api.ValueType, n)
		for i := range t {
			t[i] = i32
		}
		return t
	}

	env := v.rt.NewHostModuleBuilder("env")
	def(env, "host_get_timezone_offset", constant(0), is(2), is(1)) // guests are in UTC
	def(env, "host_interrupt", func(ctx context.Context, _ api.Module, s []uint64) {
		s[0] = 0
		if from(ctx).stopped() {
			s[0] = 1
		}
	}, nil, is(1))
	def(env, "host_promise_rejection", func(context.Context, api.Module, []uint64) {}, is(3), nil)
	def(env, "host_module_normalize", constant(0), is(2), is(1))
	def(env, "host_module_load", constant(0), is(2), is(1))
	def(env, "host_call", func(ctx context.Context, _ api.Module, s []uint64) {
		s[0] = uint64(from(ctx).hostCall(uint32(s[3]), uint32(s[4])))
	}, is(5), is(1))
	if _, err := env.Instantiate(ctx); err != nil {
		return err
	}

	wasi := v.rt.NewHostModuleBuilder("wasi_snapshot_preview1")
	def(wasi, "clock_time_get", func(ctx context.Context, m api.Module, s []uint64) {
		ok := m.Memory().WriteUint64Le(uint32(s[2]), uint64(from(ctx).clock(uint32(s[0]))))
		s[0] = 0
		if !ok {
			s[0] = 21 // fault
		}
	}, []api.ValueType{i32, i64, i32}, is(1))
	def(wasi, "random_get", func(ctx context.Context, m api.Module, s []uint64) {
		b, ok := m.Memory().Read(uint32(s[0]), uint32(s[1]))
		s[0] = 0
		if !ok {
			s[0] = 21 // fault
		} else if _, err := io.ReadFull(from(ctx).o.Rand, b); err != nil {
			s[0] = 29 // input/output error
		}
	}, is(2), is(1))
	def(wasi, "fd_close", constant(badFile), is(1), is(1))
	def(wasi, "fd_fdstat_get", constant(badFile), is(2), is(1))
	def(wasi, "fd_seek", constant(badFile), []api.ValueType{i32, i64, i32, i32}, is(1))
	def(wasi, "fd_write", constant(badFile), is(4), is(1))
	_, err := wasi.Instantiate(ctx)
	return err
}

// door is the context of every call into a guest. It passes the instance to the imports without the
// chain of values that wazero would otherwise have to search at each call.
type door struct {
	context.Context // of the run with Crosscheck, else context.Background
	in              *Instance
}

// Value returns nil for every key: wazero looks up a value at every call.
func (*door) Value(any) any { return nil }

func from(ctx context.Context) *Instance { return ctx.(*door).in }

// ErrMemory is the error of an instance that ran out of memory outside JavaScript, where no
// exception could be thrown.
var ErrMemory = errors.New("out of memory")
