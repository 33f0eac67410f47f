package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"helix/backend/fault"
	"helix/backend/safehttp"
)

// streamIdle is how long a stream of a server may be silent.
const streamIdle = time.Hour

// roundTripper sends the requests of one server through safehttp: to its host only, with its headers.
type roundTripper struct {
	client  *safehttp.Client
	host    string
	headers map[string]string
	log     *serverLog
	auth    *authorizer // nil: the headers have all that is needed

	ctx    context.Context // ends all requests
	cancel context.CancelFunc

	mu     sync.Mutex
	last   *statusError // the last refusal, which the SDK does not pass on
	status int          // of the last answer
	failed error        // the last request that was not sent
}

// notThere reports whether the last answer means that the server has no streamable HTTP.
func (t *roundTripper) notThere() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status == http.StatusNotFound || t.status == http.StatusMethodNotAllowed || t.status == http.StatusBadRequest
}

// close ends all requests as soon as the session has ended, or after a short time.
func (t *roundTripper) close(ended <-chan struct{}) {
	waitFor(ended, stopGrace)
	t.cancel()
	t.client.Close()
}

// statusError is an HTTP status that is not an answer of the protocol.
type statusError struct {
	status int
	retry  string // of the header Retry-After
	scope  bool   // the token is valid, but allows too little
}

func (e *statusError) Error() string { return fmt.Sprintf("HTTP status %d", e.status) }

// newRoundTripper returns the transport for an expanded entry. ownPort reports ports of Helix itself.
func newRoundTripper(e *Server, log *serverLog, ownPort func(int) bool, auth *authorizer) (*roundTripper, error) {
	u, err := url.Parse(e.URL)
	if err != nil || u.Host == "" {
		return nil, fault.Invalidf("The URL of %s isn't valid.", e.Name)
	}
	t := &roundTripper{host: u.Host, headers: e.Headers, log: log, auth: auth}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	port, local := portOf(u), isLoopback(u.Hostname())
	t.client = safehttp.New(safehttp.Options{
		MaxRequest: maxMessage, MaxRedirects: 3, DenyPorts: ownPort,
		AllowLoopback: func(p int) bool { return local && p == port },
		Check: func(_ context.Context, u *url.URL) error {
			if !strings.EqualFold(u.Host, t.host) {
				return fault.Deniedf("%s redirects to another host (%s), which isn't allowed.", e.Name, u.Hostname())
			}
			return nil
		},
	})
	return t, nil
}

// RoundTrip implements http.RoundTripper.
func (t *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		body, err = io.ReadAll(io.LimitReader(req.Body, maxMessage+1))
		req.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	token, err := t.auth.token("")
	if err != nil {
		return nil, t.keep(err)
	}
	resp, err := t.send(req, body, token)
	if err == nil && resp.StatusCode == http.StatusUnauthorized && token != "" { // it may have expired earlier than it said
		renewed, rerr := t.auth.token(token)
		if rerr != nil {
			t.keep(rerr) //nolint:errcheck // refused reports it, with the answer of the server
		} else {
			resp.Body.Close()
			resp, err = t.send(req, body, renewed)
		}
	}
	return resp, err
}

// keep remembers an error that the SDK does not pass on, and returns it.
func (t *roundTripper) keep(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed = err
	return err
}

// send sends a request with a token, if there is one.
func (t *roundTripper) send(req *http.Request, body []byte, token string) (*http.Response, error) {
	header := req.Header.Clone()
	sensitive := make([]string, 0, len(t.headers))
	for k, v := range t.headers {
		header.Set(k, v)
		sensitive = append(sensitive, k)
	}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	t.log.add("rpc", "→ "+req.Method+" "+summary(body))
	ctx, cancel := context.WithCancel(req.Context())
	unwatch := context.AfterFunc(t.ctx, cancel)
	resp, err := t.client.Stream(ctx, safehttp.StreamRequest{
		Request: safehttp.Request{Method: req.Method, URL: req.URL.String(), Header: header, Body: body, Sensitive: sensitive, SensitiveBody: true},
		Idle:    streamIdle, MaxBody: -1,
	})
	if err != nil {
		unwatch()
		cancel()
		t.log.add("rpc", "← "+fault.As(err).Message)
		return nil, err
	}
	t.log.add("rpc", fmt.Sprintf("← status %d", resp.Status))
	t.mu.Lock()
	t.last, t.failed, t.status = nil, nil, resp.Status
	if resp.Status == http.StatusUnauthorized || resp.Status == http.StatusForbidden || resp.Status == http.StatusTooManyRequests || resp.Status >= http.StatusInternalServerError {
		t.last = &statusError{resp.Status, resp.Header.Get("Retry-After"), resp.Status == http.StatusForbidden && strings.Contains(resp.Header.Get("WWW-Authenticate"), "insufficient_scope")}
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.Status == http.StatusOK && kind != "application/json" && kind != "text/event-stream" && isCall(body) {
		t.failed = fault.Unavailablef("%s isn't an MCP server: it answered with %s. Check the URL.", t.host, visible(cmp.Or(kind, "no content type"), 100))
	}
	t.mu.Unlock()
	if resp.Header.Get("WWW-Authenticate") != "" {
		t.auth.refused(resp.Header)
	}
	content := io.ReadCloser(&endingBody{resp.Body, func() { unwatch(); cancel() }})
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		content = &limitedBody{ReadCloser: content, left: maxMessage}
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", resp.Status, http.StatusText(resp.Status)), StatusCode: resp.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: resp.Header, Body: content, ContentLength: -1, Request: req,
	}, nil
}

// isCall reports whether a message is answered; what comes back for others is of no interest.
func isCall(message []byte) bool {
	var m struct {
		ID     any    `json:"id"`
		Method string `json:"method"`
	}
	return json.Unmarshal(message, &m) == nil && m.ID != nil && m.Method != ""
}

// refused returns the last refusal as an error, or nil.
func (t *roundTripper) refused(name string) *fault.Error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed != nil {
		return fault.As(t.failed)
	}
	if t.last == nil {
		return nil
	}
	switch {
	case t.last.status == http.StatusUnauthorized:
		return fault.Unavailablef("%s asks for authentication (401). Sign in with helix mcp auth %s, or add a header with a token to its entry.", name, name).WithCause(errNeedsAuth)
	case t.last.scope:
		return fault.Unavailablef("The sign-in at %s doesn't allow this (403). Sign in again to extend it: helix mcp auth %s", name, name).WithCause(errNeedsAuth)
	case t.last.status == http.StatusForbidden:
		return fault.Deniedf("%s refused the request (403).", name)
	case t.last.status >= http.StatusInternalServerError:
		return fault.Unavailablef("%s doesn't work now (%d %s). Try again later.", name, t.last.status, http.StatusText(t.last.status))
	}
	if t.last.retry != "" {
		return fault.Limitf("%s receives too many requests (429). Try again after %s seconds.", name, visible(t.last.retry, 40))
	}
	return fault.Limitf("%s receives too many requests (429). Try again later.", name)
}

// endingBody calls end when it is closed.
type endingBody struct {
	io.ReadCloser
	end func()
}

func (b *endingBody) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}

// limitedBody fails when more than left bytes are read.
type limitedBody struct {
	io.ReadCloser
	left int64
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fault.Limitf("The server's answer is larger than %d bytes.", maxMessage)
	}
	return n, err
}
