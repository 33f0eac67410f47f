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

// Voicemail is a recording that somebody else left, which is also a memo.
type Voicemail struct {
	ID          uuid.UUID  `json:"id"`
	RecordingID uuid.UUID  `json:"recordingId"`
	MemoID      uuid.UUID  `json:"memoId"`
	Sender      string     `json:"sender"`
	Title       string     `json:"title"`
	Text        string     `json:"text"`   // shortened
	Status      string     `json:"status"` // of the transcription
	DurationMs  *int64     `json:"durationMs,omitempty"`
	ReceivedAt  time.Time  `json:"receivedAt"`
	IsHeard     bool       `json:"isHeard"`
	HeardAt     *time.Time `json:"heardAt,omitempty"`
	ArchivedAt  *time.Time `json:"archivedAt,omitempty"`
}

// VoicemailParams filter voicemail. Without Archived, archived messages are left out.
type VoicemailParams struct {
	Heard    *bool `json:"heard,omitempty"`
	Archived *bool `json:"archived,omitempty"`
	// Limit is 1 to 200; default 50.
	Limit  int `json:"limit,omitempty"`
	Offset int `json:"offset,omitempty"`
}

// VoicemailList is a page of voicemail: first what wasn't heard, each part newest first.
type VoicemailList struct {
	Messages []Voicemail `json:"messages"`
	Total    int         `json:"total"`
	Unheard  int         `json:"unheard"` // of all that isn't archived
}

// MarkVoicemailParams change a message. Omitted fields stay unchanged.
type MarkVoicemailParams struct {
	ID       uuid.UUID `json:"id"`
	Heard    *bool     `json:"heard,omitempty"`
	Archived *bool     `json:"archived,omitempty"`
}

func (s *Service) addVoicemail(tx *storage.Tx, user, recording uuid.UUID, sender string, at time.Time) error {
	id := storage.NewID()
	sealed, err := s.db.Keys().SealText(s.o.Private, "voicemail_messages", "sender", id, sender)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO voicemail_messages (id, user_id, recording_id, sender, received_at, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)`, id, user, recording, sealed, at, tx.Now)
	return err
}

const voicemailColumns = `SELECT v.id, v.sender, v.received_at, v.is_heard, v.heard_at, v.archived_at, ` + memoColumns + ` JOIN voicemail_messages v ON v.recording_id = r.id WHERE v.user_id = ?1 AND v.deleted_at IS NULL AND m.deleted_at IS NULL`

// voicemailRow reads the columns of a message, and passes on those of its memo.
type voicemailRow struct {
	storage.Row
	v      *Voicemail
	sender *[]byte
}

// Scan implements storage.Row.
func (r voicemailRow) Scan(dest ...any) error {
	return r.Row.Scan(append([]any{&r.v.ID, r.sender, storage.Time(&r.v.ReceivedAt), &r.v.IsHeard, storage.TimePtr(&r.v.HeardAt), storage.TimePtr(&r.v.ArchivedAt)}, dest...)...)
}

func (s *Service) scanVoicemail(row storage.Row) (v Voicemail, err error) {
	var sender []byte
	m, err := s.scanMemo(voicemailRow{row, &v, &sender})
	if err != nil {
		return v, err
	}
	v.RecordingID, v.MemoID, v.Title, v.Text, v.Status, v.DurationMs = m.RecordingID, m.ID, m.Title, shortened(m.Text), m.Status, m.DurationMs
	v.Sender, err = s.db.Keys().OpenText("voicemail_messages", "sender", v.ID, sender)
	return v, err
}

// ListVoicemail lists recordings that others left.
func (s *Service) ListVoicemail(ctx context.Context, p VoicemailParams) (out VoicemailList, err error) {
	if err := storage.CheckPage(&p.Limit, &p.Offset, 50, 200); err != nil {
		return out, err
	}
	archived := p.Archived != nil && *p.Archived
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		user := identity.UserID(ctx)
		if err := tx.QueryRow(`SELECT count(*) FILTER (WHERE (archived_at IS NOT NULL) = ?2 AND (?3 IS NULL OR is_heard = ?3)), count(*) FILTER (WHERE archived_at IS NULL AND is_heard = 0)
			FROM voicemail_messages WHERE user_id = ?1 AND deleted_at IS NULL`, user, archived, p.Heard).Scan(&out.Total, &out.Unheard); err != nil {
			return err
		}
		out.Messages, err = storage.Collect(tx.Select(voicemailColumns+` AND (v.archived_at IS NOT NULL) = ?2 AND (?3 IS NULL OR v.is_heard = ?3)
			ORDER BY v.is_heard, v.received_at DESC, v.id DESC LIMIT ?4 OFFSET ?5`, user, archived, p.Heard, p.Limit, p.Offset), s.scanVoicemail)
		return err
	})
	return out, err
}

// MarkVoicemail marks a message as heard or archived, or takes that back.
func (s *Service) MarkVoicemail(ctx context.Context, p MarkVoicemailParams) (out Voicemail, err error) {
	user := identity.UserID(ctx)
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		if _, err := tx.Exec(`UPDATE voicemail_messages SET is_heard = coalesce(?3, is_heard), heard_at = CASE WHEN ?3 = 1 THEN coalesce(heard_at, ?5) WHEN ?3 = 0 THEN NULL ELSE heard_at END,
				archived_at = CASE WHEN ?4 = 1 THEN coalesce(archived_at, ?5) WHEN ?4 = 0 THEN NULL ELSE archived_at END, updated_at = ?5
			WHERE id = ?2 AND user_id = ?1 AND deleted_at IS NULL`, user, p.ID, p.Heard, p.Archived, tx.Now); err != nil {
			return err
		}
		out, err = s.scanVoicemail(tx.QueryRow(voicemailColumns+` AND v.id = ?2`, user, p.ID))
		if errors.Is(err, sql.ErrNoRows) {
			err = fault.NotFoundf("Voicemail not found.")
		}
		return err
	})
	return out, err
}
