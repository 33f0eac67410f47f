package memory

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// The actions that can be undone.
const (
	undoDelete       = "delete"
	undoRestore      = "restore"
	undoUpdate       = "update"
	undoPin          = "pin"
	undoTag          = "tag"
	undoSalience     = "salience"
	undoReinforce    = "reinforce"
	undoConversation = "delete_conversation"
	undoDocument     = "delete_document"
	undoTrust        = "set_untrusted"
)

// idsUndo names the rows of an action, and its time.
type idsUndo struct {
	IDs []uuid.UUID `json:"ids"`
	At  int64       `json:"at,omitempty"` // microseconds
}

// Undo undoes an action. A token can be used once, within ten minutes. Rows that were changed again
// meanwhile are left alone; if that is all of them, the error is a Conflict.
func (s *Service) Undo(ctx context.Context, p UndoParams) (CountResult, error) {
	var out CountResult
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		user := identity.UserID(ctx)
		act, state, err := tx.TakeUndo(user, p.UndoToken)
		if err != nil {
			return err
		}
		if out.Count, err = s.undo(tx, user, act, state); err != nil {
			return fmt.Errorf("undo %s: %w", act, err)
		}
		if out.Count == 0 {
			return fault.Conflictf("This has changed again, so it can no longer be undone.")
		}
		return nil
	})
	if err != nil {
		return CountResult{}, err
	}
	return out, nil
}

// undo undoes one action from its stored state. It returns the number of rows restored.
func (s *Service) undo(tx *storage.Tx, user uuid.UUID, act string, state []byte) (int, error) {
	switch act {
	case undoDelete, undoRestore, undoConversation, undoDocument:
		var u idsUndo
		if err := json.Unmarshal(state, &u); err != nil {
			return 0, err
		}
		return s.undoIDs(tx, user, act, u)
	case undoUpdate:
		var u updateUndo
		if err := json.Unmarshal(state, &u); err != nil {
			return 0, err
		}
		return s.undoEdit(tx, user, u)
	case undoPin:
		return undoEach(s, tx, user, state, func(u pinUndo) uuid.UUID { return u.ID }, func(m *memoryRow, u pinUndo) (bool, error) {
			if m.Pinned != u.Set {
				return false, nil
			}
			if err := s.setPinned(tx, m, !u.Set); err != nil {
				return true, err
			}
			_, err := tx.Exec(`UPDATE memories SET initial_strength = ?, last_reinforced_at = ?, retention = ?, version = version + 1 WHERE id = ?`, u.Strength, u.At, u.Retention, m.ID)
			return true, err
		})
	case undoSalience:
		return undoEach(s, tx, user, state, func(u tierUndo) uuid.UUID { return u.ID }, func(m *memoryRow, u tierUndo) (bool, error) {
			if m.SalienceTier != u.Set {
				return false, nil
			}
			return true, s.setTier(tx, m, u.Tier, u.Salience)
		})
	case undoReinforce:
		return undoEach(s, tx, user, state, func(u reinforceUndo) uuid.UUID { return u.ID }, func(m *memoryRow, u reinforceUndo) (bool, error) {
			if m.Version != u.Set {
				return false, nil
			}
			_, err := tx.Exec(`UPDATE memories SET initial_strength = ?, last_reinforced_at = ?, retention = ?, version = version + 1 WHERE id = ?`, u.Strength, u.At, u.Retention, m.ID)
			return true, err
		})
	case undoTag:
		return undoEach(s, tx, user, state, func(u tagDelta) uuid.UUID { return u.ID }, func(m *memoryRow, u tagDelta) (bool, error) {
			add := difference(u.Removed, m.Tags)
			remove := difference(u.Added, difference(u.Added, m.Tags))
			if room := maxTags - len(m.Tags) + len(remove); len(add) > room {
				add = add[:room]
			}
			if len(add)+len(remove) == 0 {
				return false, nil
			}
			if err := s.retag(tx, m, add, remove); err != nil {
				return false, err
			}
			return true, s.search.Put(tx, m.entry())
		})
	case undoTrust:
		var u trustUndo
		if err := json.Unmarshal(state, &u); err != nil {
			return 0, err
		}
		return s.undoSetUntrusted(tx, user, u)
	}
	return 0, fmt.Errorf("unknown act")
}

func (s *Service) undoIDs(tx *storage.Tx, user uuid.UUID, act string, u idsUndo) (n int, err error) {
	takeBack := func(w *parent, id uuid.UUID) (bool, error) { return w.restore(s, tx, user, id, &u.At) }
	switch act {
	case undoDelete:
		back, err := s.restoreTx(tx, user, u.IDs, &u.At)
		return len(back), err
	case undoRestore:
		gone, err := s.deleteTx(tx, user, u.IDs)
		if n = len(gone); n == len(u.IDs) || err != nil {
			return n, err
		}
		takeBack = func(w *parent, id uuid.UUID) (bool, error) { return w.deleteTx(s, tx, user, id) }
	}
	for _, id := range u.IDs {
		done, err := eitherParent(func(w *parent) (bool, error) { return takeBack(w, id) })
		if err != nil {
			return 0, err
		}
		if done {
			n++
		}
	}
	return n, nil
}

// undoEach undoes an action on several memories, for those that still exist.
func undoEach[U any](s *Service, tx *storage.Tx, user uuid.UUID, state []byte, id func(U) uuid.UUID, back func(*memoryRow, U) (bool, error)) (int, error) {
	var us []U
	if err := json.Unmarshal(state, &us); err != nil {
		return 0, err
	}
	var touched []uuid.UUID
	for _, u := range us {
		m, err := s.memory(tx, user, id(u))
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return 0, err
		}
		done, err := back(m, u)
		if err != nil {
			return 0, err
		}
		if done {
			touched = append(touched, m.ID)
		}
	}
	changed(tx, user, "update", touched...)
	return len(touched), nil
}

// undoEdit restores each field that an edit changed and that has not changed since. The undo is
// itself an edit: the values it replaces are kept as a revision.
func (s *Service) undoEdit(tx *storage.Tx, user uuid.UUID, u updateUndo) (int, error) {
	m, err := s.memory(tx, user, u.ID)
	if fault.Is(err, fault.NotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	now, was, set := m.state(), u.Before, u.After
	var c change
	if string(was.Hash) != string(set.Hash) {
		if string(now.Hash) != string(set.Hash) {
			return 0, errStale(m)
		}
		text, err := s.revisionText(tx, m.ID, was.Version)
		if errors.Is(err, sql.ErrNoRows) { // so many edits followed that the revision is no longer kept
			return 0, errStale(m)
		}
		if err != nil {
			return 0, err
		}
		c.content = &text
	}
	if was.Type != set.Type && now.Type == set.Type {
		c.typ = &was.Type
	}
	if was.Layer != set.Layer && now.Layer == set.Layer {
		c.layer = &was.Layer
	}
	if (was.Tier != set.Tier || was.Salience != set.Salience) && now.Tier == set.Tier {
		c.tier, c.salience = &was.Tier, &was.Salience
	}
	if !sameTime(was.OccurredAt, set.OccurredAt) && sameTime(now.OccurredAt, set.OccurredAt) {
		c.occurredAt = &was.OccurredAt
	}
	if string(was.Metadata) != string(set.Metadata) && string(now.Metadata) == string(set.Metadata) {
		c.metadata = was.Metadata
	}
	if was.Untrusted != set.Untrusted && now.Untrusted == set.Untrusted {
		c.untrusted = &was.Untrusted
	}
	if !sameNumber(was.Valence, set.Valence) && sameNumber(now.Valence, set.Valence) {
		c.valence = &was.Valence
	}
	if !slices.Equal(was.Tags, set.Tags) {
		tags := append(difference(now.Tags, difference(set.Tags, was.Tags)), difference(difference(was.Tags, set.Tags), now.Tags)...)
		slices.Sort(tags)
		tags = tags[:min(len(tags), maxTags)]
		c.tags = &tags
	}
	before := m.Version
	if err := s.changeTx(tx, m, c, "undo"); err != nil || m.Version == before {
		return 0, err
	}
	changed(tx, user, "update", m.ID)
	return 1, nil
}
