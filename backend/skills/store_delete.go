package skills

import (
	"context"

	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/trash"
)

// DeleteComposite deletes a skill. It can be restored for 30 days. Active runs continue.
func (s *Service) DeleteComposite(ctx context.Context, p SkillParams) (DeleteResult, error) {
	var out DeleteResult
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		r, err := ownSkill(tx, p.SkillID)
		if err != nil {
			return err
		}
		out.DeletedAt = tx.Now.UTC()
		return s.kind.Delete(tx, r.item())
	})
	return out, err
}

// RestoreComposite restores a deleted skill. If its name has been taken meanwhile a number is
// appended. A skill that is not deleted is not changed.
func (s *Service) RestoreComposite(ctx context.Context, p SkillParams) (Meta, error) {
	err := s.db.Write(ctx, func(tx *storage.Tx) error { return s.kind.Restore(tx, p.SkillID) })
	if err != nil {
		return Meta{}, err
	}
	return s.GetMetadata(ctx, p)
}

// Trash describes deleted skills.
func (s *Service) Trash() trash.Kind {
	return s.kind.Trash(s.db, "skill", `SELECT composite_skill_id FROM composite_skill_executions WHERE status IN ('queued', 'running', 'waiting')`)
}

// CloneComposite copies the caller's own or a public skill. The copy is private and disabled.
func (s *Service) CloneComposite(ctx context.Context, p SkillParams) (Meta, error) {
	user := identity.UserID(ctx)
	var n *row
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		src, err := visibleSkill(tx, p.SkillID)
		if err != nil {
			return err
		}
		name, err := s.kind.CloneName(tx, user, src.name)
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
