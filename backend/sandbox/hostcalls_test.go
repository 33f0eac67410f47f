package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"helix/backend/fault"
)

// recorder answers each operation from a table and records the requests.
type recorder struct {
	mu      sync.Mutex
	got     []string
	answers map[string]string
}

func (r *recorder) Call(_ context.Context, op string, req json.RawMessage) (json.RawMessage, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, op+" "+string(req))
	a, ok := r.answers[op]
	if !ok {
		return nil, fault.NotFoundf("no answer for %s", op)
	}
	return json.RawMessage(a), nil
}

func TestHostOperations(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, op, req, answer, want string }{
		{"return await helix.fs.readText('/a')", OpReadText, `{"path":"/a"}`, `{"text":"hi"}`, `"hi"`},
		{"return await helix.fs.list('/a')", OpList, `{"path":"/a"}`, `{"entries":[{"name":"x","size":1,"isDir":false,"modified":"t"}]}`, `[{"name":"x","size":1,"isDir":false,"modified":"t"}]`},
		{"return await helix.fs.writeText('n.txt', 'body')", OpWriteText, `{"path":"n.txt","text":"body"}`, `{}`, "null"},
		{"return await helix.state.get('k')", OpStateGet, `{"key":"k"}`, `{"found":true,"value":{"a":[1]}}`, `{"a":[1]}`},
		{"return [await helix.state.get('k')] [0] === undefined", OpStateGet, `{"key":"k"}`, `{"found":false}`, "true"},
		{"return await helix.state.set('k', { a: [1, undefined] })", OpStateSet, `{"key":"k","value":{"a":[1,null]}}`, `{}`, "null"},
		{"return await helix.state.delete('k')", OpStateDelete, `{"key":"k"}`, `{"deleted":true}`, "true"},
		{"return await helix.state.keys()", OpStateKeys, `{}`, `{"keys":["a","b"]}`, `["a","b"]`},
		{"return await helix.secret('token')", OpSecret, `{"name":"token"}`, `{"placeholder":"{{x}}"}`, `"{{x}}"`},
		{"return await helix.tool('sum', { a: 1 })", OpTool, `{"name":"sum","params":{"a":1}}`, `{"output":[3]}`, `[3]`},
		{"return await helix.tool('sum')", OpTool, `{"name":"sum","params":{}}`, `{"output":null}`, `null`},
		{
			"const r = await helix.fetch('https://h/p'); return [r.status, r.ok, r.url, r.headers['x-y'], await r.text(), await r.json(), [...await r.bytes()]]", OpFetch,
			`{"url":"https://h/p","method":"GET","headers":{}}`, `{"status":201,"url":"https://h/q","headers":{"x-y":"z"},"body":"[1]"}`, `[201,true,"https://h/q","z","[1]",[1],[91,49,93]]`,
		},
		{
			"const r = await helix.fetch(new URL('https://h/ü'), { method: 'post', headers: { 'X-A': 1, accept: 'b' }, body: 'text', timeoutMs: 99.7 }); return [r.ok, [...await r.bytes()], await r.text()]", OpFetch,
			`{"url":"https://h/%C3%BC","method":"POST","headers":{"x-a":"1","accept":"b"},"body":"text","timeoutMs":99}`, `{"status":404,"url":"u","headers":{},"bodyBase64":"/2E="}`, `[false,[255,97],"` + "\uFFFD" + `a"]`,
		},
		{
			"const r = await helix.fetch('https://h', { method: 'PUT', headers: [['a', '1'], ['A', '2']], body: new Uint8Array([0, 255, 1]).subarray(1) }); return r.status", OpFetch,
			`{"url":"https://h","method":"PUT","headers":{"a":"1, 2"},"bodyBase64":"/wE="}`, `{"status":200,"url":"u","headers":{}}`, "200",
		},
		{
			"const r = await helix.fetch('https://h', { method: 'PUT', body: new URLSearchParams({ q: 'a b' }) }); return await r.text()", OpFetch,
			`{"url":"https://h","method":"PUT","headers":{"content-type":"application/x-www-form-urlencoded;charset=UTF-8"},"body":"q=a+b"}`, `{"status":200,"url":"u","headers":{}}`, `""`,
		},
	} {
		r := &recorder{answers: map[string]string{c.op: c.answer}}
		if got := string(run1(t, c.text, Call{Host: r}).Output); got != c.want {
			t.Errorf("%s: output %s, want %s", c.text, got, c.want)
		}
		if want := c.op + " " + c.req; len(r.got) != 1 || r.got[0] != want {
			t.Errorf("%s: request %q, want %q", c.text, r.got, want)
		}
	}
}

func TestBadArgumentsStayInGuest(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	for _, text := range []string{
		"helix.fs.readText()", "helix.fs.readText(1)", "helix.fs.writeText('a', {})", "helix.state.get('')", "helix.state.set('k', () => 1)", "helix.secret({})",
		"helix.tool(null)", "helix.fetch('https://h', { body: {} })", "helix.fetch('https://h', { headers: 'x' })", "helix.state.set('k', 1n)",
	} {
		wantOutput(t, "try { await "+text+" } catch (e) { return e.name }", Call{Host: r}, `"TypeError"`)
	}
	if len(r.got) != 0 {
		t.Errorf("requests = %v", r.got)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	h := HostFunc(func(_ context.Context, op string, _ json.RawMessage) (json.RawMessage, error) {
		switch op {
		case OpFetch:
			return nil, fault.Deniedf("The tool may not reach h.").WithDetails(Refusal{Reason: ReasonCapability, Capability: "network:https(h)", Resource: "h", Extra: "approval"})
		case OpReadText:
			return nil, fault.Deniedf("no").WithDetails(Refusal{Reason: ReasonPath})
		case OpStateGet:
			return nil, fault.NotFoundf("nothing here")
		case OpStateSet:
			return nil, errors.New("secret detail of the host")
		case OpTool:
			panic("host bug")
		}
		return nil, fault.Deniedf("Too many.").WithDetails(&Refusal{Reason: ReasonLimit})
	})
	c := Call{Host: h}
	wantOutput(t, "try { await helix.fetch('https://h') } catch (e) { return [e instanceof Error, e.name, e.code, e.capability, e.resource, e.message, JSON.stringify(e).includes('approval')] }", c,
		`[true,"PermissionError","denied","network:https(h)","h","The tool may not reach h.",false]`)
	err := wantClass(t, "await helix.fetch('https://h')", c, ClassHostDenied)
	if r := err.Details.(Refusal); r.Capability != "network:https(h)" || r.Reason != ReasonCapability || r.Extra != "approval" || !fault.Is(err, fault.Denied) {
		t.Errorf("details = %+v", r)
	}
	if err := wantClass(t, "await helix.fs.readText('/etc/passwd')", c, ClassHostDenied); err.Details.(Refusal).Reason != ReasonPath {
		t.Errorf("path: %+v", err.Details)
	}
	if err := wantClass(t, "await helix.secret('x')", c, ClassHostDenied); err.Details.(Refusal).Reason != ReasonLimit {
		t.Errorf("limit: %+v", err.Details)
	}
	wantOutput(t, "try { await helix.secret('x') } catch (e) { return [e.name, e.code] }", c, `["LimitError","limit"]`)
	wantOutput(t, "try { await helix.state.get('x') } catch (e) { return [e.name, e.code, e.message] }", c, `["HelixError","not_found","nothing here"]`)
	for _, text := range []string{"await helix.state.set('x', 1)", "await helix.tool('x')"} {
		if err := wantClass(t, text, c, ClassThrown); strings.Contains(err.Message+err.Stack, "secret detail") || strings.Contains(err.Message, "host bug") {
			t.Errorf("the guest saw %q", err.Message)
		}
	}
	// Throwing an object that looks like a refusal is not a refusal.
	wantClass(t, "throw Object.assign(new Error('x'), { name: 'PermissionError', code: 'denied', capability: 'all' })", c, ClassThrown)
	// Without a host everything is refused.
	wantClass(t, "await helix.state.keys()", Call{}, ClassHostDenied)
}

func TestFetchesOverlap(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	now, most := 0, 0
	six := make(chan struct{})
	h := HostFunc(func(ctx context.Context, _ string, req json.RawMessage) (json.RawMessage, error) {
		mu.Lock()
		now++
		most = max(most, now)
		if now == fetchLane {
			select {
			case <-six:
			default:
				close(six)
			}
		}
		mu.Unlock()
		defer func() { mu.Lock(); now--; mu.Unlock() }()
		select {
		case <-six: // no call is answered before there are six
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		var r FetchRequest
		if err := json.Unmarshal(req, &r); err != nil {
			return nil, err
		}
		return json.Marshal(FetchResponse{Status: 200, URL: r.URL, Headers: map[string]string{}, Body: r.URL})
	})
	res := run1(t, "const all = await Promise.all(Array.from({ length: 20 }, (_, i) => helix.fetch('https://h/' + i).then((r) => r.text()))); return all.map((u) => +u.slice(10))", Call{Host: h})
	if want := "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19]"; string(res.Output) != want {
		t.Errorf("output = %s", res.Output)
	}
	if most != fetchLane {
		t.Errorf("%d fetches at a time, want %d", most, fetchLane)
	}
}

func TestInnerRuns(t *testing.T) {
	t.Parallel()
	e, err := Open(context.Background(), Options{WorkerCommand: childCommand, Workers: 1, Idle: -1, CacheDir: sharedCache})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ctx := context.Background()
	inner, err := e.CompileJS(ctx, Source{Text: "await helix.state.keys(); return 'inner'"})
	if err != nil {
		t.Fatal(err)
	}
	var left Limits
	var h Host
	h = HostFunc(func(ctx context.Context, op string, _ json.RawMessage) (json.RawMessage, error) {
		if op == OpStateKeys {
			return json.RawMessage(`{"keys":[]}`), nil
		}
		var ok bool
		if left, ok = Remaining(ctx); !ok {
			return nil, errors.New("no outer run in the context")
		}
		res, err := e.Execute(ctx, inner, Call{Host: h, Limits: left})
		Charge(ctx, res.Usage)
		if err != nil {
			return nil, err
		}
		return json.Marshal(ToolResponse{Output: res.Output})
	})
	outer, err := e.CompileJS(ctx, Source{Text: "return [await helix.tool('a'), await helix.tool('b')]"})
	if err != nil {
		t.Fatal(err)
	}
	// One worker is enough: an inner run does not wait for a worker.
	res, err := e.Execute(ctx, outer, Call{Host: h, Limits: Limits{HostCalls: 10, Wall: time.Minute}})
	if err != nil || string(res.Output) != `["inner","inner"]` {
		t.Fatalf("Execute = %s, %v", res.Output, err)
	}
	if res.Usage.HostCalls != 4 || left.HostCalls != 10-3 || left.Wall >= time.Minute {
		t.Errorf("host calls %d, left for the second %+v", res.Usage.HostCalls, left)
	}
	_, err = e.Execute(ctx, outer, Call{Host: h, Limits: Limits{HostCalls: 2}})
	var x *Error
	if !errors.As(err, &x) {
		t.Fatalf("budget shared with inner runs: %v", err)
	}
	if _, ok := Remaining(ctx); ok {
		t.Error("Remaining outside a run")
	}
}

func TestResultEndsRunWithPendingCalls(t *testing.T) {
	t.Parallel()
	// The result counts, even if something is still running.
	h := HostFunc(func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
		<-ctx.Done()
		return nil, fmt.Errorf("late: %w", ctx.Err())
	})
	res := run1(t, "helix.state.keys().catch(() => console.log('late')); setTimeout(() => { throw 1 }, 0); return 1", Call{Host: h})
	if string(res.Output) != "1" || len(res.Logs) != 0 {
		t.Errorf("result = %s, logs %v", res.Output, res.Logs)
	}
	wantOutput(t, "return new Promise((ok, no) => { ok(1); no(2); ok(3) })", Call{}, "1")
}

func TestFiftyRunsDoNotMix(t *testing.T) {
	t.Parallel()
	h := HostFunc(func(_ context.Context, _ string, req json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(fmt.Sprintf(`{"found":true,"value":%s}`, req)), nil
	})
	texts := []string{
		"console.log(params.i); return params.i", "console.log(params.i); throw new Error(params.i)", "return (await helix.state.get(String(params.i))).key",
		"for (;;) {}", "return () => 1",
	}
	programs := make([]*Program, len(texts))
	for i, x := range texts {
		programs[i] = compile(t, x)
	}
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			c := Call{Input: input(map[string]int{"i": i}), Host: h, Limits: Limits{Wall: time.Minute}, Meta: Meta{User: fmt.Sprint(i % 3)}}
			if i%5 == 3 {
				c.Limits.CPU = 50 * time.Millisecond
			}
			res, err := shared.Execute(context.Background(), programs[i%5], c)
			var e *Error
			errors.As(err, &e)
			switch i % 5 {
			case 0:
				if err != nil || string(res.Output) != fmt.Sprint(i) || len(res.Logs) != 1 || res.Logs[0].Message != fmt.Sprint(i) {
					t.Errorf("run %d: %s, %v, %v", i, res.Output, res.Logs, err)
				}
			case 1:
				if e == nil || e.Message != fmt.Sprintf("Error: %d", i) {
					t.Errorf("run %d: %v", i, err)
				}
			case 2:
				if string(res.Output) != fmt.Sprintf(`"%d"`, i) {
					t.Errorf("run %d: %s, %v", i, res.Output, err)
				}
			case 3:
				if e == nil || e.Class != ClassCPU {
					t.Errorf("run %d: %v", i, err)
				}
			case 4:
				if e == nil || e.Class != ClassOutput {
					t.Errorf("run %d: %v", i, err)
				}
			}
		}()
	}
	wg.Wait()
}

// TestManyBytesToSend checks the limit on pending requests of a run, which are stored outside its
// memory, and that their bytes are released when a call has ended.
func TestManyBytesToSend(t *testing.T) {
	t.Parallel()
	h := HostFunc(func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`{}`), nil
	})
	wantOutput(t, `
		const s = "x".repeat(5 << 20), out = [];
		for (let k = 0; k < 2; k++) {
			const all = [];
			for (let i = 0; i < 5; i++) all.push(helix.fs.writeText("a", s).then(() => "ok", (e) => e.code));
			out.push(await Promise.all(all));
		}
		return out`, Call{Host: h, Limits: Limits{MemoryBytes: 128 << 20}}, `[["ok","ok","ok","limit","limit"],["ok","ok","ok","limit","limit"]]`)
}
