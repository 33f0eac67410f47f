//go:build linux

package mcp

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/identity"
)

// withTool adds callables of the kinds that may be exposed, and counts their calls.
func (e *env) withTool(version string) *atomic.Int32 {
	var calls atomic.Int32
	for kind, name := range map[callable.Kind]string{callable.Tool: "Text Counter", callable.Builtin: memorySearch} {
		set := callable.NewSet(kind, nil)
		set.Add(callable.Func{
			Info: callable.Info{Name: name, Description: "Counts.", Input: []byte(`{"type":"object","properties":{"text":{"type":"string"}}}`), Capabilities: []string{version}},
			Run: func(_ context.Context, r callable.Request) (any, error) {
				calls.Add(1)
				if r.Caller.Kind != string(Kind) || r.Caller.Attended {
					e.Errorf("%+v", r.Caller)
				}
				return map[string]int{"n": 4}, nil
			},
		})
		e.reg.Add(set)
	}
	return &calls
}

func TestServesOnlyWhatIsExposed(t *testing.T) {
	t.Parallel()
	e := setup(t)
	calls := e.withTool("1")
	who, _ := identity.From(e.ctx)
	who.Client, who.Scopes, who.Token = identity.ClientToken, identity.Write.Closed(), uuid.New()
	h := e.s.Handler()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(identity.With(r.Context(), who)))
	}))
	t.Cleanup(func() {
		e.s.Close()
		web.CloseClientConnections()
		web.Close()
	})
	changed := make(chan struct{}, 8)
	client := sdk.NewClient(&sdk.Implementation{Name: "other", Version: "1"}, &sdk.ClientOptions{ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { changed <- struct{}{} }})
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: web.URL, HTTPClient: &http.Client{Transport: bearer{}}}, &sdk.ClientSessionOptions{ProtocolVersion: legacyProtocol})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	names := func() string {
		r, err := session.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, x := range r.Tools {
			out = append(out, x.Name)
		}
		return strings.Join(out, " ")
	}
	if got := names(); got != "" {
		t.Errorf("by default %q is exposed", got)
	}
	for _, p := range []ExposeParams{{ExposeTool, "Text Counter", true}, {ExposeMemory, memorySearch, true}} {
		if _, err := e.s.Expose(e.ctx, p); err != nil {
			t.Fatal(err)
		}
	}
	<-changed
	if got := names(); got != "memory_search text_counter" {
		t.Errorf("%q is exposed", got)
	}
	r, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "text_counter", Arguments: map[string]any{"text": "a"}})
	if err != nil || r.IsError || calls.Load() != 1 {
		t.Errorf("%+v, %v, %d calls", r, err, calls.Load())
	}
	if r, err = session.CallTool(t.Context(), &sdk.CallToolParams{Name: "text_counter", Arguments: map[string]any{"text": 1}}); err != nil || !r.IsError {
		t.Errorf("input against the schema: %+v, %v", r, err)
	}
	calls = e.withTool("2") // the definition changes
	if r, err = session.CallTool(t.Context(), &sdk.CallToolParams{Name: "text_counter", Arguments: map[string]any{}}); err == nil && !r.IsError || calls.Load() != 0 {
		t.Errorf("a changed tool: %+v, %v, %d calls", r, err, calls.Load())
	}
	if _, err := e.s.Expose(e.ctx, ExposeParams{ExposeTool, "Text Counter", false}); err != nil {
		t.Fatal(err)
	}
	if _, err = session.CallTool(t.Context(), &sdk.CallToolParams{Name: "text_counter"}); err == nil {
		t.Error("a tool that is no longer exposed was called")
	}
}

// bearer adds a token, which the gateway would check.
type bearer struct{}

func (bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer token")
	return http.DefaultTransport.RoundTrip(r)
}

func TestWhatCannotBeExposed(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.withTool("1")
	e.add("files", "plain")
	e.approve("files", "*")
	for _, p := range []ExposeParams{{"mcp", "files.echo", true}, {ExposeTool, "files.echo", true}, {ExposeMemory, "memory.create", true}, {"builtin", memorySearch, true}, {"agent", "x", true}} {
		if _, err := e.s.Expose(e.ctx, p); !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.NotFound) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	if _, err := e.s.CallExposed(e.ctx, ExposedCallParams{Name: "text_counter"}); !fault.Is(err, fault.NotFound) {
		t.Errorf("%v", err)
	}
}
