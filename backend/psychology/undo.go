package psychology

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/memory"
	"helix/backend/storage"
	"helix/backend/synthesis"
)

// entryUndo is the state of an entry before an action.
type entryUndo struct {
	ID         uuid.UUID  `json:"id"`
	Set        int64      `json:"set"`  // version after the action
	Data       string     `json:"data"` // sealed, in base64
	Strength   float64    `json:"strength"`
	Reinforced *time.Time `json:"reinforced,omitempty"`
	Count      int64      `json:"count"`
	Tier       string     `json:"tier"`
	Pinned     bool       `json:"pinned"`
	Retention  *float64   `json:"retention,omitempty"`
	Deleted    *time.Time `json:"deleted,omitempty"` // set if it was in the trash
}

// undoOf returns the present state of an entry, before an action that increments its version by one.
func undoOf(r entryRow) entryUndo {
	return entryUndo{r.ID, r.Version + 1, base64.StdEncoding.EncodeToString(r.sealed), r.InitialStrength, r.LastReinforcedAt, r.ReinforcementCount, r.SalienceTier, r.Pinned, r.stored, nil}
}

// Undo undoes an action on entries or memories within ten minutes. Items that have changed since
// are not restored.
func (s *Service) Undo(ctx context.Context, p memory.UndoParams) (out UndoResult, err error) {
	var failed error
	for token := range strings.SplitSeq(p.UndoToken, ".") {
		own, is := strings.CutPrefix(token, undoPrefix)
		if !is {
			undo := s.memory.Undo
			if strings.HasPrefix(token, synthesis.UndoPrefix) && s.o.Patterns != nil {
				undo = s.o.Patterns.Undo
			}
			r, err := undo(ctx, memory.UndoParams{UndoToken: token})
			failed = errors.Join(failed, err)
			out.Count += r.Count
			continue
		}
		n, err := s.undo(ctx, own)
		failed = errors.Join(failed, err)
		out.Count += n
	}
	if out.Count > 0 {
		failed = nil // items that have changed since are not restored
	}
	return out, failed
}

func (s *Service) undo(ctx context.Context, token string) (n int, err error) {
	return n, s.db.Write(ctx, func(tx *storage.Tx) error {
		user := identity.UserID(ctx)
		act, state, err := tx.TakeUndo(user, token)
		if err != nil {
			return err
		}
		if act == reviewsAct {
			n = 1
			return s.undoPlan(tx, user, state)
		}
		var list []entryUndo
		if err := json.Unmarshal(state, &list); err != nil {
			return err
		}
		var ids []uuid.UUID
		for _, u := range list {
			sealed, err := base64.StdEncoding.DecodeString(u.Data)
			if err != nil {
				return err
			}
			r, err := tx.Exec(`UPDATE psychology_entries SET data = ?, initial_strength = ?, last_reinforced_at = ?, reinforcement_count = ?, salience_tier = ?, pinned = ?, retention = ?, deleted_at = ?, updated_at = ?, version = version + 1
				WHERE id = ? AND user_id = ? AND version = ?`, sealed, u.Strength, u.Reinforced, u.Count, u.Tier, u.Pinned, u.Retention, u.Deleted, tx.Now, u.ID, user, u.Set)
			if err != nil {
				return err
			}
			if k, err := r.RowsAffected(); err != nil || k == 0 {
				continue
			}
			ids = append(ids, u.ID)
		}
		if n = len(ids); n == 0 {
			return fault.Conflictf("This has changed again, so it can no longer be undone.")
		}
		s.changed(tx, user, nil, ids...)
		return nil
	})
}
