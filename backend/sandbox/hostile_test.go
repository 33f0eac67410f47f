package sandbox

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestHostile runs programs that try to get out or never to end. The first line of each
// names the classes in which it may end ("ok": it may end well); all must end in time and
// within their memory.
func TestHostile(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/hostile/*.js")
	if err != nil || len(files) < 50 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	limits := Limits{Wall: 20 * time.Second, CPU: 150 * time.Millisecond, MemoryBytes: 64 << 20}
	if raceEnabled {
		limits.CPU = 300 * time.Millisecond
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".js"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			first, _, _ := strings.Cut(string(text), "\n")
			want := strings.Fields(strings.TrimPrefix(first, "// class:"))
			res, e := try(t, string(text), Call{Limits: limits})
			got := "ok"
			if e != nil {
				got = string(e.Class)
			}
			// On a busy machine the budget may be gone before the point is reached.
			if !slices.Contains(want, got) && got != string(ClassCPU) {
				t.Errorf("ends as %s (%v), want one of %v; output %.100s", got, e, want, res.Output)
			}
			if res.Usage.PeakMemory > limits.MemoryBytes {
				t.Errorf("used %d bytes", res.Usage.PeakMemory)
			}
			if cpuMeter == "thread" && res.Usage.CPU > limits.CPU+500*time.Millisecond {
				t.Errorf("used %v of processor time", res.Usage.CPU)
			}
			var logged int
			for _, l := range res.Logs {
				logged += len(l.Message)
			}
			if logged > 64<<10 {
				t.Errorf("%d bytes of logs", logged)
			}
		})
	}
}

// TestCollectorRunsBesideHostileCode checks that the Go collector, which needs every
// goroutine to pause, is not held up for long by guests in native loops.
func TestCollectorRunsBesideHostileCode(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	p := compile(t, "const u = new Uint8Array(1e6); for (let i = 0; i < u.length; i++) u[i] = i * 7; for (;;) u.sort()")
	for range 2 {
		go func() {
			defer func() { done <- struct{}{} }()
			_, _ = shared.Execute(ctx, p, Call{Limits: Limits{CPU: 10 * time.Second}})
		}()
	}
	var worst time.Duration
	for range 5 {
		start := time.Now()
		runtime.GC()
		worst = max(worst, time.Since(start))
	}
	cancel()
	<-done
	<-done
	if worst > 30*time.Second { // with -race on a busy machine; make bench measures it
		t.Errorf("the collector took %v", worst)
	}
}
