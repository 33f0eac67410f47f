package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"helix/backend/testkit"
)

func TestFuel(t *testing.T) {
	t.Parallel()
	err := wantClass(t, "for (;;) {}", Call{Limits: Limits{Fuel: 5e6}}, ClassCPU)
	if d := err.Details.(LimitDetail); d.Limit != "fuel" || d.Max != 5e6 || d.Value < 4e6 || d.Value > 7e6 {
		t.Errorf("details = %+v", d)
	}
	// A single long operation of the engine is counted too.
	wantClass(t, "const a = new Uint8Array(2e6); for (let i = 0; i < a.length; i += 997) a[i] = i; a.sort(); return 1", Call{Limits: Limits{Fuel: 5e6}}, ClassCPU)
	short := run1(t, "let x = 0; for (let i = 0; i < 1e4; i++) x += i; return x", Call{}).Usage.Fuel
	double := run1(t, "let x = 0; for (let i = 0; i < 2e4; i++) x += i; return x", Call{}).Usage.Fuel
	if short == 0 || double < short*3/2 || double > short*5/2 {
		t.Errorf("%d units for a loop, %d for one twice as long", short, double)
	}
}

// TestFuelOfInnerRuns checks that the fuel of an inner run is charged to the outer run.
func TestFuelOfInnerRuns(t *testing.T) {
	t.Parallel()
	inner := compile(t, "for (;;) {}")
	h := HostFunc(func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
		left, _ := Remaining(ctx)
		if left.Fuel == 0 || left.Fuel >= 50e6 {
			return nil, errors.New("the outer run has used nothing")
		}
		res, err := shared.Execute(ctx, inner, Call{Limits: Limits{Fuel: 20e6}.Lower(left)})
		Charge(ctx, res.Usage)
		var e *Error
		if errors.As(err, &e) && e.Class == ClassCPU {
			err = nil
		}
		return json.RawMessage("{}"), err
	})
	res := run1(t, "await helix.tool('x'); return 1", Call{Host: h, Limits: Limits{Fuel: 50e6}})
	if res.Usage.Fuel < 20e6 {
		t.Errorf("usage = %+v", res.Usage)
	}
}

// TestEndsSoon ends code that never yields, in each way in which a run can be ended from outside.
// make bench-sandbox measures how soon that is.
func TestEndsSoon(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"for (;;) {}", "const a = new Uint8Array(3e6); for (let i = 0; i < a.length; i++) a[i] = i * 7; for (;;) a.sort()", "for (;;) /^(a+)+$/.test('a'.repeat(40) + '!')",
		"for (;;) await 0", "await new Promise((r) => setTimeout(r, 6e4))",
	} {
		p := compile(t, text)
		_, err := shared.Execute(context.Background(), p, Call{Limits: Limits{Wall: 30 * time.Millisecond}})
		if err == nil || err.(*Error).Class != ClassTimeout {
			t.Errorf("%q: wall time ends it with %v", text, err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
		_, err = shared.Execute(ctx, p, Call{})
		if err == nil || err.(*Error).Class != ClassTimeout {
			t.Errorf("%q: the caller's deadline ends it with %v", text, err)
		}
		cancel()
	}
}

// TestConcurrentEndsGiveOneClass ends runs from several sides at once, around the time when they end by
// themselves: each must have one class, and the next run on the same instance must not be affected.
func TestConcurrentEndsGiveOneClass(t *testing.T) {
	t.Parallel()
	e := reusing(t)
	loop, err := e.CompileJS(context.Background(), Source{Text: "let x = 0; for (let i = 0; i < 3e5; i++) x += i; return x"})
	if err != nil {
		t.Fatal(err)
	}
	good, err := e.CompileJS(context.Background(), Source{Text: "await 0; return params.n"})
	if err != nil {
		t.Fatal(err)
	}
	n := 60
	if testing.Short() || raceEnabled {
		n = 15
	}
	for i := range n {
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(time.Duration(i%12)*time.Millisecond, cancel)
		l := Limits{Wall: time.Duration(1+i%12) * time.Millisecond, CPU: time.Duration(1+i%11) * time.Millisecond, Fuel: uint64(1+i%13) * 4e6}
		res, err := e.Execute(ctx, loop, Call{Limits: l})
		var f *Error
		switch {
		case err == nil && string(res.Output) != "44999850000":
			t.Fatalf("run %d: output %s", i, res.Output)
		case errors.As(err, &f) && (f.Class != ClassCanceled && f.Class != ClassTimeout && f.Class != ClassCPU || res.Output != nil):
			t.Fatalf("run %d: %s, %v", i, res.Output, err)
		}
		cancel()
		res, err = e.Execute(context.Background(), good, Call{Input: input(map[string]int{"n": i})})
		if err != nil || string(res.Output) != string(input(i)) {
			t.Fatalf("after run %d: %s, %v", i, res.Output, err)
		}
	}
	if d := e.Status().Pool.Discarded; d != 0 {
		t.Errorf("%d instances were thrown away", d)
	}
}

// TestWatchdogRests checks that there are no ticks while nothing runs.
func TestWatchdogRests(t *testing.T) {
	t.Parallel()
	e := reusing(t)
	for range 2 {
		mustRun(t, e, "return 1", "1")
		type state struct {
			armed bool
			runs  int
		}
		testkit.Eventually(t, "the watchdog", func() state {
			e.watchdog.mu.Lock()
			defer e.watchdog.mu.Unlock()
			return state{e.watchdog.armed, len(e.watchdog.runs)}
		}, func(s state) bool { return s == state{} })
	}
}

// TestClockOfARun checks that the clock of a run never goes back, and agrees with the time of day.
func TestClockOfARun(t *testing.T) {
	t.Parallel()
	e, err := Open(context.Background(), Options{WorkerCommand: childCommand, Idle: 1, CacheDir: sharedCache})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	p, err := e.CompileJS(context.Background(), Source{Text: `
		let last = performance.now();
		for (let i = 0; i < 100; i++) { const t = performance.now(); if (t < last) throw new Error("it goes back"); last = t; }
		return Math.abs(performance.timeOrigin + performance.now() - Date.now())`})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		res, err := e.Execute(context.Background(), p, Call{})
		if err != nil {
			t.Fatal(err)
		}
		var off float64
		if err := json.Unmarshal(res.Output, &off); err != nil {
			t.Fatal(err)
		}
		if off > 10_000 {
			t.Errorf("the two clocks are %v ms apart", off)
		}
	}
}

// TestCrosscheck runs programs with and without the slower way of stopping, and expects the same
// results.
func TestCrosscheck(t *testing.T) {
	testkit.SkipRaced(t, "many runs of the engine, one after the other")
	t.Parallel()
	e, err := Open(context.Background(), Options{WorkerCommand: childCommand, Idle: 1, CacheDir: sharedCache, Crosscheck: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for _, x := range []struct {
		text string
		l    Limits
	}{
		{"return [1, 'a', { b: null }]", Limits{}},
		{"throw new RangeError('r')", Limits{}},
		{"const a = Array.from({ length: 500 }, (_, i) => (i * 7919) % 503); a.sort((x, y) => x - y); return a", Limits{}},
		{"return 'aXbXc'.split(/x/i).map((s) => s.codePointAt(0)).concat([0.1 + 0.2, 2 ** 53, -0, NaN])", Limits{}},
		{"await new Promise((r) => setTimeout(r, 5)); return JSON.parse('[1,{\"x\":[]}]')", Limits{}},
		{"for (;;) {}", Limits{CPU: 40 * time.Millisecond}},
		{"for (;;) {}", Limits{Wall: 40 * time.Millisecond}},
		{"return new ArrayBuffer(1 << 29).byteLength", Limits{MemoryBytes: 16 << 20}},
		{"const f = () => f(); f()", Limits{}},
		{"return 1n", Limits{}},
	} {
		p, err := e.CompileJS(context.Background(), Source{Text: x.text})
		if err != nil {
			t.Fatal(err)
		}
		slow, err := e.Execute(context.Background(), p, Call{Limits: x.l})
		fast, fastErr := try(t, x.text, Call{Limits: x.l})
		var e1 *Error
		errors.As(err, &e1)
		if (e1 == nil) != (fastErr == nil) || e1 != nil && e1.Class != fastErr.Class || string(slow.Output) != string(fast.Output) {
			t.Errorf("%q: %s, %v with, %s, %v without", x.text, slow.Output, err, fast.Output, fastErr)
		}
	}
}

// BenchmarkKill measures the time from the decision to stop a loop to its end.
func BenchmarkKill(b *testing.B) {
	p := compile(b, "for (;;) {}")
	g, err := shared.guest(nil)
	if err != nil {
		b.Fatal(err)
	}
	defer shared.spares.release(g, true)
	var took []time.Duration
	for b.Loop() {
		c := newControl(context.Background(), shared, Call{Input: json.RawMessage("{}")}, Limits{}.effective(false))
		r := newRun(c, g, p)
		var wg sync.WaitGroup
		var ended time.Time
		wg.Go(func() {
			r.do()
			ended = time.Now()
		})
		time.Sleep(3 * time.Millisecond)
		begun := time.Now()
		g.in.Halt()
		wg.Wait()
		took = append(took, ended.Sub(begun))
		if err := g.in.Reset(); err != nil {
			b.Fatal(err)
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
}
