package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
)

func TestNothingSurvivesARun(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-7f1d90"
	run1(t, `
		Object.prototype.evil = 1; Array.prototype.map = null; String.prototype.trim = () => "evil"; JSON.parse = null; Math.random = () => 4;
		globalThis.secret = "s3cr3t-" + "7f1d90"; helix.keep = 1; delete globalThis.Map; Promise.prototype.marked = true;
		console.log = null; crypto.x = 1;
		for (const k of ["setTimeout", "URL", "structuredClone"]) globalThis[k] = null;
		return 1`, Call{})
	wantOutput(t, `return [({}).evil, typeof [].map, " x ".trim(), typeof JSON.parse, Math.random() === 4, typeof secret, helix.keep, typeof Map,
		Promise.resolve().marked, typeof console.log, crypto.x, typeof setTimeout, typeof URL, typeof structuredClone]`, Call{},
		`[null,"function","x","function",false,"undefined",null,"function",null,"function",null,"function","function","function"]`)
	// The bytes of a new world do not contain it either.
	g, err := shared.instance()
	if err != nil {
		t.Fatal(err)
	}
	defer g.in.Close()
	if bytes.Contains(g.in.Snapshot(), []byte(secret)) {
		t.Error("the secret is in the memory of a later run")
	}
}

func TestHelixCannotBeChanged(t *testing.T) {
	t.Parallel()
	wantOutput(t, `
		const out = [];
		for (const change of [() => { helix.fetch = 1 }, () => { helix.fs.readText = 1 }, () => { delete helix.state }, () => { helix.state.get = 1 }])
			try { (function () { "use strict"; change() })() } catch (e) { out.push(e.name) }
		return [Object.isFrozen(helix), Object.isFrozen(helix.fs), Object.isFrozen(helix.state), typeof helix.fetch]`, Call{}, `[true,true,true,"function"]`)
}

func TestRandomness(t *testing.T) {
	t.Parallel()
	n := 1000
	if testing.Short() || raceEnabled {
		n = 30
	}
	p := compile(t, "return [Math.random(), crypto.randomUUID(), [...crypto.getRandomValues(new Uint32Array(2))].join()]")
	seen := map[string]bool{}
	for range n {
		res, err := shared.Execute(context.Background(), p, Call{})
		if err != nil {
			t.Fatal(err)
		}
		var parts []json.RawMessage
		if err := json.Unmarshal(res.Output, &parts); err != nil {
			t.Fatal(err)
		}
		for _, x := range parts {
			if seen[string(x)] {
				t.Fatalf("%s came twice", x)
			}
			seen[string(x)] = true
		}
	}
}

func TestSeedRepeats(t *testing.T) {
	t.Parallel()
	text := "return [Math.random(), Math.random()]"
	a, b := &[8]byte{1, 2, 3, 4, 5, 6, 7, 8}, &[8]byte{8, 7, 6, 5, 4, 3, 2, 1}
	first := string(run1(t, text, Call{Seed: a}).Output)
	if again := string(run1(t, text, Call{Seed: a}).Output); again != first {
		t.Errorf("the same seed gave %s and %s", first, again)
	}
	if other := string(run1(t, text, Call{Seed: b}).Output); other == first {
		t.Errorf("two seeds gave %s", other)
	}
	wantOutput(t, "return Math.abs(Date.now() - 1e12) > 1e11", Call{Seed: a}, "true")
}

// TestForgedHostCalls calls the host function with arguments that a guest could only pass if it had
// obtained the function.
func TestForgedHostCalls(t *testing.T) {
	t.Parallel()
	code, err := shared.bytecode(context.Background(), `(function (host) {
		const odd = [undefined, null, true, -1, 1e300, NaN, "", "\ud800", "x".repeat(1e5), {}, [], () => 1, Symbol("s"), 10n, new Uint8Array(3), new ArrayBuffer(2), { toString() { throw 1 } }];
		for (let code = -2; code < 14; code++) {
			if (code === 5 || code === 6) continue;
			host(code);
			for (const a of odd) { host(code, a); host(code, a, a); host(code, a, a, a, a); }
		}
		for (const b of odd) host(10, new ArrayBuffer(8), b, b), host(10, new ArrayBuffer(8), 4, b);
		host(); host(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12);
		for (const a of odd) host(a);
		return () => {};
	})`, "forged.js", false)
	if err != nil {
		t.Fatal(err)
	}
	g, err := shared.instance()
	if err != nil {
		t.Fatal(err)
	}
	defer g.in.Close()
	p := compile(t, "return 1")
	l, _ := Profile("standard")
	r := newRun(newControl(context.Background(), shared, Call{Host: &recorder{}}, l), g, p)
	r.cpu = newCPUClock(r.control)
	defer r.cancel()
	g.in.Arm(1e12)
	if err := g.in.CallWithHost(code); err != nil {
		t.Fatal(err)
	}
	if o := r.ended.Load(); o != nil {
		t.Fatalf("the run ended: %+v", o.err)
	}
	// The end of a run can be forged; it ends only that run.
	r.failed("not json")
	if o := r.ended.Load(); o == nil || o.err.Class != ClassThrown {
		t.Fatalf("a forged report gives %+v", o)
	}
	r.cancel()
	r.calls.wait()
}
