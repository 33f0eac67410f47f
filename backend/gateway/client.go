package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"helix/backend/duration"
	"helix/backend/fault"
)

// ClientOptions configure a Client. URL or Pipe is required.
type ClientOptions struct {
	URL    string     // http://127.0.0.1:18789
	Token  string     // not needed if the pipe is authenticated
	Client ClientInfo // how the client identifies itself
	Scopes []string   // scopes to request; empty: read
	Locale string

	// Pipe opens the connection instead of URL, and also for reconnects.
	Pipe func(ctx context.Context) (Pipe, error)
	// OnState is called with true when the session is open and with false when it is lost. It must
	// not block.
	OnState func(connected bool)

	once bool // a single pipe: do not reconnect
	wait func(ctx context.Context, attempt int) error
}

// Event is one notification from the server.
type Event struct {
	Name string
	Seq  uint64
	Time time.Time
	Data json.RawMessage
}

// Client calls a backend. It reconnects automatically, receives the events that it missed, and
// repeats calls that are safe to repeat. It is safe for concurrent use.
type Client struct {
	o      ClientOptions
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan struct{}

	mu      sync.Mutex
	out     *outbox // nil while disconnected
	hello   Hello
	next    uint64
	calls   map[string]*pending
	follows map[*follow]bool
	scopes  map[string]string // method → scope, loaded on demand
	fatal   error
}

type pending struct {
	id       string
	method   string
	frame    []byte
	keyed    bool // carries an idempotency key
	repeated bool // sent on more than one connection; used only by the reader
	done     chan answer
}

type answer struct {
	result json.RawMessage // part of frame
	frame  []byte
	err    error
}

// Dial connects and returns when the session is open. It does not retry the first attempt: the
// error says why it failed. After that the client reconnects until Close.
func Dial(ctx context.Context, o ClientOptions) (*Client, error) {
	if o.Pipe == nil {
		o.Pipe = func(ctx context.Context) (Pipe, error) { return dialWS(ctx, o.URL, nil) }
	}
	return dial(ctx, o)
}

// DialOver opens a session over p only; when p ends, so does the client.
func DialOver(ctx context.Context, p Pipe, o ClientOptions) (*Client, error) {
	o.once = true
	o.Pipe = func(context.Context) (Pipe, error) { return p, nil }
	return dial(ctx, o)
}

// ClientPipe is a pipe to another process.
type ClientPipe struct{ *wsPipe }

// Close ends the pipe with a normal close.
func (p ClientPipe) Close() error {
	p.wsPipe.Close(1000, "")
	return nil
}

// DialPipe opens a WebSocket that is authenticated with o.Token and sends no frames itself: what is
// written to it goes to the server unchanged.
func DialPipe(ctx context.Context, o ClientOptions) (ClientPipe, error) {
	p, err := dialWS(ctx, o.URL, http.Header{"Authorization": {"Bearer " + o.Token}})
	return ClientPipe{p}, err
}

func dialWS(ctx context.Context, url string, head http.Header) (*wsPipe, error) {
	var out *frameConn
	transport := &http.Transport{DisableKeepAlives: true, // a failed upgrade leaves nothing behind
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			out = &frameConn{Conn: conn, client: true}
			return out, nil
		}}
	//nolint:bodyclose // the library closes it
	c, resp, err := websocket.Dial(ctx, url+"/ws", &websocket.DialOptions{Subprotocols: []string{Subprotocol}, HTTPHeader: head,
		HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		if resp != nil && resp.StatusCode == http.StatusUnauthorized {
			return nil, &fault.Error{Kind: fault.Denied, Message: unauthenticated().Message, Err: err}
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fault.Unavailablef("Helix does not answer.").WithCause(err)
	}
	c.SetReadLimit(32 << 20)
	return &wsPipe{c: c, out: out}, nil
}

func dial(ctx context.Context, o ClientOptions) (*Client, error) {
	if o.wait == nil {
		o.wait = backoff
	}
	c := &Client{o: o, calls: map[string]*pending{}, follows: map[*follow]bool{}, ended: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	p, h, err := c.open(ctx)
	if err != nil {
		c.cancel()
		return nil, err
	}
	out := c.outboxFor(p)
	c.up(out, h)
	go c.run(p, out)
	return c, nil
}

// open creates a pipe and connects over it.
func (c *Client) open(ctx context.Context) (Pipe, Hello, error) {
	var h Hello
	p, err := c.o.Pipe(ctx)
	if err != nil {
		return nil, h, err
	}
	params := ConnectParams{MinProtocol: Protocol, MaxProtocol: Protocol, Client: c.o.Client, Scopes: c.o.Scopes, Locale: c.o.Locale}
	if c.o.Token != "" {
		params.Auth = &ConnectAuth{Token: c.o.Token}
	}
	raw, err := c.exchange(ctx, p, "connect", params)
	if err == nil {
		err = json.Unmarshal(raw, &h)
	}
	if err != nil {
		closePipe(p)
		return nil, h, err
	}
	return p, h, nil
}

// exchange makes one call on a pipe before the reader uses it.
func (c *Client) exchange(ctx context.Context, p Pipe, method string, params any) (json.RawMessage, error) {
	stop := context.AfterFunc(ctx, func() { closePipe(p) })
	defer stop()
	b, err := marshal(params)
	if err != nil {
		return nil, err
	}
	if err := p.Write(ctx, requestFrame("0", method, b)); err != nil {
		return nil, lost(ctx, err)
	}
	for {
		f, err := p.Read(ctx)
		if err != nil {
			return nil, lost(ctx, err)
		}
		m, err := readFrame(f)
		if err != nil {
			return nil, err
		}
		if m.Method != "" {
			c.heard(m)
			continue
		}
		if m.Error != nil {
			return nil, m.Error.fault()
		}
		return m.Result, nil
	}
}

func lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fault.Unavailablef("The connection to Helix was lost.").WithCause(err)
}

func closePipe(p Pipe) {
	switch x := p.(type) {
	case closer:
		x.Close(1000, "")
	case interface{ Close() error }:
		x.Close() //nolint:errcheck // it is not used anyway
	}
}

func requestFrame(id, method string, params []byte) []byte {
	b := make([]byte, 0, len(params)+len(method)+len(id)+60)
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = append(b, id...)
	b = append(b, `,"method":"`...)
	b = append(b, method...)
	b = append(b, `","params":`...)
	b = append(b, params...)
	return append(b, '}')
}

// inbound is any frame that a server sends.
type inbound struct {
	ID, Params, Result json.RawMessage
	Method             string
	Error              *inboundError
}

type inboundError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    struct {
		Kind         fault.Kind      `json:"kind"`
		Code         string          `json:"code"`
		Details      json.RawMessage `json:"details"`
		RetryAfterMs int64           `json:"retryAfterMs"`
		RequestID    string          `json:"requestId"`
	} `json:"data"`
}

// readFrame decodes the members of a frame in one pass.
func readFrame(f []byte) (m inbound, err error) {
	if !utf8.Valid(f) {
		return m, fault.Internalf(errUTF8, "Helix sent a frame that is not text.")
	}
	s := scanner{b: f}
	s.space()
	if s.peek() != '{' {
		return m, fault.Internalf(errSyntax, "Helix sent a frame that is not an object.")
	}
	err = s.object(1, func(x member) error {
		switch string(x.key) {
		case "id":
			m.ID = x.raw
		case "method":
			name, err := unquote(x.raw)
			m.Method = string(name)
			return err
		case "params":
			m.Params = x.raw
		case "result":
			m.Result = x.raw
		case "error":
			return json.Unmarshal(x.raw, &m.Error)
		}
		return nil
	})
	if err != nil {
		return m, fault.Internalf(err, "Helix sent a frame that is not JSON.")
	}
	return m, nil
}

// RemoteError is the cause of an error that the server sent.
type RemoteError struct {
	Code      int    // JSON-RPC
	DataCode  string // data.code
	RequestID string // for finding it in the server's log
}

// Error contains the code and the request id.
func (e *RemoteError) Error() string {
	return fmt.Sprintf("code %d (%s), request %s", e.Code, e.DataCode, e.RequestID)
}

func (e *inboundError) fault() error {
	kind := e.Data.Kind
	if kind == "" {
		kind = fault.Internal
	}
	f := &fault.Error{Kind: kind, Message: e.Message, RetryAfter: duration.Of(e.Data.RetryAfterMs, time.Millisecond),
		Err: &RemoteError{e.Code, e.Data.Code, e.Data.RequestID}}
	if len(e.Data.Details) > 0 {
		f.Details = e.Data.Details
	}
	return f
}

// Hello returns the server's answer when the session was last opened.
func (c *Client) Hello() Hello {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hello
}

type idempotencyCtx struct{}

// WithIdempotencyKey makes Call send key, so that the call is done only once however often it is
// repeated. The client then repeats it automatically after a lost connection.
func WithIdempotencyKey(ctx context.Context, key uuid.UUID) context.Context {
	return context.WithValue(ctx, idempotencyCtx{}, key)
}

// Call calls method with params, a struct or map (nil: none), and decodes the result into
// result unless that is nil. Errors of the server are *fault.Error with a *RemoteError as
// their cause. When ctx ends the call is canceled on the server too. A call that was running when
// the connection was lost is Unavailable, unless it is safe to repeat: it only reads, or ctx has an
// idempotency key.
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	raw, keyed, err := encodeParams(ctx, params)
	if err != nil {
		return err
	}
	p := &pending{method: method, keyed: keyed, done: make(chan answer, 1)}
	c.mu.Lock()
	if c.fatal != nil {
		c.mu.Unlock()
		return c.fatal
	}
	c.next++
	p.id = strconv.FormatUint(c.next, 10)
	p.frame = requestFrame(p.id, method, raw)
	c.calls[p.id] = p
	out := c.out
	c.mu.Unlock()
	if out != nil { // otherwise it is sent once the session is open again
		out.send(p.frame)
	}
	select {
	case a := <-p.done:
		if a.err != nil || result == nil {
			return a.err
		}
		if raw, ok := result.(*json.RawMessage); ok {
			*raw = a.result
			return nil
		}
		err := readJSON(a.result, result)
		recycle(a.frame)
		return err
	case <-ctx.Done():
		c.mu.Lock()
		delete(c.calls, p.id)
		out := c.out
		c.mu.Unlock()
		if out != nil {
			out.send([]byte(`{"jsonrpc":"2.0","method":"rpc.cancel","params":{"ids":[` + p.id + `]}}`))
		}
		return ctx.Err()
	}
}

func encodeParams(ctx context.Context, params any) (raw []byte, keyed bool, err error) {
	raw = []byte("{}")
	if params != nil {
		if raw, err = marshal(params); err != nil {
			return nil, false, err
		}
	}
	key, keyed := ctx.Value(idempotencyCtx{}).(uuid.UUID)
	if keyed {
		m := map[string]json.RawMessage{}
		if err := json.Unmarshal(raw, &m); err != nil {
			return nil, false, fault.Invalidf("Params must be an object.")
		}
		m["_meta"] = json.RawMessage(`{"idempotencyKey":"` + key.String() + `"}`)
		raw, err = json.Marshal(m)
	}
	return raw, keyed, err
}

// outboxFor queues the outgoing frames of p; calls made at the same time share a write. A failed
// write closes the pipe, which the reader notices.
func (c *Client) outboxFor(p Pipe) *outbox {
	return &outbox{pipe: p, share: true, blocked: 30 * time.Second, room: make(chan struct{}, 1), fail: func(error, bool) { closePipe(p) }}
}

// Close ends the session and every running call.
func (c *Client) Close() error {
	c.cancel()
	c.mu.Lock()
	out := c.out
	c.mu.Unlock()
	if out != nil {
		closePipe(out.pipe)
	}
	<-c.ended
	return nil
}

var errClientClosed = errors.New("gateway: the client is closed")
