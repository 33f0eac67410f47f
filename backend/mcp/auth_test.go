//go:build linux

package mcp

import (
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/oauth"
	"helix/backend/oauth/oauthtest"
	"helix/backend/storage"

	"github.com/google/uuid"
)

// signing is a server that only answers with a token.
type signing struct {
	*env
	as    *oauthtest.Server
	ended chan AuthChanged
}

func setupSigning(t *testing.T) *signing {
	t.Parallel()
	x := &signing{as: oauthtest.New(t), ended: make(chan AuthChanged, 1)}
	server := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	addTools(server, "", "")
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: true})
	x.as.Resource = handler
	x.env = setup(t)
	x.s.o.OAuth = oauth.New(oauth.Options{DB: x.db, Secrets: storage.NewSecrets(x.db), Logger: discard})
	t.Cleanup(func() { x.s.Close(); x.s.o.OAuth.Close() })
	t.Cleanup(bus.Subscribe(x.db.Bus(), func(_ uuid.UUID, e AuthChanged) { x.ended <- e }))
	if _, err := x.s.Add(x.ctx, AddParams{Server{Name: "remote", URL: x.as.URL + "/mcp"}}); err != nil {
		t.Fatal(err)
	}
	return x
}

func (x *signing) state() ServerResult {
	x.Helper()
	r, err := x.s.GetServer(x.ctx, NameParams{"remote"})
	if err != nil {
		x.Fatal(err)
	}
	return r
}

func (x *signing) signIn() AuthChanged {
	x.Helper()
	f, err := x.s.AuthStart(x.ctx, AuthStartParams{Name: "remote"})
	if err != nil {
		x.Fatal(err)
	}
	x.as.Visit(x, f.AuthURL)
	return <-x.ended
}

func TestServerNeedsSignInAndWorksAfterIt(t *testing.T) {
	x := setupSigning(t)
	_, err := x.s.Start(x.ctx, NameParams{"remote"})
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "helix mcp auth remote") || x.state().State != StateNeedsAuth {
		t.Fatalf("%v, state %s", err, x.state().State)
	}
	if e := x.signIn(); e.State != AuthReady || e.Name != "remote" {
		t.Fatalf("%+v", e)
	}
	x.approve("remote", "echo")
	if out, err := x.call("remote.echo", `{"text":"hi"}`); err != nil || string(out.Output) != `{"text":"hi"}` {
		t.Fatalf("%s, %v", out.Output, err)
	}
	if r := x.state(); r.Auth != AuthReady || r.State != StateReady {
		t.Errorf("auth %s, state %s", r.Auth, r.State)
	}
	x.as.Expire(false) // the server forgets the token in the middle of the session
	if out, err := x.call("remote.echo", `{"text":"again"}`); err != nil || string(out.Output) != `{"text":"again"}` || x.as.Count("refresh") != 1 {
		t.Fatalf("%s, %v, %d renewals", out.Output, err, x.as.Count("refresh"))
	}
	x.as.Expire(true)
	_, err = x.call("remote.echo", `{"text":"never"}`)
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "Sign in again") || x.state().State != StateNeedsAuth {
		t.Errorf("%v, state %s", err, x.state().State)
	}
	if e := x.signIn(); e.State != AuthReady {
		t.Fatalf("%+v", e)
	}
	if _, err := x.call("remote.echo", `{"text":"back"}`); err != nil {
		t.Error(err)
	}
}

func TestDeclinedSignInIsAnnouncedAndChangesNothing(t *testing.T) {
	x := setupSigning(t)
	x.as.Set(oauthtest.Faults{Decline: true})
	if e := x.signIn(); e.State != AuthFailed || !strings.Contains(e.Error, "declined") || x.state().Auth != AuthNone {
		t.Errorf("%+v, auth %s", e, x.state().Auth)
	}
}

func TestTokenOfOneAddressIsNotSentToAnother(t *testing.T) {
	x := setupSigning(t)
	other := oauthtest.New(t)
	x.signIn()
	if _, err := x.s.Update(x.ctx, UpdateParams{"remote", []byte(`{"url":"` + other.URL + `/mcp"}`)}); err != nil {
		t.Fatal(err)
	}
	r := x.state()
	if _, err := x.s.ApproveServer(x.ctx, ApproveParams{Name: "remote", DefinitionHash: r.DefinitionHash}); err != nil {
		t.Fatal(err)
	}
	if _, err := x.s.Start(x.ctx, NameParams{"remote"}); !fault.Is(err, fault.Unavailable) || x.state().Auth != AuthNone {
		t.Errorf("%v, auth %s", err, x.state().Auth)
	}
}

func TestTokensEndWithTheServerEntry(t *testing.T) {
	x := setupSigning(t)
	x.signIn()
	left := func() int {
		list, err := storage.NewSecrets(x.db).List(x.ctx, storage.SecretsListParams{})
		if err != nil {
			t.Fatal(err)
		}
		return len(list.Secrets)
	}
	if left() == 0 {
		t.Fatal("no token was stored")
	}
	if _, err := x.s.Remove(x.ctx, NameParams{"remote"}); err != nil {
		t.Fatal(err)
	}
	if n := left(); n != 0 || x.as.Count("revoke") == 0 {
		t.Errorf("%d secrets are left, %d revocations", n, x.as.Count("revoke"))
	}
}

func TestTokensAreNeitherInTheLogNorInTables(t *testing.T) {
	x := setupSigning(t)
	x.signIn()
	x.approve("remote", "echo")
	if _, err := x.call("remote.echo", `{"text":"hi"}`); err != nil {
		t.Fatal(err)
	}
	lines, err := x.s.Logs(x.ctx, LogsParams{Name: "remote", Limit: 2000})
	if err != nil || len(lines.Lines) == 0 {
		t.Fatal(lines, err)
	}
	for _, l := range lines.Lines {
		if strings.Contains(l.Text, "-token-") {
			t.Errorf("log: %s", l.Text)
		}
	}
	err = x.db.Read(x.ctx, func(tx *storage.Tx) error {
		for _, table := range []string{"mcp_servers", "mcp_tools", "mcp_calls", "audit_log"} {
			var text string
			if err := tx.QueryRow(`SELECT coalesce(group_concat(CAST(r AS TEXT)), '') FROM (SELECT json_array(` + textColumns(tx, table) + `) AS r FROM ` + table + `)`).Scan(&text); err != nil {
				return err
			}
			if strings.Contains(text, "-token-") {
				t.Errorf("%s holds a token", table)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// textColumns lists the columns of a table as texts.
func textColumns(tx *storage.Tx, table string) string {
	names, _ := storage.Collect(tx.Select(`SELECT 'hex(' || name || ') || CAST(' || name || ' AS TEXT)' FROM pragma_table_info(?)`, table), storage.RowTo[string])
	return strings.Join(names, ", ")
}
