package permission

import (
	"database/sql"
	"encoding/json"
	"errors"
	"slices"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// movedOn is the revoke reason of a suspended grant that was copied to a newer definition.
const movedOn = "moved to a newer definition"

// caller returns the user of the transaction.
func caller(tx *storage.Tx) (uuid.UUID, error) {
	u := identity.UserID(tx.Context())
	if u == uuid.Nil {
		return u, fault.Deniedf("Nobody is signed in, so nothing is allowed.")
	}
	return u, nil
}

// DefinitionChanged records in tx that the definition of sub is now newHash. It suspends the grants
// of all other definitions, and reactivates those of newHash if that was approved before. It
// returns the suspended grants. doc is the document that newHash covers. Call it in the transaction
// that changes the definition; it is not needed for the first definition of a new subject.
// sub.DefinitionHash is ignored.
func (s *Service) DefinitionChanged(tx *storage.Tx, sub Subject, oldHash, newHash [32]byte, doc json.RawMessage) (suspended []uuid.UUID, err error) {
	user, err := caller(tx)
	if err != nil {
		return nil, err
	}
	if oldHash == newHash {
		return []uuid.UUID{}, nil
	}
	sub.DefinitionHash = newHash
	if err := saveDefinition(tx, user, sub, doc, ""); err != nil {
		return nil, err
	}
	var revived []uuid.UUID
	suspended = []uuid.UUID{}
	// A server may list a thousand changed tools, of which few have grants, and a query costs less than an update.
	if err := tx.Select(`SELECT id, definition_hash <> ?1 FROM capability_grants WHERE user_id = ?2 AND subject_kind = ?3 AND subject_id = ?4 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?5)
		AND (definition_hash <> ?1 AND suspended_at IS NULL OR definition_hash = ?1 AND suspended_at IS NOT NULL
			AND EXISTS (SELECT 1 FROM definitions d WHERE d.user_id = ?2 AND d.subject_kind = ?3 AND d.subject_id = ?4 AND d.hash = ?1 AND d.approved_at IS NOT NULL))`, newHash, user, sub.Kind, sub.ID, tx.Now).Each(func(row storage.Row) error {
		var id uuid.UUID
		var other bool
		if err := row.Scan(&id, &other); err != nil {
			return err
		}
		if other {
			suspended = append(suspended, id)
		} else {
			revived = append(revived, id)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	for _, id := range suspended {
		if _, err := tx.Exec(`UPDATE capability_grants SET suspended_at = ? WHERE id = ?`, tx.Now, id); err != nil {
			return nil, err
		}
	}
	for _, id := range revived {
		if _, err := tx.Exec(`UPDATE capability_grants SET suspended_at = NULL, revoke_reason = NULL WHERE id = ?`, id); err != nil {
			return nil, err
		}
	}
	if err := s.closeOthers(tx, user, sub); err != nil {
		return nil, err
	}
	if err := audit.Append(tx, audit.Entry{User: user, Action: audit.DefinitionChanged, SubjectKind: sub.Kind, SubjectID: sub.ID,
		Details: map[string]any{"from": hexHash(oldHash), "to": hexHash(newHash), "suspended": len(suspended), "revived": len(revived)}}); err != nil {
		return nil, err
	}
	for _, id := range suspended {
		if err := audit.Append(tx, audit.Entry{User: user, Action: audit.GrantSuspended, SubjectKind: sub.Kind, SubjectID: sub.ID, Details: map[string]any{"grant": id}}); err != nil {
			return nil, err
		}
	}
	s.changed(tx, user, sub.ID)
	return suspended, nil
}

// ApproveDefinition records in tx that the user trusts sub.DefinitionHash. Grants that the change had
// suspended move to it if declared still includes them; the others are revoked. by is who approved.
func (s *Service) ApproveDefinition(tx *storage.Tx, sub Subject, doc json.RawMessage, declared []Want, by string) error {
	user, err := caller(tx)
	if err != nil {
		return err
	}
	_, err = s.approveDefinition(tx, user, sub, doc, declared, by, nil)
	return err
}

// approveDefinition moves the suspended grants. keep selects the grants to keep after a partial
// answer; nil keeps all.
func (s *Service) approveDefinition(tx *storage.Tx, user uuid.UUID, sub Subject, doc json.RawMessage, declared []Want, by string, keep func(Capability, string) bool) (moved []uuid.UUID, err error) {
	if by == "" {
		by = "user"
	}
	if err := saveDefinition(tx, user, sub, doc, by); err != nil {
		return nil, err
	}
	var drop []uuid.UUID
	err = tx.Select(`SELECT id, capability, resource FROM capability_grants WHERE user_id = ? AND subject_kind = ? AND subject_id = ? AND suspended_at IS NOT NULL AND revoked_at IS NULL
		AND revoke_reason IS NULL AND (expires_at IS NULL OR expires_at > ?)`, user, sub.Kind, sub.ID, tx.Now).Each(func(row storage.Row) error {
		var id uuid.UUID
		var c Capability
		var resource string
		if err := row.Scan(&id, &c, &resource); err != nil {
			return err
		}
		kept := c == Call
		for _, w := range declared {
			if w.Capability == c {
				if _, ok := narrow(c, s.anchor(c, w.Resource), s.anchor(c, resource)); ok {
					kept = true
				}
			}
		}
		if kept && (keep == nil || keep(c, resource)) {
			moved = append(moved, id)
		} else {
			drop = append(drop, id)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	// The new definition gets copies. The originals stay with the previous definition, hidden, and
	// are reactivated with it.
	copies := []uuid.UUID{}
	for _, id := range moved {
		to := storage.NewID()
		if _, err := tx.Exec(`INSERT INTO capability_grants (id, user_id, device_id, subject_kind, subject_id, definition_hash, capability, resource, scope, run_id, session_id, uses_left, expires_at, origin, pending_id, created_at, last_used_at)
			SELECT ?, user_id, device_id, subject_kind, subject_id, ?, capability, resource, scope, run_id, session_id, uses_left, expires_at, origin, pending_id, ?, last_used_at FROM capability_grants WHERE id = ?`,
			to, sub.DefinitionHash, tx.Now, id); err != nil {
			return nil, err
		}
		if _, err := tx.Exec(`UPDATE capability_grants SET revoke_reason = ? WHERE id = ?`, movedOn, id); err != nil {
			return nil, err
		}
		copies = append(copies, to)
	}
	moved = copies
	if err := revokeIDs(tx, user, drop, "not part of the new definition"); err != nil {
		return nil, err
	}
	s.changed(tx, user, sub.ID)
	return moved, nil
}

// GrantTx records in tx that the user always allows sub to use what wants names. Call it when a person approves a
// definition together with everything that it declares; see ApproveDefinition. Grants that exist are kept.
func (s *Service) GrantTx(tx *storage.Tx, sub Subject, wants []Want) error {
	user, err := caller(tx)
	if err != nil {
		return err
	}
	for _, w := range wants {
		var have int
		if err := tx.QueryRow(`SELECT count(*) FROM capability_grants WHERE user_id = ? AND subject_kind = ? AND subject_id = ? AND definition_hash = ? AND capability = ? AND resource = ? AND scope = 'always'
			AND revoked_at IS NULL AND suspended_at IS NULL AND expires_at IS NULL`, user, sub.Kind, sub.ID, sub.DefinitionHash, string(w.Capability), w.Resource).Scan(&have); err != nil {
			return err
		}
		if have > 0 {
			continue
		}
		if _, err := insertGrant(tx, user, newGrant{sub: sub, item: Item{Capability: w.Capability, Resource: w.Resource}, scope: "always", origin: "user"}); err != nil {
			return err
		}
	}
	s.changed(tx, user, sub.ID)
	return nil
}

// GrantedTx reports whether the user always allows sub, with its definition, to use all that wants names, and
// denies it nothing of that.
func (s *Service) GrantedTx(tx *storage.Tx, sub Subject, wants []Want) (bool, error) {
	user, err := caller(tx)
	if err != nil {
		return false, err
	}
	sp := s.space()
	found, err := loadGrants(tx, user, []Subject{sub}, sp)
	if err != nil {
		return false, err
	}
	sh := found[0]
	for _, w := range wants {
		want := compile(w.Capability, w.Resource, sp, sub)
		denied := slices.ContainsFunc(sh.denials, func(r rule) bool { return r.covers(&want) })
		granted := slices.ContainsFunc(sh.grants[w.Capability], func(g grant) bool {
			return g.scope == "always" && g.live(s.nowMicro(), sub.DefinitionHash) && g.covers(&want)
		})
		if denied || !granted {
			return false, nil
		}
	}
	return true, nil
}

// RevokeSubject revokes all grants of a subject in tx, such as when it is deleted, and closes its
// open questions. It returns the number of grants. Runs that use them end.
func (s *Service) RevokeSubject(tx *storage.Tx, kind, id, reason string) (int, error) {
	user, err := caller(tx)
	if err != nil {
		return 0, err
	}
	ids, err := idsOf(tx, `SELECT id FROM capability_grants WHERE user_id = ? AND subject_kind = ? AND subject_id = ? AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)`, user, kind, id, tx.Now)
	if err != nil {
		return 0, err
	}
	if err := revokeIDs(tx, user, ids, reason); err != nil {
		return 0, err
	}
	if err := s.closeOthers(tx, user, Subject{Kind: kind, ID: id}); err != nil { // the zero hash equals no definition, so this closes all
		return 0, err
	}
	tx.AfterCommit(func() { s.endRuns(ids, reason) })
	s.changed(tx, user, id)
	return len(ids), nil
}

// SubjectChanged records in tx that something other than the definition of a subject
// changed, such as whether it is enabled. Cached decisions about it are dropped and, if it
// is no longer usable, its runs end.
func (s *Service) SubjectChanged(tx *storage.Tx, kind, id string, usable bool) error {
	user, err := caller(tx)
	if err != nil {
		return err
	}
	s.changed(tx, user, id)
	if !usable {
		tx.AfterCommit(func() { s.endSubject(user, kind, id) })
	}
	return nil
}

func (s *Service) endSubject(user uuid.UUID, kind, id string) {
	s.mu.RLock()
	var all []*Authority
	for _, as := range s.runs {
		all = append(all, as...)
	}
	s.mu.RUnlock()
	for _, a := range all {
		if a.user == user && a.sub.Kind == kind && a.sub.ID == id {
			for _, b := range all {
				if b.descends(a) {
					b.end(errRevoked("inactive"))
				}
			}
		}
	}
}

func revokeIDs(tx *storage.Tx, user uuid.UUID, ids []uuid.UUID, reason string) error {
	for _, id := range ids {
		var kind, subject, c, res string
		err := tx.QueryRow(`UPDATE capability_grants SET revoked_at = ?, revoke_reason = ? WHERE id = ? AND user_id = ? AND revoked_at IS NULL RETURNING subject_kind, subject_id, capability, resource`,
			tx.Now.UnixMicro(), clip(reason, 200), id[:], user[:]).Scan(&kind, &subject, &c, &res)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return err
		}
		if err := audit.Append(tx, audit.Entry{User: user, Action: audit.GrantRevoked, SubjectKind: kind, SubjectID: subject, Details: map[string]any{"grant": id, "capability": c, "resource": res, "reason": reason}}); err != nil {
			return err
		}
	}
	return nil
}

func idsOf(tx *storage.Tx, query string, args ...any) ([]uuid.UUID, error) {
	out, err := usersOf(tx, query, args...)
	if out == nil {
		out = []uuid.UUID{}
	}
	return out, err
}

// addedWants returns what the current definition declares in addition to the last approved one.
func addedWants(tx *storage.Tx, user uuid.UUID, sub Subject, info *SubjectInfo) ([]Item, error) {
	doc, _, err := lastApproved(tx, user, sub.Kind, sub.ID)
	if err != nil {
		return nil, err
	}
	former := declaredIn(doc)
	out := []Item{}
	for _, w := range info.Declared {
		covered := false
		for _, f := range former {
			covered = covered || f.Capability == w.Capability && Covers(w.Capability, f.Resource, w.Resource)
		}
		if !covered {
			out = append(out, Item{Capability: w.Capability, Resource: w.Resource, Why: Sanitize(w.Why)})
		}
	}
	return out, nil
}

// lastApproved returns the document and hash of the last approved definition.
func lastApproved(tx *storage.Tx, user uuid.UUID, kind, id string) (doc json.RawMessage, hash [32]byte, err error) {
	var h, d []byte
	err = tx.QueryRow(`SELECT document, hash FROM definitions WHERE user_id = ? AND subject_kind = ? AND subject_id = ? AND approved_at IS NOT NULL ORDER BY approved_at DESC, first_seen DESC LIMIT 1`, user, kind, id).Scan(&d, &h)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, hash, nil
	}
	copy(hash[:], h)
	return d, hash, err
}

// declaredIn returns the capabilities in a definition document: its member "capabilities" contains
// strings or {capability, resource} objects.
func declaredIn(doc json.RawMessage) []Want {
	var d struct {
		Capabilities []json.RawMessage `json:"capabilities"`
	}
	if json.Unmarshal(doc, &d) != nil {
		return nil
	}
	var out []Want
	for _, raw := range d.Capabilities {
		var text string
		var pair struct {
			Capability, Resource string
		}
		if json.Unmarshal(raw, &text) != nil && json.Unmarshal(raw, &pair) == nil {
			text = pair.Capability + "(" + pair.Resource + ")"
		}
		if c, r, err := ParseCapability(text); err == nil {
			out = append(out, Want{Capability: c, Resource: r})
		}
	}
	return out
}
