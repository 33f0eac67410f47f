package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"helix/backend/fault"
)

// helixCallText makes one request as a guest and returns the answer's length and text.
func helixCallText(t testing.TB, w *moduleRun, m guestMemory, req string) (int32, string) {
	t.Helper()
	m.WriteString(100, req)
	n := int32(callImport(w, m, importHelix, "call", 100, uint64(len(req))))
	size := n
	if size < 0 {
		size = -size
	}
	if got := callImport(w, m, importHelix, "read", 1<<16, 1<<16); int32(got) != min(size, 1<<16) {
		t.Errorf("read gives %d of %d bytes", got, size)
	}
	b, _ := m.Read(1<<16, uint32(min(size, 1<<16)))
	return n, string(b)
}

func TestHelixCall(t *testing.T) {
	t.Parallel()
	type asked struct{ op, req string }
	var calls []asked
	var mu sync.Mutex
	host := HostFunc(func(_ context.Context, op string, req json.RawMessage) (json.RawMessage, error) {
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, asked{op, string(req)})
		switch op {
		case OpStateGet:
			return json.RawMessage(`{"found":true,"value":"<ü>"}`), nil
		case OpFetch:
			return nil, fault.Deniedf("No network for you.").WithDetails(Refusal{Reason: ReasonCapability, Capability: "network:https(a.b)", Resource: "a.b", Extra: 5})
		case OpReadText:
			return nil, fault.NotFoundf("File not found.")
		case OpSecret:
			return nil, errors.New("something private")
		case OpTool:
			panic("host bug")
		case OpStateKeys:
			return nil, nil
		}
		return json.RawMessage(`{}`), nil
	})
	w, _ := inRun(t, Call{Host: host}, func(w *moduleRun, m guestMemory) {
		want := func(req string, failed bool, text string) {
			t.Helper()
			n, got := helixCallText(t, w, m, req)
			if (n < 0) != failed || got != text {
				t.Errorf("%s\n gives %d %s\nwant %s", req, n, got, text)
			}
		}
		want(`{"op":"state.get","key":"<k>"}`, false, `{"found":true,"value":"<ü>"}`)
		want(`{"op":"state.keys"}`, false, ``)
		want(`{"op":"fetch","url":"https://a.b"}`, true, `{"name":"PermissionError","message":"No network for you.","code":"denied","capability":"network:https(a.b)","resource":"a.b","denied":true}`)
		if w.refusal == nil {
			t.Error("the refusal is not remembered")
		}
		want(`{"op":"fs.readText","path":"x"}`, true, `{"name":"HelixError","message":"File not found.","code":"not_found"}`)
		if w.refusal != nil {
			t.Error("the refusal is remembered though the module went on")
		}
		for _, op := range []string{OpSecret, OpTool} {
			n, got := helixCallText(t, w, m, `{"op":"`+op+`"}`)
			if n >= 0 || !strings.Contains(got, `"code":"internal"`) || strings.Contains(got, "private") || strings.Contains(got, "bug") {
				t.Errorf("%s gives %d %s", op, n, got)
			}
		}
		// The host reads exactly what was checked: unique member names, and no op.
		want(`{"op":"fetch","op":"state.delete","key":"a","key":"b"}`, false, `{}`)
		for _, req := range []string{
			``, `{}`, `[]`, `null`, `"op"`, `{"op":1}`, `{"op":""}`, `{"op":null}`, `{"op":"x"`, `{"op":"x"} x`, "{\"op\":\"\xff\"}", `{"op":"fs.folders"}`,
		} {
			if n, got := helixCallText(t, w, m, req); n >= 0 || !strings.Contains(got, `"code":"invalid"`) {
				t.Errorf("%q gives %d %s", req, n, got)
			}
		}
		want(`{"op":"log","level":"warn","message":"careful","fields":{"a":1}}`, false, `{}`)
		want(`{"op":"log","message":"so"}`, false, `{}`)
		if n, _ := helixCallText(t, w, m, `{"op":"log","message":5}`); n >= 0 {
			t.Error("log of a number")
		}
	})
	if got := calls[len(calls)-1]; got != (asked{OpStateDelete, `{"key":"b"}`}) {
		t.Errorf("the host saw %+v", got)
	}
	if calls[0] != (asked{OpStateGet, `{"key":"<k>"}`}) || calls[1] != (asked{OpStateKeys, `{}`}) {
		t.Errorf("the host saw %+v", calls[:2])
	}
	if l := w.logs.lines; len(l) != 2 || l[0].Level != "warn" || l[0].Message != "careful" || string(l[0].Fields) != `{"a":1}` || l[1].Level != "info" {
		t.Errorf("logs %+v", l)
	}
	if w.usage.HostCalls != 7 {
		t.Errorf("%d host calls", w.usage.HostCalls)
	}
}

func TestHelixPointers(t *testing.T) {
	t.Parallel()
	host := HostFunc(func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(strings.Repeat("[1]", 100)), nil
	})
	inRun(t, Call{Host: host}, func(w *moduleRun, m guestMemory) {
		for _, p := range [][]uint64{{beyond, 1}, {beyond - 1, 2}, {0, math.MaxUint32}, {math.MaxUint32, 1}, {math.MaxUint32, math.MaxUint32}, {1 << 31, 1 << 31}} {
			if n := int32(callImport(w, m, importHelix, "call", p...)); n >= 0 {
				t.Errorf("call%v = %d", p, n)
			}
		}
		if n, _ := helixCallText(t, w, m, `{"op":"x"}`); n != 300 {
			t.Fatalf("%d", n)
		}
		for _, p := range [][]uint64{{beyond, 1}, {beyond - 299, 300}, {math.MaxUint32, 10}, {beyond - 299, math.MaxUint32}} {
			if n := int32(callImport(w, m, importHelix, "read", p...)); n != -1 {
				t.Errorf("read%v = %d", p, n)
			}
		}
		for _, c := range []struct{ at, cap, n uint64 }{{0, 0, 0}, {0, 10, 10}, {beyond - 300, math.MaxUint32, 300}, {beyond - 300, 300, 300}, {beyond, 0, 0}, {0, 5000, 300}} {
			if n := callImport(w, m, importHelix, "read", c.at, c.cap); uint64(n) != c.n {
				t.Errorf("read(%d, %d) = %d, want %d", c.at, c.cap, n, c.n)
			}
		}
	})
	inRun(t, Call{}, func(w *moduleRun, m guestMemory) {
		if n := callImport(w, m, importHelix, "read", 0, 100); n != 0 {
			t.Errorf("read before a call = %d", n)
		}
	})
}

// helixGuest calls helix.call with a request and then runs the rest of its body.
func helixGuest(t testing.TB, req, body string) []byte {
	t.Helper()
	return textModule(t, `(global $n (mut i32) (i32.const 0)) (data (i32.const 1000) "`+strings.ReplaceAll(req, `"`, `\22`)+`")`,
		`(local $r i32) (local.set $r (call $call (i32.const 1000) (i32.const `+itoa(len(req))+`)))`+body)
}

func TestUncaughtRefusal(t *testing.T) {
	t.Parallel()
	req := `{"op":"fetch","url":"https://a.b"}`
	ends := map[string]string{
		"trap": `(unreachable)`, "exit": `(call $proc_exit (i32.const 4))`,
	}
	for name, end := range ends {
		err := wantModuleClass(t, helixGuest(t, req, end), Call{}, ClassHostDenied)
		if ref, ok := err.Details.(Refusal); !ok || ref.Reason != ReasonCapability || err.Class.Kind() != fault.Denied {
			t.Errorf("%s: %+v", name, err)
		}
	}
	// A module that handles the refusal succeeds.
	if got := string(runModule(t, helixGuest(t, req, `(call $number (i32.lt_s (local.get $r) (i32.const 0)))`), Call{}).Output); got != "10001" {
		t.Errorf("output %s", got)
	}
}

func TestModuleHostCallCap(t *testing.T) {
	t.Parallel()
	var n int
	var mu sync.Mutex
	host := HostFunc(func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		mu.Lock()
		defer mu.Unlock()
		n++
		return json.RawMessage(`{}`), nil
	})
	loop := func(op string, count int) []byte {
		req := `{"op":"` + op + `"}`
		return textModule(t, `(data (i32.const 1000) "`+strings.ReplaceAll(req, `"`, `\22`)+`")`, `
			(local $i i32) (local $bad i32)
			(loop $l
				(local.set $bad (i32.add (local.get $bad) (i32.lt_s (call $call (i32.const 1000) (i32.const `+itoa(len(req))+`)) (i32.const 0))))
				(br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const `+itoa(count)+`))))
			(call $number (local.get $bad))
			(if (local.get $bad) (then (unreachable)))`)
	}
	res := runModule(t, loop("state.get", 1000), Call{Host: host})
	if string(res.Output) != "10000" || res.Usage.HostCalls != 1000 || n != 1000 {
		t.Errorf("%s, %d calls", res.Output, n)
	}
	res, err := tryModule(t, loop("state.get", 1005), Call{Host: host})
	if err == nil || err.Class != ClassHostDenied || err.Details.(Refusal).Reason != ReasonLimit || res.Usage.HostCalls != 1000 || n != 2000 {
		t.Errorf("%v, %d calls", err, n)
	}
	if _, err := tryModule(t, loop("fetch", 101), Call{Host: host}); err == nil || err.Class != ClassHostDenied || n != 2100 {
		t.Errorf("%v, %d calls", err, n)
	}
	if _, err := tryModule(t, loop("state.get", 4), Call{Host: host, Limits: Limits{HostCalls: 3}}); err == nil || err.Class != ClassHostDenied || n != 2103 {
		t.Errorf("%v, %d calls", err, n)
	}
	// Logging is not a host call.
	if res := runModule(t, loop("log", 3000), Call{Host: host}); res.Usage.HostCalls != 0 || n != 2103 || len(res.Logs) == 0 {
		t.Errorf("%+v", res.Usage)
	}
}

func TestHostThatWaits(t *testing.T) {
	t.Parallel()
	wasm := helixGuest(t, `{"op":"state.get"}`, `(call $number (i32.const 1))`)
	// Waiting costs wall time, not CPU time, and ends with the run.
	slow := HostFunc(func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
		select {
		case <-ctx.Done():
		case <-time.After(1100 * time.Millisecond):
		}
		return json.RawMessage(`{}`), ctx.Err()
	})
	res := runModule(t, wasm, Call{Host: slow, Limits: Limits{CPU: time.Second}})
	if res.Usage.Wall < 1100*time.Millisecond {
		t.Errorf("usage %+v", res.Usage)
	}
	if _, err := tryModule(t, wasm, Call{Host: slow, Limits: Limits{Wall: 5 * time.Millisecond}}); err == nil || err.Class != ClassTimeout {
		t.Errorf("%v, want timeout", err)
	}
	// A host that ignores the end delays the run only briefly.
	let := make(chan struct{})
	defer close(let)
	deaf := HostFunc(func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		<-let
		return nil, nil
	})
	if _, err := tryModule(t, wasm, Call{Host: deaf, Limits: Limits{Wall: 5 * time.Millisecond}}); err == nil || err.Class != ClassTimeout {
		t.Errorf("%v, want timeout", err)
	}
}

// TestInnerRuns lets a module call a tool that is a module and one that is JavaScript.
func TestModuleInnerRuns(t *testing.T) {
	t.Parallel()
	inner := textModule(t, ``, `(local $i i32) (loop $l (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 3000000)))) (call $number (i32.const 5))`)
	var got []string
	host := HostFunc(func(ctx context.Context, op string, req json.RawMessage) (json.RawMessage, error) {
		left, ok := Remaining(ctx)
		if !ok || left.Fuel == 0 || left.MemoryBytes == 0 {
			t.Errorf("remaining %+v", left)
		}
		res, err := shared.Execute(ctx, compileWASM(t, inner), Call{Limits: left, Tier: tier0})
		Charge(ctx, res.Usage)
		got = append(got, string(res.Output))
		return jsonObject(ToolResponse{res.Output}), err
	})
	res := runModule(t, helixGuest(t, `{"op":"tool","name":"x","params":{}}`, `(call $number (i32.const 6))`), Call{Host: host})
	if !slices.Equal(got, []string{"10005"}) || string(res.Output) != "10006" {
		t.Errorf("inner %v, outer %s", got, res.Output)
	}
	if res.Usage.Fuel < 3_000_000 {
		t.Errorf("the inner run's fuel is not charged: %+v", res.Usage)
	}
}

func TestLogLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxLine+100)
	var heard []string
	w, _ := inRun(t, Call{Log: func(l LogLine) { heard = append(heard, l.Message) }}, func(w *moduleRun, m guestMemory) {
		for _, s := range []string{"one\ntw", "o\r\n\n\n", "\xff\x00end\n", long, "\nlast"} {
			w.writeErrors([]byte(s))
		}
	})
	want := []string{"one", "two", "\uFFFD\x00end", strings.Repeat("x", maxLine), strings.Repeat("x", 100), "last"}
	if !slices.Equal(heard, want) || len(w.logs.lines) != len(want) {
		t.Errorf("%d lines: %.300q", len(heard), heard)
	}
	// The limit, then one line that reports it; further lines cost nothing.
	w, _ = inRun(t, Call{Limits: Limits{LogBytes: 1000}}, func(w *moduleRun, m guestMemory) {
		for range 1000 {
			w.writeErrors(bytes.Repeat([]byte("0123456789\n"), 100))
		}
	})
	total := 0
	for _, l := range w.logs.lines {
		total += len(l.Message)
	}
	if last := w.logs.lines[len(w.logs.lines)-1].Message; total > 1100 || !strings.Contains(last, "truncated") {
		t.Errorf("%d bytes, last %q", total, last)
	}
	if len(w.tail) != maxTail {
		t.Errorf("the end has %d bytes", len(w.tail))
	}
}
