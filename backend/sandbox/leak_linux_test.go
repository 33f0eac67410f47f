package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"helix/backend/testkit"
)

// footprint is the resource usage of a process.
type footprint struct{ rss, goroutines, maps, files int }

func measure(t *testing.T) (f footprint) {
	t.Helper()
	// Goroutines of timers that are just ending, and pages that the collector has not returned yet.
	for range 3 {
		debug.FreeOSMemory()
		time.Sleep(5 * time.Millisecond)
	}
	// Only private memory: the system loads and drops pages of the program as it likes. The fast
	// counters of the kernel are inexact by some pages per processor.
	exact, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(exact), "Anonymous:")
	rss, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return footprint{rss << 10, runtime.NumGoroutine(), bytes.Count(maps, []byte("\n")), len(files)}
}

// mixedFates are runs that end in every possible way.
var mixedFates = []struct {
	text string
	l    Limits
	want Class // empty: success
}{
	{"return params.i", Limits{}, ""},
	{"throw new Error('x')", Limits{}, ClassThrown},
	{"for (;;) {}", Limits{CPU: 3 * time.Millisecond}, ClassCPU},
	{"const a = new Uint8Array(1e5); for (;;) a.sort()", Limits{Fuel: 3e6}, ClassCPU},
	{"await new Promise(() => {})", Limits{}, ClassThrown},
	{"await new Promise((r) => setTimeout(r, 60000))", Limits{Wall: 2 * time.Millisecond}, ClassTimeout},
	{"const a = []; for (;;) a.push(new Uint8Array(1e5).fill(1))", Limits{MemoryBytes: 12 << 20}, ClassMemory},
	{"return new Uint8Array(6e6).fill(1).length", Limits{}, ""},
	{"return (await helix.state.get('k')).key", Limits{}, ""},
	{"await helix.fetch('https://x')", Limits{}, ClassHostDenied},
	{"for (let i = 0; i < 5000; i++) console.log(i); return 10n", Limits{}, ClassOutput},
	{"const f = (n) => f(n + 1) + 1; try { f(0) } catch (e) { return e.name }", Limits{}, ""},
	{"helix.state.keys().catch(() => 1); setTimeout(() => 1, 1e6); return 1", Limits{}, ""},
}

// TestMixedRunsLeakNothing runs programs that end in different ways: the resource usage afterwards
// is the same as after each has run a few times.
func TestMixedRunsLeakNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("measures processor time and memory, which the race detector multiplies; make test runs it without")
	}
	t.Parallel()
	if !alone(t) {
		return
	}
	n := 10_000
	if !long || raceEnabled {
		n = 300
	}
	e, err := Open(context.Background(), Options{WorkerCommand: childCommand, CacheDir: sharedCache})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- e.Run(ctx) }()
	h := HostFunc(func(ctx context.Context, op string, req json.RawMessage) (json.RawMessage, error) {
		switch op {
		case OpStateGet:
			return json.RawMessage(`{"found":true,"value":` + string(req) + `}`), nil
		case OpStateKeys:
			<-ctx.Done()
			return nil, ctx.Err()
		}
		var none Host
		return (&control{c: Call{Host: none}}).ask(op, req)
	})
	programs := make([]*Program, len(mixedFates))
	for i, f := range mixedFates {
		if programs[i], err = e.CompileJS(ctx, Source{Text: f.text}); err != nil {
			t.Fatal(err)
		}
	}
	run := func(i int) {
		f := mixedFates[i%len(mixedFates)]
		_, err := e.Execute(ctx, programs[i%len(mixedFates)], Call{Input: input(map[string]int{"i": i}), Limits: f.l, Host: h})
		var class Class
		if err != nil {
			class = err.(*Error).Class
		}
		// On a busy machine the small budgets may be used up first.
		if class != f.want && class != ClassCPU && class != ClassTimeout {
			t.Fatalf("run %d, %q: %v", i, f.text, err)
		}
	}
	warm := max(n/10, 100)
	for i := range warm {
		run(i)
	}
	// The resident size depends on when the collector and the system last returned memory, so the
	// minimum of several samples is used.
	look := func() footprint {
		var all [5]footprint
		for i := range all {
			for j := range len(mixedFates) {
				run(j)
			}
			e.spares.trim(-1) // the memory of idle instances depends on what ran last
			all[i] = measure(t)
		}
		slices.SortFunc(all[:], func(a, b footprint) int { return a.rss - b.rss })
		return all[0]
	}
	before := look()
	for i := range n - warm {
		run(i)
	}
	slack := before.rss / 50
	if n < 10_000 {
		slack += 16 << 20 // the first runs also fill caches
	}
	after := testkit.Eventually(t, fmt.Sprintf("before %+v, after the runs", before), look, func(after footprint) bool {
		return after.rss <= before.rss+slack && after.goroutines <= before.goroutines+1 && after.files <= before.files &&
			after.maps <= before.maps+max(before.maps/50, 8) // a thread of the Go runtime takes some
	})
	t.Logf("%d runs: before %+v, after %+v", n, before, after)
	cancel()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// TestIdleInstanceIsSmall checks that an idle instance has few private pages.
func TestIdleInstanceIsSmall(t *testing.T) {
	if shared.Status().Snapshot != "cow" {
		t.Skip("memory is copied here")
	}
	e := reusing(t)
	p, err := e.CompileJS(context.Background(), Source{Text: "const a = []; for (let i = 0; i < 1e4; i++) a.push({ i }); return params"})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if _, err := e.Execute(context.Background(), p, Call{}); err != nil {
			t.Fatal(err)
		}
	}
	g, err := e.guest(nil) // restored
	if err != nil {
		t.Fatal(err)
	}
	defer e.spares.release(g, true)
	if own, err := g.in.PrivateBytes(); err != nil || own == 0 || own > 512<<10 {
		t.Errorf("an instance at rest has %d bytes of its own (%v)", own, err)
	}
}
