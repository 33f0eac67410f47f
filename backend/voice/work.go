package voice

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/audio"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/transcribe"
)

const leastSpeech = 300 // in ms; with less speech, no engine is used

var (
	errElsewhere = fault.NotFoundf("The audio of this recording is on another device, or was removed by retention.")
	// errDecode marks errors of files that can't be decoded.
	errDecode = errors.New("recording can't be decoded")
)

// decodeError is an error about the file itself.
type decodeError struct{ err *fault.Error }

func (e decodeError) Error() string      { return e.err.Error() }
func (decodeError) Is(target error) bool { return target == errDecode } //nolint:errorlint // this is the implementation of errors.Is
func (e decodeError) Unwrap() error      { return e.err }

// result is the outcome of a transcription.
type result struct {
	transcribe.Transcript
	durationMs, lostMs int64
}

// decoded is a recording prepared for engines, with its waveform.
type decoded struct {
	transcribe.Audio
	info   audio.Info
	lostMs int64
	peaks  *audio.Peaks
	voiced int64 // duration of speech in ms
}

// blobRef parses the reference to a blob in a row.
func blobRef(text string) (ref storage.Ref, err error) {
	sum, err := hex.DecodeString(strings.TrimPrefix(text, blobPrefix))
	if err != nil || len(sum) != 32 {
		return ref, fmt.Errorf("reference %.80q", text)
	}
	copy(ref.SHA256[:], sum)
	return ref, nil
}

// checked is a Source that fails when ctx is done and passes each sample to listeners.
type checked struct {
	ctx     context.Context
	src     audio.Source
	listens []func([]float32)
}

func (c checked) Read(p []float32) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.src.Read(p)
	for _, l := range c.listens {
		l(p[:n])
	}
	return n, err
}

// decode writes the WAV file for engines. The caller must remove it.
func (s *Service) decode(ctx context.Context, in io.Reader) (d decoded, err error) {
	st, src, err := audio.Speech(in)
	if err != nil {
		return d, decodeError{fault.As(err)}
	}
	if err := os.MkdirAll(s.tempDir(), 0o700); err != nil {
		return d, fmt.Errorf("folder for decoded recordings: %w", err)
	}
	f, err := os.CreateTemp(s.tempDir(), "*.wav")
	if err != nil {
		return d, fmt.Errorf("decoded recording: %w", err)
	}
	d.Path = f.Name()
	speech, peaks := audio.NewDetector(), &audio.Peaks{}
	n, err := audio.WriteWAV(f, audio.Rate, checked{ctx, src, []func([]float32){speech.Write, peaks.Write}})
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		_ = os.Remove(d.Path)
		if e := fault.As(err); e.Kind == fault.Invalid || e.Kind == fault.Limit {
			return d, decodeError{e}
		}
		return d, err
	}
	d.info, d.Duration, d.lostMs = st.Info, audio.Duration(n, audio.Rate), st.Lost().Milliseconds()
	d.Speech, d.peaks, d.voiced = speech.Speech(), peaks, speech.Voiced()
	return d, nil
}

// transcribe executes a job.
func (s *Service) transcribe(ctx context.Context, j *job) (r result, err error) {
	ref, err := blobRef(j.audio)
	if err != nil {
		return r, err
	}
	f, err := s.db.Blobs().Open(ref)
	if err != nil {
		return r, err
	}
	defer f.Close()
	var conf Settings
	if err := s.db.Read(ctx, func(tx *storage.Tx) error {
		conf, err = settings(tx, j.user)
		return err
	}); err != nil {
		return r, err
	}
	return s.recognize(ctx, f, j.engine, conf.VADEnabled, transcribe.Options{Language: j.language, Model: j.model}, func(d decoded) { s.keepPeaks(ref, d) })
}

// recognize decodes a recording, calls seen with it and transcribes it with an engine. If detect is
// set, a recording without speech is not transcribed.
func (s *Service) recognize(ctx context.Context, in io.Reader, id string, detect bool, o transcribe.Options, seen func(decoded)) (r result, err error) {
	e := s.engine(id)
	if e == nil {
		return r, fault.Unavailablef("This build has no engine %q.", id)
	}
	d, err := s.decode(ctx, in)
	if err != nil {
		return r, err
	}
	defer os.Remove(d.Path)
	if seen != nil {
		seen(d)
	}
	s.crashPoint("decoded")
	r.durationMs, r.lostMs = d.Duration.Milliseconds(), d.lostMs
	r.Transcript = transcribe.Transcript{Language: o.Language, Model: o.Model, Words: []transcribe.Word{}}
	if detect && d.voiced < leastSpeech {
		return r, nil
	}
	if e.Info(ctx).Local {
		s.local.Lock()
		defer s.local.Unlock()
	}
	r.Transcript, err = e.Transcribe(ctx, d.Audio, o)
	return r, err
}

// recordingRow holds the fields of a recording that most methods need.
type recordingRow struct {
	id       uuid.UUID
	audio    string // empty if not on this device
	format   string
	duration *int64
	created  time.Time
}

// recording reads a recording of the caller that is not deleted.
func (s *Service) recording(tx *storage.Tx, id uuid.UUID) (r recordingRow, err error) {
	r.id = id
	err = tx.QueryRow(`SELECT iif(audio_deleted_at IS NULL, coalesce(audio_sha256, ''), ''), format, duration_ms, created_at FROM voice_recordings WHERE id = ? AND user_id = ? AND deleted_at IS NULL`, id, identity.UserID(tx.Context())).
		Scan(&r.audio, &r.format, &r.duration, storage.Time(&r.created))
	if errors.Is(err, sql.ErrNoRows) {
		err = fault.NotFoundf("Recording not found.")
	}
	return r, err
}
