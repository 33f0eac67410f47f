// Package oauth signs a user in to services with OAuth 2.1: it finds the authorization server of a
// resource, registers Helix there if that is offered, sends the user through the browser with PKCE and a
// loopback redirect, and keeps the tokens as sealed secrets that it refreshes. MCP servers and tools from
// API descriptions both use it. It has no tables.
package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"

	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/safehttp"
	"helix/backend/storage"
)

// Options configure New. DB and Secrets are required.
type Options struct {
	DB      *storage.DB
	Secrets *storage.Secrets
	Logger  *slog.Logger // nil: slog.Default
	// DenyPort reports whether a port of this computer belongs to Helix; nil: none does.
	DenyPort func(port int) bool
	// HTTP creates HTTP clients, for tests; nil: safehttp.New.
	HTTP func(safehttp.Options) *safehttp.Client
	Now  func() time.Time // nil: time.Now
}

// Service signs users in and keeps their tokens. It is safe for concurrent use.
type Service struct {
	o       Options
	public  *safehttp.Client
	local   *safehttp.Client // may also reach this computer
	refresh singleflight.Group

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	flows  map[key]*flow
}

// key names the tokens of one user.
type key struct {
	user uuid.UUID
	name string
}

// Server is an authorization server.
type Server struct {
	Issuer       string   `json:"issuer,omitempty"`
	AuthorizeURL string   `json:"authorizeUrl,omitempty"`
	TokenURL     string   `json:"tokenUrl"`
	RegisterURL  string   `json:"registerUrl,omitempty"`
	RevokeURL    string   `json:"revokeUrl,omitempty"`
	Methods      []string `json:"methods,omitempty"` // of client authentication at TokenURL
	SendsIssuer  bool     `json:"sendsIssuer,omitempty"`
	Scopes       []string `json:"scopes,omitempty"` // that the resource asks for
	// Resource is the identifier that tokens are requested for; "": none is sent.
	Resource string `json:"resource,omitempty"`
	// Local allows addresses of this computer, because the resource is one.
	Local bool `json:"local,omitempty"`
}

// Client is how Helix is known at a server.
type Client struct {
	ID     string
	Secret string // "": a public client
}

// Limits of an exchange with a server.
const (
	requestTime = 30 * time.Second
	maxAnswer   = 1 << 20
	maxToken    = 32 << 10
	flowTime    = 5 * time.Minute
	maxFlows    = 8 // of a user at once
	refreshAt   = time.Minute
)

// ErrSignIn is the cause of the error if only another sign-in can help.
var ErrSignIn = errors.New("sign-in needed")

// New returns a Service. Close it when it is no longer used.
func New(o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.HTTP == nil {
		o.HTTP = safehttp.New
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Service{o: o, flows: map[key]*flow{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	opts := safehttp.Options{DenyPorts: o.DenyPort, MaxBody: maxAnswer, MaxRedirects: 3, Timeout: requestTime}
	s.public = o.HTTP(opts)
	opts.AllowLoopback = func(int) bool { return true }
	s.local = o.HTTP(opts)
	return s
}

// Close ends the sign-ins in progress and waits for them. It may be called twice.
func (s *Service) Close() error {
	s.cancel()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.work.Wait()
	s.public.Close()
	s.local.Close()
	return nil
}

func (s *Service) client(local bool) *safehttp.Client {
	if local {
		return s.local
	}
	return s.public
}

// get reads a JSON document. found is false if the server has none there.
func (s *Service) get(ctx context.Context, local bool, address string, out any) (found bool, err error) {
	resp, err := s.client(local).Do(ctx, safehttp.Request{URL: address, Header: http.Header{"Accept": {"application/json"}}})
	if err != nil {
		return false, err
	}
	switch {
	case resp.Status >= 400 && resp.Status < 500:
		return false, nil
	case resp.Status != http.StatusOK:
		return false, fault.Unavailablef("%s answered with status %d. Try again later.", host(address), resp.Status)
	}
	if err := json.Unmarshal(resp.Body, out); err != nil {
		return false, fault.Unavailablef("%s answered with something other than JSON.", host(address)).WithCause(err)
	}
	return true, nil
}

// host returns the host of an address, for messages.
func host(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "the server"
	}
	return u.Host
}

// shown returns text of a server for messages.
func shown(text string) string {
	text = permission.Sanitize(text)
	if len(text) > 300 {
		text = text[:300] + "…"
	}
	return text
}
