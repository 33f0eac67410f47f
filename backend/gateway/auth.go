package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
)

// credential is what a session was authenticated with.
type credential struct {
	client  identity.Client
	id      uuid.UUID    // of a token or browser session
	token   SessionToken // the created token: this one, or the one behind the ticket of a browser session
	viaRoot bool         // from the root token, directly or through a ticket
	user    User
	scopes  Scope
	expires time.Time // zero: never
	hash    [32]byte

	lastUsed time.Time // guarded by authority.mu
	stored   time.Time // last_used_at in the database
}

// authority manages every secret that opens a session. A secret is 32 random bytes as 64 hex
// characters; only its SHA-256 is stored.
type authority struct {
	srv *Server

	mu      sync.Mutex
	root    *credential
	byHash  map[[32]byte]*credential // tokens and browser sessions
	tickets map[[32]byte]*ticket
	loaded  bool
}

type ticket struct {
	cred    credential // of the browser session that the ticket opens
	expires time.Time
}

const (
	ticketLife  = time.Minute
	browserLife = 12 * time.Hour
)

func newAuthority(s *Server) *authority {
	a := &authority{srv: s, byHash: map[[32]byte]*credential{}, tickets: map[[32]byte]*ticket{}}
	a.setRoot(s.o.RootToken)
	return a
}

func (a *authority) setRoot(token string) {
	a.root = nil
	if token != "" {
		a.root = &credential{client: identity.ClientTerminal, viaRoot: true, user: a.srv.o.User(), scopes: Admin.Closed(), hash: sha256.Sum256([]byte(token))}
	}
}

// randomKey returns 32 random bytes.
func randomKey() (k [32]byte) {
	rand.Read(k[:]) // never fails
	return k
}

// newSecret returns a new secret and its hash.
func newSecret() (text string, hash [32]byte) {
	k := randomKey()
	text = hex.EncodeToString(k[:])
	return text, sha256.Sum256([]byte(text))
}

// check returns the credential of token. All refusals are the same; the peer's wrong tokens are
// counted. A correct token is accepted even while the peer is locked out: peers on loopback share
// one address, so another local program could otherwise lock the owner out, and 256 random bits
// cannot be guessed.
func (a *authority) check(ctx context.Context, token, peer string) (*credential, error) {
	now := time.Now()
	c := a.find(token, now)
	if c == nil { // the root token must work even if the database cannot be read
		if err := a.load(ctx); err != nil {
			return nil, err
		}
		c = a.find(token, now)
	}
	if c != nil {
		a.touch(ctx, c, now)
		return c, nil
	}
	if left, ok := a.srv.lockouts.locked(peer, now); ok {
		return nil, limited(left, "Too many wrong tokens. Wait before the next try.")
	}
	if began := a.srv.lockouts.wrong(peer, now); began > 0 {
		a.srv.log.Warn("wrong tokens: peer locked out", slog.String("peer", peer), slog.Duration("for", began))
		a.srv.audit(ctx, AuditEvent{Action: "gateway.lockout", Subject: peer, Outcome: "denied", Details: map[string]any{"seconds": int(began.Seconds())}})
	}
	return nil, unauthenticated()
}

// find looks the token up by its hash and compares in constant time.
func (a *authority) find(token string, now time.Time) *credential {
	if len(token) != 64 {
		return nil
	}
	hash := sha256.Sum256([]byte(token))
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.byHash[hash]
	if a.root != nil && subtle.ConstantTimeCompare(a.root.hash[:], hash[:]) == 1 {
		c = a.root
	}
	if c == nil || subtle.ConstantTimeCompare(c.hash[:], hash[:]) != 1 {
		return nil
	}
	if !c.expires.IsZero() && !now.Before(c.expires) {
		if c.client == identity.ClientBrowser {
			delete(a.byHash, hash)
		}
		return nil
	}
	return c
}

// touch extends a browser session and records when a token was last used.
func (a *authority) touch(ctx context.Context, c *credential, now time.Time) {
	a.mu.Lock()
	c.lastUsed = now
	if c.client == identity.ClientBrowser {
		c.expires = now.Add(browserLife)
	}
	store := c.client == identity.ClientToken && now.Sub(c.stored) > time.Minute
	if store {
		c.stored = now
	}
	a.mu.Unlock()
	if store {
		a.storeUse(ctx, c.id)
	}
}

// makeTicket returns a new ticket that lets one browser open a session with scopes.
func (a *authority) makeTicket(by *credential, scopes Scope, now time.Time) (text string, expires time.Time) {
	text, hash := newSecret()
	t := &ticket{expires: now.Add(ticketLife), cred: credential{client: identity.ClientBrowser, user: by.user, scopes: scopes, viaRoot: by.viaRoot, token: by.token}}
	a.mu.Lock()
	defer a.mu.Unlock()
	for h, old := range a.tickets {
		if !now.Before(old.expires) {
			delete(a.tickets, h)
		}
	}
	for h, c := range a.byHash {
		if c.client == identity.ClientBrowser && !now.Before(c.expires) {
			delete(a.byHash, h)
		}
	}
	a.tickets[hash] = t
	return text, t.expires
}

// redeem exchanges a ticket for a browser session; this works only once.
func (a *authority) redeem(text, peer string) (token string, expires time.Time, err error) {
	now := time.Now()
	hash := sha256.Sum256([]byte(text))
	a.mu.Lock()
	t := a.tickets[hash]
	delete(a.tickets, hash)
	if t == nil || !now.Before(t.expires) {
		a.mu.Unlock()
		if left, ok := a.srv.lockouts.locked(peer, now); ok {
			return "", time.Time{}, limited(left, "Too many wrong tickets. Wait before the next try.")
		}
		a.srv.lockouts.wrong(peer, now)
		w := unauthenticated()
		w.Message = "This ticket is not valid. Each works once and for one minute; run \"helix ui\" for a new one."
		return "", time.Time{}, w
	}
	defer a.mu.Unlock()
	c := t.cred
	token, c.hash = newSecret()
	c.id = newID()
	c.expires = now.Add(browserLife)
	c.lastUsed = now
	a.byHash[c.hash] = &c
	return token, c.expires, nil
}

// revoke removes the matching credentials and closes their sessions.
func (a *authority) revoke(ctx context.Context, match func(*credential) bool) {
	a.mu.Lock()
	for h, c := range a.byHash {
		if match(c) {
			delete(a.byHash, h)
		}
	}
	for h, t := range a.tickets {
		if match(&t.cred) {
			delete(a.tickets, h)
		}
	}
	a.mu.Unlock()
	a.srv.closeWhere(ctx, func(ss *session) bool {
		c := ss.credential()
		return c != nil && match(c)
	}, 1008, "the token was revoked")
}

// How long a closing session may still send answers, so that the call that closed it can be
// answered.
const (
	answerOwn  = 900 * time.Millisecond // the caller's own session
	answerAll  = 10 * time.Second       // if any of them may be the caller's
	answerNone = 200 * time.Millisecond // for queued answers
)

// closeWhere closes the matching sessions, which accept no calls from then on. The call that ctx
// belongs to is answered before its session ends; other calls are canceled.
func (s *Server) closeWhere(ctx context.Context, match func(*session) bool, code int, reason string) {
	own, _ := sessionOf(ctx) // nil: the call has no session
	s.closeSessions(match, code, reason, func(ss *session) time.Duration {
		if own != nil && own.conn == ss.conn {
			return answerOwn
		}
		return answerNone
	})
}

func (s *Server) closeSessions(match func(*session) bool, code int, reason string, within func(*session) time.Duration) {
	s.mu.Lock()
	var found []*session
	for _, ss := range s.sessions {
		if match(ss) {
			found = append(found, ss)
		}
	}
	for key, ss := range s.https {
		if match(ss) {
			found = append(found, ss)
			delete(s.https, key)
		}
	}
	s.mu.Unlock()
	for _, ss := range found {
		ss.mu.Lock()
		ss.ending = true
		ss.mu.Unlock()
		ss.closeQuiet(time.Now().Add(within(ss)), code, reason)
	}
}

// closeQuiet closes the session as soon as all its calls are answered, at the latest at the time
// at.
func (ss *session) closeQuiet(at time.Time, code int, reason string) {
	time.AfterFunc(10*time.Millisecond, func() {
		if ss.quiet() || !time.Now().Before(at) {
			ss.close(code, reason)
			return
		}
		ss.closeQuiet(at, code, reason)
	})
}

// quiet reports whether no calls are running and every answer has been written.
func (ss *session) quiet() bool {
	return len(ss.slots) == 0 && ss.answering.Load() == 0 && (ss.pipe == nil || ss.out.idle())
}

func (s *Server) audit(ctx context.Context, e AuditEvent) {
	if s.o.Audit == nil {
		return
	}
	if e.Outcome == "" {
		e.Outcome = "ok"
	}
	if ss, err := sessionOf(ctx); err == nil && e.Actor == "" {
		e.by(ss)
	}
	if e.User == uuid.Nil {
		e.User = s.o.User().ID
	}
	s.o.Audit(ctx, e)
}

// by sets the session that caused the event and the token that it was opened with, since a session
// id means nothing after the session has ended.
func (e *AuditEvent) by(ss *session) {
	e.Actor = ss.conn.String()
	if c := ss.credential(); c != nil && c.token.ID != uuid.Nil {
		e.Details = maps.Clone(e.Details)
		if e.Details == nil {
			e.Details = map[string]any{}
		}
		e.Details["token"] = c.token
	}
}

// identity returns the caller of a session that was opened with c.
func (c *credential) identity(session uuid.UUID, scopes Scope, pipe, label string) identity.Identity {
	return identity.Identity{User: c.user.ID, Session: session, Scopes: scopes.Closed(), Client: c.client, Token: c.token.ID, Label: label, Pipe: pipe}
}

// grant returns the requested scopes that the credential has. No requested scopes means read.
func grant(asked []string, have Scope) (Scope, error) {
	if len(asked) == 0 {
		asked = []string{"read"}
	}
	want, bad := parseScopes(asked)
	if bad != "" {
		return 0, badParams("field \"scopes\": %.64q is not a scope", bad)
	}
	return want & have.Closed(), nil
}

var errNoDB = fault.Unavailablef("This gateway keeps no tokens.")
