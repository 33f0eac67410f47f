package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"helixbench/figures"

	"helix/backend/sandbox"
)

// endless are guests that never end by themselves.
var endless = map[string]string{
	"loop": "for (;;) {}",
	"sort": "const u = new Uint8Array(30e6); for (let i = 0; i < u.length; i++) u[i] = i * 7; for (;;) u.sort();",
	"json": `const s = JSON.stringify(Array.from({length: 20000}, (_, i) => ({i, t: "x" + i}))); for (;;) JSON.parse(s);`,
}

func ended(err error, want sandbox.Class) {
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Class != want {
		figures.Check(fmt.Errorf("ended with %v, want %s", err, want))
	}
}

// kill measures from the end of the caller's context to the return of Execute.
func (b *bench) kill() {
	for name, text := range endless {
		p := compileJS(b.engine(), text)
		var took []time.Duration
		n := 100
		if name == "sort" {
			n = 40
		}
		for i := range n {
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan time.Time, 1)
			began := make(chan struct{})
			go func() {
				close(began)
				_, err := b.engine().Execute(ctx, p, sandbox.Call{})
				done <- time.Now()
				ended(err, sandbox.ClassCanceled)
			}()
			<-began
			time.Sleep(time.Duration(10+i%10) * time.Millisecond)
			t := time.Now()
			cancel()
			took = append(took, (<-done).Sub(t))
		}
		b.report("kill.latency."+name+" p50", ms(median(took)), "ms", 0, none, 1)
		b.report("kill.latency."+name+" p99", ms(quantile(took, 0.99)), "ms", 0, none, 60)
	}
}

// overshoot measures how much CPU time a run used beyond its budget.
func (b *bench) overshoot() {
	const budget = 100 * time.Millisecond
	for name, text := range endless {
		p := compileJS(b.engine(), text)
		var most time.Duration
		for range 10 {
			r, err := b.engine().Execute(context.Background(), p, sandbox.Call{Limits: sandbox.Limits{CPU: budget}})
			ended(err, sandbox.ClassCPU)
			most = max(most, r.Usage.CPU-budget)
		}
		b.report("cpu.overshoot."+name+", most of 10", ms(most), "ms", 0, none, 10)
	}
}

// gcPause measures the garbage collector's cycle while hostile guests fill every core, in a
// process that has done nothing else.
func (b *bench) gcPause() {
	exe, err := os.Executable()
	figures.Check(err)
	m := ask(exe, "-role", "pause", "-cache", b.cacheDir("shared"))
	b.report("gc.pause p99, hostile guests on all cores", m["busy"], "ms", 0, none, 50)
	b.report("gc.pause p50, the same", m["busy50"], "ms", 0, none, 0)
	b.report("gc.pause p99, idle", m["idle"], "ms", 0, none, 0)
}

// pause is the measured process.
func pause(dir string) {
	e := openEngine(sandbox.Options{CacheDir: dir})
	collect := func(n int) (took []time.Duration) {
		for range n {
			t := time.Now()
			runtime.GC()
			took = append(took, time.Since(t))
			time.Sleep(2 * time.Millisecond)
		}
		return took
	}
	idle := collect(300)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range runtime.NumCPU() {
		p := compileJS(e, endless[[]string{"sort", "loop", "json"}[i%3]])
		wg.Go(func() {
			for ctx.Err() == nil { // again when its budget is used up
				e.Execute(ctx, p, sandbox.Call{}) //nolint:errcheck // it always ends with an error
			}
		})
	}
	time.Sleep(300 * time.Millisecond)
	busy := collect(300)
	cancel()
	wg.Wait()
	fmt.Printf(`{"busy":%g,"busy50":%g,"idle":%g}`, ms(quantile(busy, 0.99)), ms(median(busy)), ms(quantile(idle, 0.99)))
}
