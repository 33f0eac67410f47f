package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/creachadair/jrpc2"

	"helix/backend/identity"
)

// bridgeClient is the page's end of a bridge.
type bridgeClient struct {
	b       *Bridge
	session string
	out     chan string
}

func (c *bridgeClient) Read(ctx context.Context) ([]byte, error) {
	select {
	case f := <-c.out:
		return []byte(f), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *bridgeClient) Write(_ context.Context, f []byte) error {
	return c.b.Send(c.session, string(f))
}

func (f *fixture) owner() identity.Identity {
	return identity.Identity{User: f.o.User().ID, Scopes: Admin, Client: identity.ClientWindow}
}

func (f *fixture) bridge(t *testing.T) *wire {
	t.Helper()
	out := make(chan string, 65536)
	b := f.NewBridge(f.owner(), func(_, frame string) {
		if frame != "" {
			out <- frame
		}
	})
	t.Cleanup(b.Close)
	return &wire{t, &bridgeClient{b, b.Open(), out}}
}

func (f *fixture) memory(t *testing.T, id identity.Identity) *wire {
	t.Helper()
	server, client := MemoryPipe()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := f.Serve(context.Background(), server, id); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { client.Close(1000, ""); wg.Wait() })
	return &wire{t, client}
}

func (f *fixture) connected(t *testing.T) *wire {
	t.Helper()
	w := f.dial(t, nil)
	if got := w.ask(helloAll); !strings.Contains(got, "hello-ok") {
		t.Fatal(got)
	}
	return w
}

// overPipes runs fn with a session on each kind of pipe.
func overPipes(t *testing.T, fn func(t *testing.T, f *fixture, w *wire)) {
	for name, open := range map[string]func(t *testing.T, f *fixture) *wire{
		"websocket": func(t *testing.T, f *fixture) *wire { return f.connected(t) },
		"bridge":    func(t *testing.T, f *fixture) *wire { return f.bridge(t) },
		"memory":    func(t *testing.T, f *fixture) *wire { return f.memory(t, f.owner()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			fn(t, f, open(t, f))
		})
	}
}

// shapeOf reduces a frame to what the standard defines.
func shapeOf(t *testing.T, frame string) string {
	t.Helper()
	var one struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  json.RawMessage `json:"result"`
		Error   *struct {
			Code int `json:"code"`
		} `json:"error"`
	}
	if strings.HasPrefix(frame, "[") {
		var many []json.RawMessage
		if err := json.Unmarshal([]byte(frame), &many); err != nil {
			t.Fatalf("%v in %s", err, frame)
		}
		var parts []string
		for _, m := range many {
			parts = append(parts, shapeOf(t, string(m)))
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	if err := json.Unmarshal([]byte(frame), &one); err != nil || one.JSONRPC != "2.0" {
		t.Fatalf("not a response: %s", frame)
	}
	if one.Error != nil {
		return fmt.Sprintf("%s:%d", one.ID, one.Error.Code)
	}
	return fmt.Sprintf("%s:ok", one.ID)
}

// TestStandardExamples runs the examples of the JSON-RPC 2.0 standard, with named params only, and
// cases that it leaves to the server.
func TestStandardExamples(t *testing.T) {
	t.Parallel()
	echo := func(id string) string {
		return `{"jsonrpc":"2.0","method":"echo","params":{"text":"x"},"id":` + id + `}`
	}
	cases := []struct{ name, send, want string }{
		{"named params", echo("3"), "3:ok"},
		{"string id", echo(`"a b"`), `"a b":ok`},
		{"negative id", echo("-7"), "-7:ok"},
		{"positional params", `{"jsonrpc":"2.0","method":"echo","params":[42,23],"id":1}`, "1:-32602"},
		{"unknown method", `{"jsonrpc":"2.0","method":"foobar","id":"1"}`, `"1":-32601`},
		{"broken JSON", `{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]`, "null:-32700"},
		{"method is a number", `{"jsonrpc":"2.0","method":1,"params":"bar"}`, "null:-32600"},
		{"broken batch", `[{"jsonrpc":"2.0","method":"sum","params":[1,2,4],"id":"1"},{"jsonrpc":"2.0","method"]`, "null:-32700"},
		{"empty batch", `[]`, "null:-32600"},
		{"batch of one number", `[1]`, "[null:-32600]"},
		{"batch of numbers", `[1,2,3]`, "[null:-32600 null:-32600 null:-32600]"},
		{"mixed batch", `[` + echo(`"1"`) + `,{"jsonrpc":"2.0","method":"notify","params":{}},` + echo(`"2"`) + `,{"foo":"boo"},{"jsonrpc":"2.0","method":"foo.get","params":{},"id":"5"},{"jsonrpc":"2.0","method":"session.get","id":"9"}]`,
			`["1":ok "2":ok null:-32600 "5":-32601 "9":ok]`},
		{"old version", `{"method":"echo","params":{"text":"x"},"id":1}`, "1:-32600"},
		{"null id", echo("null"), "null:-32600"},
		{"fractional id", echo("1.5"), "null:-32600"},
		{"object id", echo("{}"), "null:-32600"},
		{"params is a string", `{"jsonrpc":"2.0","method":"echo","params":"x","id":1}`, "1:-32600"},
		{"a bare string", `"hello"`, "null:-32600"},
		{"no params", `{"jsonrpc":"2.0","method":"session.get","id":1}`, "1:ok"},
		{"unknown field", `{"jsonrpc":"2.0","method":"echo","params":{"text":"x","Text":"y"},"id":1}`, "1:-32602"},
		{"missing field", `{"jsonrpc":"2.0","method":"echo","params":{},"id":1}`, "1:-32602"},
		{"duplicate key", `{"jsonrpc":"2.0","method":"echo","params":{"text":"x","text":"y"},"id":1}`, "null:-32700"},
		{"duplicate key, escaped", `{"jsonrpc":"2.0","method":"echo","params":{"text":"x","\u0074ext":"y"},"id":1}`, "null:-32700"},
		{"duplicate id", `{"jsonrpc":"2.0","id":1,"method":"echo","id":2}`, "null:-32700"},
		{"trailing text", echo("1") + "x", "null:-32700"},
		{"batch of 101", "[" + strings.TrimSuffix(strings.Repeat(echo("1")+",", 101), ",") + "]", "null:-32600"},
	}
	overPipes(t, func(t *testing.T, _ *fixture, w *wire) {
		for _, c := range cases {
			if got := shapeOf(t, w.ask(c.send)); got != c.want {
				t.Errorf("%s: got %s, want %s", c.name, got, c.want)
			}
			w.ask(echo("0")) // a valid frame, because three invalid ones in a row end the session
		}
		// Notifications have no answer, alone or in a batch: the next answer is the echo's.
		w.send(`{"jsonrpc":"2.0","method":"update","params":{}}`)
		w.send(`{"jsonrpc":"2.0","method":"echo","params":{"text":"x"}}`)
		w.send(`[{"jsonrpc":"2.0","method":"a.b"},{"jsonrpc":"2.0","method":"c.d"}]`)
		if got := shapeOf(t, w.ask(echo("77"))); got != "77:ok" {
			t.Errorf("a notification was answered: %s", got)
		}
	})
}

func TestDepthAndEncoding(t *testing.T) {
	t.Parallel()
	nested := func(n int) string {
		return `{"jsonrpc":"2.0","id":1,"method":"echo","params":{"x":` + strings.Repeat("[", n-2) + strings.Repeat("]", n-2) + `}}`
	}
	overPipes(t, func(t *testing.T, _ *fixture, w *wire) {
		if got := shapeOf(t, w.ask(nested(64))); got != "1:-32602" { // read, then refused because of its field
			t.Errorf("depth 64: %s", got)
		}
		if got := shapeOf(t, w.ask(nested(65))); got != "1:-32600" { // its id was read before
			t.Errorf("depth 65: %s", got)
		}
		if got := shapeOf(t, w.ask("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":{\"text\":\"\xff\"}}")); got != "null:-32700" {
			t.Errorf("broken UTF-8: %s", got)
		}
		if got := shapeOf(t, w.ask(`{"jsonrpc":"2.0","id":1,"method":"session.get"}`)); got != "1:ok" {
			t.Errorf("the session did not live on: %s", got)
		}
	})
}

func TestThirdBadFrameInARowEndsTheSession(t *testing.T) {
	t.Parallel()
	f := setup(t)
	server, client := MemoryPipe()
	done := make(chan error, 1)
	go func() { done <- f.Serve(context.Background(), server, f.owner()) }()
	w := &wire{t, client}
	w.ask(`{`)
	w.ask(`{`)
	w.ask(`{"jsonrpc":"2.0","id":1,"method":"session.get"}`) // resets the count
	w.ask(`{`)
	w.ask(`{`)
	w.ask(`{`)
	if code, _ := client.CloseCode(t.Context()); code != 1007 {
		t.Fatalf("close code %d", code)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	overPipes(t, func(t *testing.T, f *fixture, w *wire) {
		w.send(`{"jsonrpc":"2.0","id":"long","method":"wait.block"}`)
		<-f.began
		w.send(`{"jsonrpc":"2.0","method":"rpc.cancel","params":{"ids":["unknown",17,{},"long"]}}`)
		if got := shapeOf(t, w.recv()); got != `"long":-32006` {
			t.Fatalf("got %s", got)
		}
		w.send(`{"jsonrpc":"2.0","method":"rpc.cancel","params":{"ids":["long"]}}`) // finished, so it does nothing
		w.send(`{"jsonrpc":"2.0","method":"rpc.cancel","params":{"ids":7}}`)
		w.send(`{"jsonrpc":"2.0","method":"rpc.cancel"}`)
		if got := shapeOf(t, w.ask(`{"jsonrpc":"2.0","id":2,"method":"session.get"}`)); got != "2:ok" {
			t.Fatalf("got %s", got)
		}
	})
}

func TestIDInUse(t *testing.T) {
	t.Parallel()
	f := setup(t)
	w := f.memory(t, f.owner())
	w.send(`{"jsonrpc":"2.0","id":5,"method":"wait.block"}`)
	<-f.began
	if got := shapeOf(t, w.ask(`{"jsonrpc":"2.0","id":5,"method":"session.get"}`)); got != "5:-32600" {
		t.Fatalf("got %s", got)
	}
	close(f.block)
	if got := shapeOf(t, w.recv()); got != "5:ok" {
		t.Fatalf("got %s", got)
	}
}

// TestBatchRunsTogether sends 100 entries of which 64 must run concurrently for any to end.
func TestBatchRunsTogether(t *testing.T) {
	t.Parallel()
	overPipes(t, func(t *testing.T, f *fixture, w *wire) {
		var entries, want []string
		for i := range 100 {
			entries = append(entries, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"wait.block"}`, i))
			want = append(want, fmt.Sprintf("%d:ok", i))
		}
		w.send("[" + strings.Join(entries, ",") + "]")
		for range 64 {
			<-f.began
		}
		// The slots are taken: a single call is refused, not queued.
		got := w.ask(`{"jsonrpc":"2.0","id":"s","method":"session.get"}`)
		if shapeOf(t, got) != `"s":-32007` || !strings.Contains(got, "retryAfterMs") {
			t.Errorf("65th call: %s", got)
		}
		select {
		case <-f.began:
			t.Error("a 65th entry ran")
		default:
		}
		close(f.block)
		if got := shapeOf(t, w.recv()); got != "["+strings.Join(want, " ")+"]" {
			t.Errorf("order: %s", got)
		}
	})
}

func TestErrorRows(t *testing.T) {
	t.Parallel()
	f := setup(t)
	w := f.memory(t, f.owner())
	for _, r := range ErrorRows()[5:] {
		got := w.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"fail.kind","params":{"kind":%q}}`, r.Kind))
		var e struct {
			Error struct {
				Code    int    `json:"code"`
				Message string `json:"message"`
				Data    struct {
					Kind, Code, RequestID string
					Retryable             *bool
				} `json:"data"`
			} `json:"error"`
		}
		if err := json.Unmarshal([]byte(got), &e); err != nil {
			t.Fatal(err)
		}
		if e.Error.Code != r.Code || e.Error.Data.Code != r.Name || e.Error.Data.Kind != r.Kind || e.Error.Data.RequestID == "" || e.Error.Data.Retryable == nil {
			t.Errorf("%s: %s", r.Kind, got)
		}
		status, _ := f.post(t, rootToken, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"fail.kind","params":{"kind":%q}}`, r.Kind))
		if status != r.Status {
			t.Errorf("%s over HTTP: %d, want %d", r.Kind, status, r.Status)
		}
	}
}

func TestPanicIsInternalAndTheSessionLives(t *testing.T) {
	t.Parallel()
	overPipes(t, func(t *testing.T, f *fixture, w *wire) {
		got := w.ask(`{"jsonrpc":"2.0","id":1,"method":"fail.panic"}`)
		if shapeOf(t, got) != "1:-32603" || strings.Contains(got, "kaboom") || !strings.Contains(got, "requestId") {
			t.Fatalf("got %s", got)
		}
		if got := shapeOf(t, w.ask(`{"jsonrpc":"2.0","id":2,"method":"session.get"}`)); got != "2:ok" {
			t.Fatal(got)
		}
		log := f.logText()
		if !strings.Contains(log, "kaboom") || !strings.Contains(log, "helpers_test.go") {
			t.Fatalf("the log lacks the panic or its stack: %s", log)
		}
	})
}

// jrpcPipe connects an independent JSON-RPC client to our server.
type jrpcPipe struct{ p Pipe }

func (c jrpcPipe) Send(b []byte) error { return c.p.Write(context.Background(), b) }
func (c jrpcPipe) Recv() ([]byte, error) {
	b, err := c.p.Read(context.Background())
	if err != nil {
		return nil, io.EOF
	}
	return b, nil
}
func (c jrpcPipe) Close() error { c.p.(closer).Close(1000, ""); return nil }

func TestIndependentClientInteroperates(t *testing.T) {
	t.Parallel()
	f := setup(t)
	w := f.memory(t, f.owner())
	events := make(chan string, 10)
	c := jrpc2.NewClient(jrpcPipe{w.p}, &jrpc2.ClientOptions{OnNotify: func(r *jrpc2.Request) { events <- r.Method() + r.ParamString() }})
	defer c.Close()
	var echo EchoResult
	if err := c.CallResult(t.Context(), "echo", map[string]any{"text": "hi"}, &echo); err != nil || echo.Text != "hi" {
		t.Fatalf("%v %v", echo, err)
	}
	batch, err := c.Batch(t.Context(), []jrpc2.Spec{{Method: "echo", Params: map[string]any{"text": "a"}}, {Method: "nope"}, {Method: "echo", Params: map[string]any{"text": "b"}}})
	if err != nil || len(batch) != 3 || batch[0].Error() != nil || batch[1].Error() == nil || batch[2].Error() != nil {
		t.Fatalf("batch: %v %v", batch, err)
	}
	if _, err := c.Call(t.Context(), "events.subscribe", map[string]any{"topics": []string{"note.added"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Call(t.Context(), "note.add", map[string]any{"n": 3}); err != nil {
		t.Fatal(err)
	}
	if got := <-events; !strings.HasPrefix(got, `note.added{"seq":1,`) {
		t.Fatal(got)
	}
	_, err = c.Call(t.Context(), "echo", map[string]any{"txt": "x"})
	if e := (*jrpc2.Error)(nil); err == nil || !strings.Contains(err.Error(), `did you mean "text"`) {
		t.Fatalf("%v %v", e, err)
	}
}
