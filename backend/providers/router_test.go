package providers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"helix/backend/fault"
	"helix/backend/safehttp"
)

// ledger is a Meter that records what it was asked.
type ledger struct {
	mu      sync.Mutex
	open    int
	settled []string
	refuse  error
}

func (l *ledger) Reserve(context.Context, Estimate) (Hold, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse != nil {
		return nil, l.refuse
	}
	l.open++
	return l, nil
}

func (l *ledger) Settle(u Usage, cost Micros, outcome string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	l.settled = append(l.settled, fmt.Sprintf("%s %d/%d %d %v", outcome, u.Input, u.Output, cost, u.Estimated))
}

const secretKey = "sk-secret-0123456789"

type kit struct {
	*Router
	ledger  *ledger
	entries map[string]Entry
	roles   map[Role]RoleConfig
}

func setup(t *testing.T, entries map[string]Entry, roles map[Role]RoleConfig) *kit {
	t.Helper()
	k := &kit{ledger: &ledger{}, entries: entries, roles: roles}
	client := safehttp.New(safehttp.Options{AllowLoopback: func(int) bool { return true }, MaxRequest: 64 << 20, MaxRedirects: -1})
	t.Cleanup(client.Close)
	r, err := Open(Options{
		Config: func(context.Context) (map[string]Entry, map[Role]RoleConfig, error) { return k.entries, k.roles, nil },
		Key:    func(context.Context, string, Entry) (string, string, error) { return secretKey, "test", nil },
		HTTP:   client, Meter: k.ledger, AllowScripted: true, Rand: func() float64 { return 0 },
	})
	must(t, err)
	k.Router = r
	return k
}

// serve starts a server that answers with fn and returns its entry, of the chat wire.
func serve(t *testing.T, fn http.HandlerFunc) Entry {
	t.Helper()
	s := httptest.NewServer(fn)
	t.Cleanup(s.Close)
	return Entry{Type: WireChat, BaseURL: s.URL}
}

func chatAnswer(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%q},\"finish_reason\":\"stop\"}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":2,\"total_tokens\":12}}\n\ndata: [DONE]\n\n", text)
}

func ask(ref ModelRef) Request {
	return Request{Model: ref, Messages: []Message{{Role: User, Parts: []Part{TextPart("Hello")}}}}
}

func TestPrimaryFailsThreeTimesAndTheSecondAnswers(t *testing.T) {
	t.Parallel()
	tries := 0
	bad := serve(t, func(w http.ResponseWriter, _ *http.Request) { tries++; w.WriteHeader(503) })
	good := serve(t, func(w http.ResponseWriter, _ *http.Request) { chatAnswer(w, "Hi") })
	k := setup(t, map[string]Entry{"a": bad, "b": good}, map[Role]RoleConfig{RoleChat: {Chain: []ModelRef{"a/m", "b/m"}}})
	q := ask("")
	q.Role = RoleFast // falls back to chat
	reply, err := k.Complete(t.Context(), q)
	must(t, err)
	if tries != attempts || reply.Provider != "b" || reply.Text() != "Hi" || reply.Attempts != 4 {
		t.Fatalf("%d tries, reply %+v", tries, reply)
	}
	if k.ledger.open != 0 || len(k.ledger.settled) != 4 || k.ledger.settled[3] != "done 10/2 0 false" {
		t.Fatalf("the ledger has %d open, %q", k.ledger.open, k.ledger.settled)
	}
}

func TestErrorsOfServices(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		code  int
		body  string
		kind  fault.Kind
		tries int
		says  string
	}{
		{"refused key", 401, `{"error":{"message":"Incorrect API key provided: ` + secretKey + `","code":"invalid_api_key"}}`, fault.Denied, 1, "a refused the key"},
		{"quota", 429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota"}}`, fault.Limit, 1, "The account at a has no credit"},
		{"rate", 429, `{"error":{"message":"Slow down","type":"rate_limit_error"}}`, fault.Limit, 3, "The rate limit of a was reached"},
		{"context", 400, `{"error":{"message":"maximum context length is 10","code":"context_length_exceeded"}}`, fault.Limit, 1, "too long"},
		{"bad request", 400, `{"error":{"message":"no"}}`, fault.Invalid, 1, "no"},
		{"overloaded", 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, fault.Unavailable, 3, "Overloaded"},
		{"web page", 502, "<html>login</html>", fault.Unavailable, 3, "web page"},
		{"error in a stream", 200, "data: {\"error\":{\"message\":\"Upstream failed\",\"code\":502}}\n\n", fault.Unavailable, 3, "a is unavailable: Upstream failed"},
		{"error in place of a stream", 200, `{"error":{"message":"bad model","code":404}}`, fault.NotFound, 1, "bad model"},
		{"a web page in place of a stream", 200, "<!doctype html>", fault.Unavailable, 3, "base URL"},
		{"redirect", 302, "", fault.Limit, 3, "redirects"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tries := 0
			e := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				tries++
				if c.code == 302 {
					w.Header().Set("Location", "http://localhost:1/")
				}
				w.WriteHeader(c.code)
				_, _ = io.WriteString(w, c.body)
			})
			k := setup(t, map[string]Entry{"a": e}, nil)
			_, err := k.Complete(t.Context(), ask("a/m"))
			f := fault.As(err)
			if f.Kind != c.kind || tries != c.tries || !strings.Contains(f.Message, c.says) {
				t.Fatalf("after %d tries: %v", tries, err)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Fatalf("the key is in %v", err)
			}
		})
	}
}

func TestNoRetryAfterVisibleTextWithoutDiscard(t *testing.T) {
	t.Parallel()
	tries := 0
	e := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if tries++; tries == 1 {
			_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n")
			return
		}
		chatAnswer(w, "whole")
	})
	k := setup(t, map[string]Entry{"a": e}, nil)
	reply, err := k.Complete(t.Context(), ask("a/m"))
	if !fault.Is(err, fault.Unavailable) || reply.Text() != "half" || tries != 1 {
		t.Fatalf("%d tries, %q, %v", tries, reply.Text(), err)
	}
	tries = 0
	q := ask("a/m")
	q.AllowDiscard = true
	if reply, err = k.Complete(t.Context(), q); err != nil || reply.Text() != "whole" || tries != 2 {
		t.Fatalf("%d tries, %q, %v", tries, reply.Text(), err)
	}
}

func TestStoppingClosesTheConnectionAndSettles(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{})
	e := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(closed)
	})
	k := setup(t, map[string]Entry{"a": e}, nil)
	for ev, err := range k.Stream(t.Context(), ask("a/m")) {
		must(t, err)
		if ev.Type == EventText {
			break
		}
	}
	<-closed
	if k.ledger.open != 0 || len(k.ledger.settled) != 1 || !strings.HasPrefix(k.ledger.settled[0], "stopped") || !strings.HasSuffix(k.ledger.settled[0], "true") {
		t.Fatalf("settled %q", k.ledger.settled)
	}
}

func TestARefusedBudgetSendsNothing(t *testing.T) {
	t.Parallel()
	e := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	k := setup(t, map[string]Entry{"a": e}, nil)
	k.ledger.refuse = fault.Limitf("Today's budget is used up.")
	if _, err := k.Complete(t.Context(), ask("a/m")); !fault.Is(err, fault.Limit) {
		t.Fatal(err)
	}
}

func TestCircuitOpensProbesAndCloses(t *testing.T) {
	t.Parallel()
	c, now := &circuit{}, time.Unix(1000, 0)
	for range circuitFailures {
		must(t, c.enter(now, "a"))
		c.leave(now, true, false)
	}
	if err := c.enter(now.Add(29*time.Second), "a"); !errors.Is(err, errCircuitOpen) || c.state(now).State != "open" {
		t.Fatalf("the circuit is not open: %v", err)
	}
	now = now.Add(circuitFirst)
	if c.state(now).State != "half_open" {
		t.Fatal("the circuit is not half open")
	}
	must(t, c.enter(now, "a"))
	if err := c.enter(now, "a"); err == nil {
		t.Fatal("a second probe went through")
	}
	c.leave(now, true, false)
	if until := *c.state(now).Until; until.Sub(now) != 2*circuitFirst {
		t.Fatalf("open for %s", until.Sub(now))
	}
	now = now.Add(2 * circuitFirst)
	must(t, c.enter(now, "a"))
	c.leave(now, false, true)
	if c.state(now).State != "closed" {
		t.Fatal("the circuit did not close")
	}
}

func TestAFailingServiceIsLeftAloneUntilAProbeSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := func(replies ...ScriptedReply) string {
			text, err := json.Marshal(map[string]any{"replies": replies})
			must(t, err)
			name := filepath.Join(t.TempDir(), "script.json")
			must(t, os.WriteFile(name, text, 0o600))
			return name
		}
		down := ScriptedReply{Status: 503, Message: "down"}
		up := ScriptedReply{Text: "back"}
		spare := slices.Repeat([]ScriptedReply{{Text: "spare"}}, 20)
		a, b := script(down, down, down, down, down, down, up, up), script(spare...)
		k := setup(t, map[string]Entry{"a": {Type: WireScripted, BaseURL: a}, "b": {Type: WireScripted, BaseURL: b}},
			map[Role]RoleConfig{RoleChat: {Chain: []ModelRef{"a/m", "b/m"}}})
		answers := func() string {
			q := ask("")
			q.Role = RoleChat
			r, err := k.Complete(t.Context(), q)
			must(t, err)
			return fmt.Sprint(r.Provider, " ", r.Attempts)
		}
		for i, step := range []struct {
			after time.Duration
			want  string
		}{
			{0, "b 4"},                // three failures of a
			{0, "b 3"},                // two more open the circuit
			{0, "b 1"},                // not called while open
			{29 * time.Second, "b 1"}, // still open
			{time.Second, "b 2"},      // a probe fails
			{59 * time.Second, "b 1"}, // open for twice as long
			{time.Second, "a 1"},      // a probe succeeds
			{0, "a 1"},
		} {
			time.Sleep(step.after)
			if got := answers(); got != step.want {
				t.Fatalf("step %d: %s, want %s (%s)", i, got, step.want, k.circuit("a ").state(time.Now()).State)
			}
		}
	})
}

func TestDelays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		random := 1.0
		s := &session{r: &Router{o: Options{Rand: func() float64 { return random }}}}
		wait := func(ctx context.Context, n int, err error) (time.Duration, error) {
			began := time.Now()
			err = s.wait(ctx, target{}, n, err)
			return time.Since(began), err
		}
		plain := fault.Unavailablef("no")
		for n, want := range []time.Duration{250, 500, 1000, 2000, 2000} {
			if d, err := wait(t.Context(), n, plain); err != nil || d != want*time.Millisecond {
				t.Errorf("attempt %d waits %s (%v)", n, d, err)
			}
		}
		random = 0.5
		if d, _ := wait(t.Context(), 0, plain); d != 125*time.Millisecond {
			t.Errorf("the jitter is %s", d)
		}
		asked := fault.Limitf("slow")
		asked.RetryAfter = 10 * time.Second
		if d, _ := wait(t.Context(), 0, asked); d != 10500*time.Millisecond {
			t.Errorf("Retry-After waits %s", d)
		}
		long := fault.Limitf("tomorrow")
		long.RetryAfter = maxRetryAfter + time.Second
		if d, err := wait(t.Context(), 0, long); d != 0 || !errors.Is(err, long) {
			t.Errorf("a Retry-After beyond the cap took %s (%v)", d, err)
		}
		long.RetryAfter, random = maxRetryAfter, 0
		if d, err := wait(t.Context(), 0, long); d != maxRetryAfter || err != nil {
			t.Errorf("a Retry-After at the cap took %s (%v)", d, err)
		}
		random = 0.5
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if d, err := wait(ctx, 0, asked); d != 0 || !errors.Is(err, asked) {
			t.Errorf("a wait beyond the deadline took %s (%v)", d, err)
		}
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for _, c := range []struct {
			h    http.Header
			want time.Duration
		}{
			{http.Header{"Retry-After": {"7"}}, 7 * time.Second},
			{http.Header{"Retry-After": {now.Add(9 * time.Second).Format(http.TimeFormat)}}, 9 * time.Second},
			{http.Header{"Retry-After-Ms": {"1500"}, "Retry-After": {"7"}}, 1500 * time.Millisecond},
			{http.Header{"X-Ratelimit-Reset-Tokens": {"6m0s"}}, 6 * time.Minute},
			{http.Header{"Retry-After": {"soon"}}, 0},
		} {
			if d := retryAfter(c.h, now); d != c.want {
				t.Errorf("%v: %s, want %s", c.h, d, c.want)
			}
		}
	})
}

func TestModelsAreCheckedBeforeACall(t *testing.T) {
	t.Parallel()
	e := Entry{Type: WireAnthropic}
	k := setup(t, map[string]Entry{"anthropic": e}, nil)
	cat, err := embeddedCatalog()
	must(t, err)
	known := slices.Sorted(func(yield func(string) bool) {
		for id := range cat.Providers["anthropic"].Models {
			if !yield(id) {
				return
			}
		}
	})[0]
	_, err = k.Complete(t.Context(), ask(ModelRef("anthropic/"+known+"x")))
	near, _ := fault.As(err).Details.(map[string]any)["nearest"].([]string)
	if !fault.Is(err, fault.Invalid) || len(near) != 3 || near[0] != known {
		t.Fatalf("%v, nearest %v", err, near)
	}
	if _, err := k.Complete(t.Context(), Request{Role: RoleChat}); !fault.Is(err, fault.Unavailable) {
		t.Fatal(err)
	}
}

func scriptFile(t *testing.T, replies ...ScriptedReply) Entry {
	t.Helper()
	b, err := json.Marshal(script{Replies: replies})
	must(t, err)
	name := filepath.Join(t.TempDir(), "script.json")
	must(t, os.WriteFile(name, b, 0o600))
	return Entry{Type: WireScripted, BaseURL: name}
}

func TestScriptedWire(t *testing.T) {
	t.Parallel()
	k := setup(t, map[string]Entry{"s": scriptFile(t,
		ScriptedReply{Text: "one two", Calls: []ScriptedCall{{Name: "add", Args: json.RawMessage(`{"a":1}`)}}, Usage: Usage{Input: 3, Output: 4}},
		ScriptedReply{Match: "Bye", Text: "never"},
	)}, nil)
	reply, err := k.Complete(t.Context(), ask("s/m"))
	must(t, err)
	if reply.Text() != "one two" || reply.Reason != FinishToolCalls || len(reply.Calls()) != 1 || reply.Calls()[0].Args != `{"a":1}` || reply.Usage.Output != 4 {
		t.Fatalf("%+v", reply)
	}
	if _, err := k.Complete(t.Context(), ask("s/m")); !fault.Is(err, fault.Invalid) {
		t.Fatal(err)
	}
	k.o.AllowScripted = false
	if _, err := k.Complete(t.Context(), ask("s/m")); !fault.Is(err, fault.Denied) {
		t.Fatal(err)
	}
}

func TestStructuredAnswers(t *testing.T) {
	t.Parallel()
	type rating struct{ Layer int }
	doc := json.RawMessage(`{"type":"object","required":["layer","confidence"],"properties":{"layer":{"type":"integer"},"confidence":{"type":"number"}}}`)
	check := func(v json.RawMessage) (out []Problem) {
		var r rating
		if err := json.Unmarshal(v, &r); err != nil {
			return []Problem{{Message: err.Error()}}
		}
		if r.Layer < 1 || r.Layer > 7 {
			out = append(out, Problem{"/layer", "must be 1 to 7"})
		}
		return out
	}
	for _, c := range []struct {
		answer, problem string
	}{
		{"```json\n{\"layer\":1,\"confidence\":0.5}\n```", ""},
		{"Here: {\"layer\":1,\"confidence\":0.5} as asked.", ""},
		{`{"layer":1,"confidence":0.5}{"layer":2,"confidence":0.5}`, "more than one"},
		{`{"layer":9,"confidence":0.5}`, "1 to 7"},
		{`{"layer":1.5,"confidence":0.5}`, "integer"},
		{`{"layer":1,"layer":2,"confidence":0.5}`, "layer"},
		{`{"layer":1,"confidence":1e400}`, "1e400"},
		{`{"layer":1,"confidence":7481E+7448769}`, "7481E"},
		{`{"layer":1,"confidence":NaN}`, "no JSON"},
		{`{"layer":1}`, "confidence"},
		{``, "no JSON"},
	} {
		k := setup(t, map[string]Entry{"s": scriptFile(t, ScriptedReply{Text: c.answer}, ScriptedReply{Match: "not valid", Text: `{"layer":3,"confidence":1}`})}, nil)
		value, report, err := Structured(t.Context(), k.Router, ask("s/m"), doc, true, check)
		var got rating
		if err == nil {
			err = json.Unmarshal(value, &got)
		}
		if err != nil || c.problem == "" && (report.Attempts != 1 || got.Layer != 1) || c.problem != "" && (report.Attempts != 2 || got.Layer != 3) {
			t.Errorf("%q: %+v after %d attempts, %v", c.answer, got, report.Attempts, err)
		}
		k = setup(t, map[string]Entry{"s": scriptFile(t, slices.Repeat([]ScriptedReply{{Text: c.answer}}, 3)...)}, nil)
		_, report, err = Structured(t.Context(), k.Router, ask("s/m"), doc, true, check)
		if c.problem == "" {
			continue
		}
		if !fault.Is(err, fault.Invalid) || report.Attempts != 3 || len(report.Problems) == 0 || !strings.Contains(fmt.Sprint(report.Problems), c.problem) {
			t.Errorf("%q: %v, problems %v", c.answer, err, report.Problems)
		}
	}
}

func TestEveryCallHasOneResultOnEveryWire(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		var q Request
		for range rnd.IntN(8) {
			m := Message{Role: []string{User, Assistant, Tool}[rnd.IntN(3)]}
			for range 1 + rnd.IntN(3) {
				id := fmt.Sprint("c", rnd.IntN(4))
				m.Parts = append(m.Parts, []Part{TextPart("x"), TextPart(""), {Kind: PartToolCall, ID: id, Name: "f", Args: "{}"}, {Kind: PartToolResult, ID: id, Text: "r"},
					{Kind: PartReasoning, Text: "why"}, {Kind: PartOpaque, Opaque: &Opaque{Provider: "p", Model: "other", Kind: "signature", Data: []byte("s")}}}[rnd.IntN(6)])
			}
			q.Messages = append(q.Messages, m)
		}
		q.Messages = append(q.Messages, Message{Role: User, Parts: []Part{TextPart("go")}})
		q.Tools = []ToolDecl{{Name: "z"}, {Name: "f", Input: json.RawMessage(`{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"integer"}}}`)}}
		for _, wire := range []string{WireChat, WireResponses, WireAnthropic, WireGemini} {
			call := Call{Request: q, Provider: "p", ID: "m"}
			body, _, err := encodeCall(wire, call)
			must(t, err)
			again, _, _ := encodeCall(wire, call)
			if string(body) != string(again) {
				t.Fatalf("%s: two bodies of one request differ", wire)
			}
			calls := map[string][2]string{
				WireChat: {`"arguments":`, `"tool_call_id":`}, WireResponses: {`"type":"function_call"`, `"type":"function_call_output"`},
				WireAnthropic: {`"type":"tool_use"`, `"type":"tool_result"`}, WireGemini: {`"functionCall":`, `"functionResponse":`},
			}[wire]
			if strings.Count(string(body), calls[0]) != strings.Count(string(body), calls[1]) {
				t.Fatalf("%s: unpaired calls in %s", wire, body)
			}
			if strings.Contains(string(body), "why") || strings.Contains(string(body), `"s"`) {
				t.Fatalf("%s: another model's reasoning is in %s", wire, body)
			}
			if strings.Index(string(body), `"name":"z"`) < strings.LastIndex(string(body), `"name":"f","parameters"`) {
				t.Fatalf("%s: tools are not sorted", wire)
			}
		}
	}
}

func TestOwnSignaturesAreSentBackUnchanged(t *testing.T) {
	t.Parallel()
	parts := func(kind, data string) []Part {
		return []Part{{Kind: PartReasoning, Text: "why"}, {Kind: PartOpaque, Opaque: &Opaque{Provider: "p", Model: "m", Kind: kind, Data: []byte(data)}}, {Kind: PartToolCall, ID: "c1", Name: "f", Args: `{"a":1}`}}
	}
	for _, c := range []struct{ wire, kind, data, want string }{
		{WireAnthropic, "signature", "SIG", `{"signature":"SIG","thinking":"why","type":"thinking"}`},
		{WireGemini, "call", "SIG", `"functionCall":{"args":{"a":1},"id":"c1","name":"f"},"thoughtSignature":"SIG"`},
		{WireResponses, "reasoning", `{"type":"reasoning","id":"rs","encrypted_content":"SIG","summary":[]}`, `{"encrypted_content":"SIG","id":"rs","summary":[],"type":"reasoning"}`},
		{WireChat, "reasoning_details", `[{"type":"reasoning.encrypted","data":"SIG","index":0}]`, `"reasoning_details":[{"type":"reasoning.encrypted","data":"SIG","index":0}]`},
	} {
		q := Request{Messages: []Message{{Role: Assistant, Parts: parts(c.kind, c.data)}}}
		body, _, err := encodeCall(c.wire, Call{Request: q, Provider: "p", ID: "m"})
		must(t, err)
		if !strings.Contains(string(body), c.want) || !strings.Contains(string(body), interrupted) {
			t.Errorf("%s: %s", c.wire, body)
		}
	}
}

func TestCacheMarks(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 1000)
	q := Request{System: []Part{TextPart(long)}, CacheMarks: []int{-1, 0, 1}, Key: "session", Messages: []Message{
		{Role: Assistant, Parts: []Part{{Kind: PartToolCall, ID: "a", Name: "f"}}}, {Role: Tool, Parts: []Part{{Kind: PartToolResult, ID: "a", Text: "r"}}},
	}}
	body, _, err := encodeCall(WireAnthropic, Call{Request: q})
	must(t, err)
	if n := strings.Count(string(body), "cache_control"); n != 3 {
		t.Errorf("%d marks in %s", n, body[:200])
	}
	q.System = nil
	if body, _, _ = encodeCall(WireAnthropic, Call{Request: q}); strings.Contains(string(body), "cache_control") {
		t.Errorf("a short prompt is marked: %s", body)
	}
	body, _, err = encodeCall(WireResponses, Call{Request: q})
	must(t, err)
	if !strings.Contains(string(body), `"prompt_cache_key":"helix-`) || strings.Contains(string(body), "session") || !strings.Contains(string(body), `"store":false`) {
		t.Errorf("%s", body)
	}
}

func TestDialects(t *testing.T) {
	t.Parallel()
	in := json.RawMessage(`{"type":"object","properties":{"b":{"type":["string","null"],"format":"email"},"a":{"$ref":"#/$defs/n"}},"required":["a"],"$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}},"additionalProperties":true}}}`)
	show := func(v any) string { b, _ := json.Marshal(v); return string(b) }
	v, dropped := dialect(WireGemini, false, in)
	if s := show(v); strings.Contains(s, "$ref") || strings.Count(s, `"next"`) < 4 || !strings.Contains(s, `"nullable":true`) || len(dropped) == 0 {
		t.Errorf("gemini: %s, dropped %v", s, dropped)
	}
	v, _ = dialect(WireChat, true, in)
	if s := show(v); !strings.Contains(s, `"required":["a","b"]`) || strings.Count(s, `"additionalProperties":false`) != 2 || !strings.Contains(s, `{"type":"null"}`) {
		t.Errorf("strict: %s", s)
	}
	if v, dropped := dialect(WireAnthropic, true, in); len(dropped) != 0 || !strings.Contains(show(v), "$ref") {
		t.Error("anthropic takes schemas as they are")
	}
	name := wireName(strings.Repeat("long.", 20))
	if len(name) != 64 || wireName("a.b") == wireName("a_b") || wireName("get-weather_1") != "get-weather_1" {
		t.Errorf("name %q", name)
	}
}

func FuzzDialect(f *testing.F) {
	f.Add([]byte(`{"$ref":"#"}`))
	f.Add([]byte(`{"anyOf":[{"$ref":"#/anyOf/0"}],"type":["null","string"],"enum":[null,1]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 2000 || strings.Count(string(in), "$ref") > 2 { // two references to the whole would grow by 2^8
			return
		}
		for _, wire := range []string{WireChat, WireGemini} {
			a, _ := dialect(wire, true, in)
			b, _ := dialect(wire, true, in)
			x, err := json.Marshal(a)
			must(t, err)
			if y, _ := json.Marshal(b); string(x) != string(y) {
				t.Fatalf("%s and %s", x, y)
			}
		}
	})
}

func TestMoney(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		shift int
		want  Micros
		ok    bool
	}{
		{"3", 6, 3_000_000, true}, {"0.05", 6, 50_000, true}, {"1e-7", 6, 1, true}, {"0.0000011", 6, 2, true}, {"0", 6, 0, true}, {"1.25e1", 6, 12_500_000, true},
		{"123456", -4, 13, true}, {"10000", -4, 1, true}, {"1", -4, 1, true}, {"-1", 6, 0, false}, {"NaN", 6, 0, false}, {"", 6, 0, false}, {"1e30", 6, 0, false}, {"9e-30", 6, 1, true},
	} {
		if got, ok := decimalMicros(c.text, c.shift); got != c.want || ok != c.ok {
			t.Errorf("%s shifted by %d: %d %v, want %d %v", c.text, c.shift, got, ok, c.want, c.ok)
		}
	}
	m := func(n Micros) *Micros { return &n }
	p := Price{Input: m(3_000_000), Output: m(15_000_000), CacheRead: m(300_000), Over: []Tier{{Above: 200_000, Price: Price{Input: m(6_000_000), Output: m(30_000_000)}}}}
	for _, c := range []struct {
		u    Usage
		want Micros
	}{
		{Usage{Input: 1}, 3}, {Usage{CacheRead: 1}, 1}, {Usage{CacheWrite: 2, CacheWrite1h: 1}, 9}, {Usage{Input: 100, Output: 10, Reasoning: 4}, 450},
		{Usage{Input: 200_001}, 1_200_006}, {Usage{Input: 100_000, CacheRead: 100_001, Output: 1}, 600_000 + 600_006 + 30}, {Usage{Input: 1 << 62, Output: 1 << 62}, maxMicros},
	} {
		if got, ok := p.Cost(c.u); got != c.want || !ok {
			t.Errorf("%+v costs %d, want %d", c.u, got, c.want)
		}
	}
	if _, ok := (Price{Input: m(1)}).Cost(Usage{}); ok {
		t.Error("a price without output is known")
	}
}

func TestUsageTraps(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wire, body string
		want       Usage
	}{
		"usage in two chunks":             {WireChat, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":201,\"completion_tokens\":5,\"total_tokens\":206}}\n\ndata: {\"id\":\"other\",\"choices\":[],\"usage\":{\"prompt_tokens\":201,\"completion_tokens\":7,\"total_tokens\":208}}\n\ndata: [DONE]\n\n", Usage{Input: 201, Output: 7, Requests: 1}},
		"reasoning beside the completion": {WireChat, `{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":112,"completion_tokens_details":{"reasoning_tokens":100},"cost_in_usd_ticks":25000}}`, Usage{Input: 10, Output: 102, Reasoning: 100, Requests: 1, ReportedMicros: 3}},
		"cache inside the prompt":         {WireChat, `{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":3},"cost":0.0000001}}`, Usage{Input: 3, CacheRead: 4, CacheWrite: 3, Output: 2, Requests: 1, ReportedMicros: 1}},
		"cache beside the input":          {WireAnthropic, `{"type":"message","content":[{"type":"text","text":"a"}],"stop_reason":"end_turn","usage":{"input_tokens":5,"cache_read_input_tokens":7,"cache_creation_input_tokens":9,"cache_creation":{"ephemeral_5m_input_tokens":4,"ephemeral_1h_input_tokens":5},"output_tokens":1}}`, Usage{Input: 5, CacheRead: 7, CacheWrite: 4, CacheWrite1h: 5, Output: 1, Requests: 1}},
		"thoughts of Gemini":              {WireGemini, `{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":10,"cachedContentTokenCount":4,"toolUsePromptTokenCount":2,"candidatesTokenCount":3,"thoughtsTokenCount":8}}`, Usage{Input: 8, CacheRead: 4, ToolPrompt: 2, Output: 11, Reasoning: 8, Requests: 1}},
	} {
		_, reply, err := decodeAll(c.wire, strings.NewReader(c.body))
		if err != nil || reply.Usage != c.want {
			t.Errorf("%s: %+v, want %+v (%v)", name, reply.Usage, c.want, err)
		}
	}
}

func TestWhatCompatibleServersSend(t *testing.T) {
	t.Parallel()
	chunk := func(delta string) string { return "data: {\"choices\":[{\"delta\":" + delta + "}]}\n\n" }
	for name, c := range map[string]struct{ body, want string }{
		"no index, no id, arguments as an object": {chunk(`{"tool_calls":[{"function":{"name":"f","arguments":{"a":1}}},{"function":{"name":"g","arguments":"{}"}}]}`), `f {"a":1}|g {}`},
		"name whole each time":                    {chunk(`{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":"{\"a\""}}]}`) + chunk(`{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":":1}"}}]}`), `f {"a":1}`},
		"name in pieces":                          {chunk(`{"tool_calls":[{"index":0,"id":"x","function":{"name":"get_"}}]}`) + chunk(`{"tool_calls":[{"index":0,"function":{"name":"it"}}]}`), `get_it {}`},
		"one index for two ids":                   {chunk(`{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":"{}"}}]}`) + chunk(`{"tool_calls":[{"index":0,"id":"y","function":{"name":"f","arguments":"{}"}}]}`), `f {}|f {}`},
		"keyed by id":                             {chunk(`{"tool_calls":[{"id":"x","function":{"name":"f","arguments":"{"}},{"id":"y","function":{"name":"g","arguments":""}}]}`) + chunk(`{"tool_calls":[{"id":"x","function":{"arguments":"}"}}]}`), `f {}|g {}`},
		"fenced arguments":                        {chunk("{\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":\"```json\\n{}\\n```\"}}]}"), `f {}`},
		"function_call":                           {chunk(`{"function_call":{"name":"f","arguments":"{}"}}`), `f {}`},
	} {
		_, reply, err := decodeAll(WireChat, strings.NewReader(c.body+"data: {\"choices\":[{\"finish_reason\":\"tool_calls\"}]}\n\n"))
		must(t, err)
		var got []string
		ids := map[string]bool{}
		for _, p := range reply.Calls() {
			got = append(got, p.Name+" "+p.Args)
			ids[p.ID] = true
		}
		if strings.Join(got, "|") != c.want || len(ids) != len(got) || len(reply.BadArgs) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
	same := chunk(`{"reasoning":"why","reasoning_content":"why","reasoning_details":[{"type":"reasoning.text","text":"why","index":0,"signature":"S"}],"content":null,"role":"assistant"}`)
	_, reply, err := decodeAll(WireChat, strings.NewReader(": comment\n\n"+same+"data: {\"choices\":[{\"delta\":{\"content\":\"\\ud83d\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"\\ude00\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\ndata: {broken"))
	must(t, err)
	if reply.ReasoningText() != "why" || reply.Text() != "😀" {
		t.Errorf("reasoning %q, text %q", reply.ReasoningText(), reply.Text())
	}
}

// An error names the service as people know it.
func TestErrorsNameTheService(t *testing.T) {
	t.Parallel()
	e := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":{"message":"No such key"}}`)
		}
	})
	k := setup(t, map[string]Entry{"openrouter": e, "mine": e, "far": {Type: WireChat, BaseURL: "https://far.example", SkipCatalogValidation: true}}, nil)
	for ref, want := range map[ModelRef]string{"openrouter/m": "OpenRouter refused the key: No such key", "mine/m": "mine refused the key: No such key"} {
		if _, err := k.Complete(t.Context(), ask(ref)); fault.As(err).Message != want {
			t.Errorf("%s: %v", ref, err)
		}
	}
	k.o.Key = func(context.Context, string, Entry) (string, string, error) { return "", "", nil }
	if _, err := k.Complete(t.Context(), ask("far/m")); fault.As(err).Message != "No key for far." {
		t.Error(err)
	}
}
