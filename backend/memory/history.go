package memory

import (
	"context"
	"time"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/storage"
)

const (
	keptRevisions = 50
	revisionAge   = 365 * 24 * time.Hour
)

// History lists earlier texts of a memory, newest first: at most 50, of the last year.
func (s *Service) History(ctx context.Context, p HistoryParams) (HistoryResult, error) {
	id, err := parseID("id", p.ID)
	if err != nil {
		return HistoryResult{}, err
	}
	out := HistoryResult{Revisions: []Revision{}}
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		user := identity.UserID(ctx)
		if _, err := s.memory(tx, user, id); err != nil {
			return err
		}
		return tx.Select(`SELECT id, version, content, tags, edited_at, origin FROM memory_revisions
			WHERE memory_id = ? AND user_id = ? AND deleted_at IS NULL ORDER BY version DESC, edited_at DESC, id DESC`, id, user).Each(func(row storage.Row) error {
			var rev uuid.UUID
			var content []byte
			r := Revision{Tags: []string{}}
			if err := row.Scan(&rev, &r.Version, &content, storage.JSON(&r.Tags), storage.Time(&r.EditedAt), &r.Origin); err != nil {
				return err
			}
			if r.Content, err = s.open("memory_revisions", "content", rev, content); err != nil {
				return err
			}
			out.Revisions = append(out.Revisions, r)
			return nil
		})
	})
	return out, err
}

// trimRevisions deletes all but the newest 50 revisions. The deletion is not synced: each device
// applies its own retention.
func trimRevisions(tx *storage.Tx, memory uuid.UUID) error {
	var n int
	if err := tx.QueryRow(`SELECT count(*) FROM memory_revisions WHERE memory_id = ?`, memory).Scan(&n); err != nil || n <= keptRevisions {
		return err
	}
	return tx.WithoutCapture(func() error {
		_, err := tx.Exec(`DELETE FROM memory_revisions WHERE id IN (
			SELECT id FROM memory_revisions WHERE memory_id = ? ORDER BY version DESC, edited_at DESC, id DESC LIMIT -1 OFFSET ?)`, memory, keptRevisions)
		return err
	})
}

// revisionText returns the text of a memory at a version.
func (s *Service) revisionText(tx *storage.Tx, memory uuid.UUID, version int64) (string, error) {
	var id uuid.UUID
	var content []byte
	err := tx.QueryRow(`SELECT id, content FROM memory_revisions WHERE memory_id = ? AND version = ? ORDER BY edited_at DESC, id DESC LIMIT 1`, memory, version).Scan(&id, &content)
	if err != nil {
		return "", err
	}
	return s.open("memory_revisions", "content", id, content)
}
