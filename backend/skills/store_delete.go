package skills

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/skills/definition"
	"helix/backend/storage"
)

// DeleteComposite deletes a skill; it can be restored for 30 days. Runs that go on go on.
func (s *Service) DeleteComposite(ctx context.Context, p SkillParams) (DeleteResult, error) {
	var out DeleteResult
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		r, err := ownSkill(tx, p.SkillID)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE composite_skills SET deleted_at = ?, updated_at = ? WHERE id = ?`, tx.Now, tx.Now, r.id); err != nil {
			return err
		}
		out.DeletedAt = tx.Now.UTC()
		s.announce(tx, r, "deleted")
		return s.record(tx, "skill.deleted", r, map[string]any{"name": r.name})
	})
	return out, err
}

// RestoreComposite takes a deletion back. When the name was taken meanwhile it gets a number;
// a skill that is not deleted stays as it is.
func (s *Service) RestoreComposite(ctx context.Context, p SkillParams) (Meta, error) {
	user := identity.UserID(ctx)
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		var name string
		var deleted *time.Time
		err := tx.QueryRow(`SELECT name, deleted_at FROM composite_skills WHERE id = ? AND user_id = ?`, p.SkillID, user).Scan(&name, storage.TimePtr(&deleted))
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return errNoSkill()
		case err != nil || deleted == nil:
			return err
		case tx.Now.Sub(*deleted) > restorable:
			return fault.NotFoundf("The skill was deleted more than 30 days ago and cannot be restored.")
		}
		if name, err = freeName(tx, user, name); err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE composite_skills SET deleted_at = NULL, name = ?, updated_at = ? WHERE id = ?`, name, tx.Now, p.SkillID); err != nil {
			return err
		}
		r, err := ownSkill(tx, p.SkillID)
		if err != nil {
			return err
		}
		s.announce(tx, r, "restored")
		return s.record(tx, "skill.restored", r, map[string]any{"name": r.name})
	})
	if err != nil {
		return Meta{}, err
	}
	return s.GetMetadata(ctx, p)
}

// CloneComposite copies an own or public skill: private and disabled.
func (s *Service) CloneComposite(ctx context.Context, p SkillParams) (Meta, error) {
	const suffix = " (Clone)"
	user := identity.UserID(ctx)
	var n *row
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		src, err := visibleSkill(tx, p.SkillID)
		if err != nil {
			return err
		}
		name, err := freeName(tx, user, cut(src.name, definition.MaxName-len(suffix))+suffix)
		if err != nil {
			return err
		}
		n = &row{
			id: storage.NewID(), user: user, name: name, description: src.description, tags: src.tags, icon: src.icon, body: src.body, source: &src.id,
		}
		return s.addTx(tx, n, "cloned from "+src.name, "edit")
	})
	if err != nil {
		return Meta{}, err
	}
	valid, err := s.valid(n, s.catalog(ctx))
	return n.meta(valid), err
}
