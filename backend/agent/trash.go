package agent

import (
	"context"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/trash"
)

// forgetBatch is the number of entries removed from the word index in one transaction.
const forgetBatch = 500

// Trash describes deleted chats. Purging a chat removes its messages, events, turns and files. Its
// cost stays in the ledger, and memories of it stay in memory.
func (s *Service) Trash() trash.Kind {
	return trash.Kind{
		Name: "chat",
		Rows: `SELECT id, title AS name, '' AS text, deleted_at FROM sessions WHERE user_id = ?1 AND deleted_at IS NOT NULL`,
		Restore: func(ctx context.Context, id uuid.UUID) error {
			_, err := s.Restore(ctx, SessionParams{SessionID: id})
			return err
		},
		Purge: func(tx *storage.Tx, id uuid.UUID) error {
			var busy bool
			if err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM agent_turns WHERE session_id = ? AND state IN ('queued', 'running', 'waiting'))`, id).Scan(&busy); err != nil {
				return err
			}
			if busy {
				return fault.Conflictf("A turn of this chat has not ended. Try again in a moment.")
			}
			_, err := tx.Exec(`DELETE FROM sessions WHERE id = ? AND user_id = ? AND deleted_at IS NOT NULL`, id, identity.UserID(tx.Context()))
			return err
		},
		Purged: func(ctx context.Context, ids []uuid.UUID) error {
			s.mu.Lock()
			for _, id := range ids {
				delete(s.all, id)
			}
			s.mu.Unlock()
			return s.ForgetPurged(ctx)
		},
	}
}

// ForgetPurged removes the words of purged messages from the search index. It reads the whole index,
// so call it once after purging many chats.
func (s *Service) ForgetPurged(ctx context.Context) error {
	for n := forgetBatch; n == forgetBatch; {
		gone, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) ([]int64, error) {
			return storage.Collect(tx.Select(`SELECT f.rowid FROM session_messages_fts f WHERE NOT EXISTS (SELECT 1 FROM session_messages m WHERE m.id = f.message_id) LIMIT ?`, forgetBatch), storage.RowTo[int64])
		})
		if err != nil {
			return err
		}
		if err := s.db.Write(ctx, func(tx *storage.Tx) error {
			for _, row := range gone {
				if _, err := tx.Exec(`DELETE FROM session_messages_fts WHERE rowid = ?`, row); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		n = len(gone)
	}
	return nil
}
