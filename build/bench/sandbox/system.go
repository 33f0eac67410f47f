package main

import (
	"bytes"
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"helixbench/figures"

	"golang.org/x/sys/unix"

	"helix/backend/sandbox"
)

// tier1 compares the overhead of a run in a child with the start of the smallest possible program.
func (b *bench) tier1() {
	e := b.engine()
	p := compileJS(e, "return 42")
	timed := func(n int, pause time.Duration, fn func()) time.Duration {
		var took []time.Duration
		for range n {
			time.Sleep(pause)
			t := time.Now()
			fn()
			took = append(took, time.Since(t))
		}
		return median(took)
	}
	children := func(n int, fn func()) time.Duration {
		t := childCPU()
		for range n {
			fn()
		}
		return (childCPU() - t) / time.Duration(n)
	}
	peer := timed(60, 5*time.Millisecond, func() { figures.Check(exec.Command("/bin/true").Run()) })
	t0 := timed(60, 5*time.Millisecond, func() { run(e, p, sandbox.Call{Tier: "t0"}) })
	var isolation string
	child := func() { isolation = run(e, p, sandbox.Call{Tier: "t1"}).Isolation }
	child()
	spare := timed(30, 300*time.Millisecond, child)
	burst := timed(60, 0, child)
	b.report("t1.start over t0 p50, "+isolation+", with time between runs", ms(spare-t0), "ms", ms(peer), "/bin/true", 4)
	b.report("t1.start over t0 p50, "+isolation+", without pause, no spare ready", ms(burst-t0), "ms", ms(peer), "/bin/true", 0)
	// Unlike the rest, this hardly depends on the load of the machine.
	b.report("t1.start, processor time of a child and its run", ms(children(60, child)), "ms", ms(children(60, func() { figures.Check(exec.Command("/bin/true").Run()) })), "/bin/true", 0)
}

// childCPU returns the CPU time of the children that have ended.
func childCPU() time.Duration {
	var u unix.Rusage
	figures.Check(unix.Getrusage(unix.RUSAGE_CHILDREN, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// private returns the private memory of this process in bytes.
func private() float64 {
	text, err := os.ReadFile("/proc/self/smaps_rollup")
	figures.Check(err)
	sum := 0.0
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 2 && (f[0] == "Private_Dirty:" || f[0] == "Private_Clean:" || f[0] == "Swap:") {
			n, err := strconv.ParseFloat(f[1], 64)
			figures.Check(err)
			sum += n * 1024
		}
	}
	return sum
}

// idle measures the memory of an idle instance, fresh and used.
func (b *bench) idle() {
	const n = 32
	settle := func() float64 { runtime.GC(); debug.FreeOSMemory(); return private() }
	e := openEngine(sandbox.Options{CacheDir: b.cacheDir("shared"), Idle: n, Workers: 4})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p := compileJS(e, "return 42")
	run(e, p, sandbox.Call{})
	before, had := settle(), e.Status().Pool.Idle
	goal, how := 512.0, "copy on write"
	if e.Status().Snapshot == "copy" { // go run -tags portable: as on systems without memfd
		goal, how = 6*1024, "portable"
	}
	go e.Run(ctx) //nolint:errcheck // ends with ctx
	for e.Status().Pool.Idle < n {
		time.Sleep(10 * time.Millisecond)
	}
	b.report("ceiling.idle, fresh instance, "+how, (settle()-before)/float64(n-had)/1024, "KiB", 0, none, goal)
	for range 4 * n { // each has served a run and was restored
		run(e, p, sandbox.Call{})
	}
	for e.Status().Pool.Idle < n {
		time.Sleep(10 * time.Millisecond)
	}
	b.report("ceiling.idle, used instance, "+how, (settle()-before)/float64(n-had)/1024, "KiB", 0, none, goal)
	cancel()
	figures.Check(e.Close())
}

type footprint struct{ rss, goroutines, maps, files float64 }

func footprintNow() footprint {
	for range 3 {
		runtime.GC()
		debug.FreeOSMemory()
		time.Sleep(50 * time.Millisecond)
	}
	statm, err := os.ReadFile("/proc/self/statm")
	figures.Check(err)
	pages, err := strconv.ParseFloat(strings.Fields(string(statm))[1], 64)
	figures.Check(err)
	maps, err := os.ReadFile("/proc/self/maps")
	figures.Check(err)
	files, err := os.ReadDir("/proc/self/fd")
	figures.Check(err)
	return footprint{pages * float64(os.Getpagesize()), float64(runtime.NumGoroutine()), float64(bytes.Count(maps, []byte("\n"))), float64(len(files))}
}

// flat does 10,000 runs of mixed kinds and checks that nothing is left of them.
func (b *bench) flat() {
	e := b.engine()
	programs := []*sandbox.Program{
		compileJS(e, "return 42"), compileJS(e, "throw new Error('no')"), compileJS(e, "const a = []; for (let i = 0; i < 20000; i++) a.push({i}); return a.length"),
		compileJS(e, "return await new Promise(() => {})"), compileJS(e, "return new Uint8Array(9e6).length"), // this one grows, so its instance is discarded
	}
	do := func(n int) {
		for i := range n {
			e.Execute(context.Background(), programs[i%len(programs)], sandbox.Call{}) //nolint:errcheck // some fail
		}
	}
	do(2000)
	before := footprintNow()
	do(10_000)
	after := footprintNow()
	for _, m := range []struct {
		name   string
		a, b   float64
		spread float64 // noise, as an absolute value
	}{
		{"resident memory", before.rss, after.rss, 0}, {"goroutines", before.goroutines, after.goroutines, 2},
		{"maps", before.maps, after.maps, 4}, {"open files", before.files, after.files, 1},
	} {
		change := 100 * math.Max(math.Abs(m.b-m.a)-m.spread, 0) / m.a
		b.report("ceiling.flat, "+m.name+" after 10,000 runs, change from "+strconv.FormatFloat(m.a, 'g', 6, 64), change, "%", 0, none, 2)
	}
}

// binary measures how much the package adds to the size of a program without it.
func (b *bench) binary() {
	root := filepath.Join(b.src, "..", "..", "..")
	size := func(name, imports, body string) float64 {
		dir := filepath.Join(root, "build", "bin", name+strconv.Itoa(os.Getpid())) // in the module that contains the packages
		figures.Check(os.MkdirAll(dir, 0o700))
		defer os.RemoveAll(dir)
		text := "package main\n\nimport (\n" + imports + ")\n\nfunc main() {\n" + body + "}\n"
		figures.Check(os.WriteFile(filepath.Join(dir, "main.go"), []byte(text), 0o600))
		out := filepath.Join(b.dir, name)
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, dir)
		cmd.Dir, cmd.Stderr = root, os.Stderr
		figures.Check(cmd.Run())
		info, err := os.Stat(out)
		figures.Check(err)
		return float64(info.Size())
	}
	// The packages that every program of ours contains anyway are not counted.
	base := "\t\"context\"\n\t\"fmt\"\n\n\t\"helix/backend/audit\"\n\t\"helix/backend/config\"\n\t\"helix/backend/gateway\"\n\t\"helix/backend/permission\"\n\t\"helix/backend/safehttp\"\n\t\"helix/backend/storage\"\n"
	use := `	ctx := context.Background()
	conf, err := config.Load(config.Options{})
	db, err2 := storage.Open(ctx, storage.Options{})
	fmt.Println(conf, err, err2, gateway.New(gateway.NewAPI(), gateway.Options{}).Run(ctx), audit.New(db, audit.Options{}).Run(ctx), permission.New(db, nil, permission.Options{}), safehttp.New(safehttp.Options{}))
`
	without := size("without", base, use)
	with := size("with", base+"\n\t\"helix/backend/sandbox\"\n", use+`
	sandbox.ServeWorker()
	e, err := sandbox.Open(ctx, sandbox.Options{})
	p, err2 := e.CompileJS(ctx, sandbox.Source{})
	m, err3 := e.CompileWASM(ctx, nil)
	r, err4 := e.Execute(ctx, p, sandbox.Call{})
	fmt.Println(err, err2, err3, err4, m, r, e.Status(), e.Run(ctx), e.Close())
`)
	esbuild := size("esbuild", base+"\n\t\"github.com/evanw/esbuild/pkg/api\"\n", use+"\tfmt.Println(api.Transform(\"\", api.TransformOptions{}))\n")
	b.report("ceiling.binary, what the sandbox adds", (with-without)/1e6, "MB", 0, none, 5)
	b.report("ceiling.binary, of it esbuild for TypeScript", (esbuild-without)/1e6, "MB", 0, none, 0)
}
