package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/coder/websocket"

	"helix/backend/fault"
)

// wsPipe carries frames over a WebSocket.
type wsPipe struct {
	c      *websocket.Conn
	out    *frameConn // the connection that c uses
	once   sync.Once
	closed atomic.Bool
}

// Read returns the next text message. A binary message is a frame error and does not end the pipe.
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

// scratch is a pool of buffers for readMessage: a message's length is not known in advance, and
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
			return append(newFrame(n), b[:n]...), nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (p *wsPipe) Write(ctx context.Context, frame []byte) error {
	return p.WriteBatch(ctx, [][]byte{frame})
}

// WriteBatch writes several messages with few system calls. It fails when the pipe is closed.
func (p *wsPipe) WriteBatch(_ context.Context, frames [][]byte) error {
	if p.closed.Load() {
		return net.ErrClosed // no message may follow a close frame
	}
	return p.out.writeTexts(frames)
}

// SetReadLimit makes a longer message close the connection with 1009.
func (p *wsPipe) SetReadLimit(n int64) { p.c.SetReadLimit(n) }

// Ping returns when the peer has responded.
func (p *wsPipe) Ping(ctx context.Context) error { return p.c.Ping(ctx) }

// Close sends code and reason and gives the peer a moment to respond. It does not block.
func (p *wsPipe) Close(code int, reason string) {
	p.once.Do(func() {
		p.closed.Store(true)
		if code == 1006 { // the connection is broken: nobody to notify
			p.c.CloseNow() //nolint:errcheck // broken already
			return
		}
		go p.c.Close(websocket.StatusCode(code), reason) //nolint:errcheck // best effort
	})
}

// serveWS upgrades a request that has passed the checks of handler.
func (s *Server) serveWS(w http.ResponseWriter, r *http.Request, cred *credential) error {
	if offered := r.Header.Values("Sec-WebSocket-Protocol"); len(offered) > 0 && !strings.Contains(strings.Join(offered, ","), Subprotocol) {
		return badRequest("the subprotocol is " + Subprotocol)
	}
	if s.stopping.Load() {
		return fault.Unavailablef("Helix is stopping.")
	}
	fw := &frameWriter{ResponseWriter: w}
	c, err := websocket.Accept(fw, r, &websocket.AcceptOptions{Subprotocols: []string{Subprotocol}, InsecureSkipVerify: true}) // the guard has checked the origin
	if err != nil {
		return errAnswered
	}
	ss := s.newSession(s.callCtx(), &wsPipe{c: c, out: fw.conn}, "websocket", peerOf(r))
	if cred == nil {
		ss.wait()
		defer ss.leaveWaiting()
	} else if err := ss.admit(cred); err != nil {
		ss.close(1013, "too many sessions")
		return errAnswered
	}
	ss.collect(fw.conn)
	if err := s.serve(ss); err != nil {
		s.log.Debug("websocket ended", "error", err)
	}
	return errAnswered
}
