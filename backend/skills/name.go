package skills

import (
	"context"
	"database/sql"
	"errors"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/storage"
)

// NameOf returns the name of a skill that the caller may run, or a NotFound error.
func (s *Service) NameOf(ctx context.Context, id uuid.UUID) (name string, err error) {
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT name FROM composite_skills WHERE id = ? AND deleted_at IS NULL
			AND (user_id = ? OR visibility = 'public' AND is_enabled = 1)`, id, identity.UserID(ctx)).Scan(&name)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return "", errNoSkill()
	}
	return name, err
}
