package discovery

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/oauth"
	"helix/backend/openapi"
	"helix/backend/storage"
)

// The kinds of credentials that OAuth issues.
const (
	kindOAuth   = "oauth2"            // a person signs in
	kindMachine = "clientCredentials" // Helix signs in with a client ID and its secret
)

// OAuthStartParams start a sign-in with OAuth.
type OAuthStartParams struct {
	ManifestID   uuid.UUID `json:"manifestId"`
	Scheme       string    `json:"scheme"`   // name in the description
	ClientID     string    `json:"clientId"` // that the provider of the API gave out for Helix
	ClientSecret string    `json:"clientSecret,omitempty"`
	Scopes       []string  `json:"scopes,omitempty"` // default: all of the description
}

// OAuthStart prepares a sign-in with OAuth and PKCE, and returns the address that the user opens. Its end is
// announced by discovery.auth_changed.
func (s *Service) OAuthStart(ctx context.Context, p OAuthStartParams) (oauth.Flow, error) {
	t, flow, err := s.flow(ctx, p.ManifestID, p.Scheme, "authorizationCode")
	if err != nil {
		return oauth.Flow{}, err
	}
	if p.ClientID == "" || len(p.ClientID) > 500 || len(p.ClientSecret) > 8<<10 {
		return oauth.Flow{}, fault.InvalidField("clientId", fault.CodeMissing, "Provide the client ID that the API's provider gave out for Helix.")
	}
	scopes, err := scopesOf(p.Scopes, flow)
	if err != nil {
		return oauth.Flow{}, err
	}
	return s.o.OAuth.Start(ctx, oauth.Params{
		Name: secretOf(t.ID, p.Scheme), Server: serverOf(t, flow), Client: oauth.Client{ID: p.ClientID, Secret: p.ClientSecret}, Scopes: scopes,
		Done: func(ctx context.Context, err error) {
			if err == nil {
				err = s.signedIn(ctx, t, p.Scheme, kindOAuth, p.ClientID, scopes)
			}
			if err != nil {
				s.publish(t.user, AuthChanged{ManifestID: t.ID, Scheme: p.Scheme, State: "error", Error: fault.As(err).Message})
			}
		},
	})
}

// connect gets a token with a client ID and its secret.
func (s *Service) connect(ctx context.Context, p AuthParams) (AuthResult, error) {
	t, flow, err := s.flow(ctx, p.ManifestID, p.Scheme, kindMachine)
	if err != nil {
		return AuthResult{}, err
	}
	if p.User == "" || len(p.User) > 500 || p.Value == "" {
		return AuthResult{}, fault.InvalidField("user", fault.CodeMissing, "Provide the client ID as user and its secret as value.")
	}
	scopes, err := scopesOf(nil, flow)
	if err != nil {
		return AuthResult{}, err
	}
	if err := s.o.OAuth.Connect(ctx, oauth.Params{Name: secretOf(t.ID, p.Scheme), Server: serverOf(t, flow), Client: oauth.Client{ID: p.User, Secret: p.Value}, Scopes: scopes}); err != nil {
		return AuthResult{}, err
	}
	return AuthResult{"ready"}, s.signedIn(ctx, t, p.Scheme, kindMachine, p.User, scopes)
}

// flow returns a tool and a flow of one of its schemes.
func (s *Service) flow(ctx context.Context, id uuid.UUID, scheme, kind string) (*Tool, openapi.Flow, error) {
	t, err := s.load(ctx, id)
	if err != nil {
		return nil, openapi.Flow{}, err
	}
	if t.Status == StatusRevoked {
		return nil, openapi.Flow{}, fault.Conflictf("The tool %s is revoked.", t.Name)
	}
	l, err := s.open(ctx, t)
	if err != nil {
		return nil, openapi.Flow{}, err
	}
	x, _ := l.doc.Scheme(scheme)
	i := slices.IndexFunc(x.Flows, func(f openapi.Flow) bool { return f.Kind == kind })
	if i < 0 || s.o.OAuth == nil {
		return nil, openapi.Flow{}, fault.InvalidField("scheme", fault.CodeInvalid, "The tool has no authentication named %.100q with OAuth (%s).", scheme, kind)
	}
	return t, x.Flows[i], nil
}

func scopesOf(chosen []string, f openapi.Flow) ([]string, error) {
	if len(chosen) == 0 {
		return orEmpty(f.Scopes), nil
	}
	for _, c := range chosen {
		if !slices.Contains(f.Scopes, c) {
			return nil, fault.InvalidField("scopes", fault.CodeUnknownValue, "The description has no scope %.100q. It has: %s.", c, strings.Join(f.Scopes, ", "))
		}
	}
	return chosen, nil
}

// serverOf returns the authorization server of a flow. Only a tool of this computer may name addresses
// of this computer.
func serverOf(t *Tool, f openapi.Flow) oauth.Server {
	local := slices.ContainsFunc(t.Hosts, func(h string) bool { return strings.HasPrefix(h, "localhost:") })
	return oauth.Server{AuthorizeURL: f.AuthorizeURL, TokenURL: f.TokenURL, Local: local}
}

// signedIn records that tokens are stored.
func (s *Service) signedIn(ctx context.Context, t *Tool, scheme, kind, account string, scopes []string) error {
	return s.db.Write(ctx, func(tx *storage.Tx) error { return s.saveCredential(tx, t, scheme, kind, account, scopes) })
}

// saveCredential records a credential whose value is stored in tx or was before.
func (s *Service) saveCredential(tx *storage.Tx, t *Tool, scheme, kind, account string, scopes []string) error {
	if _, err := tx.Exec(`INSERT INTO tool_credential (id, user_id, tool_id, scheme, kind, hosts, account_hint, scopes, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9)
		ON CONFLICT (user_id, tool_id, scheme) DO UPDATE SET kind = excluded.kind, hosts = excluded.hosts, account_hint = excluded.account_hint, scopes = excluded.scopes, updated_at = excluded.updated_at`,
		storage.NewID(), t.user, t.ID, scheme, kind, rawJSON(t.Hosts), account, rawJSON(orEmpty(scopes)), tx.Now); err != nil {
		return err
	}
	s.announce(tx, t.user, AuthChanged{ManifestID: t.ID, Scheme: scheme, State: "ready"})
	return audit.Append(tx, audit.Entry{Action: "secret.set", SubjectKind: string(Kind), SubjectID: t.ID.String(), Details: map[string]any{"scheme": scheme, "kind": kind, "hosts": t.Hosts}})
}

// token returns the access token of a scheme, renewed if refused is the last one.
func (s *Service) token(ctx context.Context, name, refused string) (string, error) {
	if s.o.OAuth == nil {
		return "", nil
	}
	if refused != "" {
		return s.o.OAuth.Renew(ctx, name, refused)
	}
	token, err := s.o.OAuth.Token(ctx, name, "")
	if errors.Is(err, oauth.ErrSignIn) {
		f := *fault.As(err)
		f.Message += " To sign in: helix openapi auth start"
		return "", &f
	}
	return token, err
}
