package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"helix/backend/storage"
	"helix/backend/storage/storagetest"
)

// withDB makes the server use a real database and its user.
func withDB(t *testing.T) func(*Options) {
	t.Helper()
	db := storagetest.Open(t)
	return func(o *Options) {
		o.DB = db
		o.User = func() User { return User{ID: db.LocalUser().ID, DisplayName: db.LocalUser().DisplayName} }
	}
}

func hello(token, scopes string) string {
	return `{"jsonrpc":"2.0","id":"c","method":"connect","params":{"minProtocol":1,"maxProtocol":3,"scopes":` + scopes + `,"auth":{"token":"` + token + `"},"future":{"x":1},"userId":"` + storage.NewID().String() + `"}}`
}

func TestConnectScopes(t *testing.T) {
	t.Parallel()
	f := setup(t, withDB(t))
	admin := f.memory(t, f.owner())
	token := func(scopes string) string {
		var m struct{ Result NewToken }
		got := admin.ask(`{"jsonrpc":"2.0","id":1,"method":"tokens.create","params":{"name":"t","scopes":` + scopes + `}}`)
		if err := json.Unmarshal([]byte(got), &m); err != nil || len(m.Result.Token) != 64 {
			t.Fatalf("create: %s", got)
		}
		return m.Result.Token
	}
	for _, c := range []struct{ token, ask, want string }{
		{rootToken, `[]`, `["read"]`},
		{rootToken, `["admin"]`, `["read","write","approve","admin"]`},
		{rootToken, `["operator.approvals","operator.write"]`, `["read","write","approve"]`},
		{token(`["read"]`), `["admin"]`, `["read"]`},
		{token(`["approve"]`), `["write","approve"]`, `["read","approve"]`},
		{token(`["write"]`), `["approve"]`, `["read"]`},
	} {
		w := f.dial(t, nil)
		got := w.ask(hello(c.token, c.ask))
		if !strings.Contains(got, `"scopes":`+c.want) || !strings.Contains(got, `"user":{"id":"`+f.o.User().ID.String()) {
			t.Errorf("asked %s: %s", c.ask, got)
		}
	}
	w := f.dial(t, nil)
	if got := shapeOf(t, w.ask(hello(rootToken, `["root"]`))); got != `"c":-32602` {
		t.Errorf("unknown scope: %s", got)
	}
	got := w.ask(`{"jsonrpc":"2.0","id":1,"method":"connect","params":{"minProtocol":2,"maxProtocol":9}}`)
	if shapeOf(t, got) != "1:-32602" || !strings.Contains(got, `"details":{"supported":[1]}`) {
		t.Errorf("protocol: %s", got)
	}
	if got := w.ask(hello(rootToken, `["read"]`)); shapeOf(t, got) != `"c":ok` {
		t.Errorf("after refusals: %s", got)
	}
	if got := shapeOf(t, w.ask(hello(rootToken, `["admin"]`))); got != `"c":-32004` {
		t.Errorf("second connect: %s", got)
	}
	if got := shapeOf(t, w.ask(`{"jsonrpc":"2.0","id":2,"method":"sessions.list","params":{}}`)); got != "2:-32002" {
		t.Errorf("read session as admin: %s", got)
	}
}

func TestBearerUpgradeNeedsNoConnect(t *testing.T) {
	t.Parallel()
	f := setup(t)
	w := f.dial(t, bearer(rootToken))
	if got := shapeOf(t, w.ask(`{"jsonrpc":"2.0","id":1,"method":"sessions.list"}`)); got != "1:ok" {
		t.Fatalf("got %s", got)
	}
	if got := w.ask(`{"jsonrpc":"2.0","id":2,"method":"connect","params":{"minProtocol":1,"maxProtocol":1}}`); !strings.Contains(got, `"scopes":["read"]`) {
		t.Fatalf("got %s", got)
	}
}

func TestRevokedTokenClosesItsSessions(t *testing.T) {
	t.Parallel()
	f := setup(t, withDB(t))
	admin := f.memory(t, f.owner())
	var m struct{ Result NewToken }
	if err := json.Unmarshal([]byte(admin.ask(`{"jsonrpc":"2.0","id":1,"method":"tokens.create","params":{"name":"ci","scopes":["admin"]}}`)), &m); err != nil {
		t.Fatal(err)
	}
	w := f.dial(t, nil)
	w.ask(hello(m.Result.Token, `["admin"]`))
	// A browser session that a ticket of this token opened ends with it.
	var tk struct{ Result Ticket }
	if err := json.Unmarshal([]byte(w.ask(`{"jsonrpc":"2.0","id":2,"method":"sessions.ticket","params":{}}`)), &tk); err != nil {
		t.Fatal(err)
	}
	status, browser := f.redeem(t, tk.Result.URL)
	if status != 200 {
		t.Fatalf("redeem %q: %d", tk.Result.URL, status)
	}
	if status, _ := f.post(t, browser, `{"jsonrpc":"2.0","id":1,"method":"session.get"}`); status != 200 {
		t.Fatalf("browser session: %d", status)
	}
	admin.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":3,"method":"tokens.revoke","params":{"id":%q}}`, m.Result.ID))
	if _, err := w.p.Read(t.Context()); !errors.Is(err, io.EOF) {
		t.Fatalf("still open: %v", err)
	}
	for _, tok := range []string{m.Result.Token, browser} {
		if status, got := f.post(t, tok, `{"jsonrpc":"2.0","id":1,"method":"session.get"}`); status != 401 {
			t.Errorf("revoked token: %d %s", status, got)
		}
	}
	got := admin.ask(`{"jsonrpc":"2.0","id":4,"method":"tokens.list","params":{"revoked":true}}`)
	if !strings.Contains(got, `"revokedAt"`) || !strings.Contains(got, `"lastUsedAt"`) || strings.Contains(got, m.Result.Token) {
		t.Errorf("list: %s", got)
	}
	if got := shapeOf(t, admin.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":5,"method":"tokens.revoke","params":{"id":%q}}`, m.Result.ID))); got != "5:-32003" {
		t.Errorf("second revoke: %s", got)
	}
}

// redeem takes the ticket out of its URL and exchanges it.
func (f *fixture) redeem(t *testing.T, url string) (status int, token string) {
	t.Helper()
	_, ticket, _ := strings.Cut(url, "#ticket=")
	ticket, _, _ = strings.Cut(ticket, "&")
	resp, err := http.Post(f.URL()+"/session", "application/json", strings.NewReader(`{"ticket":"`+ticket+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var m struct{ Token string }
	if err := json.NewDecoder(resp.Body).Decode(&m); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, m.Token
}

func TestTokensSurviveARestartAndExpire(t *testing.T) {
	t.Parallel()
	opt := withDB(t)
	f := setup(t, opt)
	admin := f.memory(t, f.owner())
	make := func(params string) string {
		var m struct{ Result NewToken }
		if err := json.Unmarshal([]byte(admin.ask(`{"jsonrpc":"2.0","id":1,"method":"tokens.create","params":`+params+`}`)), &m); err != nil {
			t.Fatal(err)
		}
		return m.Result.Token
	}
	lasting := make(`{"name":"a","scopes":["read"]}`)
	var soon string
	var open *wire
	for life := 500 * time.Millisecond; ; life *= 2 { // until a session opens before its token expires
		soon = make(fmt.Sprintf(`{"name":"b","scopes":["read"],"expiresAt":%q}`, time.Now().Add(life).Format(time.RFC3339Nano)))
		open = f.dial(t, nil)
		if open.p.Write(t.Context(), []byte(hello(soon, `["read"]`))) != nil {
			continue
		}
		if b, err := open.p.Read(t.Context()); err == nil && strings.Contains(string(b), `"result"`) {
			break
		}
	}
	g := setup(t, opt)
	if status, _ := g.post(t, lasting, `{"jsonrpc":"2.0","id":1,"method":"session.get"}`); status != 200 {
		t.Errorf("token after a restart: %d", status)
	}
	if _, err := open.p.Read(t.Context()); !errors.Is(err, io.EOF) { // the server closes it when it expires
		t.Fatalf("expired session: %v", err)
	}
	if status, got := g.post(t, soon, `{"jsonrpc":"2.0","id":1,"method":"session.get"}`); status != 401 {
		t.Errorf("expired token: %d %s", status, got)
	}
	for _, bad := range []string{`{"name":"","scopes":["read"]}`, `{"name":"x","scopes":[]}`, `{"name":"x","scopes":["god"]}`, `{"name":"x","scopes":["read"],"expiresAt":"2001-01-01T00:00:00Z"}`} {
		if got := shapeOf(t, admin.ask(`{"jsonrpc":"2.0","id":1,"method":"tokens.create","params":`+bad+`}`)); got != "1:-32008" {
			t.Errorf("%s: %s", bad, got)
		}
	}
}

func TestRotateRoot(t *testing.T) {
	t.Parallel()
	var kept string
	f := setup(t, func(o *Options) {
		o.RotateRoot = func(_ context.Context, token string) error { kept = token; return nil }
	})
	w := f.connected(t)
	if got := shapeOf(t, w.ask(`{"jsonrpc":"2.0","id":1,"method":"tokens.rotate_root"}`)); got != "1:ok" {
		t.Fatal(got)
	}
	if _, err := w.p.Read(t.Context()); !errors.Is(err, io.EOF) {
		t.Fatalf("still open: %v", err)
	}
	if status, _ := f.post(t, rootToken, `{"jsonrpc":"2.0","id":1,"method":"session.get"}`); status != 401 {
		t.Errorf("old root token: %d", status)
	}
	if status, _ := f.post(t, kept, `{"jsonrpc":"2.0","id":1,"method":"session.get"}`); status != 200 || len(kept) != 64 {
		t.Errorf("new root token %q: %d", kept, status)
	}
}

func TestTicketWorksOnce(t *testing.T) {
	t.Parallel()
	f := setup(t)
	w := f.connected(t)
	ticket := func(params string) Ticket {
		var m struct{ Result Ticket }
		got := w.ask(`{"jsonrpc":"2.0","id":1,"method":"sessions.ticket","params":` + params + `}`)
		if err := json.Unmarshal([]byte(got), &m); err != nil || m.Result.URL == "" {
			t.Fatal(got)
		}
		return m.Result
	}
	tk := ticket(`{"path":"/tools?x=1"}`)
	if !strings.HasPrefix(tk.URL, f.URL()+"/#ticket=") || !strings.HasSuffix(tk.URL, "&path=%2Ftools%3Fx%3D1") {
		t.Fatalf("url %s", tk.URL)
	}
	status, token := f.redeem(t, tk.URL)
	if status != 200 || len(token) != 64 {
		t.Fatalf("redeem: %d %q", status, token)
	}
	if status, _ := f.redeem(t, tk.URL); status != 401 {
		t.Fatalf("second redeem: %d", status)
	}
	if status, _ := f.redeem(t, "#ticket="+strings.Repeat("0", 64)); status != 401 {
		t.Fatalf("unknown ticket: %d", status)
	}
	_, got := f.post(t, token, `{"jsonrpc":"2.0","id":1,"method":"session.get"}`)
	if !strings.Contains(got, `"scopes":["read","write","approve"]`) {
		t.Fatalf("scopes: %s", got)
	}
	for _, bad := range []string{`{"path":"//evil"}`, `{"path":"x"}`, `{"path":"/#x"}`, `{"scopes":["x"]}`} {
		if got := shapeOf(t, w.ask(`{"jsonrpc":"2.0","id":2,"method":"sessions.ticket","params":`+bad+`}`)); got != "2:-32008" {
			t.Errorf("%s: %s", bad, got)
		}
	}
	for range 9 {
		ticket(`{}`)
	}
	var more string
	for range 30 { // on a slow machine another one is due in between
		if more = shapeOf(t, w.ask(`{"jsonrpc":"2.0","id":3,"method":"sessions.ticket","params":{}}`)); more == "3:-32007" {
			break
		}
	}
	if more != "3:-32007" {
		t.Errorf("40 tickets at once: %s", more)
	}
}

// TestTicketIsRefusedElsewhere sends a valid ticket from another page and under a rebound host
// name. The refusal does not use up the ticket. A program's token without the admin scope cannot
// create one.
func TestTicketIsRefusedElsewhere(t *testing.T) {
	t.Parallel()
	f := setup(t, withDB(t))
	admin := f.memory(t, f.owner())
	var tk struct{ Result Ticket }
	if err := json.Unmarshal([]byte(admin.ask(`{"jsonrpc":"2.0","id":1,"method":"sessions.ticket","params":{"scopes":["admin"]}}`)), &tk); err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(tk.Result.URL, "#ticket=")
	for why, head := range map[string]http.Header{
		"foreign origin": {"Origin": {"https://evil.example"}},
		"null origin":    {"Origin": {"null"}},
		"rebound host":   {"Host": {"evil.example"}},
		"cross-site":     {"Sec-Fetch-Site": {"cross-site"}},
	} {
		if status, _, body := f.get(t, "POST", f.URL()+"/session", head, strings.NewReader(`{"ticket":"`+text+`"}`)); status != 403 || strings.Contains(body, `"token":`) {
			t.Errorf("%s: %d %s", why, status, body)
		}
	}
	if status, token := f.redeem(t, tk.Result.URL); status != 200 || len(token) != 64 {
		t.Errorf("the ticket was used up by a refusal: %d", status)
	}
	var program struct{ Result struct{ Token string } }
	if err := json.Unmarshal([]byte(admin.ask(`{"jsonrpc":"2.0","id":2,"method":"tokens.create","params":{"name":"program","scopes":["read","write","approve"]}}`)), &program); err != nil {
		t.Fatal(err)
	}
	for _, scopes := range []string{`[]`, `["read"]`, `["admin"]`} {
		if status, got := f.post(t, program.Result.Token, `{"jsonrpc":"2.0","id":3,"method":"sessions.ticket","params":{"scopes":`+scopes+`}}`); strings.Contains(got, "ticket=") || !strings.Contains(got, `"error"`) {
			t.Errorf("a program made a ticket with %s: %d %s", scopes, status, got)
		}
	}
}

func TestTicketsAndBrowserSessionsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(NewAPI(), Options{RootToken: rootToken, NoHTTP: true})
		text, _ := s.auth.makeTicket(s.auth.root, Read, time.Now())
		time.Sleep(ticketLife)
		if _, _, err := s.auth.redeem(text, "p"); err == nil {
			t.Fatal("a late ticket was taken")
		}
		text, _ = s.auth.makeTicket(s.auth.root, Read, time.Now())
		token, _, err := s.auth.redeem(text, "p")
		if err != nil {
			t.Fatal(err)
		}
		for range 5 { // sliding: each use extends it by 12 h
			time.Sleep(browserLife - time.Minute)
			if _, err := s.auth.check(t.Context(), token, "p"); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(browserLife)
		if _, err := s.auth.check(t.Context(), token, "p"); err == nil {
			t.Fatal("an unused browser session lived on")
		}
	})
}

func TestLockout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var audited []AuditEvent
		s := New(NewAPI(), Options{RootToken: rootToken, NoHTTP: true, Audit: func(_ context.Context, e AuditEvent) { audited = append(audited, e) }})
		wrong := strings.Repeat("f", 64)
		try := func(peer string) int {
			_, err := s.auth.check(t.Context(), wrong, peer)
			w, _ := toWire(err)
			return w.Code
		}
		for i := range 5 {
			if try("a") != -32001 {
				t.Fatalf("try %d", i)
			}
			if _, err := s.auth.check(t.Context(), rootToken, "a"); err != nil { // does not clear the count
				t.Fatal(err)
			}
		}
		if try("a") != -32007 || try("b") != -32001 {
			t.Fatal("the sixth is refused unseen, another peer is not touched")
		}
		if _, err := s.auth.check(t.Context(), rootToken, "a"); err != nil {
			t.Fatalf("another program's wrong tokens keep the owner out: %v", err)
		}
		if len(audited) != 1 || audited[0].Action != "gateway.lockout" || audited[0].Outcome != "denied" {
			t.Fatalf("audit: %+v", audited)
		}
		want := firstLockout
		for range 8 { // 30 s, 60 s, … 15 min
			left, ok := s.lockouts.locked("a", time.Now())
			if !ok || left != want {
				t.Fatalf("locked for %s, want %s", left, want)
			}
			time.Sleep(left)
			for range 5 {
				if try("a") != -32001 {
					t.Fatal("refused after the lockout")
				}
			}
			want = min(2*want, longestLockout)
		}
	})
}

func TestLockoutCountsAcrossConnections(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var last string
	for range 7 {
		w := f.dial(t, nil)
		last = w.ask(hello(strings.Repeat("e", 64), `["read"]`))
	}
	if shapeOf(t, last) != `"c":-32007` || !strings.Contains(last, "retryAfterMs") {
		t.Fatalf("7th connection: %s", last)
	}
	if status, _ := f.post(t, strings.Repeat("e", 64), `{"jsonrpc":"2.0","id":1,"method":"session.get"}`); status != http.StatusTooManyRequests {
		t.Fatalf("over HTTP: %d", status)
	}
}

func TestWrongTokensAreIndistinguishable(t *testing.T) {
	t.Parallel()
	f := setup(t)
	seen := map[string]bool{}
	for _, tok := range []string{strings.Repeat("a", 64), "short", rootToken[:63] + "0", ""} {
		w := f.dial(t, nil)
		var m struct {
			Error struct {
				Code    int
				Message string
			}
		}
		if err := json.Unmarshal([]byte(w.ask(hello(tok, `["read"]`))), &m); err != nil {
			t.Fatal(err)
		}
		seen[fmt.Sprint(m.Error.Code, m.Error.Message)] = true
	}
	if len(seen) != 1 {
		t.Fatalf("answers differ: %v", seen)
	}
}

// TestNoSecretLeaves searches logs, the endpoint file, answers and errors for tokens.
func TestNoSecretLeaves(t *testing.T) {
	t.Parallel()
	endpoint := filepath.Join(t.TempDir(), "run", "endpoint.json")
	f := setup(t, withDB(t), func(o *Options) { o.EndpointFile, o.TokenSource = endpoint, "file" })
	w := f.connected(t)
	var m struct{ Result NewToken }
	if err := json.Unmarshal([]byte(w.ask(`{"jsonrpc":"2.0","id":1,"method":"tokens.create","params":{"name":"n","scopes":["read"],"_meta":{"idempotencyKey":"0190a000-0000-7000-8000-00000000aaaa"}}}`)), &m); err != nil {
		t.Fatal(err)
	}
	secrets := []string{rootToken, m.Result.Token}
	var out bytes.Buffer
	for _, method := range []string{"tokens.list", "session.get", "sessions.list", "system.status", "fail.panic", "services.list"} {
		out.WriteString(w.ask(`{"jsonrpc":"2.0","id":2,"method":"` + method + `"}`))
	}
	_, answer := f.post(t, m.Result.Token+"x", `{"jsonrpc":"2.0","id":1,"method":"session.get"}`)
	out.WriteString(answer)
	file, err := os.ReadFile(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(file)
	out.WriteString(f.logText())
	err = f.o.DB.Read(t.Context(), func(tx *storage.Tx) error {
		rows, err := tx.Query(`SELECT coalesce(hex(response), ''), hex(token_hash) FROM rpc_idempotency, gateway_tokens`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var a, b string
			if err := rows.Scan(&a, &b); err != nil {
				return err
			}
			out.WriteString(a + b)
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range secrets {
		if strings.Contains(out.String(), s) || strings.Contains(out.String(), fmt.Sprintf("%X", s)) {
			t.Errorf("secret %s… is in what left the process", s[:6])
		}
	}
	if info, err := os.Stat(endpoint); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("endpoint file: %v %v", info, err)
	}
}

func TestForeignUserIDIsDenied(t *testing.T) {
	t.Parallel()
	f := setup(t)
	w := f.memory(t, f.owner())
	for user, want := range map[string]string{f.o.User().ID.String(): "1:ok", strings.ToUpper(f.o.User().ID.String()): "1:ok", storage.NewID().String(): "1:-32002"} {
		for _, field := range []string{"userId", `user\u0049d`} {
			if got := shapeOf(t, w.ask(`{"jsonrpc":"2.0","id":1,"method":"echo","params":{"text":"x","`+field+`":"`+user+`"}}`)); got != want {
				t.Errorf("%s %s: %s, want %s", field, user, got, want)
			}
		}
	}
	status, got := f.post(t, rootToken, `{"jsonrpc":"2.0","id":1,"method":"echo","params":{"text":"x","userId":"`+storage.NewID().String()+`"}}`)
	if status != 403 || !strings.Contains(got, "DENIED") {
		t.Errorf("over HTTP: %d %s", status, got)
	}
}
