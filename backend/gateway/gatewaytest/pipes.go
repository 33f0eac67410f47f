package gatewaytest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"helix/backend/gateway"
	"helix/backend/identity"
)

// patience limits every wait of the suite; it is only reached if something is broken.
const patience = 4 * time.Minute

// pipes are the ways to reach a server.
var pipes = []struct {
	name string
	open func(t *testing.T, g *Target, scopes gateway.Scope) *client
}{
	{"websocket", openSocket}, {"rpc", openPost}, {"bridge", openBridge}, {"memory", openMemory},
}

// client makes calls over one pipe and waits for each answer.
type client struct {
	n    int
	do   func(t *testing.T, frame []byte) []byte // sends one request
	read func(t *testing.T) []byte               // nil: do returns the answer
}

type answerFrame struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Result  json.RawMessage `json:"result"`
	Error   *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
	raw string
}

func (a answerFrame) code() int {
	if a.Error == nil {
		return 0
	}
	return a.Error.Code
}

func (c *client) call(t *testing.T, method string, params json.RawMessage) answerFrame {
	t.Helper()
	c.n++
	frame := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.n, method, params)
	b := c.do(t, frame)
	for {
		if c.read != nil {
			b = c.read(t)
		}
		var a answerFrame
		if err := json.Unmarshal(b, &a); err != nil {
			t.Fatalf("%s: the answer is not JSON: %v: %.200s", method, err, b)
		}
		if a.Method != "" {
			continue // an event
		}
		a.raw = string(b)
		if string(a.ID) != fmt.Sprint(c.n) || a.JSONRPC != "2.0" || (a.Error == nil) == (a.Result == nil) {
			t.Fatalf("%s: not the response to %d: %.300s", method, c.n, b)
		}
		return a
	}
}

// checkError checks the properties that every error has.
func checkError(t *testing.T, method string, a answerFrame) {
	t.Helper()
	var d struct {
		Kind      string `json:"kind"`
		Code      string `json:"code"`
		RequestID string `json:"requestId"`
		Retryable *bool  `json:"retryable"`
	}
	if json.Unmarshal(a.Error.Data, &d) != nil || d.Kind == "" || d.Code == "" || d.RequestID == "" || d.Retryable == nil || a.Error.Message == "" {
		t.Errorf("%s: incomplete error: %.300s", method, a.raw)
	}
	for _, leak := range []string{"SELECT ", "INSERT ", "UPDATE ", "sql:", "goroutine "} {
		if strings.Contains(a.raw, leak) {
			t.Errorf("%s: the error shows %q: %.300s", method, leak, a.raw)
		}
	}
}

func overPipe(t *testing.T, p gateway.Pipe) *client {
	t.Helper()
	return &client{
		do: func(t *testing.T, frame []byte) []byte {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := p.Write(ctx, frame); err != nil {
				t.Fatalf("write: %v", err)
			}
			return nil
		},
		read: func(t *testing.T) []byte {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			b, err := p.Read(ctx)
			if err != nil {
				t.Fatalf("read: %v", err)
			}
			return b
		},
	}
}

func openMemory(t *testing.T, g *Target, scopes gateway.Scope) *client {
	id := g.Owner
	id.Scopes = scopes
	return openAs(t, g, id)
}

func openAs(t *testing.T, g *Target, id identity.Identity) *client {
	t.Helper()
	id.Pipe = "memory"
	server, mine := gateway.MemoryPipe()
	var wg sync.WaitGroup
	wg.Go(func() { _ = g.Server.Serve(context.Background(), server, id) }) // its end is ours
	t.Cleanup(func() { mine.Close(1000, ""); wg.Wait() })
	return overPipe(t, mine)
}

func openBridge(t *testing.T, g *Target, scopes gateway.Scope) *client {
	t.Helper()
	id := g.Owner
	id.Scopes, id.Pipe = scopes, "bridge"
	out := make(chan string, 4096)
	b := g.Server.NewBridge(id, func(_, frame string) {
		if frame != "" {
			out <- frame
		}
	})
	t.Cleanup(b.Close)
	session := b.Open()
	return &client{
		do: func(t *testing.T, frame []byte) []byte {
			if err := b.Send(session, string(frame)); err != nil {
				t.Fatal(err)
			}
			return nil
		},
		read: func(t *testing.T) []byte {
			select {
			case f := <-out:
				return []byte(f)
			case <-time.After(patience):
				t.Fatal("no frame from the bridge")
			}
			return nil
		},
	}
}

type socket struct{ c *websocket.Conn }

func (s socket) Read(ctx context.Context) ([]byte, error) {
	_, b, err := s.c.Read(ctx)
	return b, err
}

func (s socket) Write(ctx context.Context, frame []byte) error {
	return s.c.Write(ctx, websocket.MessageText, frame)
}

func rawSocket(t *testing.T, g *Target) *client {
	t.Helper()
	//nolint:bodyclose // the library closes it
	c, _, err := websocket.Dial(t.Context(), g.Server.URL()+"/ws", &websocket.DialOptions{Subprotocols: []string{gateway.Subprotocol}})
	if err != nil {
		t.Fatal(err)
	}
	c.SetReadLimit(32 << 20)
	t.Cleanup(func() { c.CloseNow() }) //nolint:errcheck // the test is over
	return overPipe(t, socket{c})
}

func openSocket(t *testing.T, g *Target, scopes gateway.Scope) *client {
	t.Helper()
	c := rawSocket(t, g)
	names, err := json.Marshal(scopes.Names())
	if err != nil {
		t.Fatal(err)
	}
	hello := fmt.Appendf(nil, `{"minProtocol":1,"maxProtocol":1,"client":{"id":"contract"},"scopes":%s,"auth":{"token":%q}}`, names, g.RootToken)
	if a := c.call(t, "connect", hello); a.code() != 0 {
		t.Fatalf("connect: %s", a.raw)
	}
	return c
}

func openPost(t *testing.T, g *Target, _ gateway.Scope) *client {
	return &client{do: func(t *testing.T, frame []byte) []byte {
		b, _ := postFrame(t, g, g.RootToken, "", frame)
		return b
	}}
}

func post(t *testing.T, g *Target, token, method string, params json.RawMessage) (answerFrame, int) {
	t.Helper()
	return postRaw(t, g, token, method, params, "")
}

func postQuery(t *testing.T, g *Target, token, method string, params json.RawMessage, query string) (answerFrame, int) {
	t.Helper()
	return postRaw(t, g, token, method, params, query)
}

func postRaw(t *testing.T, g *Target, token, method string, params json.RawMessage, query string) (a answerFrame, status int) {
	t.Helper()
	b, status := postFrame(t, g, token, query, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params))
	if err := json.Unmarshal(b, &a); err != nil {
		t.Fatalf("%s: %v: %.200s", method, err, b)
	}
	a.raw = string(b)
	return a, status
}

func postFrame(t *testing.T, g *Target, token, query string, frame []byte) ([]byte, int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.Server.URL()+"/rpc"+query, bytes.NewReader(frame))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return b, resp.StatusCode
}

// checker validates results against the published schemas.
type checker struct {
	compiler *jsonschema.Compiler
	byMethod map[string]*jsonschema.Schema
}

func newChecker(t *testing.T, a *gateway.API) *checker {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(a.Document(nil)))
	if err != nil {
		t.Fatal(err)
	}
	c := &checker{compiler: jsonschema.NewCompiler(), byMethod: map[string]*jsonschema.Schema{}}
	c.compiler.DefaultDraft(jsonschema.Draft7)
	if err := c.compiler.AddResource("helix:openrpc", doc); err != nil {
		t.Fatal(err)
	}
	for i, m := range doc.(map[string]any)["methods"].([]any) {
		s, err := c.compiler.Compile(fmt.Sprintf("helix:openrpc#/methods/%d/result/schema", i))
		if err != nil {
			t.Fatal(err)
		}
		c.byMethod[m.(map[string]any)["name"].(string)] = s
	}
	return c
}

func (c *checker) result(m gateway.MethodInfo, raw json.RawMessage) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	s := c.byMethod[m.Name]
	if s == nil {
		return fmt.Errorf("no schema")
	}
	return s.Validate(v)
}
