package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
)

// route is one HTTP address. serve is called after all checks before decoding have passed; an error
// that it returns is sent in the common form.
type route struct {
	method string
	path   string
	auth   authKind
	scope  Scope
	costly bool
	own    Authenticator // authenticates the caller instead of a bearer token
	serve  func(w http.ResponseWriter, r *http.Request, cred *credential) error
}

type authKind uint8

const (
	noAuth authKind = iota
	maybeAuth
	needAuth
	ticketAuth // a bearer token, or a ticket in the query
)

// errAnswered means that the route has already written its response.
var errAnswered = errors.New("answered")

// Route adds an HTTP route of a domain, such as POST /execute; call it before the server runs. h is
// called with the caller's identity in the request's context, after Host, Origin, token, scope and
// rate were checked. An error that h returns before it wrote anything is sent as JSON in the common
// form.
//
// A path may have several methods. A path that ends in a slash matches all paths below it.
func (s *Server) Route(method, path string, scope Scope, costly bool, h func(w http.ResponseWriter, r *http.Request) error) {
	s.addRoute(route{method: method, path: path, auth: needAuth, scope: scope, costly: costly,
		serve: func(w http.ResponseWriter, r *http.Request, cred *credential) error {
			id := cred.identity(cred.id, cred.scopes, "http", "")
			return h(w, r.WithContext(identity.With(r.Context(), id)))
		}})
}

// Authenticator returns who sends a request, or why it is refused.
type Authenticator func(r *http.Request) (identity.Identity, error)

// RouteOwn is Route for a path that does not use the gateway's tokens: auth authenticates the
// caller, after Host and Origin were checked. The identity that it returns must have the scope, and
// is in the context of h.
func (s *Server) RouteOwn(method, path string, scope Scope, costly bool, auth Authenticator, h func(w http.ResponseWriter, r *http.Request) error) {
	s.addRoute(route{method: method, path: path, scope: scope, costly: costly, own: auth,
		serve: func(w http.ResponseWriter, r *http.Request, _ *credential) error { return h(w, r) }})
}

func (s *Server) addRoute(r route) {
	s.routes[r.path] = append(slices.DeleteFunc(s.routes[r.path], func(old route) bool { return old.method == r.method }), r)
}

func (s *Server) builtinRoutes() map[string][]route {
	m := map[string][]route{}
	for _, r := range []route{
		{method: "GET", path: "/healthz", serve: s.serveHealth},
		{method: "GET", path: "/health", serve: s.serveHealth},
		{method: "POST", path: "/session", serve: s.serveTicket},
		{method: "GET", path: "/ws", auth: maybeAuth, serve: s.serveWS},
		{method: "POST", path: "/rpc", auth: needAuth, serve: s.serveRPC},
		{method: "GET", path: "/openrpc.json", auth: needAuth, scope: Read, serve: s.serveDocument},
		{method: "GET", path: "/blobs/", serve: s.serveBlob},
	} {
		m[r.path] = []route{r}
	}
	for path, all := range s.routes {
		m[path] = all
	}
	return m
}

// handler serves one listener: the main one, or an additional one with some of the routes.
type handler struct {
	s      *Server
	port   string
	hosts  []string
	routes map[string][]route
	extra  bool
}

func (s *Server) newHandler(addr net.Addr, extra *Extra) *handler {
	_, port, _ := net.SplitHostPort(addr.String()) // a TCP address
	h := &handler{s: s, port: port, routes: s.builtinRoutes(), extra: extra != nil}
	for _, name := range []string{"127.0.0.1", "localhost", "[::1]"} {
		h.hosts = append(h.hosts, name+":"+port)
	}
	if extra != nil {
		all := h.routes
		h.routes = map[string][]route{"/healthz": all["/healthz"], "/health": all["/health"]}
		for path, target := range extra.Routes {
			if r, ok := all[target]; ok {
				h.routes[path] = r
			}
		}
	}
	return h
}

// ServeHTTP checks in this order: Host, Origin, Sec-Fetch-Site, token, scope, rate. Only then does
// a route process the request.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		if v := recover(); v != nil {
			if v == http.ErrAbortHandler { //nolint:errorlint // a sentinel of net/http
				panic(v)
			}
			h.fail(w, fault.Caught(v))
		}
	}()
	head := w.Header()
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Cache-Control", "no-store")
	if !h.allowed(r) {
		h.fail(w, fault.Deniedf("This address is only for programs on this computer."))
		return
	}
	if origin := r.Header.Get("Origin"); origin != "" && !slices.Contains(h.ownOrigins(), origin) {
		// A listed origin: the window's own scheme, or one from gateway.origins.
		head.Set("Access-Control-Allow-Origin", origin)
		head.Set("Vary", "Origin")
		head.Set("Cross-Origin-Resource-Policy", "cross-origin")
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			head.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
			head.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Range")
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	if err := h.route(w, r); err != nil && err != errAnswered { //nolint:errorlint // a sentinel
		h.fail(w, err)
	}
}

// allowed reports whether the request is from this computer and not from a page of another origin.
func (h *handler) allowed(r *http.Request) bool {
	if !slices.Contains(h.hosts, strings.ToLower(r.Host)) {
		return false
	}
	if origin, ok := r.Header["Origin"]; ok {
		if len(origin) != 1 {
			return false
		}
		known := slices.Contains(h.ownOrigins(), origin[0]) || slices.Contains(windowOrigins, origin[0]) || slices.Contains(h.s.o.Origins, origin[0])
		if !known {
			return false
		}
	}
	return r.Header.Get("Sec-Fetch-Site") != "cross-site" || h.visit(r)
}

// visit reports whether a browser tab navigates to the front page, which pages of other origins may
// cause: `helix ui` opens the browser with a private file that does. The page contains nothing
// private; its ticket is in the fragment, which only the tab sees. Frames, scripts, images and
// requests of other pages are still refused, and so is every other path.
func (h *handler) visit(r *http.Request) bool {
	_, origin := r.Header["Origin"]
	return !h.extra && r.URL.Path == "/" && r.URL.RawQuery == "" && (r.Method == http.MethodGet || r.Method == http.MethodHead) && !origin &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

var windowOrigins = []string{"wails://wails", "wails://wails.localhost", "http://wails.localhost"}

func (h *handler) ownOrigins() []string {
	return []string{"http://127.0.0.1:" + h.port, "http://localhost:" + h.port, "http://[::1]:" + h.port}
}

func (h *handler) route(w http.ResponseWriter, r *http.Request) error {
	all := h.routesAt(r.URL.Path)
	if all == nil {
		if h.extra || (r.Method != http.MethodGet && r.Method != http.MethodHead) {
			return fault.NotFoundf("Nothing found at this address.")
		}
		return h.serveWeb(w, r)
	}
	i := slices.IndexFunc(all, func(rt route) bool {
		return r.Method == rt.method || rt.method == http.MethodGet && r.Method == http.MethodHead
	})
	if i < 0 {
		var methods []string
		for _, rt := range all {
			methods = append(methods, rt.method)
		}
		allow := strings.Join(methods, ", ")
		w.Header().Set("Allow", allow)
		e := badRequest("this address answers " + allow)
		e.status = http.StatusMethodNotAllowed
		return e
	}
	rt := all[i]
	if rt.own != nil {
		return h.serveOwn(w, r, &rt)
	}
	cred, err := h.authenticate(r, rt.auth)
	if err != nil {
		return err
	}
	if rt.scope != None {
		if !cred.scopes.Has(rt.scope) {
			return fault.Deniedf("This token can't do that: it needs the scope %q.", scopeName(rt.scope))
		}
		if h.s.stopping.Load() {
			return fault.Unavailablef("Helix is stopping.")
		}
		ss, err := h.s.httpSession(cred, r)
		if err != nil {
			return err
		}
		if rt.scope != Read {
			if after, ok := ss.writes.take(time.Now()); !ok {
				return limited(after, "Too many changes at once. Try again in a moment.")
			}
		}
	}
	if rt.costly {
		if after, ok := h.s.costly.take(cred.user.ID, time.Now()); !ok {
			return limited(after, "Too many expensive calls at once. Try again in a moment.")
		}
	}
	return rt.serve(w, r, cred)
}

// routesAt returns the routes of a path by method; nil if there are none. The longest prefix wins.
func (h *handler) routesAt(path string) []route {
	for at := path; ; {
		if all := h.routes[at]; all != nil {
			return all
		}
		i := strings.LastIndexByte(strings.TrimSuffix(at, "/"), '/')
		if i < 0 {
			return nil
		}
		at = at[:i+1]
	}
}

// serveOwn serves a path that authenticates its callers itself.
func (h *handler) serveOwn(w http.ResponseWriter, r *http.Request, rt *route) error {
	id, err := rt.own(r)
	if err != nil {
		return err
	}
	if id.User == uuid.Nil {
		return unauthenticated()
	}
	if !id.Scopes.Has(rt.scope) {
		return fault.Deniedf("This caller can't do that: it needs the scope %q.", scopeName(rt.scope))
	}
	if h.s.stopping.Load() {
		return fault.Unavailablef("Helix is stopping.")
	}
	if rt.costly {
		if after, ok := h.s.costly.take(id.User, time.Now()); !ok {
			return limited(after, "Too many expensive calls at once. Try again in a moment.")
		}
	}
	return rt.serve(w, r.WithContext(identity.With(r.Context(), id)), nil)
}

// authenticate reads the bearer token. A token that is sent must be correct even if none is
// required.
func (h *handler) authenticate(r *http.Request, kind authKind) (*credential, error) {
	if kind == noAuth {
		return nil, nil
	}
	head := r.Header.Get("Authorization")
	if head == "" && kind == maybeAuth {
		return nil, nil
	}
	if head == "" && kind == ticketAuth {
		return h.authenticateTicket(r)
	}
	word, token, _ := strings.Cut(head, " ")
	if head == "" || !strings.EqualFold(word, "Bearer") {
		return nil, unauthenticated()
	}
	return h.s.auth.check(r.Context(), strings.TrimSpace(token), peerOf(r))
}

// fail sends err as JSON: {"error": {code, message, data}}.
func (h *handler) fail(w http.ResponseWriter, err error) {
	we, internal := toWire(err)
	if internal {
		h.s.log.Error("request failed", slog.String("requestId", we.Data.RequestID), slog.Any("error", err))
	}
	writeError(w, we)
}

func writeError(w http.ResponseWriter, we *wireError) {
	if we.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="helix"`)
	}
	body := append([]byte(`{"error":`), we.json()...)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(we.status)
	w.Write(append(body, "}\n"...)) // the client has gone
}

func writeJSON(w http.ResponseWriter, status int, v any) error {
	b, err := marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(b, '\n')) // the client has gone
	return errAnswered
}

// peerOf returns the address under which wrong tokens are counted.
func peerOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// httpSession returns the permanent session of a credential on POST /rpc, so that its calls share
// one set of limits, and it can be listed and closed.
func (s *Server) httpSession(cred *credential, r *http.Request) (*session, error) {
	key := cred.client.String() + ":" + cred.id.String()
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, old := range s.https {
		if now.Sub(old.lastUse) > 5*time.Minute && len(old.slots) == 0 {
			delete(s.https, k)
			old.cancel(nil)
		}
	}
	ss := s.https[key]
	if ss == nil || ss.cred != cred { // the root token may have been replaced
		ss = s.newSession(s.callCtx(), nil, "http", peerOf(r))
		ss.cred = cred
		ss.client = ClientInfo{ID: clip(r.UserAgent())}
		ss.id = cred.identity(ss.conn, cred.scopes, "http", ss.client.ID)
		h := s.hubs[cred.user.ID]
		if h == nil {
			h = &hub{srv: s, user: cred.user.ID, live: map[*session]struct{}{}}
			s.hubs[cred.user.ID] = h
		}
		ss.hub = h
		s.https[key] = ss
		context.AfterFunc(ss.ctx, func() { s.sessionEnded(ss) })
	}
	ss.lastUse = now
	return ss, nil
}

// serveRPC answers one request object or one batch. A single error has its HTTP status; a batch is
// 200, with the errors in its entries; only notifications are 204.
func (s *Server) serveRPC(w http.ResponseWriter, r *http.Request, cred *credential) error {
	ss, err := s.httpSession(cred, r)
	if err != nil {
		return err
	}
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Minute)) //nolint:errcheck // only a real connection has one
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(s.o.Limits.MaxPayload)))
	if err != nil {
		var tooBig *http.MaxBytesError
		if errors.As(err, &tooBig) {
			we, _ := toWire(fault.Limitf("A frame can have at most %d bytes.", tooBig.Limit))
			we.status = http.StatusRequestEntityTooLarge
			return s.writeFrame(w, we.status, errorFrame(nullID, we))
		}
		return badRequest("the body did not arrive")
	}
	reqs, batch, err := parseFrame(body)
	if err != nil {
		we := ss.logged("", parseError(err))
		return s.writeFrame(w, we.status, errorFrame(nullID, we))
	}
	// If the client disconnects, the calls are canceled, as when any other session closes.
	own, release := ss.detached(r.Context())
	defer release()
	if batch {
		select {
		case ss.batch <- struct{}{}:
			defer func() { <-ss.batch }()
		case <-r.Context().Done():
			return errAnswered
		}
		return s.writeFrame(w, http.StatusOK, joinBatch(own.answerBatch(reqs)))
	}
	req := &reqs[0]
	if req.bad == nil && req.id == nil {
		w.WriteHeader(http.StatusNoContent)
		return errAnswered
	}
	c, err := own.admitCall(req, false)
	if err != nil {
		we := ss.logged(req.method, err)
		return s.writeFrame(w, we.status, errorFrame(req.id, we))
	}
	frame, status := c.runStatus()
	return s.writeFrame(w, status, frame)
}

func (s *Server) writeFrame(w http.ResponseWriter, status int, frame []byte) error {
	if frame == nil {
		w.WriteHeader(http.StatusNoContent)
		return errAnswered
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(frame) // the client has gone
	return errAnswered
}

// serveTicket redeems a ticket: {ticket} → {token, expiresAt}.
func (s *Server) serveTicket(w http.ResponseWriter, r *http.Request, _ *credential) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 4<<10))
	if err != nil {
		return badRequest("the body is too large")
	}
	var p struct {
		Ticket string `json:"ticket"`
	}
	if validate(body) != nil || json.Unmarshal(body, &p) != nil || p.Ticket == "" {
		return badParams("expected {\"ticket\": \"…\"}")
	}
	token, expires, err := s.auth.redeem(p.Ticket, peerOf(r))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, map[string]any{"token": token, "expiresAt": expires.UTC()})
}

// serveHealth reports that the program is running. The response contains nothing about the user.
func (s *Server) serveHealth(w http.ResponseWriter, _ *http.Request, _ *credential) error {
	state, status := s.health(), http.StatusOK
	if state != "ok" {
		status = http.StatusServiceUnavailable
	}
	return writeJSON(w, status, map[string]any{"status": state, "version": s.o.Version, "instanceId": s.inst})
}

func (s *Server) health() string {
	if s.stopping.Load() {
		return "stopping"
	}
	if s.o.Ready != nil {
		if state := s.o.Ready(); state != "" {
			return state
		}
	}
	return "ok"
}

func (s *Server) serveDocument(w http.ResponseWriter, _ *http.Request, _ *credential) error {
	w.Header().Set("Content-Type", "application/json")
	w.Write(s.document()) //nolint:errcheck // the client has gone
	return errAnswered
}

// callCtx returns the parent context of sessions from a listener: it outlives Run's context, so
// that calls may finish while the program stops.
func (s *Server) callCtx() context.Context { return context.Background() }

// detached returns a copy of ss whose calls also end when ctx does.
func (ss *session) detached(ctx context.Context) (own *session, release func()) {
	own = &session{srv: ss.srv, conn: ss.conn, kind: ss.kind, peer: ss.peer, since: ss.since, slots: ss.slots, writes: ss.writes,
		batch: ss.batch, hub: ss.hub, cred: ss.cred, id: ss.id, client: ss.client}
	own.ctx, own.cancel = context.WithCancelCause(context.WithValue(ctx, sessionKey{}, own))
	stop := context.AfterFunc(ss.ctx, func() { own.cancel(errSessionClosed) })
	return own, func() { stop(); own.cancel(nil) }
}
