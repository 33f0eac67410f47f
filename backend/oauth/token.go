package oauth

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/safehttp"
	"helix/backend/storage"
)

// The parts of a sign-in are secrets of their own, so that each value is removed from logs and results.
const (
	refreshPart = "/refresh"
	clientPart  = "/client"
	grantPart   = "/oauth"
)

// grant is what is needed to get another token. It has no secret.
type grant struct {
	Server   Server    `json:"server"`
	ClientID string    `json:"clientId"`
	Scopes   []string  `json:"scopes,omitempty"`
	For      string    `json:"for,omitempty"`
	Machine  bool      `json:"machine,omitempty"` // client credentials: nobody signs in
	Expires  time.Time `json:"expires,omitzero"`  // zero: unknown
}

// refusal is an error answer of OAuth.
type refusal struct {
	Code        string `json:"error"`
	Description string `json:"error_description"`
}

// fault converts a refusal of an attempt to do what.
func (r refusal) fault(host string, status int, what string) error {
	why := ""
	if r.Description != "" {
		why = " It says: " + shown(r.Description)
	}
	switch r.Code {
	case "access_denied":
		return fault.Deniedf("The sign-in at %s was declined.%s", host, why)
	case "invalid_grant":
		return fault.Unavailablef("The sign-in at %s has expired or was revoked. Sign in again.%s", host, why).WithCause(ErrSignIn)
	case "invalid_client", "unauthorized_client":
		return fault.Deniedf("%s doesn't accept the client ID or its secret. Check them and sign in again.%s", host, why).WithCause(ErrSignIn)
	case "invalid_scope":
		return fault.Invalidf("%s doesn't know a scope that was asked for.%s", host, why)
	case "temporarily_unavailable", "server_error", "":
		return fault.Unavailablef("Couldn't %s: %s answered with an error (status %d). Try again later.%s", what, host, status, why)
	}
	return fault.Unavailablef("Couldn't %s: %s refused with %q.%s", what, host, shown(r.Code), why)
}

// tokens is the answer of a token endpoint.
type tokens struct {
	Access  string      `json:"access_token"`
	Type    string      `json:"token_type"`
	Refresh string      `json:"refresh_token"`
	Expires json.Number `json:"expires_in"`
	refusal
}

// request sends a form to the token endpoint.
func (s *Service) request(ctx context.Context, v *Server, c Client, form url.Values, what string) (out tokens, err error) {
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"application/json"}}
	if v.Resource != "" {
		form.Set("resource", v.Resource)
	}
	c.authenticate(v, header, form)
	resp, err := s.client(v.Local).Do(ctx, safehttp.Request{Method: http.MethodPost, URL: v.TokenURL, Header: header, Body: []byte(form.Encode()), SensitiveBody: true})
	if err != nil {
		return out, err
	}
	err = json.Unmarshal(resp.Body, &out)
	at := host(v.TokenURL)
	switch {
	case resp.Status != http.StatusOK || out.Code != "":
		return out, out.fault(at, resp.Status, what)
	case err != nil:
		return out, fault.Unavailablef("Couldn't %s: %s answered with something other than JSON.", what, at).WithCause(err)
	case !usable(out.Access) || out.Refresh != "" && !usable(out.Refresh):
		return out, fault.Unavailablef("Couldn't %s: %s sent no usable token.", what, at)
	case !strings.EqualFold(out.Type, "bearer"):
		return out, fault.Unavailablef("Couldn't %s: %s sent a token of the kind %q, which Helix can't use.", what, at, shown(out.Type))
	}
	return out, nil
}

// usable reports whether a token can be stored and sent in a header.
func usable(token string) bool {
	return token != "" && len(token) <= maxToken && !strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
}

// authenticate adds the client's identity in the way that the server supports.
func (c Client) authenticate(v *Server, header http.Header, form url.Values) {
	if c.Secret != "" && (len(v.Methods) == 0 || slices.Contains(v.Methods, "client_secret_basic")) {
		header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(c.ID)+":"+url.QueryEscape(c.Secret))))
		return
	}
	form.Set("client_id", c.ID)
	if c.Secret != "" {
		form.Set("client_secret", c.Secret)
	}
}

// exchange turns a code into tokens and stores them.
func (s *Service) exchange(ctx context.Context, f *flow, code string) error {
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {f.redirect}, "code_verifier": {f.verifier}}
	t, err := s.request(ctx, &f.p.Server, f.p.Client, form, "finish the sign-in")
	if err != nil {
		return err
	}
	g := grant{Server: f.p.Server, ClientID: f.p.Client.ID, Scopes: f.p.Scopes, For: f.p.For}
	return s.o.DB.Write(ctx, func(tx *storage.Tx) error {
		if err := s.DeleteTx(tx, f.p.Name); err != nil {
			return err
		}
		return s.save(tx, f.p.Name, g, f.p.Client.Secret, t)
	})
}

// Connect gets a token for a program that signs in by itself, with its ID and secret (client
// credentials), and stores both.
func (s *Service) Connect(ctx context.Context, p Params) error {
	g := grant{Server: p.Server, ClientID: p.Client.ID, Scopes: p.Scopes, For: p.For, Machine: true}
	t, err := s.request(ctx, &g.Server, p.Client, g.form(""), "get a token")
	if err != nil {
		return err
	}
	return s.o.DB.Write(ctx, func(tx *storage.Tx) error {
		if err := s.DeleteTx(tx, p.Name); err != nil {
			return err
		}
		return s.save(tx, p.Name, g, p.Client.Secret, t)
	})
}

// form returns the request for another token.
func (g *grant) form(refresh string) url.Values {
	if !g.Machine {
		return url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}}
	}
	form := url.Values{"grant_type": {"client_credentials"}}
	if len(g.Scopes) > 0 {
		form.Set("scope", strings.Join(g.Scopes, " "))
	}
	return form
}

// save stores tokens. A server that sends no new refresh token lets the former one stay valid.
func (s *Service) save(tx *storage.Tx, name string, g grant, clientSecret string, t tokens) error {
	g.Expires = time.Time{}
	if n, err := t.Expires.Int64(); err == nil && n > 0 {
		g.Expires = s.o.Now().Add(duration.Of(n, time.Second)).UTC()
	}
	b, err := json.Marshal(g)
	if err != nil {
		return err
	}
	for part, value := range map[string]string{"": t.Access, refreshPart: t.Refresh, clientPart: clientSecret, grantPart: string(b)} {
		if value == "" {
			continue
		}
		if err := s.o.Secrets.SetTx(tx, name+part, []byte(value)); err != nil {
			return err
		}
	}
	return nil
}

// SecretNames returns the names of the secrets that hold the tokens with a name.
func SecretNames(name string) []string {
	return []string{name, name + refreshPart, name + clientPart, name + grantPart}
}

// DeleteTx removes the tokens with a name, if there are any. It tells no server.
func (s *Service) DeleteTx(tx *storage.Tx, name string) error {
	for _, secret := range SecretNames(name) {
		if err := s.o.Secrets.DeleteTx(tx, secret); err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	return nil
}

// value returns a part, or "" if there is none.
func (s *Service) value(ctx context.Context, name string) (string, error) {
	b, err := s.o.Secrets.Value(ctx, name)
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	return string(b), err
}

// load returns the grant with a name. ok is false if there is none.
func (s *Service) load(ctx context.Context, name string) (g grant, ok bool, err error) {
	text, err := s.value(ctx, name+grantPart)
	if err != nil || text == "" {
		return g, false, err
	}
	return g, true, json.Unmarshal([]byte(text), &g)
}

// Signed reports whether there are tokens with a name for an address.
func (s *Service) Signed(ctx context.Context, name, forAddress string) (bool, error) {
	g, ok, err := s.load(ctx, name)
	return ok && g.For == forAddress, err
}

// Token returns an access token for an address, and refreshes it a minute before it expires. It is ""
// if nobody has signed in. The error has the cause ErrSignIn if another sign-in is needed.
func (s *Service) Token(ctx context.Context, name, forAddress string) (string, error) {
	g, ok, err := s.load(ctx, name)
	if err != nil || !ok || g.For != forAddress {
		return "", err
	}
	access, err := s.value(ctx, name)
	if err != nil {
		return "", err
	}
	if access != "" && (g.Expires.IsZero() || s.o.Now().Add(refreshAt).Before(g.Expires)) {
		return access, nil
	}
	return s.Renew(ctx, name, access)
}

// Renew returns another access token than refused, which the service no longer accepts. Concurrent
// callers share one request.
func (s *Service) Renew(ctx context.Context, name, refused string) (string, error) {
	v, err, _ := s.refresh.Do(identity.UserID(ctx).String()+"/"+name, func() (any, error) {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*requestTime)
		defer cancel()
		return s.renew(limited, name, refused)
	})
	if err != nil {
		return "", err
	}
	return v.(string), nil
}

func (s *Service) renew(ctx context.Context, name, refused string) (string, error) {
	g, ok, err := s.load(ctx, name)
	if err != nil {
		return "", err
	}
	if !ok {
		return "", fault.Unavailablef("Nobody has signed in.").WithCause(ErrSignIn)
	}
	var access, refresh, secret string
	for part, to := range map[string]*string{"": &access, refreshPart: &refresh, clientPart: &secret} {
		if *to, err = s.value(ctx, name+part); err != nil {
			return "", err
		}
	}
	if access != refused && access != "" {
		return access, nil // another caller was faster
	}
	if refresh == "" && !g.Machine {
		return "", fault.Unavailablef("The sign-in at %s has expired. Sign in again.", host(g.Server.TokenURL)).WithCause(ErrSignIn)
	}
	t, err := s.request(ctx, &g.Server, Client{g.ClientID, secret}, g.form(refresh), "renew the sign-in")
	if err != nil {
		return "", err
	}
	// A server may accept a refresh token only once, so the new one is stored before anything is sent with it.
	err = s.o.DB.Write(ctx, func(tx *storage.Tx) error { return s.save(tx, name, g, secret, t) })
	return t.Access, err
}

// Clear removes the tokens with a name and revokes them at the server, if that is offered. told is
// false if the server couldn't be told.
func (s *Service) Clear(ctx context.Context, name string) (told bool, err error) {
	s.mu.Lock()
	if f := s.flows[key{identity.UserID(ctx), name}]; f != nil {
		f.stop(fault.New(fault.Canceled, "The sign-in was canceled."))
	}
	s.mu.Unlock()
	g, ok, err := s.load(ctx, name)
	if err != nil || !ok {
		return true, err
	}
	var list [3]string
	for i, part := range []string{refreshPart, "", clientPart} {
		if list[i], err = s.value(ctx, name+part); err != nil {
			return false, err
		}
	}
	if err := s.o.DB.Write(ctx, func(tx *storage.Tx) error { return s.DeleteTx(tx, name) }); err != nil {
		return false, err
	}
	return s.revoke(ctx, &g, list[:2], list[2]), nil
}

// revoke tells the server that tokens are no longer used (RFC 7009).
func (s *Service) revoke(ctx context.Context, g *grant, list []string, secret string) bool {
	if g.Server.RevokeURL == "" {
		return true
	}
	ok := true
	for i, token := range list {
		if token == "" {
			continue
		}
		form := url.Values{"token": {token}, "token_type_hint": {[]string{"refresh_token", "access_token"}[i]}}
		header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
		Client{g.ClientID, secret}.authenticate(&g.Server, header, form)
		resp, err := s.client(g.Server.Local).Do(ctx, safehttp.Request{Method: http.MethodPost, URL: g.Server.RevokeURL, Header: header, Body: []byte(form.Encode()), SensitiveBody: true})
		if err != nil || resp.Status >= 300 {
			ok = false
		}
	}
	return ok
}
