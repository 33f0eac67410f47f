package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
)

// RouteSocket adds an address that h makes a WebSocket of its own protocol. The caller is checked
// before the upgrade as Route does; where a client cannot set headers, as in a browser, a ticket in
// the query takes the place of the bearer token. The request's context ends when the token is revoked
// and when the server stops.
func (s *Server) RouteSocket(path string, scope Scope, h func(w http.ResponseWriter, r *http.Request) error) {
	s.addRoute(route{method: http.MethodGet, path: path, auth: ticketAuth, serve: func(w http.ResponseWriter, r *http.Request, cred *credential) error {
		if !cred.scopes.Has(scope) {
			return fault.Deniedf("This token may not do that: it needs the scope %q.", scopeName(scope))
		}
		if s.stopping.Load() {
			return fault.Unavailablef("Helix is stopping.")
		}
		ss, key := s.socketSession(cred, r)
		defer func() {
			s.mu.Lock()
			delete(s.https, key)
			s.mu.Unlock()
			ss.cancel(nil)
		}()
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(ss.ctx, cancel)()
		return h(w, r.WithContext(identity.With(ctx, ss.id)))
	}})
}

// socketSession stands for one socket among the sessions, so that what ends them ends it.
func (s *Server) socketSession(cred *credential, r *http.Request) (*session, string) {
	ss := s.newSession(s.callCtx(), nil, "socket", peerOf(r))
	ss.cred = cred
	ss.client = ClientInfo{ID: clip(r.UserAgent())}
	ss.id = cred.identity(ss.conn, cred.scopes, "websocket", ss.client.ID)
	ss.lastUse = time.Now().AddDate(100, 0, 0) // it ends with its socket, not when it has been idle
	key := "socket:" + uuid.NewString()
	s.mu.Lock()
	s.https[key] = ss
	s.mu.Unlock()
	return ss, key
}

// authenticateTicket lets a caller in by the ticket in its query.
func (h *handler) authenticateTicket(r *http.Request) (*credential, error) {
	ticket := r.URL.Query().Get("ticket")
	if ticket == "" {
		return nil, unauthenticated()
	}
	token, _, err := h.s.auth.redeem(ticket, peerOf(r))
	if err != nil {
		return nil, err
	}
	return h.s.auth.check(r.Context(), token, peerOf(r))
}
