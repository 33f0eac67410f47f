package storage

import (
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
)

// undoAge is how long an action can be undone.
const undoAge = 10 * time.Minute

// KeepUndo stores how to undo an action of a user, and returns the token for it. state must not
// contain the user's texts unencrypted.
func (tx *Tx) KeepUndo(user uuid.UUID, act string, state any) (token string, err error) {
	b, err := json.Marshal(state)
	if err != nil {
		return "", err
	}
	if _, err := tx.Exec(`DELETE FROM memory_undo WHERE user_id = ? AND created_at < ?`, user, tx.Now.Add(-undoAge)); err != nil {
		return "", err
	}
	token = rand.Text()
	_, err = tx.Exec(`INSERT INTO memory_undo (token, user_id, act, state, created_at) VALUES (?, ?, ?, ?, ?)`, token, user, act, string(b), tx.Now)
	return token, err
}

// TakeUndo returns what KeepUndo stored, and removes it. A token that is unknown, too old or of
// another user is NotFound.
func (tx *Tx) TakeUndo(user uuid.UUID, token string) (act string, state []byte, err error) {
	var text string
	err = tx.QueryRow(`DELETE FROM memory_undo WHERE token = ? AND user_id = ? AND created_at >= ? RETURNING act, state`, token, user, tx.Now.Add(-undoAge)).Scan(&act, &text)
	if errors.Is(err, sql.ErrNoRows) {
		err = fault.NotFoundf("This can no longer be undone.")
	}
	return act, []byte(text), err
}

// PruneUndo removes the tokens of all users that are too old at now.
func (tx *Tx) PruneUndo(now time.Time) error {
	_, err := tx.Exec(`DELETE FROM memory_undo WHERE created_at < ?`, now.Add(-undoAge))
	return err
}
