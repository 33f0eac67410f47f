package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"helixbench/figures"

	extism "github.com/extism/go-sdk"
	"github.com/tetratelabs/wazero"

	"helix/backend/sandbox"
)

// clang compiles a C program of this folder for WASI.
func (b *bench) clang(out, source string, args ...string) string {
	file := filepath.Join(b.dir, out)
	// The runtime library of clang is a separate package, and not needed.
	all := append([]string{"--target=wasm32-wasi", "-O2", "-nodefaultlibs", "-lc", "-Wl,-s", "-o", file, filepath.Join(b.src, "wasm", source)}, args...)
	cmd := exec.Command("clang", all...)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		figures.Check(fmt.Errorf("clang: %w (apt install clang lld wasi-libc)", err))
	}
	return file
}

func compileWASM(e *sandbox.Engine, file string) *sandbox.Module {
	wasm, err := os.ReadFile(file)
	figures.Check(err)
	m, err := e.CompileWASM(context.Background(), wasm)
	figures.Check(err)
	return m
}

var own = sandbox.Call{Trust: sandbox.TrustOwn}

// wasmCPU compares C programs with the same files in Node.
func (b *bench) wasmCPU() {
	names := []string{"matmul", "sieve", "fib32", "crc"}
	var files []string
	for i, n := range names {
		files = append(files, b.clang(n+".wasm", "kernels.c", fmt.Sprintf("-DKERNEL=%d", i+1)))
	}
	peer := b.node("wasi.mjs", files...)
	var ratios []float64
	for i, n := range names {
		m := compileWASM(b.engine(), files[i])
		ours := ms(least(func() time.Duration { return run(b.engine(), m, own).Usage.CPU }))
		b.report("wasm.cpu."+n, ours, "ms", peer[files[i]], "node WASI", 2.1)
		ratios = append(ratios, ours/peer[files[i]])
	}
	b.report("wasm.cpu, geometric mean of ratios", geomean(ratios), "x", 0, "node WASI", 1.8)
}

// wasmJSON compares a fresh instance and one call, from JSON to JSON, with Extism.
func (b *bench) wasmJSON() {
	const input, want = `{"name":"two hosts, one module","list":[1,2,3,40,500,6000],"more":{"x":7,"y":[8,9]}}`, `{"count":9,"sum":6570}`
	m := compileWASM(b.engine(), b.clang("json.wasm", "json.c", "-mexec-model=reactor"))
	wall, cpu := b.many(m, sandbox.Call{Trust: sandbox.TrustOwn, Input: json.RawMessage(input)}, want)
	ctx := context.Background()
	plugin, err := extism.NewCompiledPlugin(ctx, extism.Manifest{Wasm: []extism.Wasm{extism.WasmFile{Path: b.clang("extism.wasm", "json.c", "-mexec-model=reactor", "-DEXTISM")}}},
		extism.PluginConfig{EnableWasi: true}, nil)
	figures.Check(err)
	defer plugin.Close(ctx) //nolint:errcheck // the end of the measure
	const warm, n = 300, 2000
	var took []time.Duration
	var began time.Duration
	for i := range warm + n {
		if i == warm {
			began = processCPU()
		}
		t := time.Now()
		p, err := plugin.Instance(ctx, extism.PluginInstanceConfig{ModuleConfig: wazero.NewModuleConfig()})
		figures.Check(err)
		_, out, err := p.Call("execute", []byte(input))
		figures.Check(err)
		if string(out) != want {
			figures.Check(fmt.Errorf("extism gives %s", out))
		}
		figures.Check(p.Close(ctx))
		if i >= warm {
			took = append(took, time.Since(t))
		}
	}
	b.report("wasm.json, fresh instance and call p50", us(wall), "us", us(median(took)), "extism go-sdk", 0.5)
	b.report("wasm.json, processor time a call with its reset", us(cpu), "us", us((processCPU()-began)/n), "extism go-sdk", 0)
}

// compile measures how long a large Go module takes the first time and from the cache, in separate
// processes, and whether the time is linear in the size.
func (b *bench) compile() {
	large, small := b.goModule("large", largeProgram), b.goModule("small", smallProgram)
	sizeOf := func(file string) float64 {
		info, err := os.Stat(file)
		figures.Check(err)
		return float64(info.Size()) / 1e6
	}
	exe, err := os.Executable()
	figures.Check(err)
	compile := func(dir, file string) (wall, cpu float64) {
		m := ask(exe, "-role", "modules", "-cache", dir, file)
		return m["ms"], m["cpu"]
	}
	wall, cpu, warm, warmCPU, little := math.Inf(1), math.Inf(1), math.Inf(1), math.Inf(1), math.Inf(1)
	for i := range 3 { // the minimum, because other load only makes it longer
		dir := b.cacheDir("compile" + strconv.Itoa(i))
		_, c := compile(dir, small) // now the engine's own code is cached
		little = min(little, c)
		w, c := compile(dir, large)
		wall, cpu = min(wall, w), min(cpu, c)
		w, c = compile(dir, large)
		warm, warmCPU = min(warm, w), min(warmCPU, c)
	}
	b.report(fmt.Sprintf("ceiling.compile, Go module of %.1f MB, uncached", sizeOf(large)), wall/1000, "s", 0, none, 4)
	b.report("ceiling.compile, the same, processor time of two workers", cpu/1000, "s", 0, none, 0)
	b.report("ceiling.compile, the same, cached", warm, "ms", 0, none, 50)
	b.report("ceiling.compile, the same, cached, processor time", warmCPU, "ms", 0, none, 0)
	b.report(fmt.Sprintf("ceiling.compile, processor time a MB against a module of %.1f MB", sizeOf(small)), cpu/sizeOf(large), "ms", little/sizeOf(small), "the smaller module", 1.5)
}

func (b *bench) goModule(name, text string) string {
	dir := filepath.Join(b.dir, "go-"+name)
	figures.Check(os.MkdirAll(dir, 0o700))
	figures.Check(os.WriteFile(filepath.Join(dir, "main.go"), []byte(text), 0o600))
	figures.Check(os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module "+name+"\n\ngo 1.26\n"), 0o600))
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", "main.wasm", ".")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=")
	figures.Check(cmd.Run())
	return filepath.Join(dir, "main.wasm")
}

const smallProgram = `package main

import "os"

func main() { os.Stdout.WriteString("1") }
`

const largeProgram = `package main

import (
	"encoding/gob"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"regexp"
	"text/tabwriter"
)

func main() {
	var v any
	_ = json.NewDecoder(os.Stdin).Decode(&v)
	w := tabwriter.NewWriter(os.Stderr, 1, 1, 1, ' ', 0)
	_ = gob.NewEncoder(os.Stderr).Encode(v)
	n, _ := new(big.Float).SetString("1e9")
	fmt.Fprintln(w, n, regexp.MustCompile("a+").FindString(fmt.Sprint(v)))
	fmt.Println(1)
}
`

// timeModule is the measured process of compile.
func timeModule(dir, file string) {
	e := openEngine(sandbox.Options{CacheDir: dir})
	t, worked := time.Now(), processCPU()
	m := compileWASM(e, file)
	took := time.Since(t)
	worked = processCPU() - worked
	if r := run(e, m, sandbox.Call{Trust: sandbox.TrustOwn, Input: json.RawMessage("{}")}); string(r.Output) != "1" {
		figures.Check(fmt.Errorf("the module printed %s", r.Output))
	}
	fmt.Printf(`{"ms":%g,"cpu":%g}`, ms(took), ms(worked))
}
