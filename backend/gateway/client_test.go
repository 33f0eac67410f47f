package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
)

// flaky provides a client with pipes to f that a test can cut.
type flaky struct {
	f  *fixture
	mu sync.Mutex
	up *MemoryEnd
	wg sync.WaitGroup
}

func (x *flaky) open(context.Context) (Pipe, error) {
	server, client := MemoryPipe()
	x.mu.Lock()
	x.up = client
	x.mu.Unlock()
	x.wg.Go(func() { _ = x.f.Serve(context.Background(), server, x.f.owner()) }) // cut by the test
	return client, nil
}

func (x *flaky) cut() {
	x.mu.Lock()
	x.up.Close(1006, "")
	x.mu.Unlock()
}

func flakyClient(t *testing.T, f *fixture) (*Client, *flaky) {
	t.Helper()
	x := &flaky{f: f}
	c, err := Dial(t.Context(), ClientOptions{Pipe: x.open, Scopes: []string{"admin"}, wait: func(ctx context.Context, _ int) error { return ctx.Err() }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); x.wg.Wait() })
	return c, x
}

func TestClientCalls(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c, err := Dial(t.Context(), ClientOptions{URL: f.URL(), Token: rootToken, Scopes: []string{"admin"}, Client: ClientInfo{ID: "test"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if h := c.Hello(); h.Type != "hello-ok" || h.User.ID != f.o.User().ID || h.Server.Version != "1.2.3" {
		t.Fatalf("%+v", h)
	}
	var r EchoResult
	if err := c.Call(t.Context(), "echo", EchoParams{Text: "x"}, &r); err != nil || r.Text != "x" {
		t.Fatalf("%+v %v", r, err)
	}
	if err := c.Call(t.Context(), "session.get", nil, nil); err != nil {
		t.Fatal(err)
	}
	err = c.Call(t.Context(), "fail.kind", map[string]string{"kind": "conflict"}, nil)
	var remote *RemoteError
	if !fault.Is(err, fault.Conflict) || !errors.As(err, &remote) || remote.Code != -32004 || remote.RequestID == "" || fault.As(err).Message != "no: conflict" {
		t.Fatalf("%v", err)
	}
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			var r EchoResult
			if err := c.Call(t.Context(), "echo", EchoParams{Text: fmt.Sprint(i)}, &r); err != nil || r.Text != fmt.Sprint(i) {
				t.Errorf("%d: %+v %v", i, r, err)
			}
		})
	}
	wg.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-f.began; cancel() }()
	if err := c.Call(ctx, "wait.block", nil, nil); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if left := f.running.wait(10 * time.Second); left != nil {
		t.Fatalf("the server was not told: %v", left)
	}
}

func TestDialRefused(t *testing.T) {
	t.Parallel()
	f := setup(t)
	if _, err := Dial(t.Context(), ClientOptions{URL: f.URL(), Token: strings.Repeat("0", 64)}); !fault.Is(err, fault.Denied) {
		t.Errorf("wrong token: %v", err)
	}
	if _, err := Dial(t.Context(), ClientOptions{URL: "http://127.0.0.1:1"}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("nobody there: %v", err)
	}
	if _, err := DialPipe(t.Context(), ClientOptions{URL: f.URL(), Token: "x"}); !fault.Is(err, fault.Denied) {
		t.Errorf("pipe with a wrong token: %v", err)
	}
	p, err := DialPipe(t.Context(), ClientOptions{URL: f.URL(), Token: rootToken})
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{t, p.wsPipe}
	if got := shapeOf(t, w.ask(`{"jsonrpc":"2.0","id":1,"method":"sessions.list"}`)); got != "1:ok" {
		t.Error(got)
	}
	p.Close()
}

func TestClientRepeatsWhatIsSafe(t *testing.T) {
	t.Parallel()
	f := setup(t, withDB(t))
	began := make(chan string, 10)
	release := make(chan struct{})
	wait := func(name string) func(ctx context.Context, _ struct{}) (string, error) {
		return func(ctx context.Context, _ struct{}) (string, error) {
			began <- name
			select {
			case <-release:
				return name, nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
	}
	Handle(f.api, "slow.read", Read, wait("read"))
	Handle(f.api, "slow.write", Write, wait("write"))
	Handle(f.api, "slow.keyed", Write, wait("keyed"))
	c, x := flakyClient(t, f)
	type res struct {
		name, got string
		err       error
	}
	results := make(chan res, 3)
	for _, name := range []string{"read", "write", "keyed"} {
		go func() {
			ctx := t.Context()
			if name == "keyed" {
				ctx = WithIdempotencyKey(ctx, uuid.New())
			}
			var got string
			err := c.Call(ctx, "slow."+name, nil, &got)
			results <- res{name, got, err}
		}()
	}
	for range 3 {
		<-began
	}
	x.cut()
	if r := <-results; r.name != "write" || !fault.Is(r.err, fault.Unavailable) {
		t.Fatalf("first ends what must not be repeated: %+v", r)
	}
	again := map[string]bool{<-began: true, <-began: true}
	if !again["read"] || !again["keyed"] {
		t.Fatalf("repeated %v", again)
	}
	close(release)
	for range 2 {
		if r := <-results; r.err != nil || r.got != r.name {
			t.Errorf("%+v", r)
		}
	}
	if err := c.Call(t.Context(), "session.get", nil, nil); err != nil {
		t.Error(err)
	}
}

// TestClientFollowsThroughDisconnects tests the client's part of the resume property.
func TestClientFollowsThroughDisconnects(t *testing.T) {
	t.Parallel()
	f := setup(t, func(o *Options) { o.Limits.ReplayEvents = 10_000 })
	c, x := flakyClient(t, f)
	const total = 3000
	var mu sync.Mutex
	var got []int
	all := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	f.add(-1) // published before, so not received when following from its seq
	var st EventsState
	if err := c.Call(ctx, "events.subscribe", TopicsParams{[]string{}}, &st); err != nil {
		t.Fatal(err)
	}
	go func() {
		ended <- c.Follow(ctx, []string{"note.*"}, int64(st.Seq), func(e Event) {
			var n noted
			if json.Unmarshal(e.Data, &n) != nil || e.Name != "note.added" || e.Time.IsZero() {
				t.Errorf("event %+v", e)
			}
			mu.Lock()
			got = append(got, n.N)
			if n.N == total-1 {
				close(all)
			}
			mu.Unlock()
		}, func() { t.Error("gap") })
	}()
	for i := range total {
		f.add(i)
		if i%500 == 250 {
			x.cut()
		}
	}
	select {
	case <-all:
	case <-time.After(patience):
		t.Fatal("the last event did not come")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(got) != total {
		t.Fatalf("%d events of %d", len(got), total)
	}
	for i, n := range got {
		if i != n {
			t.Fatalf("event %d is %d", i, n)
		}
	}
}

func TestClientIsToldOfAGap(t *testing.T) {
	t.Parallel()
	f := setup(t, func(o *Options) { o.Limits.ReplayEvents = 5 })
	c, _ := flakyClient(t, f)
	for i := range 20 {
		f.add(i)
	}
	gap := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Follow(ctx, []string{"note.added"}, 3, func(Event) {}, func() { gap <- struct{}{} }) }()
	<-gap
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestClientEnds(t *testing.T) {
	t.Parallel()
	f := setup(t)
	server, client := MemoryPipe()
	var wg sync.WaitGroup
	wg.Go(func() { _ = f.Serve(context.Background(), server, f.owner()) })
	var states []bool
	c, err := DialOver(t.Context(), client, ClientOptions{Scopes: []string{"admin"}, OnState: func(up bool) { states = append(states, up) }})
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 2)
	go func() { result <- c.Call(t.Context(), "wait.block", nil, nil) }()
	go func() { result <- c.Follow(t.Context(), []string{"note.*"}, -1, func(Event) {}, nil) }()
	<-f.began
	server.Close(1001, "")
	for range 2 {
		if err := <-result; !fault.Is(err, fault.Unavailable) {
			t.Errorf("%v", err)
		}
	}
	if err := c.Call(t.Context(), "session.get", nil, nil); !fault.Is(err, fault.Unavailable) {
		t.Errorf("after the end: %v", err)
	}
	c.Close()
	c.Close()
	wg.Wait()
	if len(states) != 2 || !states[0] || states[1] {
		t.Errorf("states %v", states)
	}
}

// deaf is a pipe whose Read does not watch its context, like that of a WebSocket.
type deaf struct{ *MemoryEnd }

func (d deaf) Read(ctx context.Context) ([]byte, error) {
	return d.MemoryEnd.Read(context.WithoutCancel(ctx))
}

// A client that is closed while it connects again ends.
func TestCloseWhileReconnecting(t *testing.T) {
	t.Parallel()
	f := setup(t, func(o *Options) { o.Limits.ReplayEvents = 5 })
	var wg sync.WaitGroup
	defer wg.Wait()
	var ends []*MemoryEnd
	pipe := func(context.Context) (Pipe, error) {
		if len(ends) > 0 {
			for i := range 20 { // more than the server keeps, so there is a gap
				f.add(i)
			}
		}
		server, client := MemoryPipe()
		ends = append(ends, server)
		wg.Go(func() { _ = f.Serve(context.Background(), server, f.owner()) })
		return deaf{client}, nil
	}
	c, err := Dial(t.Context(), ClientOptions{Pipe: pipe, Scopes: []string{"admin"}, wait: func(ctx context.Context, _ int) error { return ctx.Err() }})
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	gap := func() {
		go func() { c.Close(); close(closed) }()
		<-c.ctx.Done()
		time.Sleep(50 * time.Millisecond) // Close now waits for the end of the client
	}
	wg.Go(func() { _ = c.Follow(context.Background(), []string{"note.added"}, -1, func(Event) {}, gap) })
	for following := false; !following; time.Sleep(time.Millisecond) {
		c.mu.Lock()
		following = len(c.follows) > 0
		c.mu.Unlock()
	}
	f.add(0)
	ends[0].Close(1001, "")
	<-closed
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for i, want := range []time.Duration{250 * time.Millisecond, 425 * time.Millisecond, 722500 * time.Microsecond} {
		if got := waitBefore(i, 0.5); (got - want).Abs() > time.Microsecond {
			t.Errorf("attempt %d: %s, want %s", i, got, want)
		}
	}
	if got := waitBefore(1000, 0.5); got != 15*time.Second {
		t.Errorf("longest: %s", got)
	}
	if lo, hi := waitBefore(0, 0), waitBefore(0, 1); lo != 200*time.Millisecond || hi != 300*time.Millisecond {
		t.Errorf("jitter %s to %s", lo, hi)
	}
}
