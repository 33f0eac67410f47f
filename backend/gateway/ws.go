package gateway

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/coder/websocket"

	"helix/backend/fault"
)

// wsPipe carries frames over a WebSocket.
type wsPipe struct {
	c    *websocket.Conn
	out  *gatherConn // nil on the client's side
	once sync.Once
}

// Read returns the next text message. A binary message is a frame error and not the end.
func (p *wsPipe) Read(context.Context) ([]byte, error) {
	kind, r, err := p.c.Reader(context.Background()) // ended by Close
	var frame []byte
	if err == nil {
		frame, err = readMessage(r)
	}
	if err != nil {
		if websocket.CloseStatus(err) != -1 || errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, err
	}
	if kind != websocket.MessageText {
		return nil, errBinary
	}
	return frame, nil
}

// scratch lends buffers to readMessage: a message's length is not known in advance, and
// growing a slice for each would copy a large one several times.
var scratch = sync.Pool{New: func() any { b := make([]byte, 4<<10); return &b }}

const largestScratch = 2 << 20

func readMessage(r io.Reader) ([]byte, error) {
	buf := scratch.Get().(*[]byte)
	b, n := *buf, 0
	defer func() {
		if len(b) <= largestScratch {
			*buf = b
			scratch.Put(buf)
		}
	}()
	for {
		if n == len(b) {
			b = append(b, make([]byte, len(b))...)
		}
		m, err := r.Read(b[n:])
		n += m
		if errors.Is(err, io.EOF) {
			return append(make([]byte, 0, n), b[:n]...), nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (p *wsPipe) Write(_ context.Context, frame []byte) error {
	return p.c.Write(context.Background(), websocket.MessageText, frame) // ended by Close
}

// WriteBatch writes several messages with few system calls.
func (p *wsPipe) WriteBatch(ctx context.Context, frames [][]byte) error {
	if p.out != nil {
		p.out.hold()
		defer p.out.release() //nolint:errcheck // a later write reports it
	}
	for _, f := range frames {
		if err := p.Write(ctx, f); err != nil {
			return err
		}
	}
	if p.out != nil {
		return p.out.release()
	}
	return nil
}

// gatherConn collects what is written between hold and release.
type gatherConn struct {
	net.Conn
	mu   sync.Mutex
	held bool
	buf  []byte
}

const gatherMax = 64 << 10

func (g *gatherConn) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.held || len(g.buf)+len(b) > gatherMax {
		if err := g.flushLocked(); err != nil {
			return 0, err
		}
		if !g.held || len(b) > gatherMax {
			return g.Conn.Write(b)
		}
	}
	g.buf = append(g.buf, b...)
	return len(b), nil
}

func (g *gatherConn) hold() {
	g.mu.Lock()
	g.held = true
	g.mu.Unlock()
}

func (g *gatherConn) release() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = false
	err := g.flushLocked()
	if cap(g.buf) > 16<<10 {
		g.buf = nil // an idle session keeps little
	}
	return err
}

func (g *gatherConn) flushLocked() error {
	if len(g.buf) == 0 {
		return nil
	}
	_, err := g.Conn.Write(g.buf)
	g.buf = g.buf[:0]
	return err
}

// gatherWriter hands the WebSocket library a connection that can gather writes.
type gatherWriter struct {
	http.ResponseWriter
	conn *gatherConn
}

// Hijack implements http.Hijacker.
func (w *gatherWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.conn = &gatherConn{Conn: c}
	return w.conn, bufio.NewReadWriter(rw.Reader, bufio.NewWriterSize(w.conn, 4096)), nil
}

// SetReadLimit makes a longer message close the connection with 1009.
func (p *wsPipe) SetReadLimit(n int64) { p.c.SetReadLimit(n) }

// Ping returns when the peer has answered.
func (p *wsPipe) Ping(ctx context.Context) error { return p.c.Ping(ctx) }

// Close sends code and reason and gives the peer a moment to answer. It does not block.
func (p *wsPipe) Close(code int, reason string) {
	p.once.Do(func() {
		if code == 1006 { // the connection is broken: there is nobody to tell
			p.c.CloseNow() //nolint:errcheck // broken already
			return
		}
		go p.c.Close(websocket.StatusCode(code), reason) //nolint:errcheck // best effort
	})
}

// serveWS upgrades a request that has passed the guard.
func (s *Server) serveWS(w http.ResponseWriter, r *http.Request, cred *credential) error {
	if offered := r.Header.Values("Sec-WebSocket-Protocol"); len(offered) > 0 && !strings.Contains(strings.Join(offered, ","), Subprotocol) {
		return badRequest("the subprotocol is " + Subprotocol)
	}
	if s.stopping.Load() {
		return fault.Unavailablef("Helix is stopping.")
	}
	if cred == nil {
		if s.unauthed.Add(1) > int32(s.o.Limits.Unauthenticated) {
			s.unauthed.Add(-1)
			return limited(s.o.Limits.AuthTime, "Too many connections are waiting to authenticate.")
		}
	}
	gw := &gatherWriter{ResponseWriter: w}
	c, err := websocket.Accept(gw, r, &websocket.AcceptOptions{Subprotocols: []string{Subprotocol}, InsecureSkipVerify: true}) // the guard has checked the origin
	if err != nil {
		if cred == nil {
			s.unauthed.Add(-1)
		}
		return errAnswered
	}
	ss := s.newSession(s.callCtx(), &wsPipe{c: c, out: gw.conn}, "websocket", peerOf(r))
	if cred == nil {
		ss.waiting.Store(true)
		defer ss.leaveWaiting()
	} else if err := ss.admit(cred); err != nil {
		ss.close(1013, "too many sessions")
		return errAnswered
	}
	if err := s.serve(ss); err != nil {
		s.log.Debug("websocket ended", "error", err)
	}
	return errAnswered
}
