package lifecycle

import (
	"context"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/trash"
)

// Trash describes deleted definitions of this kind under a name. open selects the ids of the
// definitions that have active runs; "" if runs do not use the tables.
func (k *Kind) Trash(db *storage.DB, name, open string) trash.Kind {
	return trash.Kind{
		Name: name,
		Rows: `SELECT id, name, description AS text, deleted_at FROM ` + k.Table + ` WHERE user_id = ?1 AND deleted_at IS NOT NULL`,
		Restore: func(ctx context.Context, id uuid.UUID) error {
			return db.Write(ctx, func(tx *storage.Tx) error { return k.Restore(tx, id) })
		},
		Purge: func(tx *storage.Tx, id uuid.UUID) error {
			if open != "" {
				var busy bool
				if err := tx.QueryRow(`SELECT ? IN (`+open+`)`, id).Scan(&busy); err != nil {
					return err
				}
				if busy {
					return fault.Conflictf("A run of this %s has not ended. Cancel it, then delete the %s permanently.", k.Noun, k.Noun)
				}
			}
			_, err := tx.Exec(`DELETE FROM `+k.Table+` WHERE id = ? AND user_id = ? AND deleted_at IS NOT NULL`, id, identity.UserID(tx.Context()))
			return err
		},
	}
}
