package voice

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/transcribe"
)

// Process transcribes a recording while the caller waits. Unless Discard is set, the recording is
// stored first, and its job stays in the queue if the caller disconnects.
func (s *Service) Process(ctx context.Context, p ProcessParams) (out ProcessResult, err error) {
	switch p.Mode {
	case "", "transcribe":
		return s.process(ctx, p)
	case "command", "both":
	default:
		return out, fault.InvalidField("mode", fault.CodeRange, "mode must be transcribe, command or both.")
	}
	if p.Discard {
		return out, fault.Invalidf("Leave out discard to run a command.")
	}
	if out, err = s.current(ctx, p); err == nil && !out.Success {
		out, err = s.process(ctx, p)
	}
	if err != nil || !out.Success {
		return out, err
	}
	h, err := s.act(ctx, out.Transcript, out.Confidence, *out.RecordingID, page(ctx))
	out.Command = &h
	return out, err
}

// current returns the text that a stored recording has already, which a person may have edited.
// Success is false if there is none, or if the caller asks for another transcription.
func (s *Service) current(ctx context.Context, p ProcessParams) (out ProcessResult, err error) {
	if p.Mode != "command" || p.RecordingID == nil || p.AudioBase64 != "" || p.Path != "" || p.Engine != "" || p.Language != "" || p.Model != "" {
		return out, nil
	}
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		m, err := s.memoOf(tx, *p.RecordingID)
		if err != nil || m == nil || m.Status != completed {
			return err
		}
		t, err := s.transcript(tx, *p.RecordingID)
		out = ProcessResult{Success: true, RecordingID: p.RecordingID, MemoID: &m.ID, Status: completed, Transcript: t.Text, Confidence: t.Confidence, Words: t.Words, Engine: t.Engine, Language: t.Language, LostMs: m.LostMs}
		if m.DurationMs != nil {
			out.DurationMs = *m.DurationMs
		}
		return err
	})
	return out, err
}

func (s *Service) process(ctx context.Context, p ProcessParams) (ProcessResult, error) {
	if p.RecordingID != nil {
		if p.AudioBase64 != "" || p.Path != "" || p.Discard {
			return ProcessResult{}, fault.Invalidf("With recordingId, leave out audioBase64, path and discard.")
		}
		r, err := s.Transcribe(ctx, TranscribeParams{RecordingID: *p.RecordingID, Engine: p.Engine, Language: p.Language, Model: p.Model})
		if err != nil {
			return ProcessResult{}, err
		}
		return s.await(ctx, r.JobID, *p.RecordingID)
	}
	f, err := s.open(ctx, p.AudioBase64, "", p.Path)
	if err != nil {
		return ProcessResult{}, err
	}
	defer f.Close()
	if p.Discard {
		return s.discard(ctx, f, p)
	}
	return s.Keep(ctx, f, UploadParams{Title: p.Title, Engine: p.Engine, Language: p.Language, Model: p.Model}, nil)
}

// Keep stores a recording, calls stored, and waits for the transcript until ctx is done. If the
// recording can't be transcribed now, the result contains the reason; this is not an error.
func (s *Service) Keep(ctx context.Context, r io.Reader, p UploadParams, stored func(UploadResult)) (ProcessResult, error) {
	m, job, err := s.store(ctx, r, p, origin{})
	if err != nil {
		return ProcessResult{}, err
	}
	if stored != nil {
		stored(UploadResult{m.ID, m.RecordingID, m.Status})
	}
	return s.await(ctx, job, m.RecordingID)
}

// await waits until a job has ended or is postponed. If Run is not active, it executes the job
// itself.
func (s *Service) await(ctx context.Context, id, recording uuid.UUID) (ProcessResult, error) {
	changed := make(chan struct{}, 1)
	user := identity.UserID(ctx)
	defer bus.Subscribe(s.o.Bus, func(u uuid.UUID, e Transcribed) {
		if u == user && e.RecordingID == recording {
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	})()
	if !s.running.Load() {
		j, _, err := s.claim(ctx, false, id)
		if err != nil {
			return ProcessResult{}, err
		}
		if j != nil {
			s.do(ctx, j)
		}
	}
	for {
		out, over, err := s.outcome(context.WithoutCancel(ctx), id, recording)
		if err != nil || over {
			return out, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return out, nil // stored, to be transcribed later
		}
	}
}

// outcome returns the result of a job. A job that is pending for another attempt is reported as
// over, too.
func (s *Service) outcome(ctx context.Context, id, recording uuid.UUID) (out ProcessResult, over bool, err error) {
	out = ProcessResult{RecordingID: &recording, Words: []transcribe.Word{}}
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		m, err := s.memoOf(tx, recording)
		if err != nil || m == nil {
			return errors.Join(err, fault.NotFoundf("The recording was deleted."))
		}
		out.MemoID, out.LostMs = &m.ID, m.LostMs
		if m.DurationMs != nil {
			out.DurationMs = *m.DurationMs
		}
		if err := tx.QueryRow(`SELECT status, engine, error_kind, error_message FROM voice_processing_queue WHERE id = ? AND user_id = ?`, id, identity.UserID(ctx)).Scan(&out.Status, &out.Engine, &out.ErrorKind, &out.Error); err != nil {
			return err
		}
		over = out.Status == completed || out.Status == failedState || out.Status == pending && out.ErrorKind != ""
		if out.Status == processing {
			out.Status = pending
		}
		if out.Status != completed {
			return nil
		}
		t, err := s.transcript(tx, recording)
		out.Success, out.Transcript, out.Confidence, out.Words, out.Engine, out.Language = true, t.Text, t.Confidence, t.Words, t.Engine, t.Language
		return err
	})
	return out, over, err
}

// discard transcribes a recording without storing anything.
func (s *Service) discard(ctx context.Context, r io.Reader, p ProcessParams) (out ProcessResult, err error) {
	if err := s.checkChoice(p.Engine, p.Language, p.Model); err != nil {
		return out, err
	}
	conf, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) (Settings, error) { return settings(tx, identity.UserID(ctx)) })
	if err != nil {
		return out, err
	}
	if err := os.MkdirAll(s.tempDir(), 0o700); err != nil {
		return out, err
	}
	f, err := os.CreateTemp(s.tempDir(), "*.audio")
	if err != nil {
		return out, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := io.Copy(f, &limited{r: r, left: maxAudio}); err != nil {
		return out, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return out, err
	}
	q := TranscribeParams{Engine: p.Engine, Language: p.Language, Model: p.Model}
	choice(conf, &q)
	limit, cancel := context.WithTimeout(ctx, leaseBlind)
	defer cancel()
	res, err := s.recognize(limit, f, q.Engine, conf, transcribe.Options{Language: q.Language, Model: q.Model}, nil)
	if err != nil {
		return out, err
	}
	return ProcessResult{Success: true, Status: completed, Transcript: strings.TrimSpace(res.Text), Confidence: res.Confidence, Words: res.Words, Engine: q.Engine, Language: res.Language, DurationMs: res.durationMs, LostMs: res.lostMs}, nil
}
