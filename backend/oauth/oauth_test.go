package oauth

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"helix/backend/fault"
	"helix/backend/oauth/oauthtest"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Run(m)) }

type setup struct {
	*Service
	ctx  context.Context
	as   *oauthtest.Server
	done chan error
	now  time.Time
}

func start(t *testing.T) *setup {
	t.Parallel()
	db := storagetest.Open(t)
	x := &setup{ctx: storagetest.Ctx(t, db), as: oauthtest.New(t), done: make(chan error, 1), now: time.Now()}
	x.Service = New(Options{DB: db, Secrets: storage.NewSecrets(db), Now: func() time.Time { return x.now }})
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

// begin starts a sign-in at the resource of the test server.
func (x *setup) begin(t *testing.T, client string) (Flow, error) {
	t.Helper()
	v, err := x.Discover(x.ctx, x.as.URL+"/mcp", Challenge{})
	if err != nil {
		return Flow{}, err
	}
	return x.Start(x.ctx, Params{Name: "test", Server: v, Client: Client{ID: client}, Scopes: v.Scopes, For: x.as.URL + "/mcp", Done: func(_ context.Context, err error) { x.done <- err }})
}

// signIn signs in completely and returns the access token.
func (x *setup) signIn(t *testing.T) string {
	t.Helper()
	f, err := x.begin(t, "")
	if err != nil {
		t.Fatal(err)
	}
	if status := x.as.Visit(t, f.AuthURL); status != http.StatusOK {
		t.Fatalf("the browser ended on a page with status %d", status)
	}
	if err := <-x.done; err != nil {
		t.Fatal(err)
	}
	return x.token(t)
}

func (x *setup) token(t *testing.T) string {
	t.Helper()
	token, err := x.Token(x.ctx, "test", x.as.URL+"/mcp")
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestSignInRegistersAndStoresAToken(t *testing.T) {
	x := start(t)
	token := x.signIn(t)
	if !x.as.Valid(token) || x.as.Count("register") != 1 {
		t.Fatalf("token %q, %d registrations", token, x.as.Count("register"))
	}
	if got, err := x.Token(x.ctx, "test", "https://elsewhere.example/mcp"); got != "" || err != nil {
		t.Errorf("the token was given out for another address: %q, %v", got, err)
	}
	other := storagetest.OtherUser(t, x.o.DB)
	if got, err := x.Token(other, "test", x.as.URL+"/mcp"); got != "" || err != nil {
		t.Errorf("the token was given out to another user: %q, %v", got, err)
	}
}

func TestWrongAnswersEndASignIn(t *testing.T) {
	for name, c := range map[string]struct {
		faults oauthtest.Faults
		kind   fault.Kind
		says   string
	}{
		"state":            {oauthtest.Faults{State: "another"}, fault.Invalid, "doesn't belong"},
		"issuer":           {oauthtest.Faults{Iss: "https://evil.example"}, fault.Invalid, "another server"},
		"no issuer":        {oauthtest.Faults{Iss: "-"}, fault.Invalid, "another server"},
		"declined":         {oauthtest.Faults{Decline: true}, fault.Denied, "declined"},
		"server error":     {oauthtest.Faults{TokenStatus: 503}, fault.Unavailable, "status 503"},
		"not JSON":         {oauthtest.Faults{TokenStatus: 200}, fault.Unavailable, "other than JSON"},
		"kind of token":    {oauthtest.Faults{TokenType: "mac"}, fault.Unavailable, `"mac"`},
		"redirect":         {oauthtest.Faults{Redirect: "https://evil.example/token"}, fault.Denied, "another host"},
		"other resource":   {oauthtest.Faults{OtherResource: true}, fault.Denied, "another resource"},
		"other server":     {oauthtest.Faults{Issuer: "https://evil.example"}, fault.Denied, "another server"},
		"other old server": {oauthtest.Faults{NoResource: true, Issuer: "https://evil.example"}, fault.Denied, "another server"},
		"no PKCE":          {oauthtest.Faults{NoPKCE: true}, fault.Denied, "PKCE"},
		"no registration":  {oauthtest.Faults{NoRegistration: true}, fault.Invalid, "client ID"},
		"refused redirect": {oauthtest.Faults{Redirect: "http://169.254.169.254/latest"}, fault.Denied, "another host"},
	} {
		t.Run(name, func(t *testing.T) {
			x := start(t)
			former := x.signIn(t)
			x.as.Set(c.faults)
			f, err := x.begin(t, "")
			if err == nil {
				x.as.Visit(t, f.AuthURL)
				err = <-x.done
			}
			if !fault.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %s with %q", err, c.kind, c.says)
			}
			x.as.Set(oauthtest.Faults{})
			if got := x.token(t); got != former {
				t.Errorf("the former token was lost: %q", got)
			}
		})
	}
}

func TestServerWithoutMetadataHasFixedAddresses(t *testing.T) {
	x := start(t)
	x.as.Set(oauthtest.Faults{NoMetadata: true})
	if token := x.signIn(t); !x.as.Valid(token) {
		t.Errorf("token %q", token)
	}
}

// The first version of the protocol had no metadata of resources, and servers named an issuer with a path
// in the metadata at the root of their host.
func TestOldServerMayHaveAnIssuerWithAPath(t *testing.T) {
	x := start(t)
	x.as.Set(oauthtest.Faults{NoResource: true, Issuer: x.as.URL + "/oauth", Iss: x.as.URL + "/oauth"})
	if token := x.signIn(t); !x.as.Valid(token) {
		t.Errorf("token %q", token)
	}
	x.as.Set(oauthtest.Faults{Issuer: x.as.URL + "/oauth"})
	if _, err := x.begin(t, ""); !fault.Is(err, fault.Denied) {
		t.Errorf("an issuer that the resource doesn't name: %v", err)
	}
}

func TestClientIDOfTheUserIsUsed(t *testing.T) {
	x := start(t)
	x.as.Set(oauthtest.Faults{NoRegistration: true})
	f, err := x.begin(t, "fixed")
	if err != nil {
		t.Fatal(err)
	}
	x.as.Visit(t, f.AuthURL)
	if err := <-x.done; err != nil || x.as.Count("register") != 0 {
		t.Errorf("err %v, %d registrations", err, x.as.Count("register"))
	}
}

func TestExpiredTokenIsRenewedOnceForManyCallers(t *testing.T) {
	x := start(t)
	old := x.signIn(t)
	x.now = x.now.Add(2 * time.Hour)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			token, err := x.Renew(x.ctx, "test", old)
			if err != nil || token == old || !x.as.Valid(token) {
				t.Errorf("token %q, err %v", token, err)
			}
		})
	}
	all.Wait()
	if n := x.as.Count("refresh"); n != 1 {
		t.Errorf("%d requests for one renewal", n)
	}
	first := x.token(t)
	x.now = x.now.Add(2 * time.Hour) // the rotated refresh token works too
	if second := x.token(t); second == first || !x.as.Valid(second) {
		t.Errorf("token %q after %q", second, first)
	}
}

func TestRevokedSignInAsksForAnother(t *testing.T) {
	x := start(t)
	old := x.signIn(t)
	x.as.Expire(true)
	_, err := x.Renew(x.ctx, "test", old)
	if !errors.Is(err, ErrSignIn) || !strings.Contains(err.Error(), "Sign in again") {
		t.Errorf("got %v", err)
	}
	x.as.Set(oauthtest.Faults{TokenStatus: 500}) // a server in trouble is no reason to sign in again
	if _, err := x.Renew(x.ctx, "test", old); err == nil || errors.Is(err, ErrSignIn) {
		t.Errorf("got %v", err)
	}
}

func TestTokenWithoutRefreshExpires(t *testing.T) {
	x := start(t)
	x.as.Set(oauthtest.Faults{NoRefresh: true})
	x.signIn(t)
	x.now = x.now.Add(2 * time.Hour)
	if _, err := x.Token(x.ctx, "test", x.as.URL+"/mcp"); !errors.Is(err, ErrSignIn) {
		t.Errorf("got %v", err)
	}
}

func TestClearRevokesAtTheServer(t *testing.T) {
	x := start(t)
	token := x.signIn(t)
	told, err := x.Clear(x.ctx, "test")
	if err != nil || !told || x.as.Valid(token) || x.as.Count("revoke") != 2 {
		t.Errorf("told %v, err %v, valid %v, %d revocations", told, err, x.as.Valid(token), x.as.Count("revoke"))
	}
	if list, err := x.o.Secrets.List(x.ctx, storage.SecretsListParams{}); err != nil || len(list.Secrets) != 0 {
		t.Errorf("left: %v, %v", list, err)
	}
}

func TestAnotherSignInEndsTheFirst(t *testing.T) {
	x := start(t)
	if _, err := x.begin(t, ""); err != nil {
		t.Fatal(err)
	}
	second, err := x.begin(t, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := <-x.done; !fault.Is(err, fault.Canceled) {
		t.Errorf("the first ended with %v", err)
	}
	x.as.Visit(t, second.AuthURL)
	if err := <-x.done; err != nil {
		t.Error(err)
	}
}

func TestCloseEndsASignIn(t *testing.T) {
	x := start(t)
	if _, err := x.begin(t, ""); err != nil {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-x.done; !fault.Is(err, fault.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	if _, err := x.begin(t, ""); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a sign-in after Close: %v", err)
	}
}

func TestUnsafeAddressesAreRefused(t *testing.T) {
	x := start(t)
	for _, authorize := range []string{"javascript:alert(1)", "file:///etc/passwd", "http://example.com/authorize", "http://127.0.0.1/authorize", "https://user@example.com/", ""} {
		_, err := x.Start(x.ctx, Params{Name: "test", Server: Server{AuthorizeURL: authorize, TokenURL: "https://example.com/token"}, Client: Client{ID: "x"}, Done: func(context.Context, error) {}})
		if !fault.Is(err, fault.Denied) {
			t.Errorf("%q: %v", authorize, err)
		}
	}
	for _, token := range []string{"http://169.254.169.254/token", "https://10.0.0.1/token", "https://[::1]/token", "http://localhost:1/token", x.as.URL + "/token"} {
		err := x.Connect(x.ctx, Params{Name: "test", Server: Server{TokenURL: token}, Client: Client{"robot", "robot-secret"}})
		if !fault.Is(err, fault.Denied) {
			t.Errorf("%q: %v", token, err)
		}
	}
	if _, err := x.Discover(x.ctx, "https://10.0.0.1/mcp", Challenge{}); !fault.Is(err, fault.Denied) {
		t.Errorf("private resource: %v", err)
	}
	if _, err := x.Discover(x.ctx, x.as.URL+"/mcp", Challenge{MetadataURL: "https://192.168.1.1/meta"}); !fault.Is(err, fault.Denied) {
		t.Errorf("private metadata: %v", err)
	}
}

func TestProgramConnectsWithItsSecret(t *testing.T) {
	x := start(t)
	p := Params{Name: "test", Server: Server{TokenURL: x.as.URL + "/token", Local: true}, Client: Client{"robot", "robot-secret"}}
	if err := x.Connect(x.ctx, p); err != nil {
		t.Fatal(err)
	}
	first, err := x.Token(x.ctx, "test", "")
	if err != nil || !x.as.Valid(first) {
		t.Fatalf("token %q, err %v", first, err)
	}
	x.now = x.now.Add(2 * time.Hour)
	if second, err := x.Token(x.ctx, "test", ""); err != nil || second == first {
		t.Errorf("token %q, err %v", second, err)
	}
	p.Client.Secret = "wrong"
	if err := x.Connect(x.ctx, p); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "client ID") {
		t.Errorf("got %v", err)
	}
}
