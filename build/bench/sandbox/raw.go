package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"helixbench/figures"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"helix/backend/sandbox/meter"
	"helix/backend/sandbox/qjs"
)

type rawKind int

const (
	rawMetered rawKind = iota
	rawPlain
	rawClosing // wazero's own way to stop a guest
)

// raw runs the original engine under a minimal host, so that two of them differ only in the module
// or in how it can be stopped.
type raw struct {
	ctx   context.Context
	mod   api.Module
	gauge *meter.Gauge
	fns   map[string]api.Function
	host  func(r *raw, args []uint32) uint64
}

func newRaw(wasm []byte, kind rawKind) *raw {
	r := &raw{ctx: context.Background(), fns: map[string]api.Function{}}
	cfg := wazero.NewRuntimeConfigCompiler().WithMemoryLimitPages(4096)
	switch kind {
	case rawMetered:
		var err error
		wasm, _, err = meter.Instrument(wasm, meter.Options{})
		figures.Check(err)
	case rawClosing:
		cfg = cfg.WithCloseOnContextDone(true)
		ctx, cancel := context.WithCancel(r.ctx)
		r.ctx = ctx
		runtime.AddCleanup(r, func(cancel context.CancelFunc) { cancel() }, cancel)
	}
	rt := wazero.NewRuntimeWithConfig(r.ctx, cfg)
	r.link(rt)
	code, err := rt.CompileModule(r.ctx, wasm)
	figures.Check(err)
	r.mod, err = rt.InstantiateModule(r.ctx, code, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	figures.Check(err)
	if kind == rawMetered {
		r.gauge, err = meter.NewGauge(r.mod)
		figures.Check(err)
		r.gauge.Arm(math.MaxInt64)
	}
	r.call("_initialize")
	if r.call("qjs_init") != 0 {
		figures.Check(fmt.Errorf("the engine does not start"))
	}
	r.call("qjs_set_interrupt_handler", 1)
	return r
}

func (r *raw) link(rt wazero.Runtime) {
	const i32, i64 = api.ValueTypeI32, api.ValueTypeI64
	is := func(n int) (t []api.ValueType) {
		for range n {
			t = append(t, i32)
		}
		return t
	}
	def := func(b wazero.HostModuleBuilder, name string, in, out []api.ValueType, f func(m api.Module, s []uint64)) {
		b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, m api.Module, s []uint64) { f(m, s) }), in, out).Export(name)
	}
	zero := func(_ api.Module, s []uint64) { s[0] = 0 }
	bad := func(_ api.Module, s []uint64) { s[0] = 8 }
	env := rt.NewHostModuleBuilder("env")
	def(env, "host_get_timezone_offset", is(2), is(1), zero)
	def(env, "host_interrupt", nil, is(1), zero)
	def(env, "host_promise_rejection", is(3), nil, func(api.Module, []uint64) {})
	def(env, "host_module_normalize", is(2), is(1), zero)
	def(env, "host_module_load", is(2), is(1), zero)
	def(env, "host_call", is(5), is(1), func(m api.Module, s []uint64) {
		args := make([]uint32, s[3])
		for i := range args {
			args[i], _ = m.Memory().ReadUint32Le(uint32(s[4]) + uint32(i)*4)
		}
		s[0] = r.host(r, args)
	})
	_, err := env.Instantiate(r.ctx)
	figures.Check(err)
	wasi := rt.NewHostModuleBuilder("wasi_snapshot_preview1")
	def(wasi, "clock_time_get", []api.ValueType{i32, i64, i32}, is(1), func(m api.Module, s []uint64) {
		m.Memory().WriteUint64Le(uint32(s[2]), uint64(time.Now().UnixNano()))
		s[0] = 0
	})
	def(wasi, "random_get", is(2), is(1), func(m api.Module, s []uint64) {
		b, _ := m.Memory().Read(uint32(s[0]), uint32(s[1]))
		rand.Read(b) // never fails
		s[0] = 0
	})
	def(wasi, "fd_close", is(1), is(1), bad)
	def(wasi, "fd_fdstat_get", is(2), is(1), bad)
	def(wasi, "fd_seek", []api.ValueType{i32, i64, i32, i32}, is(1), bad)
	def(wasi, "fd_write", is(4), is(1), bad)
	_, err = wasi.Instantiate(r.ctx)
	figures.Check(err)
}

func (r *raw) call(name string, args ...uint64) uint32 {
	f := r.fns[name]
	if f == nil {
		f = r.mod.ExportedFunction(name)
		r.fns[name] = f
	}
	var s [8]uint64
	copy(s[:], args)
	figures.Check(f.CallWithStack(r.ctx, s[:]))
	return uint32(s[0])
}

func (r *raw) put(text string) uint64 {
	p := r.call("wasm_malloc", uint64(len(text)+1))
	r.mod.Memory().Write(p, append([]byte(text), 0))
	return uint64(p)
}

func (r *raw) eval(text string) uint32 {
	src, name := r.put(text), r.put("kernel.js")
	v := r.call("qjs_eval", src, uint64(len(text)), name, 0)
	if r.call("qjs_is_exception", uint64(v)) != 0 {
		figures.Check(fmt.Errorf("the kernel threw"))
	}
	r.call("wasm_free", src)
	r.call("wasm_free", name)
	return v
}

// time evaluates text and returns the CPU time that it took.
func (r *raw) time(text string) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if r.gauge != nil {
		r.gauge.Arm(math.MaxInt64)
	}
	t := threadCPU()
	v := r.eval(text)
	took := threadCPU() - t
	r.call("qjs_free_value", uint64(v))
	return took
}

const hostCalls = 20_000

// hostcall measures passing a string to the host and one back: in our engine, and in the plain one
// with WithCloseOnContextDone and handles.
func (b *bench) hostcall() {
	loop := fmt.Sprintf(`let n = 0; for (let i = 0; i < %d; i++) n += host("hello, host").length; if (n !== %d) throw new Error("wrong " + n);`, hostCalls, 10*hostCalls)
	ours := ourHost(loop)
	wasm, err := os.ReadFile(filepath.Join(b.src, "..", "node_modules", "quickjs-wasi", "quickjs.wasm"))
	figures.Check(err)
	r := newRaw(wasm, rawClosing)
	r.host = func(r *raw, args []uint32) uint64 {
		size := r.put("\x00\x00\x00\x00")
		p := r.call("qjs_get_string_len", uint64(args[0]), size)
		n, _ := r.mod.Memory().ReadUint32Le(uint32(size))
		text, _ := r.mod.Memory().Read(p, n)
		if string(text) != "hello, host" {
			figures.Check(fmt.Errorf("the host got %q", text))
		}
		r.call("qjs_free_cstring", uint64(p))
		r.call("wasm_free", size)
		back := r.put("hello, you")
		v := r.call("qjs_new_string", back, 10)
		r.call("wasm_free", back)
		return uint64(v)
	}
	name := r.put("host")
	f := r.call("qjs_new_host_function", name, 4, 0)
	global := r.call("qjs_get_global")
	r.call("qjs_set_prop_string", uint64(global), name, uint64(f))
	peer := least(func() time.Duration { return r.time("(function(){" + loop + "})()") }) / hostCalls
	b.report("hostcall, a string each way", us(ours), "us", us(peer), "WithCloseOnContextDone", 0.35)
}

// ourHost returns the CPU time of one call in the engine as it is shipped.
func ourHost(loop string) time.Duration {
	run, compile := world("run"), world("compile")
	ctx := context.Background()
	o := qjs.Options{Clock: func() int64 { return time.Now().UnixNano() }, Rand: rand.Reader, Host: func(in *qjs.Instance, args []qjs.Value) qjs.Value {
		if in.Text(args[0]) != "hello, host" {
			figures.Check(fmt.Errorf("the host got %q", in.Text(args[0])))
		}
		return in.Str("hello, you")
	}}
	module, err := os.ReadFile(artefact("run.wasm"))
	figures.Check(err)
	vm, err := qjs.New(ctx, module, qjs.Config{})
	figures.Check(err)
	c, err := vm.Copy(ctx, compile, o)
	figures.Check(err)
	c.Arm(math.MaxInt64)
	code, err := c.Compile("(function(host){"+loop+"})", "loop.js", false)
	figures.Check(err)
	in, err := vm.Copy(ctx, run, o)
	figures.Check(err)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return least(func() time.Duration {
		in.Arm(math.MaxInt64)
		t := threadCPU()
		figures.Check(in.CallWithHost(code))
		return threadCPU() - t
	}) / hostCalls
}

func artefact(name string) string {
	for _, dir := range []string{"../../backend/sandbox/artefacts", "backend/sandbox/artefacts"} {
		if p := filepath.Join(dir, name); exists(p) {
			return p
		}
	}
	figures.Check(fmt.Errorf("no %s: run make engines", name))
	return ""
}

func exists(p string) bool { _, err := os.Stat(p); return err == nil }

func world(name string) *qjs.Template {
	var manifest map[string]json.RawMessage
	text, err := os.ReadFile(artefact("manifest.json"))
	figures.Check(err)
	figures.Check(json.Unmarshal(text, &manifest))
	var l qjs.Layout
	figures.Check(json.Unmarshal(manifest[name], &l))
	snap, err := os.ReadFile(artefact(name + ".snap"))
	figures.Check(err)
	t, err := qjs.NewTemplate(snap, l)
	figures.Check(err)
	return t
}
