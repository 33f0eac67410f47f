package permission

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/storage"
)

// answer is the answer that a waiting call receives.
type answer struct {
	status string
	items  []ItemAnswer // nil: everything
}

// allows reports whether an answer allows what a call wants.
func (a answer) allows(c Capability, resource string) bool {
	if a.status != "approved" {
		return false
	}
	if a.items == nil {
		return true
	}
	return slices.ContainsFunc(a.items, func(i ItemAnswer) bool {
		return i.Allow && implies(i.Capability, c) && (i.Resource == resource || Covers(c, i.Resource, resource))
	})
}

// raise stores the question for r, or increments its count if it is open already. With wait it also
// returns a channel that receives the answer.
func (s *Service) raise(ctx context.Context, user uuid.UUID, r *Request, reason string, wait bool) (id uuid.UUID, ch chan answer, err error) {
	info, err := s.lookup(ctx, r.Subject.Kind, r.Subject.ID)
	if err != nil {
		return id, nil, err
	}
	q := question{kind: "capability", sub: r.Subject, name: info.Name, tier: r.Tier, run: r.RunID, runKind: r.RunKind, session: r.SessionID, rerun: r.Rerun, call: r.Call}
	switch {
	case reason == ReasonDefinitionChanged:
		q.kind = "definition"
		if r.Subject.DefinitionHash != info.DefinitionHash {
			return id, nil, nil // an old version: there is nothing to approve
		}
		q.tier = SideEffecting
	case r.Cap == Call:
		q.kind = "tier"
		q.items = []Item{{Capability: Call, Resource: r.Tier.String(), Why: Sanitize(r.Why)}}
	default:
		q.items = []Item{{Capability: r.Cap, Resource: s.wantedResource(r, &info), Why: Sanitize(r.Why)}}
		if r.Cap == FilesystemWrite {
			q.items[0] = Item{Capability: State, Resource: stateWanted(&info), Why: Sanitize(r.Why)}
		}
	}
	err = s.db.Write(context.WithoutCancel(ctx), func(tx *storage.Tx) error {
		if q.kind == "definition" {
			if err := saveDefinition(tx, user, r.Subject, info.Definition, ""); err != nil {
				return err
			}
			added, err := addedWants(tx, user, r.Subject, &info)
			if err != nil {
				return err
			}
			q.items = added
		}
		var err error
		if id, err = s.store(tx, user, &q); err != nil {
			return err
		}
		if wait {
			ch = make(chan answer, 1)
			s.mu.Lock()
			s.waiting[id] = append(s.waiting[id], ch)
			s.mu.Unlock()
		}
		return nil
	})
	if err != nil && ch != nil {
		s.leave(id, ch)
		ch = nil
	}
	return id, ch, err
}

// wantedResource returns the resource that a grant would cover: for a state quota the declared one,
// else r.Ask if it is set, else the requested one.
func (s *Service) wantedResource(r *Request, info *SubjectInfo) string {
	if r.Cap == State {
		return stateWanted(info)
	}
	if ask, err := Normalize(r.Cap, r.Ask); err == nil {
		return ask
	}
	if res, err := s.concrete(r.Cap, r.Resource, r.Subject); err == nil {
		return res.text
	}
	return r.Resource
}

func stateWanted(info *SubjectInfo) string {
	for _, w := range info.Declared {
		if w.Capability == State {
			return w.Resource
		}
	}
	return "1MiB"
}

// question is a pending approval to be stored.
type question struct {
	kind    string
	sub     Subject
	name    string
	tier    Tier
	items   []Item
	run     uuid.UUID
	runKind string
	session uuid.UUID
	rerun   json.RawMessage
	call    string
}

// dedupe returns a hash that is equal for identical questions: same kind, subject, definition, items
// and call.
func (q *question) dedupe() [32]byte {
	b := []byte(q.kind + "\x00" + q.sub.Kind + "\x00" + q.sub.ID + "\x00" + q.tier.String() + "\x00")
	b = append(b, q.sub.DefinitionHash[:]...)
	for _, i := range q.items {
		b = append(b, string(i.Capability)+"\x00"+i.Resource+"\x00"...)
	}
	b = append(b, q.call...)
	return sha256.Sum256(b)
}

// store inserts the question, or increments the count of an identical open one.
func (s *Service) store(tx *storage.Tx, user uuid.UUID, q *question) (uuid.UUID, error) {
	key := q.dedupe()
	expires := tx.Now.Add(PendingFor)
	var id uuid.UUID
	err := tx.QueryRow(`UPDATE pending_approvals SET count = count + 1, last_at = ?1, expires_at = ?2, run_id = coalesce(?3, run_id), session_id = coalesce(?4, session_id), rerun = coalesce(?5, rerun)
		WHERE user_id = ?6 AND dedupe_key = ?7 AND status = 'pending' RETURNING id`,
		tx.Now.UnixMicro(), expires.UnixMicro(), blob(q.run), blob(q.session), text(q.rerun), user[:], key[:]).Scan(&id)
	if err == nil {
		s.announce(tx, user, id, "pending")
		return id, nil
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return id, err
	}
	if err := s.makeRoom(tx, user); err != nil {
		return id, err
	}
	// This question supersedes any about another definition of the same subject.
	if q.kind == "definition" {
		if err := s.closeOthers(tx, user, q.sub); err != nil {
			return id, err
		}
	}
	id = storage.NewID()
	items := q.items
	if items == nil {
		items = []Item{}
	}
	requested, err := json.Marshal(items)
	if err != nil {
		return id, err
	}
	if _, err := tx.Exec(`INSERT INTO pending_approvals (id, user_id, kind, subject_kind, subject_id, subject_name, definition_hash, tier, requested, run_kind, run_id, session_id, rerun, status, dedupe_key, created_at, last_at, expires_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'pending', ?, ?, ?, ?)`,
		id, user, q.kind, q.sub.Kind, q.sub.ID, Sanitize(q.name), q.sub.DefinitionHash, q.tier.String(), json.RawMessage(requested), q.runKind, q.run, q.session, q.rerun, key, tx.Now, tx.Now, expires); err != nil {
		return id, err
	}
	s.announce(tx, user, id, "pending")
	return id, audit.Append(tx, audit.Entry{User: user, ActorKind: q.sub.Kind, ActorID: q.sub.ID, Action: audit.ApprovalRequested, SubjectKind: q.sub.Kind, SubjectID: q.sub.ID, Outcome: audit.Pending, RunID: q.run,
		Details: map[string]any{"approval": id, "kind": q.kind, "requested": items, "definitionHash": hexHash(q.sub.DefinitionHash), "tier": q.tier.String()}})
}

func blob(id uuid.UUID) any {
	if id == uuid.Nil {
		return nil
	}
	return id[:]
}

func text(j json.RawMessage) any {
	if j == nil {
		return nil
	}
	return string(j)
}

// makeRoom expires the oldest question of the lowest tier if the user has too many.
func (s *Service) makeRoom(tx *storage.Tx, user uuid.UUID) error {
	var n int
	if err := tx.QueryRow(`SELECT count(*) FROM pending_approvals WHERE user_id = ? AND status = 'pending' AND question IS NULL`, user).Scan(&n); err != nil || n < MaxPending {
		return err
	}
	var id uuid.UUID
	if err := tx.QueryRow(`SELECT id FROM pending_approvals WHERE user_id = ? AND status = 'pending' AND question IS NULL
		ORDER BY CASE tier WHEN 'read_only' THEN 0 WHEN 'side_effecting' THEN 1 ELSE 2 END, last_at LIMIT 1`, user).Scan(&id); err != nil {
		return err
	}
	return s.expire(tx, user, id, "limit")
}

// expire closes a question without an answer.
func (s *Service) expire(tx *storage.Tx, user, id uuid.UUID, why string) error {
	var kind, subject string
	err := tx.QueryRow(`UPDATE pending_approvals SET status = 'expired', decided_at = ? WHERE id = ? AND status = 'pending' RETURNING subject_kind, subject_id`, tx.Now.UnixMicro(), id[:]).Scan(&kind, &subject)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	s.announce(tx, user, id, "expired")
	s.release(tx, id, answer{status: "expired"})
	return audit.Append(tx, audit.Entry{User: user, ActorKind: "system", Action: audit.ApprovalExpired, SubjectKind: kind, SubjectID: subject, Details: map[string]any{"approval": id, "why": why}})
}

// closeOthers supersedes open questions about other definitions of the subject.
func (s *Service) closeOthers(tx *storage.Tx, user uuid.UUID, sub Subject) error {
	ids, err := storage.Collect(tx.Select(`UPDATE pending_approvals SET status = 'superseded', decided_at = ? WHERE user_id = ? AND subject_kind = ? AND subject_id = ? AND definition_hash <> ? AND status = 'pending' RETURNING id`,
		tx.Now, user, sub.Kind, sub.ID, sub.DefinitionHash), storage.RowTo[uuid.UUID])
	for _, id := range ids {
		s.announce(tx, user, id, "superseded")
		s.release(tx, id, answer{status: "superseded"})
	}
	return err
}

// announce publishes approvals.changed after the commit, with the number of open questions at that time.
func (s *Service) announce(tx *storage.Tx, user, id uuid.UUID, status string) {
	if status == "pending" && s.o.Asked != nil {
		if err := s.o.Asked(tx, user, id); err != nil { // the question is asked all the same
			s.o.Logger.Warn("an approval is not announced over a channel", "error", err)
		}
	}
	tx.AfterCommit(func() {
		n, err := s.pendingCount(context.Background(), user)
		if err != nil {
			s.log.Error("count open approvals", "error", err)
			return
		}
		bus.Publish(s.bus, user, ApprovalChanged{ID: id, Status: status, PendingCount: n})
	})
}

func (s *Service) pendingCount(ctx context.Context, user uuid.UUID) (n int, err error) {
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT count(*) FROM pending_approvals WHERE user_id = ? AND status = 'pending'`, user).Scan(&n)
	})
	return n, err
}

// release sends the answer to the calls that wait for a question, after the commit.
func (s *Service) release(tx *storage.Tx, id uuid.UUID, a answer) {
	tx.AfterCommit(func() {
		s.mu.Lock()
		chs := s.waiting[id]
		delete(s.waiting, id)
		s.mu.Unlock()
		for _, ch := range chs {
			ch <- a // buffered for one answer
		}
	})
}

// leave stops waiting for a question.
func (s *Service) leave(id uuid.UUID, ch chan answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[id] = slices.DeleteFunc(s.waiting[id], func(c chan answer) bool { return c == ch })
	if len(s.waiting[id]) == 0 {
		delete(s.waiting, id)
	}
}

func (s *Service) isWaiting(id uuid.UUID) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.waiting[id]) > 0
}

// Run expires questions and stores when grants were last used, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	if err := s.endLeftOver(ctx); err != nil && ctx.Err() == nil {
		s.log.Error("expire grants of former sessions", "error", err)
	}
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		if err := fault.Catch(func() error { return s.Sweep(ctx) }); err != nil && ctx.Err() == nil {
			s.log.Error("expire approvals", "error", err)
		}
		select {
		case <-ctx.Done():
			return s.flushUse(context.WithoutCancel(ctx))
		case <-t.C:
		}
	}
}

// Sweep expires everything that is due. Run calls it every 30 s.
func (s *Service) Sweep(ctx context.Context) error {
	if err := s.flushUse(ctx); err != nil {
		return err
	}
	type due struct{ id, user uuid.UUID }
	var all []due
	if err := s.db.Read(ctx, func(tx *storage.Tx) error {
		var err error
		all, err = storage.Collect(tx.Select(`SELECT id, user_id FROM pending_approvals WHERE status = 'pending' AND expires_at <= ?`, s.now()), func(row storage.Row) (d due, err error) {
			err = row.Scan(&d.id, &d.user)
			return d, err
		})
		return err
	}); err != nil {
		return err
	}
	s.mu.Lock()
	for token, u := range s.undo {
		if s.now().After(u.until) {
			delete(s.undo, token)
		}
	}
	s.mu.Unlock()
	if len(all) == 0 {
		return nil
	}
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		for _, d := range all {
			if err := s.expire(tx, d.user, d.id, "time"); err != nil {
				return err
			}
		}
		_, err := tx.Exec(`DELETE FROM pending_approvals WHERE status <> 'pending' AND last_at < ?`, s.now().Add(-keepDecided))
		return err
	})
}

var errNoApproval = fault.NotFoundf("Approval not found.")
