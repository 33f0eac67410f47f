// Command sandbox measures backend/sandbox against its peers in one run: the same engine in
// Node, goja, Node's vm, the unmetered engine, Extism, and the operating system itself. It prints
// one line per measurement: name, value, unit, ratio to the peer, peer, and the goal of the
// specification with met or MISSED, separated by tabs. CPU work is compared by the smallest CPU
// time of seven runs, so that a busy machine has little effect.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"helix/backend/sandbox"
	"helixbench/figures"
)

func main() {
	sandbox.ServeWorker() // the child of tier t1 is this program
	role := flag.String("role", "", "internal: cold, pause, modules")
	cache := flag.String("cache", "", "internal: cache folder of a role")
	only := flag.String("only", "", "run the measures whose name contains this")
	flag.Parse()
	switch *role {
	case "cold":
		cold(*cache)
		return
	case "pause":
		pause(*cache)
		return
	case "modules":
		timeModule(*cache, flag.Arg(0))
		return
	}
	b := newBench()
	defer os.RemoveAll(b.dir)
	for _, m := range []struct {
		name string
		fn   func()
	}{
		{"js.cpu", b.jsCPU}, {"meter", b.meter}, {"js.hello", b.hello}, {"js.json", b.async}, {"js.cold", b.cold}, {"hostcall", b.hostcall},
		{"wasm.cpu", b.wasmCPU}, {"wasm.json", b.wasmJSON}, {"kill", b.kill}, {"cpu.overshoot", b.overshoot}, {"gc.pause", b.gcPause}, {"t1.start", b.tier1},
		{"ceiling.idle", b.idle}, {"ceiling.flat", b.flat}, {"ceiling.binary", b.binary}, {"ceiling.compile", b.compile},
	} {
		if strings.Contains(m.name, *only) {
			m.fn()
		}
	}
	if b.missed > 0 {
		fmt.Fprintf(os.Stderr, "bench sandbox: %d goals missed\n", b.missed)
	}
}

type bench struct {
	dir    string // for temporary files
	src    string // of this program
	e      *sandbox.Engine
	missed int
}

func newBench() *bench {
	dir, err := os.MkdirTemp("", "helix-bench-sandbox-")
	figures.Check(err)
	b := &bench{dir: dir}
	for _, p := range []string{"sandbox", ".", "build/bench/sandbox"} {
		if _, err := os.Stat(filepath.Join(p, "js.mjs")); err == nil {
			b.src, err = filepath.Abs(p)
			figures.Check(err)
		}
	}
	if b.src == "" {
		figures.Check(fmt.Errorf("js.mjs not found: run in build/bench"))
	}
	return b
}

// engine returns the engine that most measurements share.
func (b *bench) engine() *sandbox.Engine {
	if b.e == nil {
		b.e = openEngine(sandbox.Options{CacheDir: b.cacheDir("shared")})
		go b.e.Run(context.Background()) //nolint:errcheck // ends with the process
	}
	return b.e
}

func (b *bench) cacheDir(name string) string {
	dir := filepath.Join(b.dir, name)
	figures.Check(os.MkdirAll(dir, 0o700))
	return dir
}

func openEngine(o sandbox.Options) *sandbox.Engine {
	exe, err := os.Executable()
	figures.Check(err)
	o.WorkerCommand = []string{exe, "sandbox-worker"}
	e, err := sandbox.Open(context.Background(), o)
	figures.Check(err)
	return e
}

func compileJS(e *sandbox.Engine, text string) *sandbox.Program {
	p, err := e.CompileJS(context.Background(), sandbox.Source{Text: text})
	figures.Check(err)
	return p
}

// run runs r and stops the benchmark if it fails.
func run(e *sandbox.Engine, r sandbox.Runnable, c sandbox.Call) sandbox.Result {
	res, err := e.Execute(context.Background(), r, c)
	figures.Check(err)
	return res
}

// none is the peer of measurements without one.
const none = "-"

// report prints one line. goal limits the ratio if there is a peer, else the value; 0: there is no
// goal.
func (b *bench) report(name string, value float64, unit string, peer float64, peerName string, goal float64) {
	ratio, of := 0.0, "value"
	if peer > 0 {
		ratio, of = value/peer, "ratio"
	}
	verdict := "-"
	if goal > 0 {
		verdict = figures.Goal{Of: of, Op: "<=", Bound: goal}.Verdict(value, ratio)
		if strings.HasSuffix(verdict, "MISSED") {
			b.missed++
		}
	}
	figures.Fprint(os.Stdout, name, value, unit, ratio, peerName, verdict)
}

// threadCPU returns the CPU time of the calling thread.
func threadCPU() time.Duration {
	var t unix.Timespec
	figures.Check(unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t))
	return time.Duration(t.Nano())
}

// processCPU returns the CPU time of all threads of this process.
func processCPU() time.Duration {
	var t unix.Timespec
	figures.Check(unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t))
	return time.Duration(t.Nano())
}

// least runs fn ten times and returns the smallest of the last seven values: the first three are
// warm-up.
func least(fn func() time.Duration) time.Duration {
	best := time.Duration(math.MaxInt64)
	for i := range 10 {
		if d := fn(); i >= 3 {
			best = min(best, d)
		}
	}
	return best
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

func median(v []time.Duration) time.Duration { return quantile(v, 0.5) }

func quantile(v []time.Duration, q float64) time.Duration {
	v = slices.Sorted(slices.Values(v))
	return v[min(int(float64(len(v))*q), len(v)-1)]
}

func geomean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += math.Log(x)
	}
	return math.Exp(sum / float64(len(v)))
}

// ask runs a program that prints one JSON object of numbers.
func ask(name string, args ...string) map[string]float64 {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	figures.Check(err)
	m := map[string]float64{}
	figures.Check(json.Unmarshal(out, &m))
	return m
}

func (b *bench) node(script string, args ...string) map[string]float64 {
	return ask("node", append([]string{"--no-warnings", filepath.Join(b.src, script)}, args...)...)
}
