package voice

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"helix/backend/audio"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/trash"
)

const (
	maxInline     = 10 << 20
	maxAudio      = 200 << 20
	maxTags       = 5
	maxTag        = 64
	maxTitle      = 200
	firstLine     = 200 // length of a text in lists, in runes
	sourceUpload  = "upload"
	sourceCapture = "capture"
	sourceCommand = "command"
	sourceMail    = "voicemail"
	blobPrefix    = "sha256:"
	pending       = "pending"
	processing    = "processing"
	completed     = "completed"
	failedState   = "failed"
)

func toJSON(v any) string {
	b, _ := json.Marshal(v) // cannot fail: plain values
	return string(b)
}

// input is a received recording that is stored on disk.
type input struct {
	ref  storage.Ref
	info audio.Info
}

// receive stores a recording and detects its format. A file of an unknown format is stored too; bad
// then describes the problem.
func (s *Service) receive(ctx context.Context, r io.Reader) (in input, bad error, err error) { //nolint:revive // both are errors: of the file, and of storing it
	counted := &limited{r: r, left: maxAudio}
	if in.ref, err = s.db.Blobs().Put(ctx, counted); err != nil {
		return in, nil, err
	}
	if in.ref.Size == 0 {
		return in, nil, fault.Invalidf("The recording is empty.")
	}
	in.info, bad, err = s.look(in.ref)
	return in, bad, err
}

// look detects the format of a stored recording.
func (s *Service) look(ref storage.Ref) (info audio.Info, bad, err error) {
	f, err := s.db.Blobs().Open(ref)
	if err != nil {
		return info, nil, err
	}
	defer f.Close()
	st, bad := audio.Open(f)
	if bad != nil {
		return info, bad, nil
	}
	defer st.Close()
	return st.Info, nil, nil
}

// ErrTooLarge is the error of a recording beyond the maximum size.
var ErrTooLarge = fault.Limitf("The recording is larger than %d MiB.", maxAudio>>20)

// limited fails reads beyond the maximum size of a recording.
type limited struct {
	r    io.Reader
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, ErrTooLarge
	}
	return n, err
}

// open opens the bytes of a recording, which are given inline, as a blob or as a path.
func (s *Service) open(ctx context.Context, inline, blob, path string) (io.ReadCloser, error) {
	given := 0
	for _, v := range []string{inline, blob, path} {
		if v != "" {
			given++
		}
	}
	switch {
	case given != 1:
		return nil, fault.Invalidf("Set only one of audioBase64, blobSha256 and path.")
	case inline != "":
		if base64.StdEncoding.DecodedLen(len(inline)) > maxInline+2 {
			return nil, fault.Limitf("audioBase64 holds at most %d MiB. Send a larger recording to POST /transcribe.", maxInline>>20)
		}
		data, err := base64.StdEncoding.DecodeString(inline)
		if err != nil {
			return nil, fault.InvalidField("audioBase64", fault.CodeInvalid, "audioBase64 is not valid base64.")
		}
		return io.NopCloser(bytes.NewReader(data)), nil
	case blob != "":
		sum, err := hex.DecodeString(strings.TrimPrefix(blob, blobPrefix))
		if err != nil || len(sum) != 32 {
			return nil, fault.InvalidField("blobSha256", fault.CodeInvalid, "blobSha256 must be 64 hex characters.")
		}
		if owns, err := s.db.OwnsBlob(ctx, identity.UserID(ctx), [32]byte(sum)); err != nil || !owns {
			return nil, errors.Join(err, fault.NotFoundf("File not found."))
		}
		return s.db.Blobs().Open(storage.Ref{SHA256: [32]byte(sum)})
	}
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() {
		return nil, fault.NotFoundf("Couldn't read the file: it doesn't exist or isn't a regular file.").WithCause(err)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fault.Deniedf("Couldn't read the file.").WithCause(err)
	}
	return f, nil
}

// UploadMemo stores a recording as a memo and queues its transcription. A file that can't be
// decoded is kept, together with the reason.
func (s *Service) UploadMemo(ctx context.Context, p UploadParams) (out UploadResult, err error) {
	f, err := s.open(ctx, p.AudioBase64, p.BlobSHA256, p.Path)
	if err != nil {
		return out, err
	}
	defer f.Close()
	return s.Upload(ctx, f, p)
}

// Upload is UploadMemo with sound that is read from r.
func (s *Service) Upload(ctx context.Context, r io.Reader, p UploadParams) (UploadResult, error) {
	m, _, err := s.store(ctx, r, p, origin{})
	return UploadResult{m.ID, m.RecordingID, m.Status}, err
}

// origin describes a recording that Helix made itself. The zero value is an upload.
type origin struct {
	id        uuid.UUID // of the recording; storing it again has no effect
	source    string
	gaps      []audio.Span
	recovered bool
	talk      bool // it is a turn of a conversation
}

// store stores the sound of a recording first, and then its rows and its job in one transaction.
func (s *Service) store(ctx context.Context, r io.Reader, p UploadParams, from origin) (m Memo, job uuid.UUID, err error) {
	tags, err := checkTags(p.Tags)
	if err != nil {
		return m, job, err
	}
	if err := checkTitle(p.Title); err != nil {
		return m, job, err
	}
	if p.Sender = strings.TrimSpace(p.Sender); utf8.RuneCountInString(p.Sender) > maxTitle || !utf8.ValidString(p.Sender) {
		return m, job, fault.InvalidField("sender", fault.CodeRange, "A sender has at most %d characters.", maxTitle)
	}
	if err := s.checkChoice(p.Engine, p.Language, p.Model); err != nil {
		return m, job, err
	}
	in, bad, err := s.receive(ctx, r)
	if err != nil {
		return m, job, err
	}
	s.crashPoint("received")
	if from.id == uuid.Nil {
		from.id, from.source = storage.NewID(), sourceUpload
		if p.Sender != "" {
			from.source = sourceMail
		}
	}
	if from.gaps == nil {
		from.gaps = []audio.Span{}
	}
	m = Memo{ID: storage.NewID(), RecordingID: from.id, Title: strings.TrimSpace(p.Title), Tags: tags, Status: pending}
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		user := identity.UserID(ctx)
		if old, err := s.memoOf(tx, from.id); err != nil || old != nil {
			if old != nil {
				m = *old
			}
			return err
		}
		m.RecordedAt = tx.Now
		if p.RecordedAt != nil {
			m.RecordedAt = *p.RecordedAt
		}
		title, err := s.db.Keys().SealText(s.o.Private, "voice_memos", "title", m.ID, m.Title)
		if err != nil {
			return err
		}
		if bad != nil {
			m.Status, m.Error = failedState, fault.As(bad).Message
		}
		conf, err := settings(tx, user)
		if err != nil {
			return err
		}
		var hub any
		if conf.SaveAudio {
			hub = blobPrefix + in.ref.String()
		}
		if _, err := tx.Exec(`INSERT INTO voice_recordings (id, user_id, device_id, source, audio_sha256, audio_size, format, codec, sample_rate, channels, gaps, recovered, recorded_at, created_at, updated_at, hub_audio)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, m.RecordingID, user, s.db.Device().ID, from.source, blobPrefix+in.ref.String(), in.ref.Size,
			in.info.Format, in.info.Codec, in.info.SampleRate, in.info.Channels, toJSON(from.gaps), from.recovered, m.RecordedAt, tx.Now, tx.Now, hub); err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO voice_memos (id, user_id, recording_id, title, tags, transcription_status, transcription_error, recorded_at, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			m.ID, user, m.RecordingID, title, toJSON(tags), m.Status, m.Error, m.RecordedAt, tx.Now, tx.Now); err != nil {
			return err
		}
		if p.Sender != "" {
			if err := s.addVoicemail(tx, user, m.RecordingID, p.Sender, m.RecordedAt); err != nil {
				return err
			}
		}
		if from.talk {
			if err := addTurn(tx, user, Turn{RecordingID: m.RecordingID, At: m.RecordedAt}); err != nil {
				return err
			}
		}
		if err := note(tx, user, m.RecordingID, "stored", map[string]any{"bytes": in.ref.Size, "format": in.info.Format}); err != nil {
			return err
		}
		job, err = s.enqueue(tx, user, TranscribeParams{RecordingID: m.RecordingID, Engine: p.Engine, Language: p.Language, Model: p.Model}, bad)
		return err
	})
	s.crashPoint("stored")
	if err == nil && bad == nil {
		s.wakeUp()
	}
	return m, job, err
}

func checkTitle(title string) error {
	if n := utf8.RuneCountInString(title); n > maxTitle || !utf8.ValidString(title) {
		return fault.InvalidField("title", fault.CodeRange, "A title has at most %d characters.", maxTitle)
	}
	return nil
}

func checkTags(tags []string) ([]string, error) {
	out := []string{}
	for _, t := range tags {
		t = strings.TrimSpace(t)
		switch {
		case t == "" || utf8.RuneCountInString(t) > maxTag || !utf8.ValidString(t):
			return nil, fault.InvalidField("tags", fault.CodeRange, "A tag has 1 to %d characters.", maxTag)
		case slices.Contains(out, t):
			continue
		}
		out = append(out, t)
	}
	if len(out) > maxTags {
		return nil, fault.InvalidField("tags", fault.CodeRange, "A memo has at most %d tags.", maxTags)
	}
	return out, nil
}

const memoColumns = `m.id, m.recording_id, m.title, m.tags, m.transcription_status, m.transcription_error, coalesce(t.id, zeroblob(16)), coalesce(t.text, ''), coalesce(t.language_code, ''),
	` + formatOf + `, r.audio_size, r.duration_ms, r.lost_ms, ` + soundOf + ` IS NOT NULL AND r.sound_deleted_at IS NULL, iif(r.sound_deleted_at IS NULL, coalesce(substr(` + soundOf + `, 8), ''), ''), r.sound_deleted_at, r.pinned, r.recovered, m.recorded_at, m.updated_at
	FROM voice_memos m JOIN voice_recordings r ON r.id = m.recording_id LEFT JOIN voice_transcripts t ON t.id = (` + currentOf + `)`

// soundOf is the file with the sound of recording r. One of another device is downloaded when it is opened.
const soundOf = `coalesce(r.audio_sha256, r.hub_audio)`

// formatOf is the format of the file with the sound of recording r.
const formatOf = `iif(r.audio_format = '', r.format, r.audio_format)`

// currentOf selects the id of the current transcript of recording r.
const currentOf = `SELECT c.id FROM voice_transcripts c WHERE c.recording_id = r.id AND c.is_current = 1 AND c.deleted_at IS NULL ORDER BY c.id DESC LIMIT 1`

func (s *Service) scanMemo(row storage.Row) (m Memo, err error) {
	var transcript uuid.UUID
	var title, text []byte
	if err := row.Scan(&m.ID, &m.RecordingID, &title, storage.JSON(&m.Tags), &m.Status, &m.Error, &transcript, &text, &m.Language,
		&m.Format, &m.Size, &m.DurationMs, &m.LostMs, &m.HasAudio, &m.AudioSHA256, storage.TimePtr(&m.SoundDeletedAt), &m.Pinned, &m.Recovered, storage.Time(&m.RecordedAt), storage.Time(&m.UpdatedAt)); err != nil {
		return m, err
	}
	keys := s.db.Keys()
	if m.Title, err = keys.OpenText("voice_memos", "title", m.ID, title); err != nil {
		return m, err
	}
	m.Text, err = keys.OpenText("voice_transcripts", "text", transcript, text)
	return m, err
}

// memo reads a memo of the caller that is not deleted.
func (s *Service) memo(tx *storage.Tx, id uuid.UUID) (Memo, error) {
	m, err := s.scanMemo(tx.QueryRow(`SELECT `+memoColumns+` WHERE m.id = ? AND m.user_id = ? AND m.deleted_at IS NULL`, id, identity.UserID(tx.Context())))
	if errors.Is(err, sql.ErrNoRows) {
		err = fault.NotFoundf("Memo not found.")
	}
	return m, err
}

// GetMemo returns a memo with its full text.
func (s *Service) GetMemo(ctx context.Context, p MemoParams) (m Memo, err error) {
	return storage.Result(ctx, s.db.Read, func(tx *storage.Tx) (Memo, error) { return s.memo(tx, p.MemoID) })
}

// ListMemos lists memos, newest first.
func (s *Service) ListMemos(ctx context.Context, p ListParams) (out ListResult, err error) {
	if err := storage.CheckPage(&p.Limit, &p.Offset, 50, 200); err != nil {
		return out, err
	}
	if p.Status != "" && !slices.Contains([]string{pending, processing, completed, failedState}, p.Status) {
		return out, fault.InvalidField("status", fault.CodeRange, "status must be pending, processing, completed or failed.")
	}
	out.Memos, out.Limit, out.Offset = []Memo{}, p.Limit, p.Offset
	where, args := filter(identity.UserID(ctx), p.From, p.To, p.Tags)
	if p.Status != "" {
		where, args = where+` AND m.transcription_status = ?`, append(args, p.Status)
	}
	query := strings.TrimSpace(p.Query)
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		if query != "" && !s.o.Private {
			where, args = where+` AND (m.title LIKE ? ESCAPE '\' OR r.id IN (SELECT t.recording_id FROM voice_transcripts_fts f CROSS JOIN voice_transcript_items i ON i.item = f.rowid
				CROSS JOIN voice_transcripts t ON t.id = i.transcript_id WHERE voice_transcripts_fts MATCH ?))`, append(args, storage.Like(query), matchQuery(query))
		}
		page, pageArgs := ` LIMIT ? OFFSET ?`, append(slices.Clone(args), p.Limit, p.Offset)
		sealed := query != "" && s.o.Private
		if sealed {
			page, pageArgs = ``, args
		} else if err := tx.QueryRow(`SELECT count(*) FROM voice_memos m JOIN voice_recordings r ON r.id = m.recording_id WHERE `+where, args...).Scan(&out.Total); err != nil {
			return err
		}
		return tx.Select(`SELECT `+memoColumns+` WHERE `+where+` ORDER BY m.recorded_at DESC, m.id DESC`+page, pageArgs...).Each(func(row storage.Row) error {
			m, err := s.scanMemo(row)
			if err != nil {
				return err
			}
			if sealed {
				if !contains(m.Title+"\n"+m.Text+"\n"+strings.Join(m.Tags, "\n"), query) {
					return nil
				}
				if out.Total++; out.Total <= p.Offset || len(out.Memos) == p.Limit {
					return nil
				}
			}
			m.Text = shortened(m.Text)
			out.Memos = append(out.Memos, m)
			return nil
		})
	})
	return out, err
}

// shortened returns the beginning of a text for lists.
func shortened(text string) string {
	if r := []rune(text); len(r) > firstLine {
		return string(r[:firstLine-1]) + "…"
	}
	return text
}

// filter returns an SQL condition for the memos m of a user that are not deleted, by time and tags,
// with its arguments.
func filter(user uuid.UUID, from, to *time.Time, tags []string) (string, []any) {
	where, args := `m.user_id = ? AND m.deleted_at IS NULL`, []any{user}
	if from != nil {
		where, args = where+` AND m.recorded_at >= ?`, append(args, *from)
	}
	if to != nil {
		where, args = where+` AND m.recorded_at < ?`, append(args, *to)
	}
	for _, t := range tags {
		where, args = where+` AND EXISTS (SELECT 1 FROM json_each(m.tags) WHERE value = ?)`, append(args, t)
	}
	return where, args
}

// UpdateMemo changes the title or the tags of a memo.
func (s *Service) UpdateMemo(ctx context.Context, p UpdateParams) (m Memo, err error) {
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		if m, err = s.memo(tx, p.MemoID); err != nil {
			return err
		}
		if p.Title != nil {
			if err := checkTitle(*p.Title); err != nil {
				return err
			}
			m.Title = strings.TrimSpace(*p.Title)
		}
		if p.Tags != nil {
			if m.Tags, err = checkTags(*p.Tags); err != nil {
				return err
			}
		}
		if p.Pinned != nil {
			m.Pinned = *p.Pinned
			if _, err := tx.Exec(`UPDATE voice_recordings SET pinned = ?1, sound_deleted_at = iif(?1, NULL, sound_deleted_at), updated_at = ?2 WHERE id = ?3`, m.Pinned, tx.Now, m.RecordingID); err != nil {
				return err
			}
		}
		title, err := s.db.Keys().SealText(s.o.Private, "voice_memos", "title", m.ID, m.Title)
		if err != nil {
			return err
		}
		m.UpdatedAt = tx.Now
		if _, err := tx.Exec(`UPDATE voice_memos SET title = ?, tags = ?, updated_at = ? WHERE id = ?`, title, toJSON(m.Tags), tx.Now, m.ID); err != nil {
			return err
		}
		return note(tx, identity.UserID(ctx), m.RecordingID, "updated", map[string]any{})
	})
	return m, err
}

// memoTables are the tables whose rows are moved to the trash together with a memo, each with the
// column that holds the id of the recording.
var memoTables = []struct{ table, key string }{{"voice_memos", "recording_id"}, {"voice_recordings", "id"}, {"voice_transcripts", "recording_id"}, {"voicemail_messages", "recording_id"}}

// DeleteMemo moves a memo to the trash, with its recording and transcripts.
func (s *Service) DeleteMemo(ctx context.Context, p MemoParams) (m Memo, err error) {
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		if m, err = s.memo(tx, p.MemoID); err != nil {
			return err
		}
		user := identity.UserID(ctx)
		for _, t := range memoTables {
			if _, err := tx.Exec(`UPDATE `+t.table+` SET deleted_at = ?1, updated_at = ?1 WHERE `+t.key+` = ?2 AND user_id = ?3 AND deleted_at IS NULL`, tx.Now, m.RecordingID, user); err != nil {
				return err
			}
		}
		if err := note(tx, user, m.RecordingID, "deleted", map[string]any{}); err != nil {
			return err
		}
		s.queueChanged(tx, user)
		return trash.Deleted(tx, user, m.ID)
	})
	return m, err
}

// RestoreMemo restores a memo from the trash.
func (s *Service) RestoreMemo(ctx context.Context, p MemoParams) (m Memo, err error) {
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		user := identity.UserID(ctx)
		var recording uuid.UUID
		var at int64
		err := tx.QueryRow(`SELECT recording_id, deleted_at FROM voice_memos WHERE id = ? AND user_id = ? AND deleted_at IS NOT NULL`, p.MemoID, user).Scan(&recording, &at)
		if errors.Is(err, sql.ErrNoRows) {
			return fault.NotFoundf("This memo is not in the trash.")
		}
		if err != nil {
			return err
		}
		for _, t := range memoTables {
			if _, err := tx.Exec(`UPDATE `+t.table+` SET deleted_at = NULL, updated_at = ? WHERE `+t.key+` = ? AND user_id = ? AND deleted_at = ?`, tx.Now, recording, user, at); err != nil {
				return err
			}
		}
		if err := note(tx, user, recording, "restored", map[string]any{}); err != nil {
			return err
		}
		s.queueChanged(tx, user)
		m, err = s.memo(tx, p.MemoID)
		return err
	})
	if err == nil {
		s.wakeUp()
	}
	return m, err
}

// Trash describes deleted memos to the trash.
func (s *Service) Trash() trash.Kind {
	return trash.Kind{
		Name: "memo",
		Rows: `SELECT id, title AS name, '' AS text, deleted_at FROM voice_memos WHERE user_id = ?1 AND deleted_at IS NOT NULL`,
		Open: func(id uuid.UUID, name, text []byte) (string, string, error) {
			title, err := s.db.Keys().OpenText("voice_memos", "title", id, name)
			return title, string(text), err
		},
		Restore: func(ctx context.Context, id uuid.UUID) error {
			_, err := s.RestoreMemo(ctx, MemoParams{id})
			return err
		},
		Purge: func(tx *storage.Tx, id uuid.UUID) error {
			var recording uuid.UUID
			if err := tx.QueryRow(`SELECT recording_id FROM voice_memos WHERE id = ? AND user_id = ? AND deleted_at IS NOT NULL`, id, identity.UserID(tx.Context())).Scan(&recording); err != nil {
				return err
			}
			for _, t := range memoTables {
				if _, err := tx.Exec(`DELETE FROM `+t.table+` WHERE `+t.key+` = ?`, recording); err != nil {
					return err
				}
			}
			_, err := tx.Exec(`DELETE FROM voice_processing_queue WHERE recording_id = ?`, recording)
			return err
		},
	}
}

// Retention removes finished jobs. Package storage purges the trash.
func Retention() storage.Retention {
	return storage.Retention{Table: "voice_processing_queue", Time: "updated_at", Only: "status = 'completed'", Age: 30 * 24 * time.Hour}
}
