package safehttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"helix/backend/fault"
)

// StreamRequest is a Request whose bodies may be larger than memory and may take longer than
// Options.Timeout, which does not apply to it, nor does Request.Timeout.
type StreamRequest struct {
	Request
	// Reader is the body, sent as it is read, instead of Request.Body; nil: Request.Body. A
	// redirect of such a request is refused, because the body cannot be sent again. A Reader that
	// blocks must end with its source: Stream does not close it.
	Reader io.Reader
	// Idle is how long a wait for the network may last without a byte in either direction; 0: 30 s.
	Idle time.Duration
	// MaxBody limits the response body in bytes; 0: Options.MaxBody, negative: no limit.
	MaxBody int64
}

// Stream is a response whose body arrives while it is read. Its Body must be closed; its errors are
// those of Do.
type Stream struct {
	Status int
	URL    string
	Header http.Header
	Body   io.ReadCloser
}

// errIdle ends an exchange that was idle for too long.
var errIdle = errors.New("idle for too long")

// Stream sends r and returns once the header of the response has arrived. The request's body may
// still be being sent.
func (c *Client) Stream(ctx context.Context, r StreamRequest) (*Stream, error) {
	if r.Idle <= 0 {
		r.Idle = 30 * time.Second
	}
	if r.MaxBody == 0 {
		r.MaxBody = c.o.MaxBody
	}
	moving, cancel := context.WithCancelCause(ctx)
	idle := &idleTimer{limit: r.Idle, expire: func() { cancel(errIdle) }}
	failed := func(u *url.URL, err error) error {
		if errors.Is(context.Cause(moving), errIdle) {
			err = context.DeadlineExceeded // regardless of the transport's error
		}
		return failure(ctx, u, err, "sent and took nothing for", r.Idle)
	}
	body := r.Reader
	if body != nil {
		body = &countedReader{r: body, moved: idle.moved}
	}
	idle.wait()
	resp, u, err := c.exchange(moving, r.Request, body, failed) //nolint:bodyclose // the caller closes Stream.Body
	idle.stop()
	if err != nil {
		idle.close()
		cancel(nil)
		return nil, err
	}
	return &Stream{Status: resp.StatusCode, URL: u.String(), Header: resp.Header, Body: &streamBody{
		r: resp.Body, left: r.MaxBody, host: u.Hostname(), idle: idle, failed: func(err error) error { return failed(u, err) }, cancel: cancel,
	}}, nil
}

// idleTimer ends a wait that lasts longer than its limit without any byte being transferred. Its
// timer is set once and checks the time when it fires, so that a read need not reset a timer.
type idleTimer struct {
	limit  time.Duration
	expire func()

	mu      sync.Mutex
	timer   *time.Timer
	set     bool // the timer will fire
	waiting bool
	since   time.Time // start of the wait, or the last byte in it
}

func (t *idleTimer) wait() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting, t.since = true, time.Now()
	switch {
	case t.timer == nil:
		t.timer = time.AfterFunc(t.limit, t.fired)
	case !t.set:
		t.timer.Reset(t.limit)
	}
	t.set = true
}

func (t *idleTimer) fired() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set = false
	if !t.waiting {
		return
	}
	if left := t.limit - time.Since(t.since); left > 0 {
		t.set = true
		t.timer.Reset(left)
		return
	}
	t.expire()
}

func (t *idleTimer) moved() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.since = time.Now()
}

func (t *idleTimer) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = false
}

func (t *idleTimer) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting, t.set = false, false
	t.timer.Stop()
}

// countedReader is the body of a request; the bytes read from it are being sent.
type countedReader struct {
	r     io.Reader
	moved func()
}

func (b *countedReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if n > 0 {
		b.moved()
	}
	return n, err
}

// streamBody is the body of a response. The idle time counts only while the caller is reading.
type streamBody struct {
	r      io.ReadCloser
	left   int64 // bytes that may still arrive; negative: any number
	host   string
	idle   *idleTimer
	failed func(error) error
	cancel context.CancelCauseFunc
}

func (b *streamBody) Read(p []byte) (int, error) {
	b.idle.wait()
	n, err := b.r.Read(p)
	b.idle.stop()
	if b.left >= 0 {
		if int64(n) > b.left {
			n, b.left = int(b.left), 0
			return n, fault.Limitf("The response from %s is larger than allowed.", b.host)
		}
		b.left -= int64(n)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.failed(err)
	}
	return n, err
}

// Close ends the exchange, even if not everything was read.
func (b *streamBody) Close() error {
	b.idle.close()
	b.cancel(nil)
	return b.r.Close()
}

// RoundTrip implements http.RoundTripper, for protocols that begin with a request, such as
// WebSocket. The address is checked as in Do; there are no limits on size and time.
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, err := c.checkURL(r.Context(), r.URL)
	if err != nil {
		return nil, err
	}
	return c.tr.RoundTrip(r.WithContext(ctx))
}
