package scheduler

import (
	"context"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/trash"
)

// Trash describes deleted schedules.
func (s *Service) Trash() trash.Kind {
	return trash.Kind{
		Name: "schedule",
		Rows: `SELECT id, name, description AS text, deleted_at FROM schedules WHERE user_id = ?1 AND deleted_at IS NOT NULL`,
		Restore: func(ctx context.Context, id uuid.UUID) error {
			_, err := s.Restore(ctx, ScheduleParams{ScheduleID: id})
			return err
		},
		Purge: func(tx *storage.Tx, id uuid.UUID) error {
			var busy bool
			if err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM schedule_runs WHERE schedule_id = ? AND `+open+`)`, id).Scan(&busy); err != nil {
				return err
			}
			if busy {
				return fault.Conflictf("A run of this schedule hasn't ended. Cancel it, then delete the schedule permanently.")
			}
			_, err := tx.Exec(`DELETE FROM schedules WHERE id = ? AND user_id = ? AND deleted_at IS NOT NULL`, id, identity.UserID(tx.Context()))
			return err
		},
	}
}
