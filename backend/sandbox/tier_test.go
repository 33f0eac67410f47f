package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"helix/backend/fault"
	"helix/backend/sandbox/worker"
	"helix/backend/testkit"
)

// both runs text in both tiers and returns the results with their errors.
func both(t *testing.T, text string, c Call) (in, out Result, inErr, outErr *Error) {
	t.Helper()
	in, inErr = try(t, text, c)
	c.Tier = tier1
	out, outErr = try(t, text, c)
	if out.Tier != tier1 || in.Tier != tier0 || in.Isolation != IsolationInProcess || isolationRank(out.Isolation) < 1 || out.Reasons == nil {
		t.Errorf("tiers %s %s and %s %s %v", in.Tier, in.Isolation, out.Tier, out.Isolation, out.Reasons)
	}
	return in, out, inErr, outErr
}

func TestTier1MatchesTier0(t *testing.T) {
	testkit.SkipRaced(t, "many runs of the engine, one after the other")
	t.Parallel()
	seed := [8]byte{1, 2, 3, 4, 5, 6, 7, 8}
	host := &recorder{answers: map[string]string{
		OpStateGet: `{"found":true,"value":{"a":[1]}}`, OpTool: `{"output":[3]}`,
		OpFetch: `{"status":200,"url":"u","headers":{},"body":"` + strings.Repeat("x", 5<<20) + `"}`,
	}}
	for _, c := range []struct {
		text string
		call Call
	}{
		{"return params.a + 1", Call{Input: []byte(`{"a":41}`)}},
		{"return [skillName, skillVersion, skillAuthor]", Call{Meta: Meta{Name: "n\"", Version: "1.2", Author: "ü"}}},
		{"return [Math.random(), Math.random()]", Call{Seed: &seed}},
		{"return 'ab\\0c\\ud800'", Call{}},
		{"return undefined", Call{}},
		{"console.log('one', {a: 1}); helix.log('warn', 'two', {b: [2]}); return 0", Call{}},
		{"throw new TypeError('no\\n')", Call{}},
		{"return { a: { b: 1n } }", Call{}},
		{"const a = []; a[0] = a; return a", Call{}},
		{"return await helix.state.get('k')", Call{Host: host}},
		{"return (await (await helix.fetch('https://h')).text()).length", Call{Host: host}},
		{"return await Promise.all([helix.tool('a'), helix.tool('b'), helix.state.get('k')])", Call{Host: host}},
		{"try { await helix.secret('x') } catch (e) { return [e.name, e.code, e.message] }", Call{Host: host}},
		{"await helix.secret('x')", Call{Host: host}},
		{"await helix.secret('x')", Call{}},
		{"try { await helix.fs.list('/') } catch (e) { return [e.name, e.code, e.capability] }", Call{}},
		{"return new Uint8Array(1 << 30).length", Call{Limits: Limits{MemoryBytes: 64 << 20}}},
		{"for (;;) { }", Call{Limits: Limits{Wall: 100 * time.Millisecond}}},
		{"for (;;) { }", Call{Limits: Limits{CPU: 50 * time.Millisecond}}},
		{"for (;;) { }", Call{Limits: Limits{Fuel: 5e6}}},
		{"await new Promise(() => {})", Call{}},
		{"return 'x'.repeat(2e6)", Call{}},
		{"for (let i = 0; i < 1e4; i++) console.log('line', i); return 1", Call{Limits: Limits{LogBytes: 2000}}},
		{"for (let i = 0; i < 5; i++) await helix.state.get('k')", Call{Host: host, Limits: Limits{HostCalls: 3}}},
		{"const r = []; for (let i = 0; i < 5; i++) try { await helix.state.get('k') } catch (e) { r.push([i, e.name, e.code]) }; return r", Call{Host: host, Limits: Limits{HostCalls: 3}}},
		{"function f() { return f() + 1 } return f()", Call{}},
		{"type T = { a: number }\n\nfunction g(x: T): never {\n  throw new RangeError('here')\n}\nexport default function (p: T) {\n  return g(p)\n}", Call{}},
		{"console.log(new Error('logged').stack); return 1", Call{}},
	} {
		in, out, inErr, outErr := both(t, c.text, c.call)
		if string(in.Output) != string(out.Output) {
			t.Errorf("%s: outputs %.200s and %.200s", c.text, in.Output, out.Output)
		}
		if len(in.Logs) != len(out.Logs) {
			t.Errorf("%s: %d and %d lines of log", c.text, len(in.Logs), len(out.Logs))
		} else {
			for i, l := range in.Logs {
				if o := out.Logs[i]; l.Level != o.Level || l.Message != o.Message || string(l.Fields) != string(o.Fields) {
					t.Errorf("%s: log %+v and %+v", c.text, l, o)
				}
			}
		}
		if in.Usage.HostCalls != out.Usage.HostCalls || in.Usage.OutputBytes != out.Usage.OutputBytes || in.Usage.Fuel > 0 != (out.Usage.Fuel > 0) || out.Usage.PeakMemory == 0 {
			t.Errorf("%s: usage %+v and %+v", c.text, in.Usage, out.Usage)
		}
		if (inErr == nil) != (outErr == nil) {
			t.Errorf("%s: errors %v and %v", c.text, inErr, outErr)
			continue
		}
		if inErr == nil {
			continue
		}
		if inErr.Class != outErr.Class || inErr.Message != outErr.Message || inErr.Stack != outErr.Stack {
			t.Errorf("%s: errors %v %q and %v %q", c.text, inErr, inErr.Stack, outErr, outErr.Stack)
		}
		a, b := inErr.Details, outErr.Details
		if x, ok := a.(LimitDetail); ok { // the usage at that point differs
			x.Value = 0
			y, _ := b.(LimitDetail)
			y.Value = 0
			a, b = x, y
		}
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s: details %+v and %+v", c.text, a, b)
		}
	}
}

func TestTier1Module(t *testing.T) {
	t.Parallel()
	m := compileWASM(t, fromC(t, "json"))
	c := Call{Input: []byte(`{"a":[1,2.5,{"b":null}],"c":"x\"y"}`)}
	for range 3 {
		res, err := shared.Execute(context.Background(), m, c)
		if err != nil || res.Tier != tier1 || string(res.Output) != `{"objects":2,"arrays":1,"strings":4,"numbers":2,"words":1,"sum":3.5}` {
			t.Fatalf("%+v %v", res, err)
		}
		if res.Usage.Fuel == 0 || res.Usage.PeakMemory < 1<<16 || isolationRank(res.Isolation) < 1 {
			t.Errorf("%+v", res)
		}
	}
	_, err := shared.Execute(context.Background(), m, Call{Input: []byte(`{}`), Limits: Limits{Fuel: 10}})
	var e *Error
	if !errors.As(err, &e) || e.Class != ClassCPU || e.Details.(LimitDetail).Limit != "fuel" {
		t.Errorf("without fuel: %v", err)
	}
	for _, trust := range []Trust{TrustOwn, TrustSigned} {
		c.Trust = trust
		if res, err := shared.Execute(context.Background(), m, c); err != nil || res.Tier != tier0 {
			t.Errorf("with trust %q: tier %s %v", trust, res.Tier, err)
		}
	}
}

// Details of a refusal that the guest must not see still reach the caller.
func TestTier1RefusalKeepsItsDetails(t *testing.T) {
	t.Parallel()
	deny := HostFunc(func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		return nil, fault.Deniedf("not you").WithDetails(Refusal{Reason: ReasonAddress, Capability: "network:https(h)", Resource: "h", Extra: "approval 7"})
	})
	err := wantClass(t, "await helix.fetch('https://h')", Call{Host: deny, Tier: tier1}, ClassHostDenied)
	if d, ok := err.Details.(Refusal); !ok || d.Extra != "approval 7" || d.Reason != ReasonAddress || d.Resource != "h" {
		t.Errorf("details %+v", err.Details)
	}
	got := run1(t, "try { await helix.fetch('https://h') } catch (e) { return [e.name, e.message, e.code, e.capability, JSON.stringify(e).includes('approval')] }", Call{Host: deny, Tier: tier1})
	if want := `["PermissionError","not you","denied","network:https(h)",false]`; string(got.Output) != want {
		t.Errorf("the guest saw %s, want %s", got.Output, want)
	}
}

// The usage of an inner run counts in the child too.
func TestTier1CountsInnerRuns(t *testing.T) {
	t.Parallel()
	var left Limits
	host := HostFunc(func(ctx context.Context, op string, _ json.RawMessage) (json.RawMessage, error) {
		if op == OpTool {
			left, _ = Remaining(ctx)
			Charge(ctx, Usage{CPU: 40 * time.Millisecond, HostCalls: 5})
		}
		return json.RawMessage(`{"output":1,"found":false}`), nil
	})
	c := Call{Host: host, Tier: tier1, Limits: Limits{HostCalls: 8}}
	res := run1(t, "await helix.tool('a'); await helix.state.get('k'); await helix.state.get('k'); try { await helix.state.get('k') } catch (e) { return e.code }", c)
	if string(res.Output) != `"limit"` || res.Usage.HostCalls != 8 || res.Usage.CPU < 40*time.Millisecond {
		t.Errorf("%s %+v", res.Output, res.Usage)
	}
	if left.HostCalls != 7 || left.Wall <= 0 || left.Wall > 30*time.Second {
		t.Errorf("remaining %+v", left)
	}
	c.Limits = Limits{CPU: 100 * time.Millisecond}
	wantClass(t, "for (;;) await helix.tool('a')", c, ClassCPU)
}

func TestTier1CancelPassesThrough(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"for (;;) {}", "await helix.tool('wait')", "await new Promise((r) => setTimeout(r, 60000))"} {
		ctx, cancel := context.WithCancel(context.Background())
		started := make(chan struct{})
		var once sync.Once
		host := HostFunc(func(ctx context.Context, op string, _ json.RawMessage) (json.RawMessage, error) {
			once.Do(func() { close(started) })
			if op == OpTool {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return json.RawMessage(`{"found":false}`), nil
		})
		go func() {
			<-started
			cancel()
		}()
		_, err := shared.Execute(ctx, compile(t, "await helix.state.get('begun'); "+text), Call{Host: host, Tier: tier1})
		var e *Error
		if !errors.As(err, &e) || e.Class != ClassCanceled {
			t.Errorf("%s ends with %v", text, err)
		}
		cancel()
	}
}

func TestTier1StreamsLogs(t *testing.T) {
	t.Parallel()
	seen := make(chan LogLine, 1)
	release := make(chan struct{})
	host := HostFunc(func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		<-release
		return json.RawMessage(`{"found":false}`), nil
	})
	go func() {
		<-seen // the line has arrived while the run is still waiting
		close(release)
	}()
	res := run1(t, "console.warn('early'); await helix.state.get('k'); return 1", Call{Host: host, Tier: tier1, Log: func(l LogLine) { seen <- l }})
	if len(res.Logs) != 1 || res.Logs[0].Level != "warn" || res.Logs[0].Message != "early" {
		t.Errorf("logs %+v", res.Logs)
	}
}

func TestTier1NeverFallsBack(t *testing.T) {
	t.Parallel()
	p := compile(t, "return 1")
	for name, o := range map[string]Options{
		"off":        {},
		"no program": {WorkerCommand: []string{"/nonexistent/helix", "sandbox-worker"}},
		"not Helix":  {WorkerCommand: []string{"/bin/true"}},
		"vm wanted":  {MinIsolation: "vm", WorkerCommand: childCommand},
	} {
		o.Idle, o.CacheDir = -1, sharedCache
		e, err := Open(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		res, err := e.Execute(context.Background(), p, Call{Tier: tier1})
		var x *Error
		if !errors.As(err, &x) || x.Class != ClassUnavailable || res.Output != nil || res.Tier != tier1 {
			t.Errorf("%s: %+v %v", name, res, err)
		}
		if s := e.Status().Tiers[1]; name != "no program" && name != "not Helix" && (s.Available || len(s.Reasons) == 0) {
			t.Errorf("%s: status %+v", name, s)
		}
		if res, err := e.Execute(context.Background(), p, Call{}); err != nil || string(res.Output) != "1" {
			t.Errorf("%s: in process: %v", name, err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestUnknownTierIsRefused(t *testing.T) {
	t.Parallel()
	for _, tier := range []string{"t2", "T0", "t0 ", "inprocess"} {
		res, err := try(t, "return 1", Call{Tier: tier})
		if err == nil || err.Class != ClassUnavailable || res.Output != nil {
			t.Errorf("tier %q: %+v %v", tier, res, err)
		}
	}
}

func TestTier1HasTheMemoryItMayUse(t *testing.T) {
	t.Parallel()
	top, _ := Profile("permissive")
	res := run1(t, "const a = new Uint8Array(200e6).fill(1); return a.length", Call{Tier: tier1, Limits: top})
	if string(res.Output) != "200000000" || res.Usage.PeakMemory < 200e6 {
		t.Errorf("%s %+v", res.Output, res.Usage)
	}
}

func TestMinIsolation(t *testing.T) {
	testkit.SkipRaced(t, "many runs of the engine, one after the other")
	t.Parallel()
	p := compile(t, "return 1")
	have := shared.Status().Tiers[1]
	isolation, _ := shared.children.expected()
	for _, want := range []string{IsolationProcess, IsolationLandlock, IsolationBwrap} {
		e, err := Open(context.Background(), Options{WorkerCommand: childCommand, Idle: -1, CacheDir: sharedCache, MinIsolation: want})
		if err != nil {
			t.Fatal(err)
		}
		res, err := e.Execute(context.Background(), p, Call{Tier: tier1})
		if enough := isolationRank(isolation) >= isolationRank(want); enough != (err == nil) || e.Status().Tiers[1].Available != enough {
			t.Errorf("%s here, %s wanted: %+v %v (%+v)", isolation, want, res, err, have)
		}
		if err == nil && isolationRank(res.Isolation) < isolationRank(want) {
			t.Errorf("ran in %s, %s wanted", res.Isolation, want)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// If bubblewrap is missing or blocked by the system, the result names it, and the run uses the
// remaining layers.
func TestWithoutBwrap(t *testing.T) {
	t.Parallel()
	if !bwrapUsual {
		t.Skip("bubblewrap is Linux's")
	}
	broken := filepath.Join(t.TempDir(), "bwrap")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := compile(t, "return 1")
	for path, want := range map[string]string{"": worker.ReasonBwrapMissing, broken: worker.ReasonBwrapBlocked} {
		e, err := Open(context.Background(), Options{WorkerCommand: childCommand, Idle: -1, CacheDir: sharedCache})
		if err != nil {
			t.Fatal(err)
		}
		c := e.children
		c.once.Do(func() {
			program, err := os.Executable()
			if err != nil {
				t.Error(err)
			}
			c.command = []string{program, worker.Argument}
			c.useBwrap(path)
		})
		res, err := e.Execute(context.Background(), p, Call{Tier: tier1})
		if err != nil || res.Isolation == IsolationBwrap || !slices.Contains(res.Reasons, want) || !slices.Contains(e.Status().Tiers[1].Reasons, want) {
			t.Errorf("%q: %+v %v, want reason %s", path, res, err, want)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestIsolationNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		landlock, bwrap bool
		want            string
	}{{false, false, "process"}, {false, true, "process"}, {true, false, "process+landlock"}, {true, true, "process+landlock+bwrap"}} {
		if got := isolationOf(c.landlock, c.bwrap); got != c.want {
			t.Errorf("%v: %s", c, got)
		}
	}
	if got := reasonsOf([]string{"bwrap_missing", "<b>"}, []string{"landlock_unavailable"}, nil); !reflect.DeepEqual(got, []string{"landlock_unavailable", "bwrap_missing"}) {
		t.Errorf("reasons %q", got)
	}
}

func TestSparesAreKeptAndTrimmed(t *testing.T) {
	t.Parallel()
	e, err := Open(context.Background(), Options{WorkerCommand: childCommand, Idle: -1, CacheDir: sharedCache})
	if err != nil {
		t.Fatal(err)
	}
	count := func() int {
		e.children.mu.Lock()
		defer e.children.mu.Unlock()
		return len(e.children.spares)
	}
	if n := count(); n != 0 {
		t.Errorf("%d spares before the first run", n)
	}
	p := compile(t, "return 1")
	for range 2 {
		if _, err := e.Execute(context.Background(), p, Call{Tier: tier1}); err != nil {
			t.Fatal(err)
		}
		e.children.settled()
	}
	if n := count(); n != 1 {
		t.Errorf("%d spares after two runs", n)
	}
	e.children.trim(time.Hour)
	if n := count(); n != 1 {
		t.Errorf("%d spares though one was used lately", n)
	}
	e.children.trim(0)
	if n := count(); n != 0 {
		t.Errorf("%d spares after a time without runs", n)
	}
	if err := errors.Join(e.Close(), e.Close()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(sharedCache); err != nil {
		t.Error(err)
	}
}
