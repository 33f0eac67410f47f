package backend

import (
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"helix/backend/gateway"
	"helix/backend/testkit"
)

func relayTicket(t *testing.T, b *Backend, scopes ...string) string {
	t.Helper()
	ticket, err := b.Gateway.SessionsTicket(b.Local(t.Context()), gateway.TicketParams{Scopes: scopes})
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(ticket.URL)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(u.Fragment, "ticket=")
}

func TestRelayServesAJavaScriptClientOnItsOwnPort(t *testing.T) {
	t.Parallel()
	o := testOptions(t.TempDir())
	port := testkit.FreePort(t)
	o.Extra = []gateway.Extra{{Port: port, Routes: map[string]string{"/sync": "/sync", "/ws": "/sync"}}}
	b := startWith(t, o)
	script := filepath.Join("testdata", "relay.mjs")
	out, err := exec.CommandContext(t.Context(), "node", "--experimental-websocket", script, fmt.Sprintf("ws://127.0.0.1:%d/ws", port), relayTicket(t, b), relayTicket(t, b)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func TestRelayChecksItsCallersBeforeTheUpgrade(t *testing.T) {
	t.Parallel()
	b := startWith(t, testOptions(t.TempDir()))
	token, _, err := b.Root.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bearer := "Bearer " + token
	address := "ws" + strings.TrimPrefix(b.Gateway.URL(), "http") + "/sync"
	used := relayTicket(t, b)
	for _, x := range []struct {
		name, query string
		head        http.Header
		status      int
	}{
		{"no token", "", nil, 401},
		{"a wrong token", "", http.Header{"Authorization": {"Bearer " + strings.Repeat("0", 64)}}, 401},
		{"a wrong ticket", "?ticket=x", nil, 401},
		{"a ticket that may only read", "?ticket=" + relayTicket(t, b, "read"), nil, 403},
		{"a foreign origin", "", http.Header{"Authorization": {bearer}, "Origin": {"https://evil.example"}}, 403},
		{"the token", "", http.Header{"Authorization": {bearer}}, 101},
		{"a ticket", "?ticket=" + used, nil, 101},
		{"the same ticket again", "?ticket=" + used, nil, 401},
	} {
		c, r, err := websocket.Dial(t.Context(), address+x.query, &websocket.DialOptions{HTTPHeader: x.head})
		if r == nil || r.StatusCode != x.status {
			t.Errorf("%s: %v %v", x.name, r, err)
		}
		if c != nil {
			_ = c.CloseNow()
		}
	}
}

func TestRevokedTokenEndsItsRelaySocket(t *testing.T) {
	t.Parallel()
	b := startWith(t, testOptions(t.TempDir()))
	ctx := b.Local(t.Context())
	made, err := b.Gateway.TokensCreate(ctx, gateway.TokenParams{Name: "relay", Scopes: []string{"write"}})
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(b.Gateway.URL(), "http")+"/sync", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + made.Token}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow() //nolint:errcheck // ended by the server
	if _, err := b.Gateway.TokensRevoke(ctx, gateway.TokenIDParams{ID: made.ID}); err != nil {
		t.Fatal(err)
	}
	for err == nil { // what was on its way
		_, _, err = c.Read(t.Context())
	}
	if websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the socket of a revoked token ended with %v", err)
	}
}
