package agent

import (
	"context"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/otlp"
	"helix/backend/providers"
	"helix/backend/safehttp"
)

// collected is what a collector received: the spans, and the raw bodies.
type collected struct {
	mu    sync.Mutex
	spans []struct {
		TraceID, SpanID, ParentSpanID, Name string
		Attributes                          []struct{ Key string }
	}
	raw strings.Builder
}

func (c *collected) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	raw, _ := io.ReadAll(r.Body)
	c.raw.Write(raw)
	var body struct {
		ResourceSpans []struct {
			ScopeSpans []struct {
				Spans []struct {
					TraceID, SpanID, ParentSpanID, Name string
					Attributes                          []struct{ Key string }
				}
			}
		}
	}
	if json.Unmarshal(raw, &body) == nil {
		for _, rs := range body.ResourceSpans {
			for _, s := range rs.ScopeSpans {
				c.spans = append(c.spans, s.Spans...)
			}
		}
	}
}

// telemetryNames returns the constants of telemetry_names.go.
func telemetryNames(t *testing.T) map[string]bool {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "telemetry_names.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			text, _ := strconv.Unquote(l.Value)
			out[text] = true
		}
		return true
	})
	return out
}

func TestTelemetryOfATurn(t *testing.T) {
	t.Parallel()
	for _, content := range []bool{false, true} {
		c := &collected{}
		server := httptest.NewServer(c)
		client := safehttp.New(safehttp.Options{AllowLoopback: func(int) bool { return true }, MaxRedirects: -1})
		out := otlp.New(otlp.Options{Endpoint: server.URL, HTTP: client})
		tel := &Telemetry{Out: out, Content: content}
		session, turn, st := uuid.New(), uuid.New(), &State{}
		at := time.Unix(1000, 0)
		put := func(of uuid.UUID, bodies ...payload) {
			for _, b := range bodies {
				at = at.Add(time.Second)
				e := Event{Seq: st.Seq + 1, Turn: of, At: at, Body: b}
				st.apply(e)
				tel.observe(session, st, e, func(text string) string { return strings.ReplaceAll(text, "hunter2", "[secret]") })
			}
		}
		done := func(micros providers.Micros) *callSettled {
			return &callSettled{Outcome: "done", Micros: micros, Usage: providers.Usage{Input: 90, CacheRead: 10, Output: 5, Requests: 1}}
		}
		put(uuid.Nil, &created{Kind: KindChat, Agent: "helix", Mode: ModeAsk})
		put(turn, &input{Text: "What says the private file? hunter2"}, &turnStarted{Window: 1000, Block: "Ana's memories"},
			&callStarted{Step: 1}, &callReserved{Provider: "p", Model: "m", Micros: 9}, done(2_500_000), replyOf(callOf("a", "file_read", `{"path":"/home/ana"}`)),
			&toolIntent{CallID: "a", Tool: "file_read", Ref: callable.Ref{}}, &toolOutcome{CallID: "a", Status: statusFailed, Text: "confidential", TookMs: 400},
			&callStarted{Step: 2})
		sub, subTurn, subState := uuid.New(), uuid.New(), &State{}
		for _, b := range []payload{&created{Kind: KindSubagent, Agent: "reader", Parent: &parent{Session: session, Turn: turn}}, &input{Text: "Look"}, &turnStarted{}, &turnFinished{State: Completed, Reason: StopAnswer}} {
			e := Event{Seq: subState.Seq + 1, Turn: subTurn, At: at, Body: b}
			subState.apply(e)
			tel.observe(sub, subState, e, strings.ToLower)
		}
		put(turn, &callReserved{Provider: "p", Model: "m"}, done(0), replyOf(providers.TextPart("It says hunter2.")), &turnFinished{State: Completed, Reason: StopAnswer})
		out.Send(t.Context())
		client.Close()
		server.Close()

		names, parents, ids := []string{}, map[string]string{}, map[string]string{}
		for _, s := range c.spans {
			names = append(names, s.Name)
			parents[s.Name] = s.ParentSpanID
			ids[s.Name] = s.SpanID
			if s.TraceID != c.spans[0].TraceID {
				t.Error("two traces")
			}
			for _, a := range s.Attributes {
				if !telemetryNames(t)[a.Key] {
					t.Errorf("attribute %s is not in telemetry_names.go", a.Key)
				}
			}
		}
		if got := strings.Join(names, ", "); got != "chat m, execute_tool file_read, invoke_agent reader, chat m, invoke_agent helix" {
			t.Errorf("spans: %s", got)
		}
		root := ids["invoke_agent helix"]
		if parents["chat m"] != root || parents["execute_tool file_read"] != root || parents["invoke_agent reader"] != root || parents["invoke_agent helix"] != "" {
			t.Errorf("the tree: %v", parents)
		}
		raw := c.raw.String()
		for name := range telemetryNames(t) {
			if strings.HasPrefix(name, "helix_") && name != MetricMemory && !strings.Contains(raw, `"`+name+`"`) {
				t.Errorf("no metric %s", name)
			}
		}
		for _, want := range []string{`"asDouble":2.5`, `"asDouble":0.1`, `"asDouble":200`} { // dollars, share of the window, input tokens
			if !strings.Contains(raw, want) {
				t.Errorf("the metrics lack %s", want)
			}
		}
		for _, text := range []string{"/home/ana", "confidential", "Ana's", "hunter2"} {
			if strings.Contains(raw, text) {
				t.Errorf("with content %v, the collector got %q", content, text)
			}
		}
		if strings.Contains(raw, "private file") != content || strings.Contains(raw, "It says") != content {
			t.Errorf("content %v, sent %s", content, raw)
		}
	}
}

// A tool is called within the span of its call, which the collector gets when the call has ended.
func TestToolsAreCalledWithinTheirSpan(t *testing.T) {
	t.Parallel()
	c := &collected{}
	server := httptest.NewServer(c)
	defer server.Close()
	client := safehttp.New(safehttp.Options{AllowLoopback: func(int) bool { return true }, MaxRedirects: -1})
	defer client.Close()
	out := otlp.New(otlp.Options{Endpoint: server.URL, HTTP: client})
	reg, set := callable.NewRegistry(nil), callable.NewSet(callable.Builtin, nil)
	var mu sync.Mutex
	var parents []string
	set.Add(callable.Func{Info: callable.Info{Name: "probe.read", Effects: callable.Effects{ReadOnly: true}}, Run: func(ctx context.Context, _ callable.Request) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		parents = append(parents, otlp.TraceParent(ctx))
		return "read", nil
	}})
	reg.Add(set)
	step := 0
	k := newTalk(t, spoken{window: assumedWindow, answer: func(context.Context, providers.Request) (providers.Reply, error) {
		if step++; step > 2 {
			return answered("Read.")
		}
		return providers.Reply{Parts: []providers.Part{callOf("1", "probe_read", `{}`)}}, nil // the same id in each step
	}}, func(o *Options) { o.Callables, o.Telemetry = reg, &Telemetry{Out: out} })
	if turn := k.say(k.begin(), "Read twice"); turn.State != Completed {
		t.Fatalf("%+v %+v", turn, turn.Error)
	}
	out.Send(t.Context())
	var sent []string
	for _, s := range c.spans {
		if strings.HasPrefix(s.Name, spanTool) {
			sent = append(sent, "00-"+s.TraceID+"-"+s.SpanID+"-01")
		}
	}
	if len(parents) != 2 || parents[0] == parents[1] || !slices.Equal(parents, sent) {
		t.Errorf("called within %q, sent %q", parents, sent)
	}
}
