package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/testkit"
)

func TestMain(m *testing.M) {
	os.Exit(testkit.Run(m, goleak.IgnoreTopFunction("modernc.org/libc.init.0.func1")))
}

// patience is the time limit for waits without another one. It must only end before the test binary
// is stopped, so that the failure reports what was waited for.
const patience = 5 * time.Minute

const rootToken = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

// EchoParams and the following types are the table that the tests of this package serve.
type EchoParams struct {
	Text   string     `json:"text"`
	Count  int        `json:"count,omitempty"`
	UserID *uuid.UUID `json:"userId,omitempty"`
}

type EchoResult struct {
	Text string    `json:"text"`
	User uuid.UUID `json:"user"`
}

// loudness is a transient event.
type loudness struct {
	N int `json:"n"`
}

type noted struct {
	N int `json:"n"`
}

type fixture struct {
	*Server
	api   *API
	bus   *bus.Bus
	log   *lockedBuffer
	block chan struct{} // wait.block returns when it is closed
	began chan struct{} // receives a token when wait.block starts
}

func table(f *fixture) *API {
	a := NewAPI()
	Handle(a, "connect", None, func(ctx context.Context, p ConnectParams) (Hello, error) { return f.Connect(ctx, p) })
	Handle(a, "echo", Read, func(ctx context.Context, p EchoParams) (EchoResult, error) {
		return EchoResult{strings.Repeat(p.Text, max(1, p.Count)), identity.UserID(ctx)}, nil
	})
	Handle(a, "note.add", Write, func(ctx context.Context, p noted) (noted, error) {
		bus.Publish(f.bus, identity.UserID(ctx), p)
		return p, nil
	})
	Handle(a, "wait.block", Read, func(ctx context.Context, _ struct{}) (struct{}, error) {
		select {
		case f.began <- struct{}{}:
		default:
		}
		select {
		case <-f.block:
			return struct{}{}, nil
		case <-ctx.Done():
			return struct{}{}, ctx.Err()
		}
	})
	Handle(a, "wait.maybe", Read, func(ctx context.Context, p struct {
		Wait bool `json:"wait,omitempty"`
	}) (struct{}, error) {
		if !p.Wait {
			return struct{}{}, nil
		}
		f.began <- struct{}{}
		select {
		case <-f.block:
			return struct{}{}, nil
		case <-ctx.Done():
			return struct{}{}, ctx.Err()
		}
	})
	Handle(a, "fail.panic", Read, func(context.Context, struct{}) (struct{}, error) { panic("kaboom secret") })
	Handle(a, "fail.kind", Read, func(_ context.Context, p struct {
		Kind string `json:"kind"`
	}) (struct{}, error) {
		return struct{}{}, fault.New(fault.Kind(p.Kind), "no: %s", p.Kind)
	})
	Handle(a, "costly.run", Write, func(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil }, Costly())
	Handle(a, "grant.give", Approve, func(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
	Alias(a, "old_echo", "echo")
	Forward[noted](a, "note.added")
	Forward[loudness](a, "note.level", Transient())
	registerGateway(a, func() *Server { return f.Server })
	return a
}

// lockedBuffer is a buffer that several goroutines can log to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func testLogger(f *fixture) *slog.Logger { return slog.New(slog.NewTextHandler(f.log, nil)) }

// logText returns what has been logged so far.
func (f *fixture) logText() string {
	f.log.mu.Lock()
	defer f.log.mu.Unlock()
	return f.log.b.String()
}

// registerGateway adds the gateway's own methods to a, as backend/api.go does.
func registerGateway(a *API, s func() *Server) {
	Handle(a, "session.get", Read, func(ctx context.Context, p struct{}) (SessionInfo, error) { return s().SessionGet(ctx, p) })
	Handle(a, "sessions.list", Admin, func(ctx context.Context, p PageParams) (SessionList, error) { return s().SessionsList(ctx, p) })
	Handle(a, "sessions.close", Admin, func(ctx context.Context, p SessionParams) (struct{}, error) { return s().SessionsClose(ctx, p) })
	Handle(a, "sessions.ticket", Admin, func(ctx context.Context, p TicketParams) (Ticket, error) { return s().SessionsTicket(ctx, p) })
	Handle(a, "tokens.create", Admin, func(ctx context.Context, p TokenParams) (NewToken, error) { return s().TokensCreate(ctx, p) }, Secret())
	Handle(a, "tokens.list", Admin, func(ctx context.Context, p TokenListParams) (TokenList, error) { return s().TokensList(ctx, p) })
	Handle(a, "tokens.revoke", Admin, func(ctx context.Context, p TokenIDParams) (struct{}, error) { return s().TokensRevoke(ctx, p) })
	Handle(a, "tokens.rotate_root", Admin, func(ctx context.Context, p struct{}) (struct{}, error) { return s().TokensRotateRoot(ctx, p) })
	Handle(a, "events.subscribe", Read, func(ctx context.Context, p TopicsParams) (EventsState, error) { return s().Subscribe(ctx, p) })
	Handle(a, "events.unsubscribe", Read, func(ctx context.Context, p TopicsParams) (EventsState, error) { return s().Unsubscribe(ctx, p) })
	Handle(a, "events.resume", Read, func(ctx context.Context, p ResumeParams) (ResumeResult, error) { return s().Resume(ctx, p) })
	Handle(a, "rpc.discover", Read, func(ctx context.Context, p struct{}) (json.RawMessage, error) { return s().Discover(ctx, p) })
	Handle(a, "blobs.url", Read, func(ctx context.Context, p BlobParams) (BlobURL, error) { return s().BlobsURL(ctx, p) })
	Handle(a, "system.status", Read, func(ctx context.Context, p struct{}) (SystemStatus, error) { return s().SystemStatus(ctx, p) })
	Handle(a, "services.list", Read, func(ctx context.Context, p struct{}) (ServiceList, error) { return s().o.Services.List(ctx, p) })
	Handle(a, "services.start", Write, func(ctx context.Context, p ServiceParams) (ServiceList, error) { return s().o.Services.Start(ctx, p) })
	Handle(a, "services.stop", Write, func(ctx context.Context, p ServiceParams) (ServiceList, error) { return s().o.Services.Stop(ctx, p) })
	Handle(a, "services.restart", Write, func(ctx context.Context, p ServiceParams) (ServiceList, error) { return s().o.Services.Restart(ctx, p) })
	Alias(a, "start_memory_synthesis", "services.start", Preset("name", "memory-synthesis"))
}

// setup starts a server on a free port and stops it at the end of the test.
func setup(t *testing.T, change ...func(*Options)) *fixture {
	t.Helper()
	return setupWith(t, func(*Server) {}, change...)
}

// setupWith is setup with routes that are added before the ports open.
func setupWith(t *testing.T, routes func(*Server), change ...func(*Options)) *fixture {
	t.Helper()
	f := &fixture{bus: bus.New(), log: &lockedBuffer{}, block: make(chan struct{}), began: make(chan struct{}, 1000)}
	o := Options{Bus: f.bus, Logger: slog.New(slog.NewTextHandler(f.log, nil)), Addr: "127.0.0.1:0", RootToken: rootToken,
		User: func() User {
			return User{ID: uuid.MustParse("0190a000-0000-7000-8000-000000000001"), DisplayName: "Ada"}
		}, Version: "1.2.3"}
	o.Limits.AuthTime, o.Limits.HeaderTime, o.Limits.PongWithin, o.Limits.WriteBlocked = patience, patience, patience, patience // a busy machine takes long
	for _, c := range change {
		c(&o)
	}
	f.api = table(f)
	f.Server = New(f.api, o)
	routes(f.Server)
	if err := f.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return f
}

// wire is a raw client: it sends frames and reads responses.
type wire struct {
	t *testing.T
	p Pipe
}

// dial opens a WebSocket without connecting.
func (f *fixture) dial(t *testing.T, head http.Header) *wire {
	t.Helper()
	p, err := dialWS(t.Context(), f.URL(), head)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() { p.c.CloseNow() })
	return &wire{t, p}
}

// bearer returns the header with a token.
func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

func (w *wire) send(frame string) {
	w.t.Helper()
	if err := w.p.Write(w.t.Context(), []byte(frame)); err != nil {
		w.t.Fatalf("send %.80s: %v", frame, err)
	}
}

func (w *wire) recv() string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	type got struct {
		b   []byte
		err error
	}
	ch := make(chan got, 1)
	go func() { b, err := w.p.Read(ctx); ch <- got{b, err} }()
	select {
	case g := <-ch:
		if g.err != nil {
			w.t.Fatalf("read: %v", g.err)
		}
		return string(g.b)
	case <-ctx.Done():
		w.t.Fatalf("no frame within %s", patience)
	}
	return ""
}

// ask sends one frame and returns the next.
func (w *wire) ask(frame string) string {
	w.t.Helper()
	w.send(frame)
	return w.recv()
}

// post sends a body to POST /rpc with the root token.
func (f *fixture) post(t *testing.T, token, body string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.URL()+"/rpc", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = bearer(token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}
