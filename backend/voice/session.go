package voice

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// sessionPause is the time after a turn at which a conversation ends.
const sessionPause = 10 * time.Minute

// Session is a spoken conversation: recordings of the mode talk that followed one another.
type Session struct {
	ID        uuid.UUID  `json:"id"`
	Mode      string     `json:"mode"` // talk
	StartedAt time.Time  `json:"startedAt"`
	EndedAt   *time.Time `json:"endedAt,omitempty"`
	Turns     []Turn     `json:"turns"`
}

// Turn is a recording in a conversation.
type Turn struct {
	RecordingID uuid.UUID `json:"recordingId"`
	At          time.Time `json:"at"`
	Status      string    `json:"status,omitempty"` // of its transcription
	Text        string    `json:"text,omitempty"`   // the current transcript
}

// SessionParams identify a conversation; without an id it is the latest one.
type SessionParams struct {
	SessionID *uuid.UUID `json:"sessionId,omitempty"`
}

const sessionColumns = `SELECT id, mode, started_at, ended_at, turns FROM voice_sessions WHERE user_id = ?1 AND deleted_at IS NULL AND (?2 IS NULL OR id = ?2) ORDER BY started_at DESC, id DESC LIMIT 1`

func scanSession(row storage.Row) (out Session, err error) {
	err = row.Scan(&out.ID, &out.Mode, storage.Time(&out.StartedAt), storage.TimePtr(&out.EndedAt), storage.JSON(&out.Turns))
	return out, err
}

// last is when the latest turn began.
func (s *Session) last() time.Time {
	if n := len(s.Turns); n > 0 {
		return s.Turns[n-1].At
	}
	return s.StartedAt
}

// addTurn adds a recording to the current conversation, or begins another one.
func addTurn(tx *storage.Tx, user uuid.UUID, t Turn) error {
	now, err := scanSession(tx.QueryRow(sessionColumns, user, nil))
	switch {
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return err
	case err == nil && now.EndedAt == nil && t.At.Sub(now.last()) <= sessionPause:
		_, err := tx.Exec(`UPDATE voice_sessions SET turns = ?, updated_at = ? WHERE id = ?`, toJSON(append(now.Turns, t)), tx.Now, now.ID)
		return err
	case err == nil && now.EndedAt == nil:
		if _, err := tx.Exec(`UPDATE voice_sessions SET ended_at = ?, updated_at = ? WHERE id = ?`, now.last(), tx.Now, now.ID); err != nil {
			return err
		}
	}
	_, err = tx.Exec(`INSERT INTO voice_sessions (id, user_id, mode, started_at, turns, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)`, storage.NewID(), user, ModeTalk, t.At, toJSON([]Turn{t}), tx.Now)
	return err
}

// GetSession returns a conversation with what was said. Turns whose recording was deleted are left out.
func (s *Service) GetSession(ctx context.Context, p SessionParams) (out Session, err error) {
	user := identity.UserID(ctx)
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		out, err = scanSession(tx.QueryRow(sessionColumns, user, p.SessionID))
		if errors.Is(err, sql.ErrNoRows) {
			return fault.NotFoundf("Conversation not found.")
		}
		if err != nil {
			return err
		}
		if at := out.last(); out.EndedAt == nil && tx.Now.Sub(at) > sessionPause {
			out.EndedAt = &at
		}
		turns := []Turn{}
		for _, t := range out.Turns {
			m, err := s.memoOf(tx, t.RecordingID)
			if err != nil {
				return err
			}
			if m != nil {
				t.Status, t.Text = m.Status, m.Text
				turns = append(turns, t)
			}
		}
		out.Turns = turns
		return nil
	})
	return out, err
}
