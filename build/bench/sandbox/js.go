package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"helixbench/figures"

	"github.com/dop251/goja"

	"helix/backend/sandbox"
)

var kernelNames = []string{"fib30", "json1mb", "regex", "sort100k", "nbody"}

func (b *bench) kernel(name string) string {
	text, err := os.ReadFile(filepath.Join(b.src, "kernels", name+".js"))
	figures.Check(err)
	return string(text)
}

func (b *bench) kernelFiles() []string {
	var all []string
	for _, n := range kernelNames {
		all = append(all, filepath.Join(b.src, "kernels", n+".js"))
	}
	return all
}

// jsCPU compares the five kernels with the same engine in V8, with goja, and with V8's own
// JavaScript.
func (b *bench) jsCPU() {
	e, node := b.engine(), b.serveNode()
	defer node.close()
	var toNode, toGoja []float64
	for i, name := range kernelNames {
		text, file := b.kernel(name), b.kernelFiles()[i]
		p, gojaRun := compileJS(e, text), gojaRunner(text)
		quickjs, jit, ours, other := math.Inf(1), math.Inf(1), math.Inf(1), math.Inf(1)
		for i := range 10 { // alternating, so that other load affects all of them; the first three are warm-up
			q, result := node.run("quickjs " + file)
			j, _ := node.run("vm " + file)
			r := run(e, p, sandbox.Call{})
			if string(r.Output) != fmt.Sprintf("%.0f", result) {
				figures.Check(fmt.Errorf("%s gives %s, in Node %v", name, r.Output, result))
			}
			g := ms(gojaRun())
			if i >= 3 {
				quickjs, jit, ours, other = min(quickjs, q), min(jit, j), min(ours, ms(r.Usage.CPU)), min(other, g)
			}
		}
		toNode, toGoja = append(toNode, ours/quickjs), append(toGoja, ours/other)
		b.report("js.cpu."+name, ours, "ms", quickjs, "quickjs.wasm in node", 2.4)
		goal := 0.0
		if name == "json1mb" {
			goal = 2.7
		}
		b.report("js.cpu."+name, ours, "ms", other, "goja", goal)
		b.report("js.cpu."+name, ours, "ms", jit, "node vm", 0)
	}
	b.report("js.cpu, geometric mean of ratios", geomean(toNode), "x", 0, "quickjs.wasm in node", 2.1)
	b.report("js.cpu, geometric mean of ratios", geomean(toGoja), "x", 0, "goja", 1.1)
}

func gojaRunner(text string) func() time.Duration {
	p, err := goja.Compile("kernel.js", "(function(){"+text+"})()", false)
	figures.Check(err)
	vm := goja.New()
	return func() time.Duration {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		t := threadCPU()
		_, err := vm.RunProgram(p)
		figures.Check(err)
		return threadCPU() - t
	}
}

// nodeServer runs kernels in Node, one at a time.
type nodeServer struct {
	in  io.WriteCloser
	out *bufio.Scanner
	cmd *exec.Cmd
}

func (b *bench) serveNode() *nodeServer {
	cmd := exec.Command("node", "--no-warnings", filepath.Join(b.src, "js.mjs"), "serve")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	figures.Check(err)
	out, err := cmd.StdoutPipe()
	figures.Check(err)
	figures.Check(cmd.Start())
	return &nodeServer{in, bufio.NewScanner(out), cmd}
}

func (n *nodeServer) run(line string) (ms, result float64) {
	_, err := fmt.Fprintln(n.in, line)
	figures.Check(err)
	if !n.out.Scan() {
		figures.Check(fmt.Errorf("node ended"))
	}
	var a struct{ MS, Result float64 }
	figures.Check(json.Unmarshal(n.out.Bytes(), &a))
	return a.MS, a.Result
}

func (n *nodeServer) close() {
	n.in.Close() //nolint:errcheck // it ends with its input
	n.cmd.Wait() //nolint:errcheck // as above
}

// meter compares the metered engine with the plain one, and with the plain one that wazero
// can interrupt by itself. All three run under the same small host of this program.
func (b *bench) meter() {
	wasm, err := os.ReadFile(filepath.Join(b.src, "..", "node_modules", "quickjs-wasi", "quickjs.wasm"))
	figures.Check(err)
	metered, plain, closing := newRaw(wasm, rawMetered), newRaw(wasm, rawPlain), newRaw(wasm, rawClosing)
	var toPlain, toClosing []float64
	for _, name := range kernelNames {
		text := "(function(){" + b.kernel(name) + "})()"
		// Alternating, so that other load affects all of them.
		best := [3]time.Duration{1 << 62, 1 << 62, 1 << 62}
		for i := range 10 {
			for k, r := range []*raw{metered, plain, closing} {
				if d := r.time(text); i >= 3 {
					best[k] = min(best[k], d)
				}
			}
		}
		m, p, c := ms(best[0]), ms(best[1]), ms(best[2])
		toPlain, toClosing = append(toPlain, m/p), append(toClosing, m/c)
		b.report("meter.js."+name, m, "ms", p, "unmetered", 1.2)
		b.report("meter.stop."+name, m, "ms", c, "WithCloseOnContextDone", 0)
	}
	b.report("meter.js, geometric mean of ratios", geomean(toPlain), "x", 0, "unmetered", 1.12)
	b.report("meter.stop, geometric mean of ratios", geomean(toClosing), "x", 0, "WithCloseOnContextDone", 0.5)
}

// hello measures a run in a fresh world. The reset after each run happens concurrently with the
// next runs and competes with them, so it is included.
func (b *bench) hello() {
	peer := b.node("js.mjs", "hello")["p50"]
	p := compileJS(b.engine(), "return 42")
	wall, cpu := b.many(p, sandbox.Call{}, "42")
	b.report("js.hello.warm, fresh world p50", us(wall), "us", peer, "node vm.createContext + run", 0.35)
	b.report("js.hello.warm, processor time a run with its reset", us(cpu), "us", peer, "node vm.createContext + run, p50", 0)
}

func (b *bench) async() {
	peer := b.node("js.mjs", "async")["p50"]
	p := compileJS(b.engine(), "export default async (p) => ({ n: p.list.length, sum: p.list.reduce((a, x) => a + x.v, 0) })")
	wall, cpu := b.many(p, sandbox.Call{Input: json.RawMessage(`{"list":[{"v":1},{"v":2},{"v":3}]}`)}, `{"n":3,"sum":6}`)
	b.report("js.json.async, fresh world p50", us(wall), "us", peer, "node vm.createContext + run", 0.35)
	b.report("js.json.async, processor time a run with its reset", us(cpu), "us", peer, "node vm.createContext + run, p50", 0)
}

// many runs r repeatedly and returns the median time and the mean CPU time.
func (b *bench) many(r sandbox.Runnable, c sandbox.Call, want string) (wall, cpu time.Duration) {
	const warm, n = 500, 3000
	took := make([]time.Duration, 0, n)
	var began time.Duration
	for i := range warm + n {
		if i == warm {
			began = processCPU()
		}
		t := time.Now()
		res := run(b.engine(), r, c)
		if i >= warm {
			took = append(took, time.Since(t))
		}
		if string(res.Output) != want {
			figures.Check(fmt.Errorf("got %s, want %s", res.Output, want))
		}
	}
	return median(took), (processCPU() - began) / n
}

// cold measures the time from the start of a process to its first result, with machine code on
// disk.
func (b *bench) cold() {
	exe, err := os.Executable()
	figures.Check(err)
	dir := b.cacheDir("cold")
	ours := func() *exec.Cmd { return exec.Command(exe, "-role", "cold", "-cache", dir) }
	node := func() *exec.Cmd { return exec.Command("node", "-e", "console.log((() => 42)())") }
	one := func(cmd *exec.Cmd) time.Duration {
		t := time.Now()
		out, err := cmd.Output()
		figures.Check(err)
		if strings.TrimSpace(string(out)) != "42" {
			figures.Check(fmt.Errorf("%v printed %s", cmd.Args, out))
		}
		return time.Since(t)
	}
	one(ours()) // fills the cache
	var a, n []time.Duration
	for range 15 {
		a, n = append(a, one(ours())), append(n, one(node()))
	}
	b.report("js.cold, process start to first result", ms(median(a)), "ms", ms(median(n)), "node -e", 1)
	helix := b.helix()
	if helix == "" {
		return
	}
	file, data := filepath.Join(b.dir, "cold.js"), filepath.Join(b.dir, "data")
	figures.Check(os.WriteFile(file, []byte("return 42"), 0o600))
	real := func() *exec.Cmd {
		cmd := exec.Command(helix, "sandbox", "run", file, "--data-dir", data, "--quiet")
		cmd.Env = append(os.Environ(), "DBUS_SESSION_BUS_ADDRESS=") // no keyring, because it may ask
		return cmd
	}
	one(real())
	a = a[:0]
	for range 9 {
		a = append(a, one(real()))
	}
	b.report("js.cold, helix sandbox run with a whole backend", ms(median(a)), "ms", ms(median(n)), "node -e", 0)
}

// helix returns the path of the built command line, "" if there is none.
func (b *bench) helix() string {
	p := filepath.Join(b.src, "..", "..", "bin", "helix")
	if _, err := os.Stat(p); err != nil {
		fmt.Fprintln(os.Stderr, "bench sandbox: build/bin/helix is missing; what needs it is not measured")
		return ""
	}
	return p
}

// cold is the measured process.
func cold(dir string) {
	e := openEngine(sandbox.Options{CacheDir: dir})
	r, err := e.Execute(context.Background(), compileJS(e, "return 42"), sandbox.Call{})
	figures.Check(err)
	fmt.Println(string(r.Output))
}
