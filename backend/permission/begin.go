package permission

import (
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

func hexHash(h [32]byte) string { return hex.EncodeToString(h[:]) }

// rerunKey is the context key of the id of the question whose answer restarted a run.
type rerunKey struct{}

// Refusal is the detail of a Denied error of Begin.
type Refusal struct {
	Reason    string     `json:"reason"`
	PendingID *uuid.UUID `json:"pendingId,omitempty"` // the question whose approval would resolve it
}

// Begin starts a run. The result is what the run may do: what sub declares and was granted, limited
// to what caller holds (nil: the user started it). End it with EndRun. If the subject is not
// active, or its definition is not approved, the error is Denied with a Refusal.
func (s *Service) Begin(ctx context.Context, caller *Authority, sub Subject, run uuid.UUID) (*Authority, error) {
	id, _ := identity.From(ctx)
	if id.User == uuid.Nil {
		return nil, fault.Deniedf("Nobody is signed in, so nothing is allowed.")
	}
	if caller != nil && caller.user != id.User {
		return nil, fault.Deniedf("A run can't use another user's permissions.")
	}
	if caller != nil {
		if err := caller.Err(); err != nil {
			return nil, err
		}
	}
	info, err := s.lookup(ctx, sub.Kind, sub.ID)
	if err != nil {
		return nil, err
	}
	if info.State != Active {
		return nil, fault.Deniedf("%s isn't active, so it can't run.", subjectWords(sub.Kind, info.Name)).WithDetails(Refusal{Reason: ReasonInactive})
	}
	sh, _, err := s.grantsOf(ctx, id.User, sub, false)
	if err == nil && (sh.unbound || !sh.approves(sub.DefinitionHash, &info)) {
		sh, _, err = s.grantsOf(ctx, id.User, sub, true)
	}
	if err != nil {
		return nil, err
	}
	if !sh.approves(sub.DefinitionHash, &info) {
		if !sh.firstIsApproved(sub.DefinitionHash, &info) {
			pending, _, err := s.raise(ctx, id.User, &Request{Subject: sub, Cap: Call, Resource: SideEffecting.String(), Tier: SideEffecting, RunID: run, SessionID: id.Session, RunKind: sub.Kind}, ReasonDefinitionChanged, false)
			if err != nil {
				return nil, err
			}
			return nil, fault.Deniedf("%s has changed since it was approved. Review the change in Approvals first.", subjectWords(sub.Kind, info.Name)).
				WithDetails(Refusal{Reason: ReasonDefinitionChanged, PendingID: &pending})
		}
		if err := s.adopt(ctx, id.User, sub, info.Definition); err != nil {
			return nil, err
		}
	}
	binds := sh.unbound && run != uuid.Nil
	if binds {
		if err := s.bindRun(ctx, id.User, sub, run); err != nil {
			return nil, err
		}
		if sh, _, err = s.grantsOf(ctx, id.User, sub, true); err != nil {
			return nil, err
		}
	}
	a := &Authority{svc: s, no: s.nextNo.Add(1), parent: caller, sub: sub, run: run, user: id.User, binds: binds, done: make(chan struct{})}
	a.held = s.hold(sh, &info, sub, caller, run, id.Session)
	s.mu.Lock()
	s.runs[run] = append(s.runs[run], a)
	s.mu.Unlock()
	if caller != nil && caller.Err() != nil { // revoked in the meantime
		a.end(caller.Err())
		return nil, caller.Err()
	}
	return a, nil
}

// hold computes declared ∩ granted ∩ held by the caller.
func (s *Service) hold(sh *subjectGrants, info *SubjectInfo, sub Subject, caller *Authority, run, session uuid.UUID) []holding {
	now := s.nowMicro()
	in := &input{run: run, session: session}
	var own []holding
	for _, w := range info.Declared {
		declared := s.anchor(w.Capability, w.Resource)
		for c, gs := range sh.grants {
			for i := range gs {
				g := &gs[i]
				if c != w.Capability || !g.live(now, sub.DefinitionHash) || !in.fits(g) {
					continue
				}
				if p, ok := narrow(c, declared, s.anchor(c, g.raw)); ok {
					own = append(own, holding{cap: c, pattern: p, grant: g.id, until: g.expires})
				}
			}
		}
	}
	if caller == nil {
		return own
	}
	caller.mu.Lock()
	held := slices.Clone(caller.held)
	caller.mu.Unlock()
	out := []holding{}
	for _, h := range own {
		for _, l := range held {
			if l.cap != h.cap {
				continue
			}
			if p, ok := narrow(h.cap, h.pattern, l.pattern); ok {
				out = append(out, holding{cap: h.cap, pattern: p, grant: h.grant, until: earlier(h.until, l.until)})
			}
		}
	}
	return out
}

// anchor replaces $HOME and $WORKSPACE in a path pattern by resolved paths, so that two spellings
// of one folder compare equal. $STATE is kept, because it is a different folder for each subject.
func (s *Service) anchor(c Capability, pattern string) string {
	if c != FilesystemRead && c != FilesystemWrite || len(pattern) >= 6 && pattern[:6] == "$STATE" {
		return pattern
	}
	path, tree, ok := s.space().pattern(pattern, Subject{})
	if !ok {
		return pattern
	}
	if path = slashed(path); tree {
		path = strings.TrimSuffix(path, "/") + "/**"
	}
	return path
}

func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// lends reports whether a run, and each of its ancestors, holds what a nested call wants.
func (a *Authority) lends(res concrete) bool {
	for ; a != nil; a = a.parent {
		if res.cap == Call {
			// The permission to make calls of a tier is checked for the subject that makes them.
			if a.Err() != nil {
				return false
			}
			continue
		}
		if !a.allows(res.cap, res) {
			return false
		}
	}
	return true
}

// bindRun binds unbound run grants to this run: those of the answer that started it, and those not
// reserved for the run of another answer.
func (s *Service) bindRun(ctx context.Context, user uuid.UUID, sub Subject, run uuid.UUID) error {
	mine, _ := ctx.Value(rerunKey{}).(uuid.UUID)
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		var take []uuid.UUID
		err := tx.Select(`SELECT id, pending_id FROM capability_grants WHERE user_id = ? AND subject_kind = ? AND subject_id = ? AND definition_hash = ? AND scope = 'run' AND run_id IS NULL AND revoked_at IS NULL`,
			user, sub.Kind, sub.ID, sub.DefinitionHash).Each(func(row storage.Row) error {
			var id uuid.UUID
			var raw []byte
			if err := row.Scan(&id, &raw); err != nil {
				return err
			}
			var pending uuid.UUID
			copy(pending[:], raw)
			s.mu.RLock()
			reserved := s.reserve[pending]
			s.mu.RUnlock()
			if pending == mine || !reserved {
				take = append(take, id)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, id := range take {
			if _, err := tx.Exec(`UPDATE capability_grants SET run_id = ?, expires_at = ? WHERE id = ?`, run, tx.Now.Add(SessionFor), id); err != nil {
				return err
			}
		}
		tx.AfterCommit(func() { s.invalidate(user) })
		return nil
	})
}

// EndRun ends the authority and the run grants of a run. It may be called more than once, and even
// if ctx has ended.
func (s *Service) EndRun(ctx context.Context, run uuid.UUID) error {
	s.endAuthorities(run)
	return s.endGrants(context.WithoutCancel(ctx), "run_id", run)
}

func (s *Service) endAuthorities(run uuid.UUID) {
	s.mu.Lock()
	as := s.runs[run]
	delete(s.runs, run)
	s.mu.Unlock()
	for _, a := range as {
		a.end(nil)
	}
}

// EndCall is EndRun for the run of one call, whose id is new and which has no other subject. The
// only grants of such a run are those that Begin bound to it.
func (a *Authority) EndCall(ctx context.Context) error {
	if a.binds {
		return a.svc.EndRun(ctx, a.run)
	}
	a.svc.endAuthorities(a.run)
	return nil
}

// EndSession ends the grants of a session. Call it when a session closes.
func (s *Service) EndSession(ctx context.Context, session uuid.UUID) error {
	return s.endGrants(context.WithoutCancel(ctx), "session_id", session)
}

// endLeftOver ends session grants from before this start. No session outlives the process, and a
// session that ended with it could not end its grants.
func (s *Service) endLeftOver(ctx context.Context) error {
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		const old = ` FROM capability_grants WHERE scope = 'session' AND created_at < ? AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)`
		users, err := usersOf(tx, `SELECT DISTINCT user_id`+old, s.began, tx.Now)
		if err != nil || len(users) == 0 {
			return err
		}
		if _, err := tx.Exec(`UPDATE capability_grants SET expires_at = ? WHERE id IN (SELECT id`+old+`)`, tx.Now, s.began, tx.Now); err != nil {
			return err
		}
		for _, u := range users {
			s.changed(tx, u, "*")
		}
		return nil
	})
}

func (s *Service) endGrants(ctx context.Context, column string, id uuid.UUID) error {
	if id == uuid.Nil {
		return nil
	}
	scope := "run"
	if column == "session_id" {
		scope = "session"
	}
	var n int
	if err := s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT count(*) FROM capability_grants WHERE `+column+` = ? AND scope = ? AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)`, id, scope, tx.Now).Scan(&n)
	}); err != nil || n == 0 {
		return err
	}
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		users, err := usersOf(tx, `SELECT DISTINCT user_id FROM capability_grants WHERE `+column+` = ? AND scope = ?`, id, scope)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE capability_grants SET expires_at = ? WHERE `+column+` = ? AND scope = ? AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)`, tx.Now, id, scope, tx.Now); err != nil {
			return err
		}
		for _, u := range users {
			s.changed(tx, u, "*")
		}
		return nil
	})
}

func usersOf(tx *storage.Tx, query string, args ...any) ([]uuid.UUID, error) {
	return storage.Collect(tx.Select(query, args...), storage.RowTo[uuid.UUID])
}

// flushUse stores when grants were last used. It is called periodically rather than at each use.
func (s *Service) flushUse(ctx context.Context) error {
	s.mu.Lock()
	use := s.lastUse
	s.lastUse = map[uuid.UUID]time.Time{}
	s.mu.Unlock()
	if len(use) == 0 {
		return nil
	}
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		for id, at := range use {
			if _, err := tx.Exec(`UPDATE capability_grants SET last_used_at = ? WHERE id = ?`, at, id); err != nil {
				return err
			}
		}
		return nil
	})
}
