package sandbox

import (
	"bytes"
	"context"
	"testing"
	"time"
)

// vandal changes everything that it can reach in its world.
const vandal = `
	Object.prototype.evil = 1; Array.prototype.map = null; JSON.parse = null; Math.random = () => 4; globalThis.secret = "s3cr3t-" + "7f1d90";
	delete globalThis.Map; Promise.prototype.marked = true; console.log = null;
	const keep = []; for (let i = 0; i < 500; i++) keep.push({ i, text: "s3cr3t-" + "7f1d90" + i });
	globalThis.keep = keep; setTimeout(() => { globalThis.late = 1 }, 1);
	await new Promise((r) => setTimeout(r, 2));`

// TestResetIsComplete compares the memory of a used and reset instance with one that was
// never used, byte by byte.
func TestResetIsComplete(t *testing.T) {
	t.Parallel()
	e := reusing(t)
	seed := &[8]byte{7, 7, 7, 7, 7, 7, 7, 7}
	fresh, err := e.instance()
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.in.Close()
	fresh.in.Seed(*seed)
	want := fresh.in.Snapshot()
	for i, end := range []string{"return keep.length", "throw new Error('x')", "await helix.fetch('https://example.com')", "return 10n"} {
		n := 2
		if i == 0 {
			n = 8 // until the hot pages are known
		}
		for range n {
			g, err := e.guest(seed)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(g.in.Snapshot(), want) {
				t.Fatalf("before the run that ends with %q the memory is not that of a new instance", end)
			}
			r := newRun(newControl(context.Background(), e, Call{}, Limits{}.effective(false)), g, compile(t, vandal+end))
			if r.c.Input = []byte("{}"); r.do().err == nil != (end == "return keep.length") {
				t.Fatalf("%q ended otherwise", end)
			}
			if !r.reusable() {
				t.Fatalf("the instance of a run that ends with %q is not used again", end)
			}
			if !bytes.Contains(g.in.Snapshot(), []byte("s3cr3t-7f1d90")) {
				t.Fatal("the run left no trace, so this test shows nothing")
			}
			e.spares.release(g, r.reusable())
		}
	}
}

// TestWhatServesAgain checks that an instance whose run grew its memory, or hit a bug in the host,
// is not reused; one that was stopped is restored and reused like any other.
func TestWhatServesAgain(t *testing.T) {
	t.Parallel()
	e := reusing(t)
	for _, x := range []struct {
		text string
		c    Call
		out  bool
	}{
		{"return 1", Call{}, false},
		{"throw 1", Call{}, false},
		{"for (;;) {}", Call{Limits: Limits{Wall: 50 * time.Millisecond}}, false},
		{"for (;;) {}", Call{Limits: Limits{CPU: 50 * time.Millisecond}}, false},
		{"for (;;) {}", Call{Limits: Limits{Fuel: 1e6}}, false},
		{"const a = new Uint8Array(1e6); for (;;) a.sort()", Call{Limits: Limits{CPU: 50 * time.Millisecond}}, false},
		{"const u = []; for (;;) u.push(new Uint8Array(1e6).fill(1))", Call{Limits: Limits{MemoryBytes: 16 << 20}}, true},
		{"return new Uint8Array(9e6).fill(1).length", Call{}, true},
		{"console.log(1); return 1", Call{Log: func(LogLine) { panic("a bug of ours") }}, true},
	} {
		before := e.Status().Pool
		_, _ = e.Execute(context.Background(), compile(t, x.text), x.c)
		after := e.Status().Pool
		if thrown := after.Discarded - before.Discarded; thrown != map[bool]int64{true: 1}[x.out] {
			t.Errorf("%s: %d instances thrown away, want %v", x.text, thrown, x.out)
		}
		wantOutput(t, "return [typeof keep, ({}).evil]", Call{}, `["undefined",null]`)
	}
}

// TestReuseKeepsRandomness checks that a reset instance gets a new seed.
func TestReuseKeepsRandomness(t *testing.T) {
	t.Parallel()
	e := reusing(t)
	p := compile(t, "return Math.random()")
	seen := map[string]bool{}
	for range 50 {
		res, err := e.Execute(context.Background(), p, Call{})
		if err != nil || seen[string(res.Output)] {
			t.Fatalf("%s came twice, or %v", res.Output, err)
		}
		seen[string(res.Output)] = true
	}
	if d := e.Status().Pool.Discarded; d != 0 {
		t.Errorf("%d instances were thrown away", d)
	}
}

// TestGuestThatKeepsRunningIsStopped reports its end and then does not return, which is only
// possible for a guest that obtained the host function.
func TestGuestThatKeepsRunningIsStopped(t *testing.T) {
	t.Parallel()
	for _, on := range []string{"for (;;);", "const a = new Uint8Array(4e7); for (;;) a.sort();"} {
		code, err := shared.bytecode(context.Background(), "(function (host) { host(5, '1'); "+on+" })", "forged.js", false)
		if err != nil {
			t.Fatal(err)
		}
		g, err := shared.instance()
		if err != nil {
			t.Fatal(err)
		}
		defer g.in.Close()
		r := newRun(newControl(context.Background(), shared, Call{}, Limits{}.effective(false)), g, compile(t, "return 1"))
		var end error
		out := r.control.do(func() {
			g.in.Arm(1e12)
			end = g.in.CallWithHost(code)
		}, nil)
		if end == nil || string(out.output) != "1" || !r.stopped.Load() {
			t.Errorf("%s: the guest returned with %v, the run with %+v", on, end, out)
		}
		if g.in.Intact() && g.in.Reset() != nil {
			t.Errorf("%s: the instance cannot be put back", on)
		}
	}
}

// reusing returns an engine with one instance, which every run uses.
func reusing(t *testing.T) *Engine {
	t.Helper()
	e, err := Open(context.Background(), Options{WorkerCommand: childCommand, Idle: 1, CacheDir: sharedCache, Now: func() time.Time { return time.Unix(1.8e9, 0) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}
