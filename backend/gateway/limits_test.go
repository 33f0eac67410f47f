package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"helix/backend/fault"
)

// closeCode reads until the connection ends and returns the WebSocket close code.
func (w *wire) closeCode() int {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	for {
		if _, _, err := w.p.(*wsPipe).c.Read(ctx); err != nil {
			return int(websocket.CloseStatus(err))
		}
	}
}

func TestFrameOverTheCap(t *testing.T) {
	t.Parallel()
	f := setup(t)
	big := func(n int) string {
		return `{"jsonrpc":"2.0","id":1,"method":"note.add","params":{"n":1,"x":"` + strings.Repeat("y", n) + `"}}`
	}
	w := f.dial(t, nil)
	if got := shapeOf(t, w.ask(big(60_000))); got != "1:-32001" {
		t.Fatalf("below 64 KiB: %s", got)
	}
	w.send(big(66_000))
	if code := w.closeCode(); code != 1009 {
		t.Errorf("before authentication: %d", code)
	}
	w = f.connected(t)
	if got := shapeOf(t, w.ask(big(15<<20))); got != "1:-32602" {
		t.Fatalf("15 MiB: %s", got)
	}
	w.p.Write(t.Context(), []byte(big(17<<20))) // the server may close first
	if code := w.closeCode(); code != 1009 {
		t.Errorf("after authentication: %d", code)
	}
}

func TestFrameOverTheCapInMemory(t *testing.T) {
	t.Parallel()
	f := setup(t, func(o *Options) { o.Limits.MaxPayload = 100_000 })
	w := f.memory(t, f.owner())
	w.send(`{"jsonrpc":"2.0","id":1,"method":"echo","params":{"text":"` + strings.Repeat("y", 100_000) + `"}}`)
	if code, _ := w.p.(*MemoryEnd).CloseCode(t.Context()); code != 1009 {
		t.Fatalf("close code %d", code)
	}
}

func TestBinaryFrames(t *testing.T) {
	t.Parallel()
	f := setup(t)
	w := f.connected(t)
	for range 3 {
		if err := w.p.(*wsPipe).c.Write(t.Context(), websocket.MessageBinary, []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if got := shapeOf(t, w.recv()); got != "null:-32700" {
			t.Fatal(got)
		}
	}
	if code := w.closeCode(); code != 1007 {
		t.Fatalf("third in a row: %d", code)
	}
}

func TestSilentSocketIsClosed(t *testing.T) {
	t.Parallel()
	f := setup(t, func(o *Options) { o.Limits.AuthTime = 50 * time.Millisecond })
	if code := f.dial(t, nil).closeCode(); code != 1008 {
		t.Fatalf("close code %d", code)
	}
}

// TestUnauthenticatedSocketsAreFew opens many sockets without a token: the oldest are closed, and
// everyone else can still connect.
func TestUnauthenticatedSocketsAreFew(t *testing.T) {
	t.Parallel()
	f := setup(t, func(o *Options) { o.Limits.AuthTime = time.Minute })
	honest := f.dial(t, nil)
	honest.ask(helloAll)
	gone := make(chan struct{}, 100)
	for range 100 {
		w := f.dial(t, nil)
		go func() {
			if _, err := w.p.Read(t.Context()); err != nil { // nothing is ever sent to it
				gone <- struct{}{}
			}
		}()
	}
	for range 100 - 32 {
		<-gone
	}
	f.mu.Lock()
	waiting := len(f.waiting)
	f.mu.Unlock()
	if waiting != 32 {
		t.Errorf("%d sockets wait", waiting)
	}
	for _, head := range []http.Header{nil, bearer(rootToken)} { // others still get in, with and without a header
		if got := shapeOf(t, f.dial(t, head).ask(helloAll)); got != `"c":ok` {
			t.Errorf("%v: %s", head, got)
		}
	}
	if got := shapeOf(t, honest.ask(`{"jsonrpc":"2.0","id":2,"method":"session.get"}`)); got != "2:ok" {
		t.Error(got)
	}
}

func TestWrongSubprotocol(t *testing.T) {
	t.Parallel()
	f := setup(t)
	_, resp, err := websocket.Dial(t.Context(), f.URL()+"/ws", &websocket.DialOptions{Subprotocols: []string{"other.v1"}})
	if err == nil || resp == nil || resp.StatusCode != http.StatusBadRequest {
		t.Fatalf("%v %v", resp, err)
	}
}

func TestSessionsPerUser(t *testing.T) {
	t.Parallel()
	f := setup(t, func(o *Options) { o.Limits.SessionsPerUser = 3 })
	for range 3 {
		f.connected(t)
	}
	if got := shapeOf(t, f.dial(t, nil).ask(helloAll)); got != `"c":-32007` {
		t.Fatalf("4th: %s", got)
	}
	server, _ := MemoryPipe()
	if err := f.Serve(t.Context(), server, f.owner()); !fault.Is(err, fault.Limit) {
		t.Fatalf("4th in memory: %v", err)
	}
}

func TestRates(t *testing.T) {
	t.Parallel()
	f := setup(t, func(o *Options) { o.Limits.WriteRate, o.Limits.WriteBurst = 1e-6, 10 })
	w := f.memory(t, f.owner())
	limited := 0
	for i := range 30 {
		got := w.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"note.add","params":{"n":1}}`, i))
		if strings.Contains(got, "-32007") {
			limited++
			if !strings.Contains(got, `"retryable":true`) || !strings.Contains(got, "retryAfterMs") {
				t.Fatal(got)
			}
		}
	}
	if limited != 20 {
		t.Errorf("%d of 30 were limited, want all but 10", limited)
	}
	for i := range 100 { // reads have no rate limit
		if got := w.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"session.get"}`, i)); strings.Contains(got, "error") {
			t.Fatal(got)
		}
	}
	if got := f.memory(t, f.owner()).ask(`{"jsonrpc":"2.0","id":1,"method":"note.add","params":{"n":1}}`); strings.Contains(got, "error") {
		t.Errorf("another session shares the rate: %s", got)
	}
}

func TestBuckets(t *testing.T) {
	t.Parallel()
	b := newBucket(10, 20)
	now := time.Now()
	for range 20 {
		if _, ok := b.take(now); !ok {
			t.Fatal("burst refused")
		}
	}
	wait, ok := b.take(now)
	if ok || wait < 99*time.Millisecond || wait > 101*time.Millisecond {
		t.Fatalf("%v %v", wait, ok)
	}
	if _, ok := b.take(now.Add(wait)); !ok {
		t.Fatal("refused after the wait")
	}
	if _, ok := b.take(now.Add(-time.Hour)); ok {
		t.Fatal("a clock that goes back gives tokens")
	}
	k := keyed[int]{rate: 1, burst: 1}
	for i := range 5000 { // keys that are full again are dropped
		k.take(i, now.Add(time.Duration(i)*time.Second))
	}
	if len(k.m) > 1100 {
		t.Fatalf("%d keys kept", len(k.m))
	}
}

func TestDeadlines(t *testing.T) {
	t.Parallel()
	f := setup(t, func(o *Options) { o.Limits.CallDeadline = 80 * time.Millisecond })
	Handle(f.api, "wait.own", Read, func(ctx context.Context, _ struct{}) (struct{}, error) {
		d, _ := ctx.Deadline()
		if time.Until(d) < time.Minute {
			return struct{}{}, fault.Internalf(nil, "deadline in %s", time.Until(d))
		}
		return struct{}{}, nil
	}, Deadline(time.Hour))
	w := f.memory(t, f.owner())
	if got := shapeOf(t, w.ask(`{"jsonrpc":"2.0","id":1,"method":"wait.block"}`)); got != "1:-32005" {
		t.Errorf("default deadline: %s", got)
	}
	if got := shapeOf(t, w.ask(`{"jsonrpc":"2.0","id":2,"method":"wait.own"}`)); got != "2:ok" {
		t.Errorf("own deadline: %s", got)
	}
	if got := shapeOf(t, w.ask(`{"jsonrpc":"2.0","id":3,"method":"wait.own","params":{"_meta":{"deadlineMs":5}}}`)); got == "3:ok" {
		t.Error("_meta did not shorten the deadline")
	}
	if got := shapeOf(t, w.ask(`{"jsonrpc":"2.0","id":4,"method":"wait.own","params":{"_meta":{"deadlineMs":0}}}`)); got != "4:-32602" {
		t.Errorf("deadline of 0: %s", got)
	}
	if got := shapeOf(t, w.ask(`{"jsonrpc":"2.0","id":6,"method":"wait.own","params":{"_meta":{"deadlineMs":9200000000000000000}}}`)); got != "6:ok" {
		t.Errorf("the longest deadline: %s", got)
	}
	if got := shapeOf(t, w.ask(`{"jsonrpc":"2.0","id":5,"method":"wait.block","params":{"_meta":{"deadlineMs":3600000}}}`)); got != "5:-32005" { // not after an hour
		t.Errorf("a deadline that _meta wants to lengthen: %s", got)
	}
}

func TestResultTooLarge(t *testing.T) {
	t.Parallel()
	f := setup(t)
	w := f.memory(t, f.owner())
	got := w.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"echo","params":{"text":%q,"count":17}}`, strings.Repeat("x", 1<<20)))
	if shapeOf(t, got) != "1:-32007" || !strings.Contains(got, "limit and offset") {
		t.Fatalf("%.300s", got)
	}
}

// TestBlockedCallsDoNotDelayHealth occupies every slot of a session and requests /healthz.
func TestBlockedCallsDoNotDelayHealth(t *testing.T) {
	t.Parallel()
	f := setup(t)
	w := f.connected(t)
	for i := range 64 {
		w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"wait.block"}`, i))
	}
	for range 64 {
		<-f.began
	}
	if status, _, _ := f.get(t, "GET", f.URL()+"/healthz", nil, nil); status != 200 { // while all of them are waiting
		t.Fatal(status)
	}
	close(f.block)
}

// stalledPipe never finishes a write.
type stalledPipe struct {
	Pipe
	code   chan int      // what it was closed with
	closed chan struct{} // ends the write
}

func (p stalledPipe) Write(ctx context.Context, _ []byte) error {
	<-p.closed
	return io.ErrClosedPipe
}

func (p stalledPipe) Close(code int, _ string) {
	p.code <- code
	close(p.closed)
	p.Pipe.(closer).Close(code, "")
}

func TestBlockedWriteEndsTheSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := NewAPI()
		Handle(a, "session.get", Read, func(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
		s := New(a, Options{NoHTTP: true})
		server, client := MemoryPipe()
		p := stalledPipe{server, make(chan int, 1), make(chan struct{})}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = s.Serve(context.Background(), p, identityOf(s)) // its end is awaited
		}()
		began := time.Now()
		if err := client.Write(t.Context(), []byte(`{"jsonrpc":"2.0","id":1,"method":"session.get"}`)); err != nil {
			t.Fatal(err)
		}
		code := <-p.code
		<-done
		if d := time.Since(began); code != 1013 || d != 30*time.Second {
			t.Fatalf("code %d after %s", code, d)
		}
		time.Sleep(time.Second) // of the fake clock: idle workers end
	})
}

// pingedPipe is a pipe whose client answers pings as long as answers is true.
type pingedPipe struct {
	Pipe
	answers *atomic.Bool
	code    chan int // what it was closed with
}

func (p pingedPipe) Ping(ctx context.Context) error {
	if p.answers.Load() {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (p pingedPipe) Close(code int, why string) {
	p.code <- code
	p.Pipe.(closer).Close(code, why)
}

// A client that answers pings stays connected; one that stops is closed.
func TestClientThatAnswersNoPingIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(NewAPI(), Options{NoHTTP: true})
		server, _ := MemoryPipe()
		p := pingedPipe{server, &atomic.Bool{}, make(chan int, 1)}
		p.answers.Store(true)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = s.Serve(context.Background(), p, identityOf(s)) // its end is awaited
		}()
		time.Sleep(time.Hour + time.Second) // just after a ping
		if n := len(p.code); n != 0 {
			t.Fatalf("closed with %d while it answers", <-p.code)
		}
		p.answers.Store(false)
		began := time.Now()
		if code := <-p.code; code != 1011 {
			t.Errorf("close code %d", code)
		}
		if d := time.Since(began); d != 24*time.Second { // 14 s to the next ping, 10 s for its answer
			t.Errorf("closed after %s", d)
		}
		<-done
		time.Sleep(time.Second) // of the fake clock: idle workers end
	})
}

// A client that reads answers the pings of a real socket; one that does not, does not.
func TestPings(t *testing.T) {
	t.Parallel()
	f := setup(t)
	w := f.connected(t)
	f.mu.Lock()
	var server pinger
	for _, ss := range f.sessions {
		server = ss.pipe.(pinger)
	}
	f.mu.Unlock()
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := server.Ping(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a client that does not read: %v", err)
	}
	go w.p.Read(t.Context()) //nolint:errcheck // until the end of the test
	long, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := server.Ping(long); err != nil {
		t.Errorf("a client that reads: %v", err)
	}
}

// TestThousandConnections must leave no goroutine (checked by goleak at the end) and little memory.
func TestThousandConnections(t *testing.T) {
	t.Parallel()
	f := setup(t, func(o *Options) { o.Limits.SessionsPerUser = 2000 })
	n := 1000
	if testing.Short() {
		n = 100
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range n / 8 {
				w := f.connected(t)
				w.ask(`{"jsonrpc":"2.0","id":1,"method":"fail.panic"}`)
				w.p.(*wsPipe).Close(1000, "")
			}
		})
	}
	wg.Wait()
}

// decodeResult is for tests that check one result.
func decodeResult[T any](t *testing.T, frame string) (v T) {
	t.Helper()
	var m struct{ Result *T }
	if err := json.Unmarshal([]byte(frame), &m); err != nil || m.Result == nil {
		t.Fatalf("no result: %.300s", frame)
	}
	return *m.Result
}
