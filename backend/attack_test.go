package backend

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"helix/backend/fault"
	"helix/backend/gateway"
	"helix/backend/gateway/gatewaytest"
	"helix/backend/testkit"
	"helix/backend/tools"
)

// attacked is a complete backend over a real socket, as seen by an attacker.
type attacked struct {
	*Backend
	dir   string
	main  string            // host:port of the main listener
	ports map[string]string // route of an extra port → its host:port
	root  string            // the root token
}

// attack starts a backend with its additional ports and its real log file.
func attack(t *testing.T) *attacked {
	t.Helper()
	a := &attacked{dir: t.TempDir(), ports: map[string]string{}}
	o := testOptions(a.dir)
	o.Flags["log.level"] = "debug"
	o.Logger, o.LogTo = nil, slog.LevelError+100
	for from, to := range map[string]string{"/execute": "/execute", "/transcribe": "/transcribe", "/ws": "/sync"} {
		port := testkit.FreePort(t)
		a.ports[from] = fmt.Sprintf("127.0.0.1:%d", port)
		o.Extra = append(o.Extra, gateway.Extra{Port: port, Routes: map[string]string{from: to}})
	}
	a.Backend = startWith(t, o)
	a.main = strings.TrimPrefix(a.Gateway.URL(), "http://")
	var err error
	if a.root, _, err = a.Root.Token(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a
}

// one is a request on a connection of its own.
type one struct {
	method, addr, path, body string
	head                     http.Header
	host                     string // Host header; "": addr
}

// raw sends r and returns the status and the whole response, including headers.
func (r one) raw(t *testing.T) (int, string) {
	t.Helper()
	c, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(t.Context(), "tcp", r.addr)
	if err != nil {
		t.Fatalf("%s: %v", r.addr, err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	host := r.host
	if host == "" {
		host = r.addr
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", r.method, r.path, host, len(r.body))
	for k, vs := range r.head {
		for _, v := range vs {
			fmt.Fprintf(&b, "%s: %s\r\n", k, v)
		}
	}
	if r.head.Get("Upgrade") == "" {
		b.WriteString("Connection: close\r\n")
	}
	b.WriteString("\r\n" + r.body)
	if _, err := c.Write(b.Bytes()); err != nil {
		t.Fatal(err)
	}
	br := bufio.NewReader(c)
	resp, err := http.ReadResponse(br, &http.Request{Method: r.method})
	if err != nil {
		t.Fatalf("%s %s: %v", r.method, r.path, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return resp.StatusCode, ""
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var head strings.Builder
	_ = resp.Header.Write(&head) // a builder never fails
	return resp.StatusCode, head.String() + string(body)
}

func header(kv ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(kv); i += 2 {
		h[kv[i]] = append(h[kv[i]], kv[i+1])
	}
	return h
}

func with(h http.Header, kv ...string) http.Header {
	out := h.Clone()
	maps.Copy(out, header(kv...))
	return out
}

// state returns everything that a request could have changed.
func (a *attacked) state(t *testing.T) string {
	t.Helper()
	rows := gatewaytest.CountRows(t, a.DB, a.LocalUser())
	delete(rows, "audit_log") // wrong tokens are recorded
	b, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

const secretWord = "Kirschblütenfest"

// routes returns all paths with a request that would have an effect or return something if it were
// accepted.
func (a *attacked) routes() []one {
	const rpc = `{"jsonrpc":"2.0","id":1,"method":"tools.create","params":{"name":"Planted","code":"return 1"}}`
	ws := header("Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
	list := []one{
		{method: "POST", addr: a.main, path: "/rpc", body: rpc},
		{method: "POST", addr: a.main, path: "/rpc", body: "[" + rpc + "," + strings.Replace(rpc, "Planted", "Planted 2", 1) + "]"},
		{method: "POST", addr: a.main, path: "/rpc", body: rpc, head: header("Content-Type", "text/plain")},
		{method: "POST", addr: a.main, path: "/rpc", body: rpc, head: header("Content-Type", "application/x-www-form-urlencoded")},
		{method: "GET", addr: a.main, path: "/ws", head: ws},
		{method: "GET", addr: a.main, path: "/openrpc.json"},
		{method: "GET", addr: a.main, path: "/blobs/" + strings.Repeat("ab", 32) + "?exp=99999999999&sig=" + strings.Repeat("A", 64)},
		{method: "POST", addr: a.main, path: "/session", body: `{"ticket":"` + strings.Repeat("0", 64) + `"}`},
		{method: "POST", addr: a.main, path: "/execute", body: `{"skill_id":"x","input":{}}`},
		{method: "POST", addr: a.main, path: "/transcribe", body: "RIFF"},
		{method: "POST", addr: a.main, path: "/upload?name=planted", body: "planted"},
		{method: "DELETE", addr: a.main, path: "/upload?token=pick:0"},
		{method: "GET", addr: a.main, path: "/sync", head: ws},
	}
	for path, addr := range a.ports {
		switch path {
		case "/ws":
			list = append(list, one{method: "GET", addr: addr, path: path, head: ws})
		default:
			list = append(list, one{method: "POST", addr: addr, path: path, body: "{}"})
		}
		list = append(list, one{method: "POST", addr: addr, path: "/rpc", body: rpc})
	}
	for i := range list {
		if list[i].head == nil {
			list[i].head = http.Header{}
		}
	}
	return list
}

// open returns the paths that need no token; pages of other origins must not reach them either.
func (a *attacked) open() []one {
	list := []one{}
	for _, addr := range append([]string{a.main}, a.ports["/execute"], a.ports["/transcribe"], a.ports["/ws"]) {
		list = append(list, one{method: "GET", addr: addr, path: "/healthz", head: http.Header{}}, one{method: "HEAD", addr: addr, path: "/health", head: http.Header{}})
	}
	return append(list, one{method: "GET", addr: a.main, path: "/", head: http.Header{}}, one{method: "GET", addr: a.main, path: "/index.html", head: http.Header{}},
		one{method: "OPTIONS", addr: a.main, path: "/rpc", head: header("Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization")})
}

// reveals returns what a response must not contain.
func (a *attacked) reveals(answer string) string {
	for _, s := range []string{secretWord, a.root, a.dir, a.LocalUser().String(), a.DB.Device().ID.String(), a.DB.LocalUser().DisplayName + `"`, "goroutine", ".go:", "SELECT "} {
		if s != "" && s != `"` && strings.Contains(answer, s) {
			return s
		}
	}
	return ""
}

// TestCrossOriginRequestsAreRefused sends to every path of every port what a page of another
// origin, a rebound name and a program without a valid token can send. Everything is refused,
// nothing changes and no response reveals anything.
func TestCrossOriginRequestsAreRefused(t *testing.T) {
	t.Parallel()
	a := attack(t)
	ctx := a.as(a.LocalUser())
	if _, err := a.Tools.Create(ctx, tools.CreateParams{Name: "Mine", Code: "return '" + secretWord + "'"}); err != nil {
		t.Fatal(err)
	}
	revoked, err := a.Gateway.TokensCreate(ctx, gateway.TokenParams{Name: "revoked", Scopes: []string{"admin"}})
	if err != nil {
		t.Fatal(err)
	}
	var soon time.Time
	var expired gateway.NewToken
	for life := 50 * time.Millisecond; ; life *= 2 { // a token that has already expired cannot be created
		soon = time.Now().Add(life)
		if expired, err = a.Gateway.TokensCreate(ctx, gateway.TokenParams{Name: "expired", Scopes: []string{"admin"}, ExpiresAt: &soon}); err == nil {
			break
		} else if !fault.Is(err, fault.Invalid) || life > time.Minute {
			t.Fatal(err)
		}
	}
	<-time.After(time.Until(soon))
	if _, err := a.Gateway.TokensRevoke(ctx, gateway.TokenIDParams{ID: revoked.ID}); err != nil {
		t.Fatal(err)
	}
	ticket := func() string {
		made, err := a.Gateway.SessionsTicket(ctx, gateway.TicketParams{})
		if err != nil {
			t.Fatal(err)
		}
		_, text, _ := strings.Cut(made.URL, "#ticket=")
		return text
	}
	used, unused := ticket(), ticket()
	redeem := one{method: "POST", addr: a.main, path: "/session", body: `{"ticket":"` + used + `"}`, head: http.Header{}}
	if status, answer := redeem.raw(t); status != http.StatusOK {
		t.Fatalf("a good ticket: %d %s", status, answer)
	}
	good := "Bearer " + a.root
	if status, answer := (one{method: "GET", addr: a.main, path: "/openrpc.json", head: header("Authorization", good)}).raw(t); status != http.StatusOK {
		t.Fatalf("a good token: %d %.300s", status, answer)
	}

	_, port, _ := net.SplitHostPort(a.main) //nolint:errcheck // an address of a listener
	pages := map[string]func(r *one){}
	for _, origin := range []string{"http://evil.example", "https://evil.example:" + port, "null", "file://", "http://127.0.0.1:1", "http://localhost.evil.example:" + port, "http://127.0.0.1", "chrome-extension://aaaabbbbccccdddd", "wails://evil", ""} {
		pages["origin "+origin] = func(r *one) { r.head = with(r.head, "Origin", origin) }
	}
	pages["two origins"] = func(r *one) { r.head["Origin"] = []string{"http://" + r.addr, "http://evil.example"} }
	for _, host := range []string{"evil.example", "evil.example:PORT", "127.0.0.1", "127.0.0.1:1", "localhost", "127.0.0.1.evil.example:PORT", "localhost.:PORT", "[::ffff:127.0.0.1]:PORT", "0.0.0.0:PORT", "127.0.0.2:PORT", "2130706433:PORT", "localhost:PORT@evil.example"} {
		pages["host "+host] = func(r *one) {
			_, p, _ := net.SplitHostPort(r.addr) //nolint:errcheck // an address of a listener
			r.host = strings.ReplaceAll(host, "PORT", p)
		}
	}
	pages["cross-site"] = func(r *one) { r.head = with(r.head, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors") }
	before := a.state(t)
	for name, change := range pages {
		for _, r := range append(a.routes(), a.open()...) {
			r.head = with(r.head, "Authorization", good) // even then
			change(&r)
			status, answer := r.raw(t)
			if status != http.StatusForbidden && status != http.StatusBadRequest || a.reveals(answer) != "" || strings.Contains(answer, "Access-Control-Allow") || strings.Contains(answer, a.InstanceID()) {
				t.Errorf("%s: %s %s%s: %d %q %.300s", name, r.method, r.addr, r.path, status, a.reveals(answer), answer)
			}
		}
	}
	tokens := map[string]func(r *one){
		"no token":        func(*one) {},
		"wrong token":     func(r *one) { r.head = with(r.head, "Authorization", "Bearer "+strings.Repeat("0", 64)) },
		"half a token":    func(r *one) { r.head = with(r.head, "Authorization", "Bearer "+a.root[:32]) },
		"revoked token":   func(r *one) { r.head = with(r.head, "Authorization", "Bearer "+revoked.Token) },
		"expired token":   func(r *one) { r.head = with(r.head, "Authorization", "Bearer "+expired.Token) },
		"used ticket":     func(r *one) { r.head = with(r.head, "Authorization", "Bearer "+used) },
		"unused ticket":   func(r *one) { r.head = with(r.head, "Authorization", "Bearer "+unused) },
		"empty token":     func(r *one) { r.head = with(r.head, "Authorization", "Bearer ") },
		"basic":           func(r *one) { r.head = with(r.head, "Authorization", "Basic "+a.root) },
		"token in cookie": func(r *one) { r.head = with(r.head, "Cookie", "token="+a.root+"; helix="+a.root) },
		"token in query":  func(r *one) { r.path += "?token=" + a.root + "&access_token=" + a.root },
		"token in headers": func(r *one) {
			r.head = with(r.head, "X-Token", a.root, "Proxy-Authorization", good, "X-Forwarded-For", "1.2.3.4")
		},
	}
	for name, change := range tokens {
		for _, r := range a.routes() {
			change(&r)
			status, answer := r.raw(t)
			if strings.HasPrefix(r.path, "/sync") && strings.Contains(answer, "<title>Helix</title>") {
				continue // the relay is absent; the page that is shown instead contains nothing
			}
			if status == http.StatusSwitchingProtocols && r.head.Get("Authorization") == "" {
				continue // a socket may open and must then connect; see below
			}
			if status != http.StatusUnauthorized && status != http.StatusNotFound && status != http.StatusTooManyRequests || a.reveals(answer) != "" {
				t.Errorf("%s: %s %s%s: %d %q %.300s", name, r.method, r.addr, r.path, status, a.reveals(answer), answer)
			}
		}
	}
	if status, answer := redeem.raw(t); status != http.StatusUnauthorized && status != http.StatusTooManyRequests {
		t.Errorf("a used ticket: %d %s", status, answer)
	}
	a.everyMethodBeforeConnect(t)
	if after := a.state(t); after != before {
		t.Errorf("something changed:\n%s\n%s", before, after)
	}
	if status, _ := (one{method: "GET", addr: a.main, path: "/openrpc.json", head: header("Authorization", good)}).raw(t); status != http.StatusOK {
		t.Errorf("the owner was locked out: %d", status)
	}
}

// InstanceID returns the id of this start, which /healthz reports to programs on this computer.
func (a *attacked) InstanceID() string { return a.Gateway.InstanceID().String() }

// everyMethodBeforeConnect opens a socket without a token and calls every method.
func (a *attacked) everyMethodBeforeConnect(t *testing.T) {
	t.Helper()
	c, _, err := websocket.Dial(t.Context(), "ws://"+a.main+"/ws", &websocket.DialOptions{Subprotocols: []string{gateway.Subprotocol}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	c.SetReadLimit(1 << 20)
	ask := func(method, params string) string {
		if err := c.Write(t.Context(), websocket.MessageText, []byte(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`)); err != nil {
			t.Fatalf("%s: %v", method, err)
		}
		_, b, err := c.Read(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", method, err)
		}
		return string(b)
	}
	wrong := func(answer string) bool {
		var r struct {
			Error *struct {
				Code int `json:"code"`
			} `json:"error"`
		}
		return json.Unmarshal([]byte(answer), &r) != nil || r.Error == nil || r.Error.Code != -32001 && r.Error.Code != -32007
	}
	for _, m := range a.API.Methods() {
		params := "{}"
		if m.Name == "connect" {
			params = `{"minProtocol":1,"maxProtocol":1,"client":{"id":"x"},"auth":{"token":"` + strings.Repeat("f", 64) + `"}}`
		}
		if answer := ask(m.Name, params); wrong(answer) || a.reveals(answer) != "" {
			t.Errorf("%s before connect: %.300s", m.Name, answer)
		}
	}
}

// TestWrongTokensCountAcrossConnections tries tokens on new connections and over every transport:
// after five the peer is locked out for increasing times, while the owner can still connect.
func TestWrongTokensCountAcrossConnections(t *testing.T) {
	t.Parallel()
	a := attack(t)
	try := func(i int) (int, string) {
		token := fmt.Sprintf("%064x", i)
		if i%2 == 0 {
			return one{method: "POST", addr: a.main, path: "/session", body: `{"ticket":"` + token + `"}`, head: http.Header{}}.raw(t)
		}
		return one{method: "POST", addr: a.main, path: "/rpc", body: "{}", head: header("Authorization", "Bearer "+token)}.raw(t)
	}
	for i := range 5 {
		if status, answer := try(i); status != http.StatusUnauthorized {
			t.Fatalf("try %d: %d %s", i, status, answer)
		}
	}
	for i := range 6 {
		if status, answer := try(100 + i); status != http.StatusTooManyRequests || !strings.Contains(answer, "retryAfterMs") {
			t.Fatalf("try %d: %d %s", 100+i, status, answer)
		}
	}
	if status, answer := (one{method: "GET", addr: a.main, path: "/openrpc.json", head: header("Authorization", "Bearer "+a.root)}).raw(t); status != http.StatusOK {
		t.Errorf("the owner: %d %s", status, answer)
	}
	if status, _ := try(200); status != http.StatusTooManyRequests {
		t.Errorf("a good token cleared the count: %d", status)
	}
}

// TestNothingListensOnTheNetwork dials every port on every other address of this computer, and
// tries to configure such an address.
func TestNothingListensOnTheNetwork(t *testing.T) {
	t.Parallel()
	a := attack(t)
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, x := range addrs {
		ip, _, err := net.ParseCIDR(x.String())
		if err != nil || ip.IsLoopback() {
			continue
		}
		for _, l := range append([]string{a.main}, a.ports["/execute"], a.ports["/transcribe"], a.ports["/ws"]) {
			_, port, _ := net.SplitHostPort(l) //nolint:errcheck // an address of a listener
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(ip.String(), port))
			cancel()
			tried++
			if err == nil {
				c.Close()
				t.Errorf("%s answers on port %s", ip, port)
			}
		}
	}
	t.Logf("%d addresses tried", tried)
	for _, addr := range []string{"0.0.0.0:0", "[::]:0", ":0", "192.0.2.1:0", "example.com:0"} {
		o := testOptions(t.TempDir())
		o.Flags["gateway.addr"] = addr
		b, err := Open(t.Context(), o)
		if err == nil {
			err = b.Gateway.Listen(t.Context())
			if cerr := b.Close(); cerr != nil {
				t.Error(cerr)
			}
		}
		if err == nil {
			t.Errorf("it listens on %s", addr)
		}
	}
}
