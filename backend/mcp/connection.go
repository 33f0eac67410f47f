package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"helix/backend/duration"
	"helix/backend/fault"
)

// connection is an open session with a server, with its process or its HTTP client.
type connection struct {
	session  *sdk.ClientSession
	proc     *process      // nil: HTTP
	rt       *roundTripper // nil: stdio
	version  string
	protocol string
	cancel   context.CancelCauseFunc // ends the streams of the connection
	gone     chan struct{}           // closed when the connection closes
	once     sync.Once
}

// legacyProtocol is the newest version with a handshake.
const legacyProtocol = "2025-11-25"

// fetched are programs that download a server before its first start.
var fetched = []string{"npx", "uvx", "bunx", "pnpx", "docker"}

// dial starts or reaches a server and performs the handshake.
func (l *link) dial(ctx context.Context, row *serverRow) (*connection, error) {
	e, err := row.expand(l.s.lookup(ctx))
	if err != nil {
		return nil, err
	}
	limit := duration.Of(row.StartTimeoutMs, time.Millisecond)
	if row.lastStarted.IsZero() && slices.Contains(fetched, strings.TrimSuffix(strings.ToLower(filepath.Base(e.Command)), ".cmd")) {
		limit = max(limit, downloadTimeout)
	}
	// The streams of a connection live as long as the context that it was opened with, so the limit
	// only applies until it is open.
	opening, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	timer := time.AfterFunc(limit, func() { cancel(context.DeadlineExceeded) })
	defer timer.Stop()
	defer context.AfterFunc(ctx, func() { cancel(context.Canceled) })()
	kinds := []string{e.Transport}
	if e.Transport == HTTP {
		kinds = append(kinds, SSE) // many entries don't say which of the two a URL speaks
	}
	var c *connection
	for i, kind := range kinds {
		c, err = l.try(opening, kind, &e, row)
		if err == nil {
			c.cancel = cancel
			return c, nil
		}
		if i > 0 || c == nil || c.rt == nil || !c.rt.notThere() {
			break
		}
	}
	defer cancel(nil)
	if errors.Is(context.Cause(opening), context.DeadlineExceeded) {
		text := fmt.Sprintf("%s: no answer to initialize in %s.", l.name, limit)
		if c != nil && c.proc != nil {
			if tail := l.log.tail(c.proc.from, 3); tail != "" {
				text += " Last lines: " + tail
			}
		}
		return nil, fault.New(fault.Timeout, "%s", text).WithCause(err)
	}
	return nil, err
}

// try opens a connection with one transport. On an error the connection that it returns is closed.
func (l *link) try(ctx context.Context, kind string, e *Server, row *serverRow) (*connection, error) {
	c := &connection{gone: make(chan struct{})}
	var transport sdk.Transport
	switch kind {
	case Stdio:
		f := newFinder(l.s.o.Getenv)
		path, err := f.findOr(e.Command, l.s.o.ShellPath)
		if err != nil {
			return nil, err
		}
		if c.proc, err = startProcess(e, path, f.environment(e.Env), l.log, l.s.left); err != nil {
			return nil, err
		}
		r, w := c.proc.pipes(func() { l.violated(c) })
		transport = &sdk.IOTransport{Reader: r, Writer: w, MaxLineLength: maxMessage}
	default:
		var err error
		if c.rt, err = newRoundTripper(e, l.log, l.s.o.OwnPort, l.authorizer(ctx, row, e)); err != nil {
			return nil, err
		}
		client := &http.Client{Transport: c.rt, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		if kind == SSE {
			transport = &sdk.SSEClientTransport{Endpoint: e.URL, HTTPClient: client, MaxEventSize: maxMessage}
		} else {
			transport = &sdk.StreamableClientTransport{Endpoint: e.URL, HTTPClient: client, MaxEventSize: maxMessage}
		}
	}
	o := &sdk.ClientSessionOptions{}
	if row.protocol != "" && row.protocol <= legacyProtocol || kind == SSE {
		o.ProtocolVersion = legacyProtocol // it is known not to have the newest version, so don't ask again
	}
	session, err := l.client(c).Connect(ctx, transport, o)
	if err != nil {
		err = c.startError(l.name, err)
		c.close()
		return c, err
	}
	c.session = session
	if r := session.InitializeResult(); r != nil {
		c.protocol = r.ProtocolVersion
		if r.ServerInfo != nil {
			c.version = visible(r.ServerInfo.Version, 64)
		}
	}
	return c, nil
}

// client returns the MCP client for a connection. It offers servers nothing but answers to
// elicitation.
func (l *link) client(c *connection) *sdk.Client {
	return sdk.NewClient(&sdk.Implementation{Name: "helix", Title: "Helix", Version: l.s.o.Version}, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{},
		ElicitationHandler: func(ctx context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return l.elicit(ctx, r.Params, c.gone)
		},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
			l.mu.Lock()
			due := !l.stale
			l.stale = true
			l.mu.Unlock()
			if due { // otherwise it is going to be listed
				l.s.spawn(l.relist)
			}
		},
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { l.s.progressed(r.Params) },
	})
}

// startError converts the error of a start that did not reach the end of the handshake.
func (c *connection) startError(name string, err error) error {
	if c.proc != nil {
		if broken := c.proc.broken(); broken != nil {
			return fault.Unavailablef("%s didn't start: %s", name, visible(broken.Error(), 500)).WithCause(err)
		}
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) && waitFor(c.proc.exited, endGrace) {
			return fault.Unavailablef("%s ended before it answered: %s", name, c.proc.how()).WithCause(err)
		}
		return fault.Unavailablef("%s didn't start: %s", name, visible(err.Error(), 500)).WithCause(err)
	}
	return c.translate(name, err)
}

// translate converts an error of the protocol to one that may be shown.
func (c *connection) translate(name string, err error) error {
	if r := c.rt.refused(name); r != nil {
		return r
	}
	var f *fault.Error
	if errors.As(err, &f) {
		return f
	}
	var wire *jsonrpc.Error
	switch {
	case errors.As(err, &wire):
		return fault.Internalf(err, "%s answered with an error: %s (%d)", name, visible(wire.Message, 1000), wire.Code)
	case errors.Is(err, context.DeadlineExceeded):
		return fault.New(fault.Timeout, "%s did not answer in time.", name).WithCause(err)
	case errors.Is(err, context.Canceled):
		return fault.New(fault.Canceled, "The call was canceled.").WithCause(err)
	case c.proc != nil && c.proc.broken() != nil:
		return fault.Internalf(err, "%s broke the protocol: %s.", name, c.proc.broken().Error())
	case closed(err) && c.proc != nil:
		waitFor(c.proc.exited, endGrace)
		return fault.Unavailablef("%s ended during the call: %s", name, c.proc.how()).WithCause(err)
	}
	return fault.Unavailablef("%s is not reachable: %s", name, visible(err.Error(), 500)).WithCause(err)
}

// closed reports whether an error means that the other end is gone.
func closed(err error) bool {
	return errors.Is(err, sdk.ErrConnectionClosed) || errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed)
}

// failure describes the end of a connection that nobody requested.
func (c *connection) failure(name string, err error) string {
	if c.proc != nil {
		if broken := c.proc.broken(); broken != nil {
			return fmt.Sprintf("%s was stopped: %s.", name, broken.Error())
		}
		return fmt.Sprintf("%s ended: %s", name, c.proc.how())
	}
	if err != nil {
		return fmt.Sprintf("The connection to %s ended: %s", name, visible(err.Error(), 500))
	}
	return fmt.Sprintf("The connection to %s ended.", name)
}

// wait returns when the connection has ended.
func (c *connection) wait() error { return c.session.Wait() }

// close ends the session and the process, and waits for both.
func (c *connection) close() {
	c.once.Do(func() {
		close(c.gone)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if c.session != nil {
				_ = c.session.Close() // the other end may be gone
			}
		}()
		if c.proc != nil {
			c.proc.stop()
		}
		if c.rt != nil {
			c.rt.close(ended)
		}
		<-ended
		if c.cancel != nil {
			c.cancel(nil)
		}
	})
}
