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
	"helix/backend/audio/denoise"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/transcribe"
)

const (
	leastSpeech = 300 // in ms; with less speech, no engine is used
	leastTrim   = 500 // in ms; shorter pauses are not worth another file
)

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

// speech decodes a recording at audio.Rate, without its noise if quiet is set. The caller must call
// done. Without a noise suppressor the noise stays.
func (s *Service) speech(ctx context.Context, in io.Reader, quiet bool) (st *audio.Stream, src audio.Source, done func(), err error) {
	done = func() {}
	if err := s.noise.Available(); quiet && err != nil {
		s.o.Logger.Warn("transcribe without noise suppression", "err", err)
		quiet = false
	}
	rate := audio.Rate
	if quiet {
		rate = denoise.Rate
	}
	if st, err = audio.Open(in); err == nil {
		done = st.Close
		src, err = audio.Resample(st, st.SampleRate, rate)
	}
	if err != nil {
		return st, nil, done, decodeError{fault.As(err)}
	}
	if !quiet {
		return st, src, done, nil
	}
	clean, err := s.noise.Source(ctx, src)
	if err != nil {
		return st, nil, done, err
	}
	done = func() {
		st.Close()
		if err := clean.Close(); err != nil {
			s.o.Logger.Warn("close the noise suppressor", "err", err)
		}
	}
	src, err = audio.Resample(clean, denoise.Rate, audio.Rate)
	return st, src, done, err
}

// decode writes the WAV file for engines. The caller must remove it.
func (s *Service) decode(ctx context.Context, in io.Reader, quiet bool) (d decoded, err error) {
	st, src, done, err := s.speech(ctx, in, quiet)
	defer done()
	if err != nil {
		return d, err
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
	conf, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) (Settings, error) { return settings(tx, j.user) })
	if err != nil {
		return r, err
	}
	return s.recognize(ctx, f, j.engine, conf, transcribe.Options{Language: j.language, Model: j.model}, func(d decoded) { s.keepPeaks(ref, d) })
}

// trim writes a copy of the WAV file for engines without its pauses. The caller must remove it.
func (s *Service) trim(a transcribe.Audio) (out transcribe.Audio, err error) {
	in, err := os.Open(a.Path)
	if err != nil {
		return out, fmt.Errorf("decoded recording: %w", err)
	}
	defer in.Close()
	st, err := audio.Open(in)
	if err != nil {
		return out, err
	}
	f, err := os.CreateTemp(s.tempDir(), "*.wav")
	if err != nil {
		return out, fmt.Errorf("trimmed recording: %w", err)
	}
	n, err := audio.WriteWAV(f, audio.Rate, audio.Trim(st, a.Speech))
	if err = errors.Join(err, f.Close()); err != nil {
		return out, errors.Join(fmt.Errorf("trimmed recording: %w", err), os.Remove(f.Name()))
	}
	return transcribe.Audio{Path: f.Name(), Duration: audio.Duration(n, audio.Rate), Speech: audio.Trimmed(a.Speech).Spans()}, nil
}

// recognize decodes a recording, calls seen with it and transcribes it with an engine, as the
// settings say.
func (s *Service) recognize(ctx context.Context, in io.Reader, id string, conf Settings, o transcribe.Options, seen func(decoded)) (r result, err error) {
	e := s.engine(id)
	if e == nil {
		return r, fault.Unavailablef("This build has no engine %q.", id)
	}
	local := e.Info(ctx).Local
	quiet := conf.denoises(local)
	d, err := s.decode(ctx, in, quiet)
	if err != nil {
		return r, err
	}
	defer os.Remove(d.Path)
	if seen != nil && !quiet { // the waveform shows the recording as it is
		seen(d)
	}
	s.crashPoint("decoded")
	r.durationMs, r.lostMs = d.Duration.Milliseconds(), d.lostMs
	r.Transcript = transcribe.Transcript{Language: o.Language, Model: o.Model, Words: []transcribe.Word{}}
	if conf.VADEnabled && d.voiced < leastSpeech {
		return r, nil
	}
	a, kept := d.Audio, audio.Trimmed(d.Speech)
	cut := conf.TrimSilence && len(kept) > 0 && d.Duration.Milliseconds()-kept.Duration() >= leastTrim
	if cut {
		if a, err = s.trim(d.Audio); err != nil {
			return r, err
		}
		defer os.Remove(a.Path)
	}
	if local {
		s.local.Lock()
		defer s.local.Unlock()
	}
	if r.Transcript, err = e.Transcribe(ctx, a, o); err != nil || !cut {
		return r, err
	}
	for i, w := range r.Words {
		at := kept.Original(audio.Span{StartMs: w.StartMs, EndMs: w.EndMs})
		r.Words[i].StartMs, r.Words[i].EndMs = at.StartMs, at.EndMs
	}
	return r, nil
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
	err = tx.QueryRow(`SELECT iif(sound_deleted_at IS NULL, coalesce(`+soundOf+`, ''), ''), `+formatOf+`, duration_ms, created_at FROM voice_recordings r WHERE id = ? AND user_id = ? AND deleted_at IS NULL`, id, identity.UserID(tx.Context())).
		Scan(&r.audio, &r.format, &r.duration, storage.Time(&r.created))
	if errors.Is(err, sql.ErrNoRows) {
		err = fault.NotFoundf("Recording not found.")
	}
	return r, err
}
