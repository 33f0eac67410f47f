package oauth

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/oauth2"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/safehttp"
)

// Params start a sign-in.
type Params struct {
	Name   string // of the secrets that keep the tokens
	Server Server
	Client Client // without an ID: Helix registers itself
	Scopes []string
	// For is the address that the tokens may be sent to; Token compares it.
	For string
	// Done is called once when the sign-in has ended, with the identity of the caller of Start. If it
	// failed, former tokens are kept.
	Done func(ctx context.Context, err error)
}

// Flow is a sign-in in progress. The user opens its URL in a browser.
type Flow struct {
	ID        uuid.UUID `json:"flowId"`
	AuthURL   string    `json:"authUrl"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// flow waits for the browser to come back.
type flow struct {
	p        Params
	state    string
	verifier string
	redirect string
	answer   chan url.Values
	stop     context.CancelCauseFunc
}

// Start prepares a sign-in and returns the address to open. It waits for the browser in the background,
// for five minutes. A sign-in in progress for the same name ends.
func (s *Service) Start(ctx context.Context, p Params) (Flow, error) {
	me := key{identity.UserID(ctx), p.Name}
	authorize, err := p.Server.check()
	if err != nil {
		return Flow{}, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return Flow{}, fault.Unavailablef("Couldn't open a port on this computer for the browser to return to.").WithCause(err)
	}
	f := &flow{p: p, state: rand.Text(), verifier: oauth2.GenerateVerifier(), redirect: "http://" + listener.Addr().String() + "/callback", answer: make(chan url.Values, 1)}
	if p.Client.ID == "" {
		if f.p.Client, err = s.register(ctx, &p.Server, f.redirect, p.Scopes); err != nil {
			listener.Close()
			return Flow{}, err
		}
	}
	q := authorize.Query()
	for k, v := range map[string]string{
		"response_type": "code", "client_id": f.p.Client.ID, "redirect_uri": f.redirect, "state": f.state,
		"code_challenge": oauth2.S256ChallengeFromVerifier(f.verifier), "code_challenge_method": "S256", "scope": strings.Join(p.Scopes, " "), "resource": p.Server.Resource,
	} {
		if v != "" {
			q.Set(k, v)
		}
	}
	authorize.RawQuery = q.Encode()
	out := Flow{ID: uuid.New(), AuthURL: authorize.String(), ExpiresAt: s.o.Now().Add(flowTime).UTC()}

	running, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	f.stop = stop
	if err := s.add(me, f); err != nil {
		stop(nil)
		listener.Close()
		return Flow{}, err
	}
	go func() {
		defer s.work.Done()
		defer context.AfterFunc(s.ctx, func() { stop(fault.New(fault.Canceled, "Helix is stopping.")) })()
		defer stop(nil)
		err := s.finish(running, f, listener)
		s.mu.Lock()
		if s.flows[me] == f {
			delete(s.flows, me)
		}
		s.mu.Unlock()
		if err != nil && s.ctx.Err() == nil {
			s.o.Logger.Info("a sign-in failed", "name", p.Name, "err", err)
		}
		p.Done(context.WithoutCancel(running), err)
	}()
	return out, nil
}

// add registers a flow, which replaces one with the same name.
func (s *Service) add(me key, f *flow) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fault.Unavailablef("Helix is stopping.")
	}
	if old := s.flows[me]; old != nil {
		old.stop(fault.New(fault.Canceled, "Another sign-in was started."))
		delete(s.flows, me)
	}
	n := 0
	for k := range s.flows {
		if k.user == me.user {
			n++
		}
	}
	if n >= maxFlows {
		return fault.Limitf("%d sign-ins are in progress. Finish one in the browser first.", maxFlows)
	}
	s.flows[me] = f
	s.work.Add(1)
	return nil
}

// check validates the addresses of a server and returns the one that a browser opens.
func (v *Server) check() (*url.URL, error) {
	u, err := url.Parse(v.AuthorizeURL)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && (u.Scheme != "http" || !v.Local || !isLoopback(u)) {
		return nil, fault.Deniedf("The sign-in page (%s) isn't an https address.", shown(v.AuthorizeURL))
	}
	if t, err := url.Parse(v.TokenURL); err != nil || t.Host == "" {
		return nil, fault.Deniedf("The address that issues tokens (%s) isn't valid.", shown(v.TokenURL))
	}
	return u, nil
}

func isLoopback(u *url.URL) bool {
	ip, err := netip.ParseAddr(u.Hostname())
	return strings.EqualFold(u.Hostname(), "localhost") || err == nil && ip.IsLoopback()
}

// register makes Helix known at a server (RFC 7591).
func (s *Service) register(ctx context.Context, v *Server, redirect string, scopes []string) (Client, error) {
	if v.RegisterURL == "" {
		return Client{}, fault.InvalidField("clientId", fault.CodeInvalid, "%s doesn't register programs by itself. Register Helix there and provide the client ID.", host(v.AuthorizeURL))
	}
	method := "none"
	if len(v.Methods) > 0 && !slices.Contains(v.Methods, method) {
		method = v.Methods[0]
	}
	body, err := json.Marshal(map[string]any{
		"client_name": "Helix", "redirect_uris": []string{redirect}, "grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
		"token_endpoint_auth_method": method, "application_type": "native", "scope": strings.Join(scopes, " "),
	})
	if err != nil {
		return Client{}, err
	}
	resp, err := s.client(v.Local).Do(ctx, safehttp.Request{Method: http.MethodPost, URL: v.RegisterURL, Header: http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}}, Body: body})
	if err != nil {
		return Client{}, err
	}
	var got struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
		refusal
	}
	err = json.Unmarshal(resp.Body, &got)
	switch {
	case resp.Status != http.StatusOK && resp.Status != http.StatusCreated:
		return Client{}, got.fault(host(v.RegisterURL), resp.Status, "register Helix")
	case err != nil || got.ID == "" || len(got.ID) > 2000 || len(got.Secret) > maxToken:
		return Client{}, fault.Unavailablef("%s registered Helix without a usable client ID.", host(v.RegisterURL)).WithCause(err)
	}
	return Client{got.ID, got.Secret}, nil
}

// finish waits for the browser, and exchanges the code that it brings for tokens.
func (s *Service) finish(ctx context.Context, f *flow, listener net.Listener) error {
	server := &http.Server{Handler: http.HandlerFunc(f.callback), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 32 << 10}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			f.stop(fault.Unavailablef("The port for the browser was closed.").WithCause(err))
		}
	}()
	defer func() {
		// The page in the browser should still arrive.
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if server.Shutdown(limited) != nil {
			server.Close()
		}
		<-served
	}()
	timer := time.NewTimer(flowTime)
	defer timer.Stop()
	select {
	case q := <-f.answer:
		if err := f.verify(q); err != nil {
			return err
		}
		return s.exchange(ctx, f, q.Get("code"))
	case <-timer.C:
		return fault.New(fault.Timeout, "Nobody signed in within %s. Start again.", flowTime)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

const page = `<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>Helix</title>
<p style="font: 1.2rem system-ui; margin: 3rem">You can close this tab and return to Helix.</p>`

// callback takes the first answer that the browser brings.
func (f *flow) callback(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || r.URL.Path != "/callback" || "http://"+r.Host+"/callback" != f.redirect {
		http.NotFound(w, r)
		return
	}
	select {
	case f.answer <- r.URL.Query():
	default: // it has one
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	w.Write([]byte(page)) //nolint:errcheck // the browser may be gone
}

// verify checks that an answer belongs to this sign-in and has a code.
func (f *flow) verify(q url.Values) error {
	v := f.p.Server
	if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(f.state)) != 1 {
		return fault.Invalidf("The answer of the browser doesn't belong to this sign-in. Start again.")
	}
	iss := q.Get("iss")
	if v.SendsIssuer && iss == "" || iss != "" && v.Issuer != "" && strings.TrimRight(iss, "/") != strings.TrimRight(v.Issuer, "/") {
		return fault.Invalidf("The answer of the browser comes from another server (%s). Nothing was stored.", shown(iss))
	}
	if code := q.Get("error"); code != "" {
		return refusal{code, q.Get("error_description")}.fault(host(v.AuthorizeURL), 0, "sign in")
	}
	if q.Get("code") == "" {
		return fault.Invalidf("The answer of the browser has no code. Start again.")
	}
	return nil
}
