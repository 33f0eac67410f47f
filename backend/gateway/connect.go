package gateway

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

func newID() uuid.UUID { return storage.NewID() }

func parseScopes(names []string) (Scope, string) { return identity.ParseScopes(names) }

// ClientInfo is how a client identifies itself. It is a label for people and never verified.
type ClientInfo struct {
	ID          string `json:"id,omitempty"`       // the program, such as helix-cli
	Version     string `json:"version,omitempty"`  // of the program
	Platform    string `json:"platform,omitempty"` // linux, darwin, windows, web
	Mode        string `json:"mode,omitempty"`     // window, browser, cli, tui, script
	DisplayName string `json:"displayName,omitempty"`
	InstanceID  string `json:"instanceId,omitempty"`
}

// ConnectAuth carries the secret that opens the session.
type ConnectAuth struct {
	Token string `json:"token,omitempty"` // 64 hex characters
}

// ConnectParams open a session. Fields that this version does not know are ignored.
type ConnectParams struct {
	MinProtocol int          `json:"minProtocol"` // the oldest protocol version that the client supports
	MaxProtocol int          `json:"maxProtocol"` // the newest
	Client      ClientInfo   `json:"client,omitzero"`
	Scopes      []string     `json:"scopes,omitempty"` // requested scopes; empty means read
	Auth        *ConnectAuth `json:"auth,omitempty"`   // not needed if the pipe is authenticated
	Locale      string       `json:"locale,omitempty"` // BCP 47
}

// ServerInfo describes the program and the connection.
type ServerInfo struct {
	Version string    `json:"version"`
	Commit  string    `json:"commit,omitempty"`
	ConnID  uuid.UUID `json:"connId"` // also the session's id
}

// Features lists the methods and events available in this session.
type Features struct {
	Methods []string `json:"methods"`
	Events  []string `json:"events"`
}

// Policy lists the limits for the client.
type Policy struct {
	MaxPayload       int   `json:"maxPayload"`       // bytes of a frame
	MaxBufferedBytes int   `json:"maxBufferedBytes"` // of the outgoing queue
	TickIntervalMs   int64 `json:"tickIntervalMs"`   // between pings
}

// Hello is the response to connect.
type Hello struct {
	Type     string     `json:"type"` // always hello-ok
	Protocol int        `json:"protocol"`
	Server   ServerInfo `json:"server"`
	User     User       `json:"user"`
	Scopes   []string   `json:"scopes"` // granted
	Features Features   `json:"features"`
	Policy   Policy     `json:"policy"`
	Epoch    string     `json:"epoch"` // for events.resume
	Seq      uint64     `json:"seq"`   // of the newest event
}

// Connect opens the session: it must be the first call on a WebSocket, and is optional if the pipe
// is already authenticated. The granted scopes are the requested ones that the token has.
func (s *Server) Connect(ctx context.Context, p ConnectParams) (Hello, error) {
	ss, err := sessionOf(ctx)
	if err != nil {
		return Hello{}, err
	}
	if p.MinProtocol > Protocol || p.MaxProtocol < Protocol {
		e := badParams("no common protocol: this server speaks version %d", Protocol)
		e.Data.Details = map[string]any{"supported": []int{Protocol}}
		return Hello{}, e
	}
	ss.mu.Lock()
	cred, greeted := ss.cred, ss.greeted
	ss.mu.Unlock()
	if greeted && ss.pipe != nil {
		return Hello{}, fault.Conflictf("This session is connected already.")
	}
	given := cred
	if p.Auth != nil && p.Auth.Token != "" {
		if given, err = s.auth.check(ctx, p.Auth.Token, ss.peer); err != nil {
			return Hello{}, err
		}
		if cred != nil && cred.user.ID != given.user.ID {
			return Hello{}, fault.Deniedf("This token belongs to another user.")
		}
	}
	if given == nil {
		return Hello{}, unauthenticated()
	}
	scopes, err := grant(p.Scopes, given.scopes)
	if err != nil {
		return Hello{}, err
	}
	if cred == nil {
		if err := ss.admit(given); err != nil {
			return Hello{}, err
		}
		limit(ss.pipe, s.o.Limits.MaxPayload)
	}
	if ss.pipe != nil { // on POST /rpc each request is independent
		ss.hold(given, scopes)
		ss.mu.Lock()
		ss.greeted = true
		ss.id.Label = clip(p.Client.ID)
		ss.client = p.Client.clipped()
		ss.mu.Unlock()
	}
	h := ss.hub
	h.mu.Lock()
	seq := h.seq
	h.mu.Unlock()
	return Hello{Type: "hello-ok", Protocol: Protocol, Server: ServerInfo{Version: s.o.Version, Commit: s.o.Commit, ConnID: ss.conn},
		User: given.user, Scopes: scopes.Names(), Features: s.features(),
		Policy: Policy{MaxPayload: s.o.Limits.MaxPayload, MaxBufferedBytes: s.o.Limits.QueueBytes, TickIntervalMs: s.o.Limits.Tick.Milliseconds()},
		Epoch:  s.epoch, Seq: seq}, nil
}

func clip(s string) string {
	if len(s) > 128 {
		return strings.ToValidUTF8(s[:128], "")
	}
	return s
}

func (c ClientInfo) clipped() ClientInfo {
	return ClientInfo{clip(c.ID), clip(c.Version), clip(c.Platform), clip(c.Mode), clip(c.DisplayName), clip(c.InstanceID)}
}

func (s *Server) features() Features {
	f := Features{Methods: make([]string, 0, len(s.api.methods)), Events: make([]string, 0, len(s.api.events))}
	for name := range s.api.methods {
		f.Methods = append(f.Methods, name)
	}
	for name := range s.api.events {
		f.Events = append(f.Events, name)
	}
	slices.Sort(f.Methods)
	slices.Sort(f.Events)
	return f
}

// ClientKind is the kind of client behind a session.
type ClientKind string

// Enum lists the kinds.
func (ClientKind) Enum() []string { return identity.ClientNames() }

// SessionToken identifies a created token.
type SessionToken struct {
	ID   uuid.UUID `json:"id"`
	Name string    `json:"name"`
}

// SessionInfo describes one open session.
type SessionInfo struct {
	SessionID   uuid.UUID     `json:"sessionId"`
	User        User          `json:"user"`
	Scopes      []string      `json:"scopes"`
	Client      ClientInfo    `json:"client"`          // as the client describes itself
	ClientKind  ClientKind    `json:"clientKind"`      // as determined by the gateway
	Person      bool          `json:"person"`          // may do what only people may do
	Token       *SessionToken `json:"token,omitempty"` // the created token behind it, directly or through a ticket
	Pipe        string        `json:"pipe"`            // bridge, websocket, http, memory
	ConnectedAt time.Time     `json:"connectedAt"`
	Current     bool          `json:"current,omitempty"` // the calling session
}

func (ss *session) info(current *session) SessionInfo {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	info := SessionInfo{SessionID: ss.conn, Scopes: ss.id.Scopes.Names(), Client: ss.client, ClientKind: ClientKind(ss.id.Client.String()), Person: ss.id.Person(), Pipe: ss.kind, ConnectedAt: ss.since.UTC(), Current: ss == current}
	if ss.cred != nil {
		info.User = ss.cred.user
		if t := ss.cred.token; t.ID != uuid.Nil {
			info.Token = &t
		}
	}
	return info
}

// SessionGet describes the caller's own session.
func (s *Server) SessionGet(ctx context.Context, _ struct{}) (SessionInfo, error) {
	ss, err := sessionOf(ctx)
	if err != nil {
		return SessionInfo{}, err
	}
	return ss.info(nil), nil
}

// SessionList lists the user's open sessions, oldest first.
type SessionList struct {
	Sessions []SessionInfo `json:"sessions"`
	Total    int           `json:"total"`
}

// PageParams select a part of a list.
type PageParams struct {
	Limit  int `json:"limit,omitempty"`  // 1 to 100; default 50
	Offset int `json:"offset,omitempty"` // number to skip
}

// slice checks p and returns the bounds within a list of n.
func (p PageParams) slice(n int) (from, to int, err error) {
	if p.Limit == 0 {
		p.Limit = 50
	}
	if p.Limit < 1 || p.Limit > 100 {
		return 0, 0, fault.Invalidf("limit must be between 1 and 100.")
	}
	if p.Offset < 0 {
		return 0, 0, fault.Invalidf("offset must not be negative.")
	}
	from = min(p.Offset, n)
	return from, min(from+p.Limit, n), nil
}

// SessionsList lists the user's open sessions.
func (s *Server) SessionsList(ctx context.Context, p PageParams) (SessionList, error) {
	own, _ := sessionOf(ctx) // nil: none is marked as current
	all := s.sessionsOf(identity.UserID(ctx))
	from, to, err := p.slice(len(all))
	if err != nil {
		return SessionList{}, err
	}
	out := SessionList{Sessions: []SessionInfo{}, Total: len(all)}
	for _, ss := range all[from:to] {
		out.Sessions = append(out.Sessions, ss.info(own))
	}
	return out, nil
}

// sessionsOf returns the sessions of one user in the order they began.
func (s *Server) sessionsOf(user uuid.UUID) []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*session
	for _, ss := range s.sessions {
		if c := ss.credential(); c != nil && c.user.ID == user {
			all = append(all, ss)
		}
	}
	for _, ss := range s.https {
		if c := ss.credential(); c != nil && c.user.ID == user {
			all = append(all, ss)
		}
	}
	slices.SortFunc(all, func(a, b *session) int { return strings.Compare(a.conn.String(), b.conn.String()) })
	return all
}

// SessionParams identify a session.
type SessionParams struct {
	SessionID uuid.UUID `json:"sessionId"`
}

// SessionsClose ends one of the user's sessions. Its running calls are canceled; jobs that have
// returned an id continue.
func (s *Server) SessionsClose(ctx context.Context, p SessionParams) (struct{}, error) {
	for _, ss := range s.sessionsOf(identity.UserID(ctx)) {
		if ss.conn == p.SessionID {
			s.closeWhere(ctx, func(x *session) bool { return x == ss }, 1000, "closed by another session")
			return struct{}{}, nil
		}
	}
	return struct{}{}, fault.NotFoundf("Session not found.")
}

// SessionsChanged reports that a session of the user was opened or closed.
type SessionsChanged struct{}
