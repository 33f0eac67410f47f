package permission

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"errors"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// undo is a revocation that can be undone.
type undo struct {
	user  uuid.UUID
	ids   []uuid.UUID
	until time.Time
}

// Revoke revokes grants. Runs that use them end within a second; the questions of the subject
// remain. The token in the result restores the grants within 10 s, which requires the scope approve
// like every extension of permissions.
func (s *Service) Revoke(ctx context.Context, p RevokeParams) (RevokeResult, error) {
	user := identity.UserID(ctx)
	given := 0
	for _, b := range []bool{p.GrantID != nil, p.SubjectID != "", p.All, p.UndoToken != "", p.DenialID != nil} {
		if b {
			given++
		}
	}
	if user == uuid.Nil || given != 1 {
		return RevokeResult{}, fault.Invalidf("Give exactly one of grantId, subjectId, all, undoToken and denialId.")
	}
	switch {
	case p.UndoToken != "":
		return s.undoRevoke(ctx, user, p.UndoToken)
	case p.DenialID != nil:
		return s.forgetDenial(ctx, user, *p.DenialID)
	}
	var ids []uuid.UUID
	err := s.db.Write(ctx, func(tx *storage.Tx) (err error) {
		const live = ` AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?) AND NOT (scope = 'once' AND uses_left = 0)`
		subject := "*"
		switch {
		case p.GrantID != nil:
			ids, err = s.withTwins(tx, user, *p.GrantID)
		case p.SubjectID != "":
			subject = p.SubjectID
			ids, err = idsOf(tx, `SELECT id FROM capability_grants WHERE user_id = ? AND subject_id = ?`+live, user, p.SubjectID, s.now())
		default:
			ids, err = idsOf(tx, `SELECT id FROM capability_grants WHERE user_id = ?`+live, user, s.now())
		}
		if err != nil {
			return err
		}
		if p.GrantID != nil {
			if err := tx.QueryRow(`SELECT subject_id FROM capability_grants WHERE id = ?`, *p.GrantID).Scan(&subject); err != nil {
				return err
			}
		}
		if err := revokeIDs(tx, user, ids, "revoked by the user"); err != nil {
			return err
		}
		s.changed(tx, user, subject)
		tx.AfterCommit(func() { s.endRuns(ids, "revoked") })
		return nil
	})
	if err != nil {
		return RevokeResult{}, err
	}
	res := RevokeResult{Revoked: len(ids)}
	if len(ids) > 0 {
		var b [16]byte
		_, _ = rand.Read(b[:])
		res.UndoToken = base64.RawURLEncoding.EncodeToString(b[:])
		s.mu.Lock()
		s.undo[res.UndoToken] = undo{user: user, ids: ids, until: s.now().Add(UndoFor)}
		s.mu.Unlock()
	}
	return res, nil
}

// withTwins returns the grant and the suspended ones that would restore the same permission
// together with an earlier definition.
func (s *Service) withTwins(tx *storage.Tx, user, id uuid.UUID) ([]uuid.UUID, error) {
	var kind, subject, c, res string
	var revoked bool
	err := tx.QueryRow(`SELECT subject_kind, subject_id, capability, resource, revoked_at IS NOT NULL FROM capability_grants WHERE id = ? AND user_id = ?`, id, user).Scan(&kind, &subject, &c, &res, &revoked)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.NotFoundf("Grant not found.")
	}
	if err != nil || revoked {
		return nil, err
	}
	return idsOf(tx, `SELECT id FROM capability_grants WHERE user_id = ? AND revoked_at IS NULL AND (id = ? OR subject_kind = ? AND subject_id = ? AND capability = ? AND resource = ? AND suspended_at IS NOT NULL AND revoke_reason IS NOT NULL)
		ORDER BY id <> ?`, user, id, kind, subject, c, res, id)
}

func (s *Service) mayWiden(ctx context.Context) error {
	who, err := person(ctx)
	if err != nil {
		return err
	}
	if !who.MayApprove() {
		return fault.Deniedf("This session can revoke permissions but not grant them.").WithDetails(map[string]string{"scope": "approve"})
	}
	return nil
}

func (s *Service) undoRevoke(ctx context.Context, user uuid.UUID, token string) (RevokeResult, error) {
	if err := s.mayWiden(ctx); err != nil {
		return RevokeResult{}, err
	}
	s.mu.Lock()
	u, ok := s.undo[token]
	ok = ok && u.user == user && !s.now().After(u.until)
	if ok {
		delete(s.undo, token)
	}
	s.mu.Unlock()
	if !ok {
		return RevokeResult{}, fault.Conflictf("It is too late to undo this. The permissions can be requested again.")
	}
	var res RevokeResult
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		res.Restored = 0
		for _, id := range u.ids {
			var kind, subject string
			err := tx.QueryRow(`UPDATE capability_grants SET revoked_at = NULL, revoke_reason = NULL WHERE id = ? AND user_id = ? AND revoked_at IS NOT NULL RETURNING subject_kind, subject_id`, id, user).Scan(&kind, &subject)
			if errors.Is(err, sql.ErrNoRows) {
				continue
			}
			if err != nil {
				return err
			}
			res.Restored++
			if err := audit.Append(tx, audit.Entry{Action: audit.GrantCreated, SubjectKind: kind, SubjectID: subject, Details: map[string]any{"grant": id, "undo": true}}); err != nil {
				return err
			}
		}
		s.changed(tx, user, "*")
		return nil
	})
	return res, err
}

func (s *Service) forgetDenial(ctx context.Context, user, id uuid.UUID) (RevokeResult, error) {
	if err := s.mayWiden(ctx); err != nil {
		return RevokeResult{}, err
	}
	var res RevokeResult
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		var kind, subject, c, r string
		err := tx.QueryRow(`UPDATE capability_denials SET deleted_at = ?, updated_at = ? WHERE id = ? AND user_id = ? AND deleted_at IS NULL RETURNING subject_kind, subject_id, capability, resource`,
			tx.Now.UnixMicro(), tx.Now.UnixMicro(), id, user).Scan(&kind, &subject, &c, &r)
		if errors.Is(err, sql.ErrNoRows) {
			return fault.NotFoundf("Denial not found.")
		}
		if err != nil {
			return err
		}
		res.Revoked = 1
		s.changed(tx, user, subject)
		return audit.Append(tx, audit.Entry{Action: "denial.removed", SubjectKind: kind, SubjectID: subject, Details: map[string]any{"denial": id, "capability": c, "resource": r}})
	})
	return res, err
}
