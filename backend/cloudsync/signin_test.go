package cloudsync

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"helix/backend/cloudsync/hubtest"
	"helix/backend/fault"
)

// project is a Supabase project in front of a real database. It keeps one account, and calls functions as
// PostgREST does: as authenticator, with the claims of the token in a setting.
type project struct {
	*httptest.Server
	dsn    string // of authenticator
	claims map[string]any
	sent   atomic.Int64 // e-mails
	token  atomic.Int64 // number of the last token
}

func newProject(t *testing.T) (p *project, dsn string) {
	t.Helper()
	prepare(t)
	dsn = hubtest.Database(t)
	p = &project{dsn: strings.Replace(dsn, "postgres@", "authenticator:x@", 1), claims: map[string]any{"sub": uuid.NewString(), "role": "authenticated"}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := func(status int, v any) {
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(v)
		}
		var in struct {
			Email, Token, Type string
			Refresh            string `json:"refresh_token"`
			P                  json.RawMessage
		}
		if json.NewDecoder(r.Body).Decode(&in) != nil || r.Header.Get("apikey") != publishable {
			answer(401, map[string]any{"message": "Invalid API key"})
			return
		}
		switch r.URL.Path {
		case "/auth/v1/otp":
			p.sent.Add(1)
			answer(200, map[string]any{})
		case "/auth/v1/verify":
			if in.Token != "123456" || in.Type != "email" || in.Email != "a@example.com" {
				answer(403, map[string]any{"error_code": "otp_expired"})
				return
			}
			answer(200, p.signIn())
		case "/auth/v1/token":
			if r.URL.RawQuery != "grant_type=refresh_token" || in.Refresh != fmt.Sprint("refresh ", p.token.Load()) {
				answer(400, map[string]any{"error_code": "refresh_token_not_found"})
				return
			}
			answer(200, p.signIn())
		default:
			name, ok := strings.CutPrefix(r.URL.Path, "/rest/v1/rpc/")
			if !ok || r.Header.Get("Authorization") != fmt.Sprint("Bearer token ", p.token.Load()) {
				answer(401, map[string]any{"code": "PGRST301"})
				return
			}
			out, err := p.rpc(r, name, string(in.P))
			var pg *pgconn.PgError
			switch {
			case errors.As(err, &pg) && pg.Code == "42883":
				answer(404, map[string]any{"code": "PGRST202"})
			case errors.As(err, &pg):
				answer(400, map[string]any{"code": pg.Code, "message": pg.Message})
			case err != nil:
				answer(500, map[string]any{"message": err.Error()})
			default:
				answer(200, json.RawMessage(out))
			}
		}
	}))
	t.Cleanup(p.Close)
	return p, dsn
}

const publishable = "sb_publishable_test"

// signIn returns new tokens and ends the former.
func (p *project) signIn() map[string]any {
	n := p.token.Add(1)
	return map[string]any{"access_token": fmt.Sprint("token ", n), "refresh_token": fmt.Sprint("refresh ", n), "expires_in": 3600}
}

func (p *project) rpc(r *http.Request, name, arg string) (out string, err error) {
	c, err := pgx.Connect(r.Context(), p.dsn)
	if err != nil {
		return "", err
	}
	defer c.Close(r.Context()) //nolint:errcheck // committed
	err = pgx.BeginFunc(r.Context(), c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(r.Context(), `select set_config('request.jwt.claims', $1, true), set_config('role', 'authenticated', true)`, jsonText(p.claims)); err != nil {
			return err
		}
		return tx.QueryRow(r.Context(), `select coalesce(public.`+pgx.Identifier{name}.Sanitize()+`($1::jsonb), 'null')`, arg).Scan(&out)
	})
	return out, err
}

func (p *project) account() *Project {
	return &Project{URL: p.URL, PublishableKey: publishable, Email: "a@example.com"}
}

func TestSignedInPersonConnectsAFirstDevice(t *testing.T) {
	t.Parallel()
	p, dsn := newProject(t)
	a := newDevice(t)
	setUp := func(d *device, code string) (SetupResult, error) {
		return d.Setup(d.ctx, SetupParams{Project: p.account(), Code: code, Name: "mine"})
	}
	must[struct{}](t)(a.SignIn(a.ctx, *p.account()))
	if p.sent.Load() != 1 {
		t.Errorf("%d e-mails", p.sent.Load())
	}
	if _, err := setUp(a, "123456"); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "no Helix schema") {
		t.Errorf("a project without the schema: %v", err)
	}
	owner := newDevice(t)
	owner.setUp(dsn)
	theirs := owner.remember("of the owner")
	owner.now()
	if _, err := setUp(a, "000000"); !fault.Is(err, fault.Denied) {
		t.Errorf("a wrong code: %v", err)
	}
	mine := a.remember("written before")
	got := must[SetupResult](t)(setUp(a, " 123456 "))
	if !got.Encrypted || got.RecoveryCode == "" || got.UserID == owner.db.LocalUser().ID {
		t.Errorf("%+v", got)
	}
	a.identify()
	a.now()
	if a.text(theirs) != "" {
		t.Error("it sees the data of another person")
	}
	b := newDevice(t)
	if _, err := setUp(b, "123456"); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second device by sign-in: %v", err)
	}
	b.join(a)
	b.now()
	if b.text(mine) != "written before" {
		t.Error("the second device lacks what the first one has")
	}
	owner.now()
	if owner.text(mine) != "" {
		t.Error("the owner of the project sees the data")
	}
	for name, claims := range map[string]map[string]any{
		"nobody":       {},
		"the key only": {"role": "anon"},
		"anonymous":    {"sub": uuid.NewString(), "role": "authenticated", "is_anonymous": true},
	} {
		p.claims = claims
		if _, err := setUp(newDevice(t), "123456"); !fault.Is(err, fault.Denied) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A device can set the claims too, and nobody believes them.
	l := must[local](t)(a.local(a.ctx))
	c, err := l.hub.connect(t.Context(), string(must[[]byte](t)(a.secrets.Value(a.ctx, passwordSecret))))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context()) //nolint:errcheck // read only
	for _, call := range []string{`select public.helix_enrol('{}')`, `select app.enrol_device('x', 'cli', null, '')`} {
		if _, err := c.Exec(t.Context(), fmt.Sprintf(`select set_config('request.jwt.claims', '{"sub":"%s","role":"authenticated"}', false)`, uuid.New())); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Exec(t.Context(), call); err == nil {
			t.Errorf("%s: allowed", call)
		}
	}
}

func TestSignInChecksTheProject(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	const anon, service = "e30.eyJyb2xlIjoiYW5vbiJ9.x", "e30.eyJyb2xlIjoic2VydmljZV9yb2xlIn0.x"
	for name, p := range map[string]Project{
		"plain http":         {"http://abc.supabase.co", publishable, "a@example.com"},
		"a password in it":   {"https://a:b@abc.supabase.co", publishable, "a@example.com"},
		"no address":         {"", publishable, "a@example.com"},
		"no key":             {"https://abc.supabase.co", "", "a@example.com"},
		"a secret key":       {"https://abc.supabase.co", "sb_secret_x", "a@example.com"},
		"a service-role key": {"https://abc.supabase.co", service, "a@example.com"},
		"no e-mail address":  {"https://abc.supabase.co", anon, "a"},
		"a name":             {"https://abc.supabase.co", anon, "A <a@example.com>"},
	} {
		if _, err := d.SignIn(d.ctx, p); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if ok := (&Project{"https://abc.supabase.co/", anon, "a@example.com"}); ok.check() != nil || ok.URL != "https://abc.supabase.co" {
		t.Errorf("%+v: %v", ok, ok.check())
	}
}
