package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/testkit"
)

func identityOf(s *Server) identity.Identity {
	return identity.Identity{User: newID(), Scopes: Admin, Client: identity.ClientWindow}
}

// runUntil starts a server separately and returns a function that stops it.
func runUntil(t *testing.T, change ...func(*Options)) (*fixture, func() error) {
	t.Helper()
	f := &fixture{bus: bus.New(), log: &lockedBuffer{}, block: make(chan struct{}), began: make(chan struct{}, 100)}
	id := newID()
	o := Options{Bus: f.bus, Logger: testLogger(f), Addr: "127.0.0.1:0", RootToken: rootToken, User: func() User { return User{ID: id} }}
	for _, c := range change {
		c(&o)
	}
	f.api = table(f)
	f.Server = New(f.api, o)
	ctx, cancel := context.WithCancel(context.Background())
	if err := f.Listen(ctx); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	stopped := false
	stop := func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-done
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return f, stop
}

func TestGracefulStop(t *testing.T) {
	t.Parallel()
	endpoint := filepath.Join(t.TempDir(), "run", "endpoint.json")
	f, stop := runUntil(t, func(o *Options) { o.EndpointFile = endpoint; o.TokenSource = "keyring" })
	e, err := ReadEndpoint(endpoint)
	if err != nil || e.URL != f.URL() || e.PID != os.Getpid() || e.InstanceID != f.inst.String() || e.TokenSource != "keyring" {
		t.Fatalf("endpoint %+v %v", e, err)
	}
	w := f.connected(t)
	w.send(`{"jsonrpc":"2.0","id":1,"method":"wait.block"}`)
	<-f.began
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	if got := w.recv(); !strings.Contains(got, `"method":"system.stopping"`) {
		t.Fatalf("first comes the notice: %s", got)
	}
	if status, _, body := f.get(t, "GET", f.URL()+"/healthz", nil, nil); status != 503 || !strings.Contains(body, "stopping") {
		t.Errorf("health: %d %s", status, body)
	}
	server, _ := MemoryPipe()
	if err := f.Serve(t.Context(), server, f.owner()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a new session: %v", err)
	}
	if status, _, _ := f.get(t, "GET", f.URL()+"/ws", http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}, nil); status != 503 {
		t.Errorf("a new socket: %d", status)
	}
	if got := shapeOf(t, w.ask(`{"jsonrpc":"2.0","id":2,"method":"session.get"}`)); got != "2:-32000" {
		t.Errorf("a new call: %s", got)
	}
	close(f.block)
	if got := shapeOf(t, w.recv()); got != "1:ok" {
		t.Errorf("the running call: %s", got)
	}
	if code := w.closeCode(); code != 1001 {
		t.Errorf("close code %d", code)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(endpoint); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("endpoint file: %v", err)
	}
	if _, err := net.Dial("tcp", strings.TrimPrefix(e.URL, "http://")); err == nil {
		t.Error("the port still answers")
	}
}

func TestStopNamesWhatDidNotEnd(t *testing.T) {
	t.Parallel()
	f, stop := runUntil(t, func(o *Options) { o.Limits.StopWait = 20 * time.Millisecond })
	Handle(f.api, "wait.deaf", Read, func(context.Context, struct{}) (struct{}, error) {
		f.began <- struct{}{}
		<-f.block
		return struct{}{}, nil
	})
	w := f.connected(t)
	w.send(`{"jsonrpc":"2.0","id":1,"method":"wait.deaf"}`)
	<-f.began
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if log := f.logText(); !strings.Contains(log, "wait.deaf") {
		t.Errorf("log: %s", log)
	}
	close(f.block)
}

func TestPortTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f := setup(t, func(o *Options) { o.Addr = l.Addr().String() })
	_, asked, _ := net.SplitHostPort(l.Addr().String())
	_, used, _ := net.SplitHostPort(strings.TrimPrefix(f.URL(), "http://"))
	st := decodeResult[SystemStatus](t, f.memory(t, f.owner()).ask(`{"jsonrpc":"2.0","id":1,"method":"system.status"}`))
	if used == asked || len(st.Degraded) != 1 || !strings.Contains(st.Degraded[0].Reason, asked) || !strings.Contains(st.Degraded[0].Reason, used) {
		t.Fatalf("asked %s, used %s, degraded %+v", asked, used, st.Degraded)
	}
}

func TestOnlyLoopback(t *testing.T) {
	t.Parallel()
	for addr, ok := range map[string]bool{"127.0.0.1:0": true, "localhost:0": true, "[::1]:0": true, "127.8.8.8:1": true,
		"0.0.0.0:0": false, ":0": false, "[::]:0": false, "192.168.1.4:80": false, "example.com:80": false, "nonsense": false} {
		if err := checkLoopback(addr); (err == nil) != ok {
			t.Errorf("%s: %v", addr, err)
		}
	}
	s := New(NewAPI(), Options{Addr: "0.0.0.0:0"})
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "loopback") {
		t.Fatalf("started on all interfaces: %v", err)
	}
	// The ports must not respond on the machine's other addresses.
	f := setup(t)
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(f.URL(), "http://"))
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		ip := a.(*net.IPNet).IP
		if ip.IsLoopback() || ip.IsLinkLocalUnicast() {
			continue
		}
		if c, err := net.DialTimeout("tcp", net.JoinHostPort(ip.String(), port), time.Second); err == nil {
			c.Close()
			t.Errorf("%s answers", ip)
		}
	}
}

func TestRestartOfTheGateway(t *testing.T) {
	t.Parallel()
	endpoint := filepath.Join(t.TempDir(), "endpoint.json")
	f := setup(t, func(o *Options) { o.EndpointFile = endpoint })
	bridge, ws := f.bridge(t), f.connected(t)
	before := f.URL()
	got := ws.ask(`{"jsonrpc":"2.0","id":1,"method":"services.restart","params":{"name":"gateway"}}`)
	if shapeOf(t, got) != "1:ok" || !strings.Contains(got, `"restarts":1`) {
		t.Fatalf("the call that asked is answered: %s", got)
	}
	if code := ws.closeCode(); code != 1012 {
		t.Errorf("socket: %d", code)
	}
	if got := shapeOf(t, bridge.ask(`{"jsonrpc":"2.0","id":2,"method":"session.get"}`)); got != "2:ok" {
		t.Errorf("bridge: %s", got)
	}
	if f.URL() == before || f.URL() == "" {
		t.Errorf("address %s after %s", f.URL(), before)
	}
	if e, err := ReadEndpoint(endpoint); err != nil || e.URL != f.URL() {
		t.Errorf("endpoint %+v %v", e, err)
	}
	f.connected(t)
	if got := bridge.ask(`{"jsonrpc":"2.0","id":3,"method":"services.stop","params":{"name":"gateway"}}`); !strings.Contains(got, `"running":false`) {
		t.Errorf("stop: %s", got)
	}
	if f.URL() != "" {
		t.Errorf("still at %s", f.URL())
	}
	if _, err := os.Stat(endpoint); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("endpoint file after stop: %v", err)
	}
	if got := bridge.ask(`{"jsonrpc":"2.0","id":4,"method":"services.start","params":{"name":"gateway"}}`); !strings.Contains(got, `"running":true`) {
		t.Errorf("start: %s", got)
	}
	f.connected(t)
}

func TestEndpointOfADeadProcessIsReplaced(t *testing.T) {
	t.Parallel()
	endpoint := filepath.Join(t.TempDir(), "endpoint.json")
	if err := os.WriteFile(endpoint, []byte(`{"url":"http://127.0.0.1:1","pid":1,"instanceId":"old"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	f, stop := runUntil(t, func(o *Options) { o.EndpointFile = endpoint })
	if e, err := ReadEndpoint(endpoint); err != nil || e.InstanceID != f.inst.String() {
		t.Fatalf("%+v %v", e, err)
	}
	if info, err := os.Stat(endpoint); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info, err)
	}
	// Another instance has replaced it, so it must not be removed.
	other, err := json.Marshal(Endpoint{InstanceID: "newer"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(endpoint, other, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if e, err := ReadEndpoint(endpoint); err != nil || e.InstanceID != "newer" {
		t.Fatalf("%+v %v", e, err)
	}
}

func TestServices(t *testing.T) {
	t.Parallel()
	b := bus.New()
	changed := make(chan string, 100)
	defer bus.Subscribe(b, func(_ uuid.UUID, e ServicesChanged) { changed <- e.Name })()
	r := NewServices(b, testLogger(&fixture{log: &lockedBuffer{}}))
	var runs atomic.Int64
	crash := make(chan error)
	r.Add("scheduler", func(ctx context.Context) error {
		runs.Add(1)
		select {
		case err := <-crash:
			if err == nil {
				panic("kaboom")
			}
			return err
		case <-ctx.Done():
			return nil
		}
	}, func() int { return 4711 })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	state := func(want string) ServiceState {
		t.Helper()
		return testkit.Eventually(t, "a service that becomes "+want, func() ServiceState {
			l, err := r.List(ctx, struct{}{})
			if err != nil {
				t.Fatal(err)
			}
			return l.Services[0]
		}, func(s ServiceState) bool { return s.State == want })
	}
	if s := state("running"); s.Port != 4711 || s.PID != os.Getpid() || s.Since == nil || !s.Running {
		t.Fatalf("%+v", s)
	}
	testkit.Eventually(t, "runs", runs.Load, func(n int64) bool { return n > 0 }) // it counts as running a moment before it runs
	if _, err := r.Start(ctx, ServiceParams{"scheduler"}); err != nil || runs.Load() != 1 {
		t.Fatalf("starting twice: %v, %d runs", err, runs.Load())
	}
	if name := <-changed; name != "scheduler" {
		t.Fatalf("changed: %s", name)
	}
	crash <- errors.New("secret detail")
	if s := state("failed"); s.Running || s.Error == "" || strings.Contains(s.Error, "secret") {
		t.Fatalf("%+v", s)
	}
	if l, err := r.Restart(ctx, ServiceParams{"scheduler"}); err != nil || !l.Services[0].Running || l.Services[0].Restarts != 1 {
		t.Fatalf("%+v %v", l, err)
	}
	crash <- nil
	state("failed")
	if _, err := r.Start(ctx, ServiceParams{"scheduler"}); err != nil {
		t.Fatal(err)
	}
	if l, err := r.Stop(ctx, ServiceParams{"*"}); err != nil || l.Services[0].State != "stopped" || l.Services[0].Error != "" {
		t.Fatalf("%+v %v", l, err)
	}
	if _, err := r.Start(ctx, ServiceParams{"voice-pipeline"}); !fault.Is(err, fault.NotFound) {
		t.Fatalf("a service that this build lacks: %v", err)
	}
	cancel()
	<-done
	if _, err := r.Start(t.Context(), ServiceParams{"scheduler"}); !fault.Is(err, fault.Unavailable) {
		t.Fatalf("after the end: %v", err)
	}
}

func TestAliasWithPreset(t *testing.T) {
	t.Parallel()
	f := setup(t)
	w := f.memory(t, f.owner())
	for params, want := range map[string]string{`{}`: "1:-32003", `{"name":"memory-synthesis"}`: "1:-32003", `{"name":"scheduler"}`: "1:-32602", `{"nme":"x"}`: "1:-32602", `[]`: "1:-32602"} {
		if got := w.ask(`{"jsonrpc":"2.0","id":1,"method":"start_memory_synthesis","params":` + params + `}`); shapeOf(t, got) != want {
			t.Errorf("%s: %s", params, got)
		}
	}
}

func TestSystemHooks(t *testing.T) {
	t.Parallel()
	stopped, activated := make(chan struct{}), make(chan []string, 1)
	f := setup(t, func(o *Options) {
		o.Stop = func() { close(stopped) }
		o.Activate = func(_ context.Context, args []string) error { activated <- args; return nil }
		o.Gate = func(m string) error {
			if m == "echo" {
				return fault.Unavailablef("closed for now")
			}
			return nil
		}
		o.Status = func(_ context.Context, s *SystemStatus) error { s.DataDir = "/d"; s.SchemaVersion = 7; return nil }
	})
	ctx := identity.With(t.Context(), f.owner())
	if _, err := f.Activate(ctx, ActivateParams{[]string{"helix://tools/x"}}); err != nil || len(<-activated) != 1 {
		t.Fatal(err)
	}
	if st, err := f.SystemStatus(ctx, struct{}{}); err != nil || st.DataDir != "/d" || st.SchemaVersion != 7 || st.Memory.RSSBytes < 1<<20 || st.Version != "1.2.3" {
		t.Fatalf("%+v %v", st, err)
	}
	w := f.memory(t, f.owner())
	for _, m := range []string{"echo", "old_echo"} {
		if got := shapeOf(t, w.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"text":"x"}}`, m))); got != "1:-32000" {
			t.Errorf("%s behind the gate: %s", m, got)
		}
	}
	if _, err := f.SystemStop(ctx, struct{}{}); err != nil {
		t.Fatal(err)
	}
	<-stopped
}

func TestSessionsCloseAndList(t *testing.T) {
	t.Parallel()
	f := setup(t)
	a, b := f.connected(t), f.connected(t)
	info := decodeResult[SessionInfo](t, b.ask(`{"jsonrpc":"2.0","id":1,"method":"session.get"}`))
	list := decodeResult[SessionList](t, a.ask(`{"jsonrpc":"2.0","id":2,"method":"sessions.list","params":{"limit":1,"offset":1}}`))
	if list.Total != 2 || len(list.Sessions) != 1 || list.Sessions[0].SessionID != info.SessionID || list.Sessions[0].Client.ID != "test" {
		t.Fatalf("%+v", list)
	}
	for _, bad := range []string{`{"limit":101}`, `{"limit":-1}`, `{"offset":-1}`} {
		if got := shapeOf(t, a.ask(`{"jsonrpc":"2.0","id":3,"method":"sessions.list","params":`+bad+`}`)); got != "3:-32008" {
			t.Errorf("%s: %s", bad, got)
		}
	}
	other := f.memory(t, identity.Identity{User: newID(), Scopes: Admin, Client: identity.ClientWindow})
	closeB := fmt.Sprintf(`{"jsonrpc":"2.0","id":4,"method":"sessions.close","params":{"sessionId":%q}}`, info.SessionID)
	if got := shapeOf(t, other.ask(closeB)); got != "4:-32003" {
		t.Errorf("another user closes it: %s", got)
	}
	b.send(`{"jsonrpc":"2.0","id":5,"method":"wait.block"}`)
	<-f.began
	if got := shapeOf(t, a.ask(closeB)); got != "4:ok" {
		t.Fatal(got)
	}
	if code := b.closeCode(); code != 1000 {
		t.Errorf("close code %d", code)
	}
	if left := f.running.wait(10 * time.Second); left != nil {
		t.Errorf("its call goes on: %v", left)
	}
	f.EndSessions()
	if code := a.closeCode(); code != 1012 {
		t.Errorf("end of all: %d", code)
	}
}

// TestTheCallThatEndsAllSessionsIsAnswered replaces the data in a call that takes a while: its own
// answer arrives, on a socket and over HTTP, and no new calls are accepted.
func TestTheCallThatEndsAllSessionsIsAnswered(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for _, over := range []string{"websocket", "http"} {
		w := f.connected(t)
		answer := make(chan string, 1)
		go func() {
			if over == "http" {
				_, got := f.post(t, rootToken, `{"jsonrpc":"2.0","id":1,"method":"wait.maybe","params":{"wait":true}}`)
				answer <- got
				return
			}
			answer <- w.ask(`{"jsonrpc":"2.0","id":1,"method":"wait.maybe","params":{"wait":true}}`)
		}()
		<-f.began
		f.EndSessions()
		if over == "websocket" {
			w.send(`{"jsonrpc":"2.0","id":2,"method":"session.get"}`)
			if got := <-answer; shapeOf(t, got) != "2:-32000" {
				t.Errorf("a new call: %s", got)
			}
			go func() { answer <- w.recv() }()
		}
		select {
		case got := <-answer:
			t.Fatalf("%s: answered while it runs: %s", over, got)
		case <-time.After(2 * answerNone): // when the others would have ended
		}
		f.block <- struct{}{}
		if got := <-answer; shapeOf(t, got) != "1:ok" {
			t.Errorf("%s: %s", over, got)
		}
		if code := w.closeCode(); code != 1012 {
			t.Errorf("%s: close code %d", over, code)
		}
	}
}

// TestEndpointFileThatCannotBeWritten removes the folder: the gateway works, reports the problem,
// and writes the file when it can.
func TestEndpointFileThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // in place of the folder
		t.Fatal(err)
	}
	f := setup(t, func(o *Options) {
		o.EndpointFile = filepath.Join(dir, "endpoint.json")
		o.Limits.EndpointRetry = 10 * time.Millisecond
	})
	w := f.connected(t)
	status := func() SystemStatus {
		return decodeResult[SystemStatus](t, w.ask(`{"jsonrpc":"2.0","id":1,"method":"system.status"}`))
	}
	if st := status(); len(st.Degraded) != 1 || st.Degraded[0].Area != "gateway" || st.Degraded[0].Hint == "" {
		t.Fatalf("%+v", st.Degraded)
	}
	time.Sleep(100 * time.Millisecond) // several attempts
	if n := strings.Count(f.logText(), "endpoint file not written"); n != 1 {
		t.Errorf("warned %d times", n)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "status", status, func(st SystemStatus) bool { return len(st.Degraded) == 0 })
	if e, err := ReadEndpoint(filepath.Join(dir, "endpoint.json")); err != nil || e.URL != f.URL() {
		t.Errorf("%+v, %v", e, err)
	}
}

var _ http.Handler = (*handler)(nil)

// TestFailedServiceIsStartedAgain checks that a service that fails or panics ends neither its group
// nor the others, is reported as degraded, and is restarted.
func TestFailedServiceIsStartedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := NewServices(nil, slog.New(slog.DiscardHandler))
		fail := make(chan func() error)
		runs := 0
		r.Add("shaky", func(ctx context.Context) error {
			runs++
			select {
			case f := <-fail:
				return f()
			case <-ctx.Done():
				return nil
			}
		}, nil)
		steady := 0
		r.Add("steady", func(ctx context.Context) error {
			steady++
			<-ctx.Done()
			return nil
		}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		synctest.Wait()
		delay := firstRestart
		for i, f := range []func() error{
			func() error { return errors.New("secret detail") },
			func() error { panic("kaboom") },
			func() error { panic("boom") },
		} {
			fail <- f
			synctest.Wait()
			d := r.Degraded()
			if len(d) != 1 || d[0].Area != "shaky" || strings.Contains(d[0].Reason, "secret") || d[0].Hint == "" {
				t.Fatalf("degraded: %+v", d)
			}
			time.Sleep(delay)
			synctest.Wait()
			if delay *= 2; runs != i+2 || len(r.Degraded()) != 0 {
				t.Fatalf("%d runs after %d failures, degraded: %+v", runs, i+1, r.Degraded())
			}
		}
		if steady != 1 {
			t.Fatalf("the other service ran %d times", steady)
		}
		fail <- func() error { panic("again") }
		synctest.Wait()
		cancel() // while it waits for its restart
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

// TestTokensFollowTheUserToAnotherID joins a hub, as it were: who has a token goes on with it.
func TestTokensFollowTheUserToAnotherID(t *testing.T) {
	t.Parallel()
	f := setup(t)
	from, to := f.o.User().ID, uuid.MustParse("0190a000-0000-7000-8000-0000000000ff")
	var m struct{ Result struct{ URL string } }
	if err := json.Unmarshal([]byte(f.memory(t, f.owner()).ask(`{"jsonrpc":"2.0","id":1,"method":"sessions.ticket"}`)), &m); err != nil {
		t.Fatal(err)
	}
	_, token := f.redeem(t, m.Result.URL)
	who := func(token string) string {
		t.Helper()
		_, got := f.post(t, token, `{"jsonrpc":"2.0","id":1,"method":"session.get"}`)
		return got
	}
	for _, tok := range []string{token, rootToken} {
		if got := who(tok); !strings.Contains(got, from.String()) {
			t.Fatal(got)
		}
	}
	open := f.connected(t)
	f.ChangeUser(uuid.New(), User{ID: uuid.New()}) // of somebody else
	f.ChangeUser(from, User{ID: to, DisplayName: "Ada"})
	if code := open.closeCode(); code != 1012 {
		t.Errorf("close code %d", code)
	}
	for _, tok := range []string{token, rootToken} {
		if got := who(tok); !strings.Contains(got, to.String()) || strings.Contains(got, from.String()) {
			t.Errorf("%s", got)
		}
	}
}
