package channels

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// keepRemoved is how long a removed channel is kept. It is longer than a removal can be undone.
const keepRemoved = 15 * time.Minute

const undoRemove = "channels.remove"

// RemoveResult holds the token with which a removal can be undone.
type RemoveResult struct {
	UndoToken string `json:"undoToken"`
}

// Remove stops a channel. Its allow-list, queues and secret are deleted some minutes later, when the
// removal can no longer be undone. Chats stay.
func (s *Service) Remove(ctx context.Context, p IDParams) (out RemoveResult, err error) {
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		c, err := loadChannel(tx, p.ID)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE channels SET deleted_at = ? WHERE id = ?`, s.o.Clock.Now(), c.id); err != nil {
			return err
		}
		if out.UndoToken, err = tx.KeepUndo(c.user, undoRemove, c.id); err != nil {
			return err
		}
		tx.AfterCommit(func() { bus.Publish(s.bus, c.user, Changed{c.id, Disabled}) })
		return audit.Append(tx, audit.Entry{Action: "channel.removed", SubjectKind: "channel", SubjectID: c.id.String(), Details: map[string]any{"channel": c.name}})
	})
	if err == nil {
		s.halt(p.ID)
	}
	return out, err
}

// UndoParams hold the token of a removal.
type UndoParams struct {
	UndoToken string `json:"undoToken"`
}

// Undo brings a removed channel back as it was.
func (s *Service) Undo(ctx context.Context, p UndoParams) (Channel, error) {
	var id uuid.UUID
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		act, state, err := tx.TakeUndo(identity.UserID(ctx), p.UndoToken)
		if err != nil {
			return err
		}
		if act != undoRemove || json.Unmarshal(state, &id) != nil {
			return fault.NotFoundf("This can no longer be undone.")
		}
		r, err := tx.Exec(`UPDATE channels SET deleted_at = NULL WHERE id = ? AND user_id = ? AND deleted_at IS NOT NULL`, id, identity.UserID(ctx))
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil || n == 0 {
			if err == nil {
				err = fault.NotFoundf("This can no longer be undone.")
			}
			return err
		}
		return audit.Append(tx, audit.Entry{Action: "channel.restored", SubjectKind: "channel", SubjectID: id.String()})
	})
	if err == nil {
		err = s.restart(ctx, id)
	}
	if err != nil {
		return Channel{}, err
	}
	return s.Get(ctx, IDParams{id})
}

// purge deletes a removed channel with its allow-list, queues and secret.
func (s *Service) purge(tx *storage.Tx, c *channelRow) error {
	if err := s.o.Secrets.DeleteTx(tx, c.secret); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	_, err := tx.Exec(`DELETE FROM channels WHERE id = ?`, c.id)
	tx.AfterCommit(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.rejections, c.id)
	})
	return err
}

// purgeNamed deletes a removed channel of the caller, so that another can have its name.
func (s *Service) purgeNamed(tx *storage.Tx, name string) error {
	rows, err := channelRows(tx, `WHERE user_id = ? AND name = ? AND deleted_at IS NOT NULL`, identity.UserID(tx.Context()), name)
	for i := range rows {
		if err := s.purge(tx, &rows[i]); err != nil {
			return err
		}
	}
	return err
}

// purgeRemoved deletes the channels whose removal can no longer be undone.
func (s *Service) purgeRemoved(ctx context.Context) error {
	rows, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) ([]channelRow, error) {
		return channelRows(tx, `WHERE deleted_at < ?`, s.o.Clock.Now().Add(-keepRemoved))
	})
	for i := range rows {
		if err := s.db.Write(as(ctx, rows[i].user), func(tx *storage.Tx) error { return s.purge(tx, &rows[i]) }); err != nil {
			return err
		}
	}
	return err
}
