package gateway

import (
	"context"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// TicketParams describe the browser session that a ticket opens.
type TicketParams struct {
	Scopes []string `json:"scopes,omitempty"` // empty: read, write, approve
	Path   string   `json:"path,omitempty"`   // where the UI opens, such as /settings
}

// Ticket opens the web UI once.
type Ticket struct {
	URL       string    `json:"url"` // the ticket is in the fragment, which is not sent to servers
	ExpiresAt time.Time `json:"expiresAt"`
}

// SessionsTicket returns a URL that lets one browser sign in, once, within a minute.
func (s *Server) SessionsTicket(ctx context.Context, p TicketParams) (Ticket, error) {
	by, err := callerCredential(ctx)
	if err != nil {
		return Ticket{}, err
	}
	if len(p.Scopes) == 0 {
		p.Scopes = []string{"read", "write", "approve"}
	}
	want, bad := parseScopes(p.Scopes)
	if bad != "" {
		return Ticket{}, fault.Invalidf("%.64q is not a scope.", bad)
	}
	if p.Path != "" && (!strings.HasPrefix(p.Path, "/") || strings.HasPrefix(p.Path, "//") || strings.ContainsAny(p.Path, "#\\\r\n") || len(p.Path) > 512) {
		return Ticket{}, fault.Invalidf("path must be an address inside Helix, such as /settings.")
	}
	base := s.URL()
	if base == "" {
		return Ticket{}, fault.Unavailablef("The gateway's port is closed. Turn the gateway on first.")
	}
	if after, ok := s.tickets.take(identity.UserID(ctx), time.Now()); !ok {
		return Ticket{}, limited(after, "Too many tickets in a minute.")
	}
	text, expires := s.auth.makeTicket(by, want, time.Now())
	link := base + "/#ticket=" + text
	if p.Path != "" {
		link += "&path=" + url.QueryEscape(p.Path)
	}
	return Ticket{URL: link, ExpiresAt: expires.UTC()}, nil
}

// callerCredential returns the credential of the call's session. Code in this process that calls
// with an identity and no session acts with the root token.
func callerCredential(ctx context.Context) (*credential, error) {
	if ss, err := sessionOf(ctx); err == nil {
		return ss.credential(), nil
	}
	id, ok := identity.From(ctx)
	if !ok || !id.Scopes.Has(Admin) {
		return nil, unauthenticated()
	}
	return &credential{client: id.Client, viaRoot: true, user: User{ID: id.User}, scopes: id.Scopes}, nil
}

// TokenParams describe a new token.
type TokenParams struct {
	Name      string     `json:"name"`   // what it is for
	Scopes    []string   `json:"scopes"` // at least one
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
}

// NewToken contains the secret of a new token, which is shown only once.
type NewToken struct {
	ID    uuid.UUID `json:"id"`
	Token string    `json:"token"`
}

// TokensCreate creates a token for another program. Only its hash is stored.
func (s *Server) TokensCreate(ctx context.Context, p TokenParams) (NewToken, error) {
	p.Name = strings.TrimSpace(p.Name)
	if p.Name == "" || len(p.Name) > 100 {
		return NewToken{}, fault.Invalidf("A token needs a name of at most 100 characters.")
	}
	scopes, bad := parseScopes(p.Scopes)
	if bad != "" {
		return NewToken{}, fault.Invalidf("%.64q is not a scope.", bad)
	}
	if scopes == None {
		return NewToken{}, fault.Invalidf("A token needs at least one scope.")
	}
	if p.ExpiresAt != nil && !p.ExpiresAt.After(time.Now()) {
		return NewToken{}, fault.Invalidf("expiresAt must be in the future.")
	}
	if s.o.DB == nil {
		return NewToken{}, errNoDB
	}
	if err := s.auth.load(ctx); err != nil {
		return NewToken{}, err
	}
	user := identity.UserID(ctx)
	c := &credential{client: identity.ClientToken, id: newID(), user: User{ID: user, DisplayName: s.displayName(user)}, scopes: scopes}
	c.token = SessionToken{ID: c.id, Name: p.Name}
	if p.ExpiresAt != nil {
		c.expires = p.ExpiresAt.UTC()
	}
	var text string
	text, c.hash = newSecret()
	err := s.o.DB.Write(ctx, func(tx *storage.Tx) error {
		if _, err := tx.Exec(`INSERT INTO gateway_tokens (id, user_id, name, token_hash, scopes, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			c.id, user, p.Name, c.hash, strings.Join(scopes.Names(), ","), tx.Now, c.expires); err != nil {
			return err
		}
		return s.auditTx(ctx, tx, AuditEvent{Action: "gateway.token_created", Subject: c.id.String(), Details: map[string]any{"name": p.Name, "scopes": scopes.Names()}})
	})
	if err != nil {
		return NewToken{}, err
	}
	s.auth.mu.Lock()
	s.auth.byHash[c.hash] = c
	s.auth.mu.Unlock()
	bus.Publish(s.bus, user, TokensChanged{})
	return NewToken{ID: c.id, Token: text}, nil
}

// TokensChanged reports that the user's list of tokens changed.
type TokensChanged struct{}

// TokenInfo describes a token without its secret.
type TokenInfo struct {
	ID         uuid.UUID  `json:"id"`
	Name       string     `json:"name"`
	Scopes     []string   `json:"scopes"`
	CreatedAt  time.Time  `json:"createdAt"`
	LastUsedAt *time.Time `json:"lastUsedAt,omitempty"` // with a resolution of one minute
	ExpiresAt  *time.Time `json:"expiresAt,omitempty"`
	RevokedAt  *time.Time `json:"revokedAt,omitempty"`
}

// TokenList lists the user's tokens, newest first.
type TokenList struct {
	Tokens []TokenInfo `json:"tokens"`
	Total  int         `json:"total"`
}

// TokenListParams select which tokens to list.
type TokenListParams struct {
	PageParams
	Revoked bool `json:"revoked,omitempty"` // include revoked tokens
}

// TokensList lists the user's tokens. The root token is not included.
func (s *Server) TokensList(ctx context.Context, p TokenListParams) (TokenList, error) {
	out := TokenList{Tokens: []TokenInfo{}}
	if s.o.DB == nil {
		return out, nil
	}
	_, limit, err := p.slice(1 << 30)
	if err != nil {
		return out, err
	}
	limit -= p.Offset
	err = s.o.DB.Read(ctx, func(tx *storage.Tx) error {
		user := identity.UserID(ctx)
		const where = ` FROM gateway_tokens WHERE user_id = ? AND (revoked_at IS NULL OR ?)`
		if err := tx.QueryRow(`SELECT count(*)`+where, user, p.Revoked).Scan(&out.Total); err != nil {
			return err
		}
		return tx.Select(`SELECT id, name, scopes, created_at, last_used_at, expires_at, revoked_at`+where+` ORDER BY id DESC LIMIT ? OFFSET ?`,
			user, p.Revoked, limit, p.Offset).Each(func(row storage.Row) error {
			var t TokenInfo
			var scopes string
			if err := row.Scan(&t.ID, &t.Name, &scopes, storage.Time(&t.CreatedAt), storage.TimePtr(&t.LastUsedAt), storage.TimePtr(&t.ExpiresAt), storage.TimePtr(&t.RevokedAt)); err != nil {
				return err
			}
			t.Scopes = strings.Split(scopes, ",")
			out.Tokens = append(out.Tokens, t)
			return nil
		})
	})
	return out, err
}

// TokenName returns the name of one of the user's tokens, even if it is revoked; "" if there is
// none.
func (s *Server) TokenName(ctx context.Context, id string) (name string) {
	token, err := uuid.Parse(id)
	if err != nil || s.o.DB == nil {
		return ""
	}
	_ = s.o.DB.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT name FROM gateway_tokens WHERE id = ? AND user_id = ?`, token, identity.UserID(ctx)).Scan(&name)
	})
	return name
}

// TokenIDParams identify a token.
type TokenIDParams struct {
	ID uuid.UUID `json:"id"`
}

// TokensRevoke revokes a token permanently and closes its sessions within a second.
func (s *Server) TokensRevoke(ctx context.Context, p TokenIDParams) (struct{}, error) {
	if s.o.DB == nil {
		return struct{}{}, errNoDB
	}
	user := identity.UserID(ctx)
	err := s.o.DB.Write(ctx, func(tx *storage.Tx) error {
		r, err := tx.Exec(`UPDATE gateway_tokens SET revoked_at = ? WHERE id = ? AND user_id = ? AND revoked_at IS NULL`, tx.Now, p.ID, user)
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil || n == 0 {
			if err == nil {
				err = fault.NotFoundf("Token not found.")
			}
			return err
		}
		return s.auditTx(ctx, tx, AuditEvent{Action: "gateway.token_revoked", Subject: p.ID.String()})
	})
	if err != nil {
		return struct{}{}, err
	}
	s.auth.revoke(ctx, func(c *credential) bool { return c.token.ID == p.ID })
	bus.Publish(s.bus, user, TokensChanged{})
	return struct{}{}, nil
}

// TokensRotateRoot replaces the root token in its store and closes every session that the old one
// opened, directly or through a ticket. The new one is not returned: the command line reads it from
// the store.
func (s *Server) TokensRotateRoot(ctx context.Context, _ struct{}) (struct{}, error) {
	if s.o.RotateRoot == nil {
		return struct{}{}, fault.Unavailablef("This gateway can't replace its root token.")
	}
	if identity.UserID(ctx) != s.o.User().ID {
		return struct{}{}, fault.Deniedf("Only the owner of this installation can replace its root token.")
	}
	text, _ := newSecret()
	if err := s.o.RotateRoot(ctx, text); err != nil {
		return struct{}{}, err
	}
	s.auth.mu.Lock()
	s.auth.setRoot(text)
	s.auth.mu.Unlock()
	s.audit(ctx, AuditEvent{Action: "gateway.root_rotated", User: identity.UserID(ctx)})
	s.auth.revoke(ctx, func(c *credential) bool { return c.viaRoot })
	return struct{}{}, nil
}

func (s *Server) auditTx(ctx context.Context, tx *storage.Tx, e AuditEvent) error {
	if s.o.AuditTx == nil {
		return nil
	}
	e.User, e.Outcome = identity.UserID(ctx), "ok"
	if ss, err := sessionOf(ctx); err == nil {
		e.by(ss)
	}
	return s.o.AuditTx(tx, e)
}

// load loads the tokens, once.
func (a *authority) load(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.loaded || a.srv.o.DB == nil {
		return nil
	}
	err := a.srv.o.DB.Read(ctx, func(tx *storage.Tx) error {
		return tx.Select(`SELECT t.id, t.name, t.user_id, coalesce(u.display_name, ''), t.scopes, t.token_hash, t.expires_at
			FROM gateway_tokens t LEFT JOIN users u ON u.id = t.user_id WHERE t.revoked_at IS NULL`).Each(func(row storage.Row) error {
			c := &credential{client: identity.ClientToken}
			var scopes string
			var hash []byte
			if err := row.Scan(&c.id, &c.token.Name, &c.user.ID, &c.user.DisplayName, &scopes, &hash, storage.Time(&c.expires)); err != nil {
				return err
			}
			copy(c.hash[:], hash)
			c.token.ID = c.id
			c.scopes, _ = parseScopes(slices.DeleteFunc(strings.Split(scopes, ","), func(x string) bool { return x == "" }))
			a.byHash[c.hash] = c
			return nil
		})
	})
	a.loaded = err == nil
	return err
}

// EndSessions ends every session and makes the next one load the tokens again. Call it after the
// database was replaced. Credentials that came from the root token, directly or through a ticket,
// belong to the local user of the new database from then on. The sessions accept no more calls; the
// call that replaced the data is still answered.
func (s *Server) EndSessions() {
	user := s.o.User()
	s.auth.mu.Lock()
	s.auth.loaded = false
	if s.auth.root != nil {
		root := *s.auth.root
		root.user = user
		s.auth.root = &root
	}
	for h, c := range s.auth.byHash {
		if c.client == identity.ClientToken || (c.viaRoot && c.user.ID != user.ID) {
			delete(s.auth.byHash, h)
		}
	}
	s.auth.mu.Unlock()
	s.closeSessions(func(*session) bool { return true }, 1012, "the data was replaced", func(*session) time.Duration { return answerAll })
}

// ChangeUser gives the tokens and the browser sessions of user from to user to, which is the same
// person under another id. Open connections end, and the same token opens the next one.
func (s *Server) ChangeUser(from uuid.UUID, to User) {
	s.auth.mu.Lock()
	if root := s.auth.root; root != nil && root.user.ID == from {
		next := *root
		next.user = to
		s.auth.root = &next
	}
	for h, c := range s.auth.byHash {
		if c.user.ID == from {
			next := *c
			next.user = to
			s.auth.byHash[h] = &next
		}
	}
	s.auth.mu.Unlock()
	s.closeSessions(func(ss *session) bool {
		ss.mu.Lock()
		defer ss.mu.Unlock()
		return ss.id.User == from
	}, 1012, "the user has another id", func(*session) time.Duration { return answerAll })
}

// storeUse writes last_used_at; losing it does no harm.
func (a *authority) storeUse(ctx context.Context, id uuid.UUID) {
	if a.srv.o.DB == nil {
		return
	}
	err := a.srv.o.DB.Write(context.WithoutCancel(ctx), func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE gateway_tokens SET last_used_at = ? WHERE id = ?`, tx.Now, id)
		return err
	})
	if err != nil {
		a.srv.log.Debug("token use not stored", slog.Any("error", err))
	}
}
