package memory

import (
	"context"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/trash"
)

// Delete moves memories to the trash, where they stay for 30 days, and removes them from search.
// Ids that do not exist are skipped; if none exists the error is NotFound.
func (s *Service) Delete(ctx context.Context, p IDsParams) (CountResult, error) {
	ids, err := parseIDs("", p.IDs)
	if err != nil {
		return CountResult{}, err
	}
	var out CountResult
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		user := identity.UserID(ctx)
		gone, err := s.deleteTx(tx, user, ids)
		if err != nil {
			return err
		}
		if len(gone) == 0 {
			return errNoMemory()
		}
		out.Count = len(gone)
		out.UndoToken, err = tx.KeepUndo(user, undoDelete, idsUndo{gone, tx.Now.UnixMicro()})
		return err
	})
	return out, err
}

// deleteTx moves those of ids to the trash that are not there yet.
func (s *Service) deleteTx(tx *storage.Tx, user uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
	var gone []uuid.UUID
	for _, id := range ids {
		done, err := updateRow(tx, `UPDATE memories SET deleted_at = ?, updated_at = ? WHERE id = ? AND user_id = ? AND deleted_at IS NULL`, tx.Now, tx.Now, id, user)
		if err != nil {
			return nil, err
		}
		if done {
			gone = append(gone, id)
		}
	}
	if err := trash.Deleted(tx, user, gone...); err != nil {
		return nil, err
	}
	changed(tx, user, "delete", gone...)
	return gone, s.search.Drop(tx, KindMemory, gone...)
}

// Restore restores memories, conversations and documents from the trash by their ids. Tags, pin,
// salience and vector are preserved.
func (s *Service) Restore(ctx context.Context, p IDsParams) (CountResult, error) {
	ids, err := parseIDs("", p.IDs)
	if err != nil {
		return CountResult{}, err
	}
	var out CountResult
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		user := identity.UserID(ctx)
		back, err := s.restoreTx(tx, user, ids, nil)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if len(back) == len(ids) {
				break
			}
			done, err := eitherParent(func(w *parent) (bool, error) { return w.restore(s, tx, user, id, nil) })
			if err != nil {
				return err
			}
			if done {
				back = append(back, id)
			}
		}
		if out.Count = len(back); out.Count == 0 {
			return fault.NotFoundf("Memory not found in the trash.")
		}
		out.UndoToken, err = tx.KeepUndo(user, undoRestore, idsUndo{IDs: back})
		return err
	})
	if err != nil {
		return CountResult{}, err
	}
	return out, nil
}

// restoreTx restores those of ids that are in the trash; if at is not nil, only those deleted at
// that time. Purged memories have no text and are not restored.
func (s *Service) restoreTx(tx *storage.Tx, user uuid.UUID, ids []uuid.UUID, at *int64) ([]uuid.UUID, error) {
	var back []uuid.UUID
	for _, id := range ids {
		done, err := updateRow(tx, `UPDATE memories SET deleted_at = NULL, updated_at = ? WHERE id = ? AND user_id = ? AND deleted_at IS NOT NULL
			AND content <> '' AND (? IS NULL OR deleted_at = ?)`, tx.Now, id, user, at, at)
		if err != nil {
			return nil, err
		}
		if !done {
			continue
		}
		m, err := s.memory(tx, user, id)
		if err != nil {
			return nil, err
		}
		if err := s.search.Put(tx, m.entry()); err != nil {
			return nil, err
		}
		back = append(back, id)
	}
	changed(tx, user, "restore", back...)
	return back, nil
}

// Purge permanently deletes memories, whether they are in the trash or not, and conversations and
// documents that are in the trash. Only a tombstone remains.
func (s *Service) Purge(ctx context.Context, p IDsParams) (CountResult, error) {
	ids, err := parseIDs("", p.IDs)
	if err != nil {
		return CountResult{}, err
	}
	var out CountResult
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		user := identity.UserID(ctx)
		gone, err := s.purgeTx(tx, user, ids)
		if err != nil {
			return err
		}
		out.Count = len(gone)
		for _, id := range ids {
			if out.Count == len(ids) {
				break
			}
			done, err := eitherParent(func(w *parent) (bool, error) { return w.purge(s, tx, user, id) })
			if err != nil {
				return err
			}
			if done {
				out.Count++
			}
		}
		if out.Count == 0 {
			return errNoMemory()
		}
		return nil
	})
	if err != nil {
		return CountResult{}, err
	}
	return out, nil
}

// purgeTx deletes the text, tags, metadata, revisions and vectors of rows. A row remains as a
// tombstone until retention removes it. The tombstone of an imported memory keeps the id that the
// file gave it, so that the next import of the file does not bring it back.
func (s *Service) purgeTx(tx *storage.Tx, user uuid.UUID, ids []uuid.UUID) ([]uuid.UUID, error) {
	var gone []uuid.UUID
	for _, id := range ids {
		done, err := updateRow(tx, `UPDATE memories SET deleted_at = coalesce(deleted_at, ?), updated_at = ?, content = '', content_hash = ?, metadata = '{}',
			source_ref = CASE source WHEN 'jsonl' THEN source_ref END,
			emotional_valence = NULL, occurred_at = NULL, pinned = 0 WHERE id = ? AND user_id = ? AND content <> ''`, tx.Now, tx.Now, textHash(""), id, user)
		if err != nil {
			return nil, err
		}
		if !done {
			continue
		}
		if _, err := tx.Exec(`DELETE FROM memory_tags WHERE memory_id = ?`, id); err != nil {
			return nil, err
		}
		if err := tx.WithoutCapture(func() error {
			_, err := tx.Exec(`DELETE FROM memory_revisions WHERE memory_id = ?`, id)
			return err
		}); err != nil {
			return nil, err
		}
		if err := purgeRecall(tx, user, KindMemory, id); err != nil {
			return nil, err
		}
		if _, err := tx.Exec(`DELETE FROM memory_undo WHERE user_id = ? AND act = ? AND json_extract(state, '$.id') = ?`, user, undoUpdate, id.String()); err != nil {
			return nil, err // the undo state contains the text that the edit replaced
		}
		gone = append(gone, id)
	}
	if err := s.search.Drop(tx, KindMemory, gone...); err != nil {
		return nil, err
	}
	changed(tx, user, "purge", gone...)
	return gone, purgeVectors(tx, KindMemory, gone...)
}
