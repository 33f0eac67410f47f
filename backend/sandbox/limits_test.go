package sandbox

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"helix/backend/fault"
)

func TestProfiles(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		wall, cpu time.Duration
		memory    int64
	}{
		"strict": {10 * time.Second, 10 * time.Second, 64 << 20}, "standard": {30 * time.Second, 10 * time.Second, 128 << 20},
		"permissive": {60 * time.Second, 10 * time.Second, 256 << 20}, "wasm": {5 * time.Second, 5 * time.Second, 128 << 20},
	} {
		l, ok := Profile(name)
		if !ok || l.Wall != want.wall || l.CPU != want.cpu || l.MemoryBytes != want.memory {
			t.Errorf("Profile(%s) = %+v, %v", name, l, ok)
		}
		if l.InputBytes != 4<<20 || l.OutputBytes != 1<<20 || l.LogBytes != 64<<10 || l.HostCalls != 1000 || l.StackBytes != 256<<10 || l.Fuel != 2e11 {
			t.Errorf("Profile(%s) common limits = %+v", name, l)
		}
	}
	if _, ok := Profile("lax"); ok {
		t.Error("an unknown profile is given")
	}
	std, _ := Profile("standard")
	top, _ := Profile("permissive")
	if got := (Limits{}).effective(false); got != std {
		t.Errorf("defaults = %+v", got)
	}
	if got := (Limits{Wall: time.Hour, CPU: time.Hour, MemoryBytes: 1 << 40, HostCalls: 1 << 30, StackBytes: 1 << 30, InputBytes: 1 << 40, OutputBytes: 1 << 40, LogBytes: 1 << 40, Fuel: 1 << 60}).effective(false); got != top {
		t.Errorf("raised limits = %+v", got)
	}
}

func TestWallAndCPU(t *testing.T) {
	t.Parallel()
	err := wantClass(t, "for (;;) {}", Call{Limits: Limits{Wall: 200 * time.Millisecond}}, ClassTimeout)
	if d := err.Details.(LimitDetail); d.Limit != "wallMs" || d.Max != 200 || !fault.Is(err, fault.Timeout) {
		t.Errorf("details = %+v", d)
	}
	res, cpu := try(t, "const end = 1e12; let i = 0; while (i < end) i++", Call{Limits: Limits{CPU: 100 * time.Millisecond}})
	if cpu == nil || cpu.Class != ClassCPU || cpu.Details.(LimitDetail).Limit != "cpuMs" {
		t.Fatalf("a CPU burn ends with %v", cpu)
	}
	if res.Usage.CPU < 100*time.Millisecond || res.Usage.PeakMemory == 0 {
		t.Errorf("usage = %+v", res.Usage)
	}
}

func TestWaitingCostsNoCPU(t *testing.T) {
	t.Parallel()
	res := run1(t, "await new Promise((r) => setTimeout(r, 2100)); return 1", Call{Limits: Limits{CPU: 2 * time.Second}})
	if res.Usage.Wall < 2100*time.Millisecond {
		t.Errorf("usage = %+v", res.Usage)
	}
	wantClass(t, "await new Promise((r) => setTimeout(r, 60000))", Call{Limits: Limits{Wall: 50 * time.Millisecond}}, ClassTimeout)
}

func TestMemory(t *testing.T) {
	t.Parallel()
	small := Call{Limits: Limits{MemoryBytes: 16 << 20, CPU: 10 * time.Second}}
	for _, text := range []string{
		"return new ArrayBuffer(1 << 30).byteLength", "let s = 'x'; for (;;) s += s", "const a = []; for (;;) a.push(new Array(1000).fill(1))",
		"return 'ab'.repeat(2 ** 29).length", "const u = []; for (;;) u.push(new Uint8Array(1e6))",
	} {
		// The engine has its own limit for the length of a string.
		res, err := try(t, text, small)
		if err == nil || err.Class != ClassMemory && !(err.Class == ClassThrown && strings.Contains(err.Message, "string")) {
			t.Errorf("%q ends with %v", text, err)
			continue
		}
		if err.Class == ClassMemory && !fault.Is(err, fault.Limit) || res.Usage.PeakMemory > 16<<20 {
			t.Errorf("%q: %v, peak %d", text, err, res.Usage.PeakMemory)
		}
	}
	wantClass(t, "return new ArrayBuffer(1 << 30).byteLength", Call{}, ClassMemory)
	// JavaScript gets the error first and may catch it.
	wantOutput(t, "try { new ArrayBuffer(1 << 30) } catch (e) { return [e.name, e.message] }", small, `["InternalError","out of memory"]`)
	wantOutput(t, "try { const a = []; for (;;) a.push(new Array(1e4).fill(1)) } catch (e) { return e.message }", small, `"out of memory"`)
	wantOutput(t, "return new Uint8Array(9e6).length", small, "9000000")
}

func TestStack(t *testing.T) {
	t.Parallel()
	text := "let n = 0; function f() { n++; f() } try { f() } catch (e) { return [e.name, n > 100] }"
	wantOutput(t, text, Call{}, `["RangeError",true]`)
	deep := "let n = 0; function f() { n++; f() } try { f() } catch { return n }"
	var full, half int
	if err := json.Unmarshal(run1(t, deep, Call{}).Output, &full); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(run1(t, deep, Call{Limits: Limits{StackBytes: 64 << 10}}).Output, &half); err != nil {
		t.Fatal(err)
	}
	if half >= full/2 {
		t.Errorf("depth %d with a quarter of the stack, %d with all", half, full)
	}
	wantClass(t, "function f() { f() } f()", Call{}, ClassThrown)
}

func TestInput(t *testing.T) {
	t.Parallel()
	wantOutput(t, "return params", Call{}, "{}")
	wantOutput(t, "return params", Call{Input: json.RawMessage(`[1,"\u0000x"]`)}, `[1,"\u0000x"]`)
	wantOutput(t, "return [Object.keys(params), ({}).polluted === undefined]", Call{Input: json.RawMessage(`{"__proto__":{"polluted":1}}`)}, `[["__proto__"],true]`)
	big := Call{Input: input(strings.Repeat("x", 4<<20))}
	if err := wantClass(t, "return 1", big, ClassInput); !fault.Is(err, fault.Invalid) || err.Details.(LimitDetail).Limit != "inputBytes" {
		t.Errorf("large input: %v", err)
	}
	wantClass(t, "return 1", Call{Input: json.RawMessage("{")}, ClassInput)
	wantOutput(t, "return params.length", Call{Input: input(strings.Repeat("é", 1<<20))}, "1048576")
}

func TestOutput(t *testing.T) {
	t.Parallel()
	if res := run1(t, "return 'x'.repeat(2 ** 20 - 2)", Call{}); res.Usage.OutputBytes != 1<<20 {
		t.Errorf("output of %d bytes", res.Usage.OutputBytes)
	}
	err := wantClass(t, "return 'x'.repeat(2 ** 20 - 1)", Call{}, ClassOutput)
	if d := err.Details.(LimitDetail); d.Limit != "outputBytes" || d.Max != 1<<20 || !fault.Is(err, fault.Limit) {
		t.Errorf("details = %+v", d)
	}
	wantClass(t, "return 'abc'", Call{Limits: Limits{OutputBytes: 4}}, ClassOutput)
}

func TestLogs(t *testing.T) {
	t.Parallel()
	var heard []LogLine
	res := run1(t, `
		console.log("a", 1, { b: [2] }, undefined, null, 3n);
		console.warn("w"); console.error("e"); console.debug("d"); console.info("i");
		log("plain", 2);
		helix.log("only message"); helix.log("warn", "with level", { k: 1 }); helix.log("note", { k: 2 }); helix.log("error");
		console.log(Symbol("s"), () => 1, "nul\0byte", "\ud800");
	`, Call{Log: func(l LogLine) { heard = append(heard, l) }})
	want := []struct{ level, message, fields string }{
		{"info", `a 1 {"b":[2]} undefined null 3n`, ""}, {"warn", "w", ""}, {"error", "e", ""}, {"debug", "d", ""}, {"info", "i", ""}, {"info", "plain 2", ""},
		{"info", "only message", ""}, {"warn", "with level", `{"k":1}`}, {"info", "note", `{"k":2}`}, {"info", "error", ""},
		{"info", "Symbol(s) () => 1 nul\x00byte ", ""},
	}
	if len(res.Logs) != len(want) || len(heard) != len(want) {
		t.Fatalf("%d lines, %d heard, want %d: %+v", len(res.Logs), len(heard), len(want), res.Logs)
	}
	for i, w := range want {
		l := res.Logs[i]
		if l.Level != w.level || !strings.HasPrefix(l.Message, strings.Split(w.message, "() =>")[0]) || string(l.Fields) != w.fields || l.Time.IsZero() {
			t.Errorf("line %d = %+v, want %+v", i, l, w)
		}
	}
}

func TestLogCap(t *testing.T) {
	t.Parallel()
	res := run1(t, "for (let i = 0; i < 1e5; i++) console.log('line number', i); return 'end'", Call{})
	var total int
	for _, l := range res.Logs {
		total += len(l.Message)
	}
	last := res.Logs[len(res.Logs)-1]
	if string(res.Output) != `"end"` || total > 64<<10 || !strings.Contains(last.Message, "truncated") {
		t.Errorf("%d lines, %d bytes, last %+v", len(res.Logs), total, last)
	}
	res = run1(t, "console.log('x'.repeat(1e6)); console.log('more')", Call{})
	if len(res.Logs) != 1 || !strings.Contains(res.Logs[0].Message, "truncated") {
		t.Errorf("logs = %d lines", len(res.Logs))
	}
	res, err := try(t, "console.log('kept'); throw 1", Call{})
	if err == nil || len(res.Logs) != 1 {
		t.Errorf("a failed run keeps %d lines", len(res.Logs))
	}
}

func TestHostCallCap(t *testing.T) {
	t.Parallel()
	h := HostFunc(func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`{"keys":[]}`), nil
	})
	res, err := try(t, "for (let i = 0; i < 1001; i++) await helix.state.keys()", Call{Host: h})
	if err == nil || err.Class != ClassHostDenied || err.Details.(Refusal).Reason != ReasonLimit || res.Usage.HostCalls != 1000 {
		t.Fatalf("call 1001: %v, usage %+v", err, res.Usage)
	}
	wantOutput(t, "await helix.state.keys(); try { await helix.state.keys() } catch (e) { return [e.name, e.code] }",
		Call{Host: h, Limits: Limits{HostCalls: 1}}, `["LimitError","limit"]`)
	f := HostFunc(func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`{"status":200,"url":"u","headers":{}}`), nil
	})
	err = wantClass(t, "for (let i = 0; i < 101; i++) await helix.fetch('https://x')", Call{Host: f}, ClassHostDenied)
	if err.Details.(Refusal).Reason != ReasonLimit {
		t.Errorf("fetch 101: %+v", err.Details)
	}
}

func TestTimers(t *testing.T) {
	t.Parallel()
	wantOutput(t, `
		const out = [];
		const at = (ms, v) => new Promise((r) => setTimeout((x) => { out.push(x); r() }, ms, v));
		const c = setTimeout(() => out.push("never"), 1);
		clearTimeout(c); clearTimeout(c); clearTimeout(99); clearTimeout("x");
		await Promise.all([at(2000, "c"), at(500, "a"), at(1000, "b"), at(-5, "now")]);
		return out`, Call{}, `["now","a","b","c"]`)
	wantOutput(t, "try { setTimeout('code', 1) } catch (e) { return e.name }", Call{}, `"TypeError"`)
	wantOutput(t, "setTimeout(() => console.log('late'), 50); return 1", Call{}, "1")
	wantOutput(t, "try { for (;;) setTimeout(() => 1, 1e6) } catch (e) { return e.code }", Call{}, `"limit"`)
	wantClass(t, "await new Promise((_, no) => setTimeout(() => { throw new Error('in a timer') }, 1))", Call{}, ClassThrown)
}

func TestCanceled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	started := make(chan struct{})
	h := HostFunc(func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
		close(started)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	go func() {
		<-started
		cancel()
	}()
	res, err := shared.Execute(ctx, compile(t, "console.log('before'); await helix.state.keys()"), Call{Host: h})
	if e := err.(*Error); e.Class != ClassCanceled || !fault.Is(err, fault.Canceled) || len(res.Logs) != 1 {
		t.Errorf("canceled run: %v, %+v", err, res)
	}
	_, err = shared.Execute(ctx, compile(t, "return 1"), Call{})
	if e := err.(*Error); e.Class != ClassCanceled {
		t.Errorf("run with an ended context: %v", err)
	}
	ctx, cancel = context.WithCancel(context.Background())
	h = HostFunc(func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		cancel()
		return json.RawMessage("{}"), nil
	})
	_, err = shared.Execute(ctx, compile(t, "helix.state.keys(); for (;;) await 0"), Call{Host: h})
	if e := err.(*Error); e.Class != ClassCanceled {
		t.Errorf("a spinning run that is canceled: %v", err)
	}
}
