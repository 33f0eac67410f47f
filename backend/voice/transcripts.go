package voice

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/transcribe"
)

const (
	maxText = 2 << 20
	person  = "person" // engine of a text that a person edited
)

// addTranscript stores a version of the text of a recording and makes it the current one.
func (s *Service) addTranscript(tx *storage.Tx, user, recording uuid.UUID, engine string, t transcribe.Transcript, edited *time.Time) error {
	id := storage.NewID()
	keys := s.db.Keys()
	text, err := keys.SealText(s.o.Private, "voice_transcripts", "text", id, t.Text)
	if err != nil {
		return err
	}
	words, err := keys.SealText(s.o.Private, "voice_transcripts", "words", id, toJSON(t.Words))
	if err != nil {
		return err
	}
	var confidence any
	if t.Confidence > 0 {
		confidence = t.Confidence
	}
	if _, err := tx.Exec(`UPDATE voice_transcripts SET is_current = 0, updated_at = ? WHERE recording_id = ? AND user_id = ? AND is_current = 1`, tx.Now, recording, user); err != nil {
		return err
	}
	conf, err := settings(tx, user)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO voice_transcripts (id, user_id, recording_id, engine, model, language_code, text, confidence, words, is_current, edited_at, created_at, updated_at, device_only)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 1, ?10, ?11, ?11, ?12)`, id, user, recording, engine, t.Model, t.Language, text, confidence, words, edited, tx.Now, !conf.SaveTranscripts)
	return err
}

// GetTranscript returns the current text of a recording, its words with their times, and a list of
// all versions.
func (s *Service) GetTranscript(ctx context.Context, p RecordingParams) (out Transcript, err error) {
	return storage.Result(ctx, s.db.Read, func(tx *storage.Tx) (Transcript, error) { return s.transcript(tx, p.RecordingID) })
}

func (s *Service) transcript(tx *storage.Tx, recording uuid.UUID) (out Transcript, err error) {
	if _, err := s.recording(tx, recording); err != nil {
		return out, err
	}
	out.RecordingID, out.Words, out.Versions = recording, []transcribe.Word{}, []Version{}
	keys := s.db.Keys()
	err = tx.Select(`SELECT t.id, t.engine, t.model, t.language_code, t.text, t.words, coalesce(t.confidence, 0), t.id = (`+currentOf+`), t.created_at
		FROM voice_transcripts t JOIN voice_recordings r ON r.id = t.recording_id WHERE t.recording_id = ? AND t.user_id = ? AND t.deleted_at IS NULL ORDER BY t.id DESC`,
		recording, identity.UserID(tx.Context())).Each(func(row storage.Row) error {
		var v Version
		var text, words []byte
		var confidence float64
		if err := row.Scan(&v.ID, &v.Engine, &v.Model, &v.Language, &text, &words, &confidence, &v.Current, storage.Time(&v.CreatedAt)); err != nil {
			return err
		}
		if v.Text, err = keys.OpenText("voice_transcripts", "text", v.ID, text); err != nil {
			return err
		}
		if v.Current {
			list, err := keys.OpenText("voice_transcripts", "words", v.ID, words)
			if err != nil {
				return err
			}
			if err := json.Unmarshal([]byte(list), &out.Words); err != nil {
				return err
			}
			out.Text, out.Engine, out.Model, out.Language, out.Confidence = v.Text, v.Engine, v.Model, v.Language, confidence
		}
		out.Versions = append(out.Versions, v)
		return nil
	})
	return out, err
}

// EditTranscript stores a corrected text as a new version. Unchanged words keep their times; new
// words share the time of the words that they replace.
func (s *Service) EditTranscript(ctx context.Context, p EditParams) (out Transcript, err error) {
	if !utf8.ValidString(p.Text) || len(p.Text) > maxText {
		return out, fault.InvalidField("text", fault.CodeRange, "A transcript has at most %d MiB of UTF-8.", maxText>>20)
	}
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		old, err := s.transcript(tx, p.RecordingID)
		if err != nil {
			return err
		}
		t := transcribe.Transcript{Text: strings.TrimSpace(p.Text), Language: old.Language, Words: align(old.Words, strings.Fields(p.Text))}
		user := identity.UserID(ctx)
		if err := s.addTranscript(tx, user, p.RecordingID, person, t, &tx.Now); err != nil {
			return err
		}
		if err := note(tx, user, p.RecordingID, "edited", map[string]any{}); err != nil {
			return err
		}
		if err := s.setStatus(tx, user, p.RecordingID, completed, ""); err != nil {
			return err
		}
		out, err = s.transcript(tx, p.RecordingID)
		return err
	})
	return out, err
}

// plainWord returns a word without case and punctuation, for comparison.
func plainWord(w string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsNumber(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, w)
}

// align assigns the times of the old words to the words of an edited text. Words in the longest
// common subsequence keep their times; the words between two of them divide the time between these.
func align(old []transcribe.Word, fresh []string) []transcribe.Word {
	out := make([]transcribe.Word, len(fresh))
	for i, w := range fresh {
		out[i] = transcribe.Word{Text: w, StartMs: -1}
	}
	if len(old) == 0 {
		return []transcribe.Word{} // there are no times to assign
	}
	a, b := make([]string, len(old)), make([]string, len(fresh))
	for i, w := range old {
		a[i] = plainWord(w.Text)
	}
	for i, w := range fresh {
		b[i] = plainWord(w)
	}
	for _, m := range common(a, b) {
		out[m[1]].StartMs, out[m[1]].EndMs, out[m[1]].Confidence = old[m[0]].StartMs, old[m[0]].EndMs, old[m[0]].Confidence
	}
	from, end := old[0].StartMs, old[len(old)-1].EndMs
	for i := 0; i < len(out); {
		if out[i].StartMs >= 0 {
			from = out[i].EndMs
			i++
			continue
		}
		j := i
		for j < len(out) && out[j].StartMs < 0 {
			j++
		}
		to := max(from, end)
		if j < len(out) {
			to = max(from, out[j].StartMs)
		}
		for k := i; k < j; k++ {
			n := int64(j - i)
			out[k].StartMs, out[k].EndMs = from+(to-from)*int64(k-i)/n, from+(to-from)*int64(k-i+1)/n
		}
		i = j
	}
	return out
}

// most limits the number of word pairs that are compared. Beyond it, only the common prefix and
// suffix keep their times.
const most = 4 << 20

// common returns the index pairs of a longest common subsequence of a and b.
func common(a, b []string) (out [][2]int) {
	lead, tail := 0, 0
	for lead < len(a) && lead < len(b) && a[lead] == b[lead] {
		out = append(out, [2]int{lead, lead})
		lead++
	}
	for tail < len(a)-lead && tail < len(b)-lead && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	x, y := a[lead:len(a)-tail], b[lead:len(b)-tail]
	if len(x)*len(y) <= most {
		width := len(y) + 1
		length := make([]int32, (len(x)+1)*width)
		for i := len(x) - 1; i >= 0; i-- {
			for j := len(y) - 1; j >= 0; j-- {
				if x[i] == y[j] {
					length[i*width+j] = length[(i+1)*width+j+1] + 1
				} else {
					length[i*width+j] = max(length[(i+1)*width+j], length[i*width+j+1])
				}
			}
		}
		for i, j := 0, 0; i < len(x) && j < len(y); {
			switch {
			case x[i] == y[j]:
				out = append(out, [2]int{lead + i, lead + j})
				i, j = i+1, j+1
			case length[(i+1)*width+j] >= length[i*width+j+1]:
				i++
			default:
				j++
			}
		}
	}
	for k := tail; k > 0; k-- {
		out = append(out, [2]int{len(a) - k, len(b) - k})
	}
	return slices.Clip(out)
}

// sound returns the blob with the sound of a recording of the caller.
func (s *Service) sound(ctx context.Context, recording uuid.UUID) (ref storage.Ref, err error) {
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		r, err := s.recording(tx, recording)
		if err != nil {
			return err
		}
		if r.audio == "" {
			return errElsewhere
		}
		ref, err = blobRef(r.audio)
		return err
	})
	return ref, err
}

// Sound returns the blob with the sound of a recording, and its media type.
func (s *Service) Sound(ctx context.Context, p AudioURLParams) (sha256, mediaType string, err error) {
	ref, err := s.sound(ctx, p.RecordingID)
	if err != nil {
		return "", "", err
	}
	switch p.As {
	case "", "original":
	case "denoised":
		ref, err = s.denoised(ctx, ref)
		return ref.String(), "audio/wav", err
	default:
		return "", "", fault.InvalidField("as", fault.CodeRange, "as must be original or denoised.")
	}
	var format string
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		r, err := s.recording(tx, p.RecordingID)
		format = r.format
		return err
	})
	types := map[string]string{"wav": "audio/wav", "flac": "audio/flac", "mp3": "audio/mpeg", "ogg": "audio/ogg", "webm": "audio/webm", "m4a": "audio/mp4", "caf": "audio/x-caf"}
	if mediaType = types[format]; mediaType == "" {
		mediaType = "application/octet-stream"
	}
	return ref.String(), mediaType, err
}

// memoOf returns the memo of a recording of the caller; nil if it has none.
func (s *Service) memoOf(tx *storage.Tx, recording uuid.UUID) (*Memo, error) {
	m, err := s.scanMemo(tx.QueryRow(`SELECT `+memoColumns+` WHERE m.recording_id = ? AND m.user_id = ? AND m.deleted_at IS NULL`, recording, identity.UserID(tx.Context())))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &m, err
}
