package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/coder/websocket"
)

// wsPipe carries frames over a WebSocket.
type wsPipe struct {
	c    *websocket.Conn
	once sync.Once
}

// Read returns the next text message. A binary message is a frame error and not the end.
func (p *wsPipe) Read(context.Context) ([]byte, error) {
	kind, b, err := p.c.Read(context.Background()) // ended by Close
	if err != nil {
		if websocket.CloseStatus(err) != -1 || errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, err
	}
	if kind != websocket.MessageText {
		return nil, errBinary
	}
	return b, nil
}

func (p *wsPipe) Write(_ context.Context, frame []byte) error {
	return p.c.Write(context.Background(), websocket.MessageText, frame) // ended by Close
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
	if cred == nil {
		if s.unauthed.Add(1) > int32(s.o.Limits.Unauthenticated) {
			s.unauthed.Add(-1)
			return limited(s.o.Limits.AuthTime, "Too many connections are waiting to authenticate.")
		}
	}
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{Subprotocol}, InsecureSkipVerify: true}) // the guard has checked the origin
	if err != nil {
		if cred == nil {
			s.unauthed.Add(-1)
		}
		return errAnswered
	}
	ss := s.newSession(s.callCtx(), &wsPipe{c: c}, "websocket", peerOf(r))
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
