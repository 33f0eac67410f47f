package mcp

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/oauth"
	"helix/backend/storage"
)

// The states of a sign-in.
const (
	AuthNone     = "none"
	AuthReady    = "ready"
	AuthFailed   = "error"
	authScopeMax = 50
)

// AuthStartParams start a sign-in at the authorization server of an MCP server.
type AuthStartParams struct {
	Name string `json:"name"`
	// ClientID is needed only if the authorization server doesn't let programs register.
	ClientID     string   `json:"clientId,omitempty"`
	ClientSecret string   `json:"clientSecret,omitempty"`
	Scopes       []string `json:"scopes,omitempty"` // default: those that the server asks for
}

// AuthClearResult tells whether the authorization server was told.
type AuthClearResult struct {
	State   string `json:"state"`
	Revoked bool   `json:"revoked"` // the authorization server knows that the tokens are no longer used
}

// AuthChanged is published when a sign-in has ended, or its tokens were removed.
type AuthChanged struct {
	Name  string `json:"name"`
	State string `json:"state"` // ready, error or none
	Error string `json:"error,omitempty"`
}

// tokenName is the name of the secrets with the tokens of a server.
func (r *serverRow) tokenName() string { return "mcp/" + r.id.String() }

// SecretUsers calls add with the name and the user of each secret that the caller's servers refer to.
func (s *Service) SecretUsers(ctx context.Context, add func(secret, user string)) error {
	return s.db.Read(ctx, func(tx *storage.Tx) error {
		rows, err := loadServers(tx)
		for _, r := range rows {
			for _, name := range append(r.variables(), oauth.SecretNames(r.tokenName())...) {
				add(name, "MCP server "+r.Name)
			}
		}
		return err
	})
}

// AuthStart prepares a sign-in at an MCP server with OAuth and returns the address that the user opens. Its
// end is announced by mcp.auth_changed.
func (s *Service) AuthStart(ctx context.Context, p AuthStartParams) (oauth.Flow, error) {
	r, err := s.row(ctx, p.Name)
	if err != nil {
		return oauth.Flow{}, err
	}
	if r.Transport == Stdio || s.o.OAuth == nil {
		return oauth.Flow{}, fault.Invalidf("%s is a program on this computer. Only servers with a URL have a sign-in.", r.Name)
	}
	if len(p.Scopes) > authScopeMax || slices.ContainsFunc(p.Scopes, func(s string) bool { return s == "" || len(s) > 200 || strings.ContainsAny(s, " \"\\") }) {
		return oauth.Flow{}, fault.InvalidField("scopes", fault.CodeInvalid, "A scope has no spaces or quotation marks. At most %d can be asked for.", authScopeMax)
	}
	if err := s.checkStart(ctx, &r); err != nil {
		return oauth.Flow{}, err
	}
	e, err := r.expand(s.lookup(ctx))
	if err != nil {
		return oauth.Flow{}, err
	}
	l := s.link(&r)
	l.mu.Lock()
	challenge := l.challenge
	l.mu.Unlock()
	server, err := s.o.OAuth.Discover(ctx, e.URL, challenge)
	if err != nil {
		return oauth.Flow{}, err
	}
	scopes := p.Scopes
	if len(scopes) == 0 {
		scopes = server.Scopes
	}
	if server.Resource == "" {
		server.Resource = e.URL
	}
	return s.o.OAuth.Start(ctx, oauth.Params{
		Name: r.tokenName(), Server: server, Client: oauth.Client{ID: p.ClientID, Secret: p.ClientSecret}, Scopes: scopes, For: e.URL,
		Done: func(ctx context.Context, err error) { s.signedIn(ctx, &r, err) },
	})
}

// signedIn announces the end of a sign-in.
func (s *Service) signedIn(ctx context.Context, r *serverRow, err error) {
	out, result := AuthChanged{Name: r.Name, State: AuthReady}, audit.OK
	if err != nil {
		out.State, out.Error, result = AuthFailed, fault.As(err).Message, audit.Failed
	} else {
		s.link(r).signedIn()
	}
	if err := s.db.Write(ctx, func(tx *storage.Tx) error {
		return audit.Append(tx, audit.Entry{Action: "secret.set", SubjectKind: string(Kind), SubjectID: r.Name, Outcome: result, Details: map[string]any{"kind": "oauth2"}})
	}); err != nil {
		s.log.Error("record a sign-in", "server", r.Name, "err", err)
	}
	bus.Publish(s.bus, r.user, out)
}

// signedIn lets the server start again with the new tokens.
func (l *link) signedIn() {
	l.reset()
	l.mu.Lock()
	l.lastError = ""
	state := l.state
	l.mu.Unlock()
	l.publish(state)
}

// AuthClear removes the tokens of a server and revokes them at its authorization server.
func (s *Service) AuthClear(ctx context.Context, p NameParams) (AuthClearResult, error) {
	r, err := s.row(ctx, p.Name)
	if err != nil {
		return AuthClearResult{}, err
	}
	out := AuthClearResult{State: AuthNone}
	if out.Revoked, err = s.forgetTokens(ctx, &r); err != nil {
		return out, err
	}
	s.link(&r).stop(StateStopped)
	bus.Publish(s.bus, r.user, AuthChanged{Name: r.Name, State: AuthNone})
	return out, nil
}

func (s *Service) forgetTokens(ctx context.Context, r *serverRow) (revoked bool, err error) {
	if s.o.OAuth == nil || r.Transport == Stdio {
		return true, nil
	}
	revoked, err = s.o.OAuth.Clear(ctx, r.tokenName())
	if err != nil {
		return revoked, err
	}
	return revoked, s.db.Write(ctx, func(tx *storage.Tx) error {
		return audit.Append(tx, audit.Entry{Action: "secret.deleted", SubjectKind: string(Kind), SubjectID: r.Name, Details: map[string]any{"kind": "oauth2"}})
	})
}

// authState returns whether there are tokens for a server.
func (s *Service) authState(ctx context.Context, r *serverRow) (string, error) {
	if s.o.OAuth == nil || r.Transport == Stdio {
		return AuthNone, nil
	}
	e, err := r.expand(s.lookup(ctx))
	if err != nil {
		return AuthNone, nil //nolint:nilerr // a missing variable is shown as a warning
	}
	signed, err := s.o.OAuth.Signed(ctx, r.tokenName(), e.URL)
	if !signed {
		return AuthNone, err
	}
	return AuthReady, err
}

// authorizer adds the access token of a server to its requests.
type authorizer struct {
	tokens *oauth.Service
	name   string
	url    string
	ctx    context.Context // with the user
	refuse func(oauth.Challenge)
}

// authorizer returns what signs the requests to a server, or nil if its entry has a header for that.
func (l *link) authorizer(ctx context.Context, row *serverRow, e *Server) *authorizer {
	for k := range e.Headers {
		if strings.EqualFold(k, "Authorization") {
			return nil
		}
	}
	if l.s.o.OAuth == nil {
		return nil
	}
	return &authorizer{l.s.o.OAuth, row.tokenName(), e.URL, context.WithoutCancel(ctx), func(c oauth.Challenge) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.challenge = c
	}}
}

// token returns the token for a request, or another one than refused. It is "" if nobody has signed in.
func (a *authorizer) token(refused string) (string, error) {
	if a == nil {
		return "", nil
	}
	token, err := "", error(nil)
	if refused == "" {
		token, err = a.tokens.Token(a.ctx, a.name, a.url)
	} else {
		token, err = a.tokens.Renew(a.ctx, a.name, refused)
	}
	if errors.Is(err, oauth.ErrSignIn) {
		return "", fault.Unavailablef("%s", fault.As(err).Message).WithCause(errNeedsAuth)
	}
	return token, err
}

// refused keeps what a server said when it refused a request.
func (a *authorizer) refused(h http.Header) {
	if a != nil {
		a.refuse(oauth.ParseChallenge(h))
	}
}
