package discovery

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/oauth"
	"helix/backend/oauth/oauthtest"
	"helix/backend/storage"
)

const mailbox = `
openapi: 3.1.0
info: {title: Mailbox, version: 1.0.0}
servers: [{url: "SERVER"}]
security: [{account: [read]}]
components:
  securitySchemes:
    account:
      type: oauth2
      flows:
        authorizationCode: {authorizationUrl: "SERVER/authorize", tokenUrl: "SERVER/token", scopes: {read: Reads, write: Writes}}
        clientCredentials: {tokenUrl: "SERVER/token", scopes: {}}
paths:
  /mcp: {get: {operationId: list, responses: {200: {description: ok}}}}
`

// account is a tool whose API asks for a token of OAuth.
type account struct {
	*env
	as    *oauthtest.Server
	id    uuid.UUID
	ended chan AuthChanged
}

func setupAccount(t *testing.T) *account {
	t.Parallel()
	x := &account{as: oauthtest.New(t), ended: make(chan AuthChanged, 4)}
	x.as.Resource = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`["a letter"]`))
	})
	x.env = setup(t)
	x.s.o.OAuth = oauth.New(oauth.Options{DB: x.db, Secrets: storage.NewSecrets(x.db)})
	t.Cleanup(func() { x.s.o.OAuth.Close() })
	t.Cleanup(bus.Subscribe(x.db.Bus(), func(_ uuid.UUID, e AuthChanged) { x.ended <- e }))
	spec, err := x.s.InspectOpenAPI(x.ctx, InspectParams{Content: strings.ReplaceAll(mailbox, "SERVER", x.as.URL)})
	if err != nil {
		t.Fatal(err)
	}
	r, err := x.s.ImportOpenAPI(x.ctx, ImportOpenAPIParams{SpecID: spec.SpecID, Operations: []string{"get /mcp"}})
	if err != nil {
		t.Fatal(err)
	}
	x.id = *r.ManifestID
	if _, err := x.s.Approve(x.ctx, ApproveParams{ManifestID: x.id, DefinitionHash: r.DefinitionHash}); err != nil {
		t.Fatal(err)
	}
	return x
}

func (x *account) signIn(scopes ...string) AuthChanged {
	x.Helper()
	f, err := x.s.OAuthStart(x.ctx, OAuthStartParams{ManifestID: x.id, Scheme: "account", ClientID: "fixed", Scopes: scopes})
	if err != nil {
		x.Fatal(err)
	}
	x.as.Visit(x, f.AuthURL)
	return <-x.ended
}

func TestSignInWithOAuthAuthenticatesRuns(t *testing.T) {
	x := setupAccount(t)
	if _, err := x.run(x.id, "list", `{}`); !fault.Is(err, fault.Unavailable) || x.as.Count("token") != 0 {
		t.Fatalf("without a sign-in: %v", err)
	}
	if e := x.signIn("read"); e.State != "ready" || e.ManifestID != x.id {
		t.Fatalf("%+v", e)
	}
	for range 2 {
		out, err := x.run(x.id, "list", `{}`)
		if err != nil || !out.Success || !strings.Contains(string(out.Output), "a letter") {
			t.Fatalf("%+v, %v", out, err)
		}
		x.as.Expire(false) // the second run renews the token
	}
	if n := x.as.Count("refresh"); n != 1 {
		t.Errorf("%d renewals", n)
	}
	x.as.Expire(true)
	if out, err := x.run(x.id, "list", `{}`); err != nil || out.Success || out.ErrorClass != "http_status" {
		t.Errorf("a revoked sign-in: %+v, %v", out, err)
	}
	got, err := x.s.Get(x.ctx, ToolParams{ManifestID: x.id})
	if err != nil || len(got.Credentials) != 1 || got.Credentials[0].Stored != "oauth2" || got.Credentials[0].Account != "fixed" {
		t.Errorf("%+v, %v", got.Credentials, err)
	}
	if _, err := x.s.ClearAuth(x.ctx, ClearAuthParams{ManifestID: x.id, Scheme: "account"}); err != nil {
		t.Fatal(err)
	}
	if list, err := storage.NewSecrets(x.db).List(x.ctx, storage.SecretsListParams{}); err != nil || len(list.Secrets) != 0 {
		t.Errorf("left: %+v, %v", list, err)
	}
}

func TestDryRunAsksForNoToken(t *testing.T) {
	x := setupAccount(t)
	x.signIn()
	x.as.Expire(true)
	r, err := x.s.Run(x.ctx, RunParams{ManifestID: &x.id, Operation: "list", Params: json.RawMessage(`{}`), DryRun: true})
	if err != nil || strings.Contains(strings.Join(r.Request.Header["Authorization"], ""), "-token-") || x.as.Count("refresh") != 0 {
		t.Errorf("%+v, %v", r.Request, err)
	}
}

func TestFailedSignInKeepsTheFormerCredential(t *testing.T) {
	x := setupAccount(t)
	x.signIn()
	x.as.Set(oauthtest.Faults{State: "another"})
	if e := x.signIn(); e.State != "error" || e.Error == "" {
		t.Fatalf("%+v", e)
	}
	x.as.Set(oauthtest.Faults{})
	if out, err := x.run(x.id, "list", `{}`); err != nil || !out.Success {
		t.Errorf("%+v, %v", out, err)
	}
	if _, err := x.s.OAuthStart(x.ctx, OAuthStartParams{ManifestID: x.id, Scheme: "account", ClientID: "fixed", Scopes: []string{"admin"}}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a scope that the description doesn't have: %v", err)
	}
}

func TestProgramSignsInWithItsSecret(t *testing.T) {
	x := setupAccount(t)
	_, err := x.s.SetAuth(x.ctx, AuthParams{ManifestID: x.id, Scheme: "account", Kind: "clientCredentials", User: "robot", Value: "robot-secret"})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := x.run(x.id, "list", `{}`); err != nil || !out.Success {
		t.Errorf("%+v, %v", out, err)
	}
	if _, err := x.s.SetAuth(x.ctx, AuthParams{ManifestID: x.id, Scheme: "account", Kind: "clientCredentials", User: "robot", Value: "wrong-secret"}); !fault.Is(err, fault.Denied) {
		t.Errorf("a wrong secret: %v", err)
	}
	if out, err := x.run(x.id, "list", `{}`); err != nil || !out.Success {
		t.Errorf("after a wrong secret: %+v, %v", out, err)
	}
}

func TestRevokedToolKeepsNoTokens(t *testing.T) {
	x := setupAccount(t)
	x.signIn()
	if _, err := x.s.Revoke(x.ctx, RevokeParams{ManifestID: x.id}); err != nil {
		t.Fatal(err)
	}
	if list, err := storage.NewSecrets(x.db).List(x.ctx, storage.SecretsListParams{}); err != nil || len(list.Secrets) != 0 {
		t.Errorf("left: %+v, %v", list, err)
	}
}
