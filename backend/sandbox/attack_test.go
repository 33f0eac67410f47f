package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var tiers = []string{tier0, tier1}

// in runs text in a tier and expects success.
func in(t *testing.T, tier, text string, c Call) Result {
	t.Helper()
	c.Tier = tier
	res, err := shared.Execute(context.Background(), compile(t, text), c)
	if err != nil {
		t.Fatalf("%s: %.200q: %v", tier, text, err)
	}
	return res
}

// TestReturn42 runs the smallest possible tool in each tier.
func TestReturn42(t *testing.T) {
	for _, tier := range tiers {
		for text, want := range map[string]string{"return 42": "42", "": "null", "return": "null", "return 0": "0", "return false": "false", "return ''": `""`, "return null": "null", "return -0": "0"} {
			if got := string(in(t, tier, "'use strict';"+text, Call{}).Output); got != want {
				t.Errorf("%s: %q gives %s, want %s", tier, text, got, want)
			}
		}
	}
}

// TestBurningAndWaiting checks that ten seconds of computing end a run, but twenty-five of waiting
// for a timer or for the host do not.
func TestBurningAndWaiting(t *testing.T) {
	t.Parallel()
	if !long {
		t.Skip("takes 25 s: HELIX_LONG=1; TestWaitingCostsNoCPU is the short form")
	}
	slow := HostFunc(func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		<-time.After(12 * time.Second)
		return json.RawMessage(`{"keys":[]}`), nil
	})
	var both sync.WaitGroup
	for _, tier := range tiers {
		both.Go(func() {
			res, err := shared.Execute(context.Background(), compile(t, "for (;;) {}"), Call{Tier: tier, Limits: Limits{Wall: time.Minute}})
			var e *Error
			if !errors.As(err, &e) || e.Class != ClassCPU || res.Usage.CPU < 10*time.Second {
				t.Errorf("%s: burning ends with %v after %+v", tier, err, res.Usage)
			}
		})
		both.Go(func() {
			text := "await new Promise((r) => setTimeout(r, 25000)); return await helix.state.keys()"
			res, err := shared.Execute(context.Background(), compile(t, text), Call{Tier: tier, Host: slow, Limits: Limits{Wall: time.Minute}})
			if err != nil || res.Usage.Wall < 37*time.Second {
				t.Errorf("%s: waiting ends with %v after %+v", tier, err, res.Usage)
			}
		})
	}
	both.Wait()
}

// TestChildrenHaveTheirOwnRandomnessAndClock checks that children start with a copy of
// the same memory, but with their own randomness and clock.
func TestChildrenHaveTheirOwnRandomnessAndClock(t *testing.T) {
	t.Parallel()
	n := 4
	if long {
		n = 200
	}
	seen := map[string]bool{}
	for range n {
		before := time.Now()
		out := in(t, tier1, "return [Math.random(), crypto.randomUUID(), crypto.getRandomValues(new Uint32Array(1))[0], Date.now(), performance.now()]", Call{}).Output
		var parts []json.RawMessage
		if err := json.Unmarshal(out, &parts); err != nil {
			t.Fatal(err)
		}
		for _, p := range parts[:3] {
			if seen[string(p)] {
				t.Fatalf("%s came twice", p)
			}
			seen[string(p)] = true
		}
		var now, since float64
		if err := errors.Join(json.Unmarshal(parts[3], &now), json.Unmarshal(parts[4], &since)); err != nil {
			t.Fatal(err)
		}
		after := time.Now()
		if now < float64(before.UnixMilli()) || now > float64(after.UnixMilli()) || since < 0 || since > ms(after.Sub(before)) {
			t.Errorf("between %v and %v a child's clock says %v, %v after its start", before, after, now, since)
		}
	}
	seed := &[8]byte{1, 2, 3, 4}
	a, b := in(t, tier0, "return Math.random()", Call{Seed: seed}).Output, in(t, tier1, "return Math.random()", Call{Seed: seed}).Output
	if !bytes.Equal(a, b) {
		t.Errorf("the same seed gives %s here and %s in a child", a, b)
	}
}

// TestTimeOriginIsTheRuns checks that performance.now starts with the run, whatever the instance
// did before and however long it was idle.
func TestTimeOriginIsTheRuns(t *testing.T) {
	t.Parallel()
	e, err := Open(context.Background(), Options{WorkerCommand: childCommand, Idle: 1, Workers: 1, CacheDir: sharedCache})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	p := compile(t, "const a = performance.now(); while (performance.now() < a + 30); return [a, Date.now()]")
	for range 10 {
		before := time.Now().UnixMilli()
		res, err := e.Execute(context.Background(), p, Call{})
		var got []float64
		if err := errors.Join(err, json.Unmarshal(res.Output, &got)); err != nil {
			t.Fatal(err)
		}
		if late := float64(res.Usage.Wall.Milliseconds()); got[0] < 0 || got[0] > late+1 {
			t.Errorf("performance.now began at %v in a run of %v ms", got[0], late)
		}
		if after := time.Now().UnixMilli(); got[1] < float64(before) || got[1] > float64(after) {
			t.Errorf("between %d and %d Date.now is %v", before, after, got[1])
		}
	}
}

// TestMutatedModules changes single bytes of the modules in the corpus. Modules that are still
// accepted must run and end like any others.
func TestMutatedModules(t *testing.T) {
	t.Parallel()
	n := 2
	switch {
	case long:
		n = 200
	case raceEnabled:
		n = 1
	}
	files, err := filepath.Glob(filepath.Join("testdata", "hostile", "*.wasm"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d modules, %v", len(files), err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	known := []Class{ClassCompile, ClassMissingExport, ClassThrown, ClassTrap, ClassTimeout, ClassCPU, ClassMemory, ClassOutput, ClassHostDenied}
	accepted := 0
	for _, f := range files {
		original, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if len(original) > 4096 {
			continue
		}
		for range n {
			m := slices.Clone(original)
			switch at := 8 + r.IntN(len(m)-8); r.IntN(5) {
			case 0:
				m[at] ^= 1 << r.IntN(8)
			case 1:
				m[at] = byte(r.IntN(256))
			case 2:
				m = m[:at]
			case 3:
				m = slices.Insert(m, at, byte(r.IntN(256)))
			case 4:
				m = slices.Concat(m[:at], m[at/2:])
			}
			c, cancel := context.WithTimeout(context.Background(), time.Minute)
			var e *Error
			mod, err := shared.CompileWASM(c, m)
			if err == nil {
				accepted++
				_, err = shared.Execute(c, mod, Call{Trust: TrustOwn, Limits: Limits{CPU: 10 * time.Millisecond, MemoryBytes: 64 << 20}})
			}
			cancel()
			if err != nil && (!errors.As(err, &e) || !slices.Contains(known, e.Class) || strings.Contains(e.Message, "internal")) {
				t.Errorf("%s changed to %x: %v", filepath.Base(f), m, err)
			}
		}
	}
	if accepted == 0 {
		t.Error("no changed module was accepted, so this shows nothing about running them")
	}
}

// TestModulesBeginClean runs a module that fails if any byte of its memory is not zero, and then
// fills all of it, grown to its limit.
func TestModulesBeginClean(t *testing.T) {
	t.Parallel()
	code, err := os.ReadFile(filepath.Join("testdata", "hostile", "wasm_esc_dirty_memory.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := shared.CompileWASM(context.Background(), code)
	if err != nil {
		t.Fatal(err)
	}
	for _, tier := range tiers {
		for i := range 6 {
			res, err := shared.Execute(context.Background(), m, Call{Trust: TrustOwn, Tier: tier, Limits: Limits{Wall: time.Minute, MemoryBytes: 16 << 20}})
			if err != nil || string(res.Output) != "1" {
				t.Fatalf("%s, run %d: %s, %v", tier, i, res.Output, err)
			}
		}
	}
}
