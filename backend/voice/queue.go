package voice

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/transcribe"
)

const (
	firstRetry  = 2 * time.Second
	offlineWait = 30 * time.Second // until a service that could not be reached is tried again
	missingWait = 10 * time.Minute // until an engine that is missing is looked for again
	leaseBase   = time.Minute      // plus twice the length of the recording
	leaseBlind  = 2 * (4 * time.Hour)
	idleWait    = time.Hour
)

// job is a claimed job.
type job struct {
	id, user, recording     uuid.UUID
	engine, model, language string
	attempts, max           int
	audio                   string // SHA-256 of the sound
	lease                   time.Time
}

// checkChoice returns an error if the engine, language or model is invalid.
func (s *Service) checkChoice(engine, language, model string) error {
	switch {
	case engine != "" && s.engine(engine) == nil:
		return fault.InvalidField("engine", fault.CodeRange, "There is no engine %.40q. List them with: helix voice models", engine)
	case language != "" && !languageTag.MatchString(language):
		return fault.InvalidField("language", fault.CodeInvalid, "The language must be a tag such as en-US.")
	case len(model) > 64:
		return fault.InvalidField("model", fault.CodeRange, "The model has at most 64 characters.")
	}
	return nil
}

// choice fills empty fields of p from the settings.
func choice(c Settings, p *TranscribeParams) {
	p.Engine = cmp.Or(p.Engine, c.engine())
	p.Language = cmp.Or(p.Language, c.Language)
	p.Model = cmp.Or(p.Model, c.model(p.Engine))
}

// enqueue adds a job for a recording and returns its id. If bad is not nil, the recording can't be
// decoded and the job is stored as failed. If a job for the recording and engine is already pending
// or running, its id is returned.
func (s *Service) enqueue(tx *storage.Tx, user uuid.UUID, p TranscribeParams, bad error) (id uuid.UUID, err error) {
	conf, err := settings(tx, user)
	if err != nil {
		return id, err
	}
	choice(conf, &p)
	err = tx.QueryRow(`SELECT id FROM voice_processing_queue WHERE recording_id = ? AND engine = ? AND status IN ('pending', 'processing')`, p.RecordingID, p.Engine).Scan(&id)
	if err == nil || !errors.Is(err, sql.ErrNoRows) {
		return id, err
	}
	status, kind, message := pending, "", ""
	if bad != nil {
		status, kind, message = failedState, string(fault.KindOf(bad)), fault.As(bad).Message
	}
	id = storage.NewID()
	_, err = tx.Exec(`INSERT INTO voice_processing_queue (id, user_id, recording_id, task, engine, model, language, status, next_attempt_at, error_kind, error_message, created_at, updated_at)
		VALUES (?1, ?2, ?3, 'transcribe', ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?8, ?8)`, id, user, p.RecordingID, p.Engine, p.Model, p.Language, status, tx.Now, kind, message)
	s.queueChanged(tx, user)
	return id, err
}

// wakeUp makes the workers check for jobs.
func (s *Service) wakeUp() {
	for _, c := range s.wake {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// work executes due jobs, either of local engines or of services, until ctx is done.
func (s *Service) work(ctx context.Context, local bool) {
	wake := s.wake[0]
	if !local {
		wake = s.wake[1]
	}
	for ctx.Err() == nil {
		j, next, err := s.claim(ctx, local, uuid.Nil)
		if err != nil && ctx.Err() == nil {
			s.o.Logger.Error("voice queue", "err", err)
			next = time.Now().Add(offlineWait)
		}
		if j != nil {
			s.do(ctx, j)
			continue
		}
		wait := time.NewTimer(min(idleWait, max(0, time.Until(next))))
		select {
		case <-ctx.Done():
		case <-wake:
		case <-wait.C:
		}
		wait.Stop()
	}
}

// claim takes a lease on the job that has been due longest, or on the given one. If none is due, j
// is nil and next is when one will be.
func (s *Service) claim(ctx context.Context, local bool, id uuid.UUID) (j *job, next time.Time, err error) {
	engines := []string{}
	for _, e := range s.o.Engines {
		if i := e.Info(ctx); i.Local == local || id != uuid.Nil {
			engines = append(engines, i.ID)
		}
	}
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		var c job
		var at int64
		err := tx.QueryRow(`SELECT q.id, q.user_id, q.recording_id, q.engine, q.model, q.language, q.attempts, q.max_attempts, q.next_attempt_at, `+soundOf+`, coalesce(r.duration_ms, -1)
			FROM voice_processing_queue q JOIN voice_recordings r ON r.id = q.recording_id
			WHERE (q.status = 'pending' OR q.status = 'processing' AND q.lease_until < ?1) AND r.deleted_at IS NULL AND `+soundOf+` IS NOT NULL
				AND q.engine IN (SELECT value FROM json_each(?2)) AND (?3 IS NULL OR q.id = ?3)
			ORDER BY q.next_attempt_at LIMIT 1`, tx.Now, toJSON(engines), id).
			Scan(&c.id, &c.user, &c.recording, &c.engine, &c.model, &c.language, &c.attempts, &c.max, &at, &c.audio, &leaseScanner{&c.lease, tx.Now})
		if errors.Is(err, sql.ErrNoRows) {
			next = tx.Now.Add(idleWait)
			return nil
		}
		if err != nil {
			return err
		}
		if next = time.UnixMicro(at); id == uuid.Nil && next.After(tx.Now) {
			return nil
		}
		c.attempts++
		if _, err := tx.Exec(`UPDATE voice_processing_queue SET status = 'processing', attempts = ?, lease_until = ?, updated_at = ? WHERE id = ?`, c.attempts, c.lease, tx.Now, c.id); err != nil {
			return err
		}
		if err := s.setStatus(tx, c.user, c.recording, processing, ""); err != nil {
			return err
		}
		j = &c
		return nil
	})
	return j, next, err
}

// leaseScanner converts the length of a recording to the end of a lease.
type leaseScanner struct {
	to  *time.Time
	now time.Time
}

// Scan implements sql.Scanner.
func (l *leaseScanner) Scan(v any) error {
	lease := leaseBlind
	if ms, ok := v.(int64); ok && ms >= 0 {
		lease = duration.Of(2*ms, time.Millisecond) + leaseBase
	}
	*l.to = l.now.Add(lease)
	return nil
}

// setStatus sets the transcription status of a recording and publishes it.
func (s *Service) setStatus(tx *storage.Tx, user, recording uuid.UUID, status, message string) error {
	_, err := tx.Exec(`UPDATE voice_memos SET transcription_status = ?, transcription_error = ?, updated_at = ? WHERE recording_id = ? AND user_id = ?`, status, message, tx.Now, recording, user)
	tx.AfterCommit(func() { bus.Publish(s.o.Bus, user, Transcribed{recording, status}) })
	s.queueChanged(tx, user)
	return err
}

func countQueue(tx *storage.Tx, user uuid.UUID) (q QueueChanged, err error) {
	err = tx.QueryRow(`SELECT count(*) FILTER (WHERE q.status = 'pending'), count(*) FILTER (WHERE q.status = 'processing'), count(*) FILTER (WHERE q.status = 'failed')
		FROM voice_processing_queue q JOIN voice_recordings r ON r.id = q.recording_id AND r.deleted_at IS NULL WHERE q.user_id = ?`, user).Scan(&q.Pending, &q.Processing, &q.Failed)
	return q, err
}

func (s *Service) queueChanged(tx *storage.Tx, user uuid.UUID) {
	tx.AfterCommit(func() {
		var q QueueChanged
		if err := s.db.Read(context.Background(), func(tx *storage.Tx) (err error) {
			q, err = countQueue(tx, user)
			return err
		}); err != nil {
			s.o.Logger.Warn("count the voice queue", "err", err)
			return
		}
		bus.Publish(s.o.Bus, user, q)
	})
}

// as returns ctx with the identity of a user, for background work.
func as(ctx context.Context, user uuid.UUID) context.Context {
	return identity.With(ctx, identity.Identity{User: user, Scopes: identity.Write.Closed(), Client: identity.ClientProgram, Label: "voice", Pipe: "background"})
}

// do executes a claimed job and stores its result.
func (s *Service) do(ctx context.Context, j *job) {
	s.crashPoint("claimed")
	ctx = as(ctx, j.user)
	run, cancel := context.WithDeadline(ctx, j.lease)
	defer cancel()
	var r result
	err := fault.Catch(func() (err error) {
		r, err = s.transcribe(run, j)
		return err
	})
	s.crashPoint("transcribed")
	ended := context.WithoutCancel(ctx) // results are stored even while Helix is stopping
	if err == nil {
		err = s.db.Write(ended, func(tx *storage.Tx) error { return s.finish(tx, j, r) })
	}
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err() // Helix is stopping; this does not count as an attempt
		}
		if err := s.db.Write(ended, func(tx *storage.Tx) error { return s.fail(tx, j, err) }); err != nil {
			s.o.Logger.Error("store the end of a transcription", "err", err) // the job becomes due again when its lease ends or Helix restarts
		}
	}
	s.crashPoint("finished")
	if err == nil {
		s.heard(ended, j.recording, r.Transcript)
	}
	if err != nil {
		s.wakeUp() // it may be due for the other engine
	}
}

// finish stores a transcript, updates the memo and completes the job.
func (s *Service) finish(tx *storage.Tx, j *job, r result) error {
	var there bool
	if err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM voice_recordings WHERE id = ? AND deleted_at IS NULL)`, j.recording).Scan(&there); err != nil {
		return err
	}
	if !there { // deleted in the meantime; the job stays pending in case the memo is restored
		if _, err := tx.Exec(`UPDATE voice_processing_queue SET status = 'pending', lease_until = NULL, attempts = 0, updated_at = ?1 WHERE id = ?2`, tx.Now, j.id); err != nil {
			return err
		}
		return s.setStatus(tx, j.user, j.recording, pending, "")
	}
	if _, err := tx.Exec(`UPDATE voice_recordings SET duration_ms = ?, lost_ms = ?, updated_at = ? WHERE id = ?`, r.durationMs, r.lostMs, tx.Now, j.recording); err != nil {
		return err
	}
	if err := s.addTranscript(tx, j.user, j.recording, j.engine, r.Transcript, nil); err != nil {
		return err
	}
	if _, err := tx.Exec(`UPDATE voice_processing_queue SET status = 'completed', lease_until = NULL, error_kind = '', error_message = '', updated_at = ? WHERE id = ?`, tx.Now, j.id); err != nil {
		return err
	}
	if err := note(tx, j.user, j.recording, "transcribed", map[string]any{"engine": j.engine, "words": len(r.Words)}); err != nil {
		return err
	}
	return s.setStatus(tx, j.user, j.recording, completed, "")
}

// fail stores why a job failed and when it is retried.
func (s *Service) fail(tx *storage.Tx, j *job, failed error) error {
	f := fault.As(failed)
	if f.Kind == fault.Internal {
		s.o.Logger.Error("transcribe", "recording", j.recording, "err", failed)
	}
	cause := transcribe.CauseOf(failed)
	conf, err := settings(tx, j.user)
	if err != nil {
		return err
	}
	status, kind, message, engine, model, attempts, next := pending, string(cause), f.Message, j.engine, j.model, j.attempts, tx.Now
	e := s.engine(j.engine)
	switch {
	case errors.Is(failed, context.Canceled):
		attempts, kind, message = j.attempts-1, "", ""
	case errors.Is(failed, errDecode):
		status, kind = failedState, string(f.Kind) // a retry would fail too
	case conf.Fallback == "local" && e != nil && !e.Info(tx.Context()).Local && s.engine(conf.LocalEngine) != nil:
		engine, model, attempts = conf.LocalEngine, conf.LocalModel, 0
	case cause == transcribe.Offline:
		attempts, next = j.attempts-1, tx.Now.Add(jitter(offlineWait))
	case cause == transcribe.RateLimit:
		attempts, next = j.attempts-1, tx.Now.Add(cmp.Or(f.RetryAfter, time.Second))
	case cause == transcribe.Missing:
		attempts, next = j.attempts-1, tx.Now.Add(missingWait)
	case cause == transcribe.Refused || j.attempts >= j.max:
		status = failedState
	default:
		next = tx.Now.Add(jitter(firstRetry << (2 * (j.attempts - 1))))
	}
	if _, err := tx.Exec(`UPDATE voice_processing_queue SET status = ?, engine = ?, model = ?, attempts = ?, next_attempt_at = ?, lease_until = NULL, error_kind = ?, error_message = ?, updated_at = ? WHERE id = ?`,
		status, engine, model, max(0, attempts), next, kind, message, tx.Now, j.id); err != nil {
		return err
	}
	if status == failedState {
		if err := note(tx, j.user, j.recording, "failed", map[string]any{"engine": j.engine, "kind": kind}); err != nil {
			return err
		}
	}
	return s.setStatus(tx, j.user, j.recording, status, message)
}

// jitter varies d by up to 20 %, so that devices do not retry at the same time.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}

// Transcribe queues another transcription of a recording. Earlier transcripts are kept.
func (s *Service) Transcribe(ctx context.Context, p TranscribeParams) (out TranscribeResult, err error) {
	if err := s.checkChoice(p.Engine, p.Language, p.Model); err != nil {
		return out, err
	}
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		r, err := s.recording(tx, p.RecordingID)
		if err != nil {
			return err
		}
		if r.audio == "" {
			return errElsewhere
		}
		if out.JobID, err = s.enqueue(tx, identity.UserID(ctx), p, nil); err != nil {
			return err
		}
		out.Status = pending
		return s.setStatus(tx, identity.UserID(ctx), p.RecordingID, pending, "")
	})
	if err == nil {
		s.wakeUp()
	}
	return out, err
}

// Queue lists the jobs that are pending, running or failed.
func (s *Service) Queue(ctx context.Context, _ struct{}) (out QueueResult, err error) {
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		out.Jobs, err = storage.Collect(tx.Select(`SELECT q.id, q.recording_id, coalesce(m.id, zeroblob(16)), coalesce(m.title, ''), q.task, q.engine, q.status, q.attempts, q.max_attempts, q.next_attempt_at, q.error_kind, q.error_message, q.created_at, q.updated_at
			FROM voice_processing_queue q JOIN voice_recordings r ON r.id = q.recording_id AND r.deleted_at IS NULL LEFT JOIN voice_memos m ON m.recording_id = q.recording_id
			WHERE q.user_id = ? AND q.status <> 'completed' ORDER BY q.created_at, q.id`, identity.UserID(ctx)), func(row storage.Row) (j Job, err error) {
			var memo uuid.UUID
			var title []byte
			var next time.Time
			if err := row.Scan(&j.ID, &j.RecordingID, &memo, &title, &j.Task, &j.Engine, &j.Status, &j.Attempts, &j.MaxAttempts, storage.Time(&next), &j.ErrorKind, &j.Error, storage.Time(&j.CreatedAt), storage.Time(&j.UpdatedAt)); err != nil {
				return j, err
			}
			if memo != uuid.Nil {
				j.MemoID = &memo
			}
			switch j.Status {
			case pending:
				out.Pending++
				j.NextAttempt = &next
			case processing:
				out.Processing++
			default:
				out.Failed++
			}
			j.Title, err = s.db.Keys().OpenText("voice_memos", "title", memo, title)
			return j, err
		})
		return err
	})
	return out, err
}

// Retry makes a failed or pending job due immediately.
func (s *Service) Retry(ctx context.Context, p JobParams) (TranscribeResult, error) {
	out := TranscribeResult{JobID: p.JobID, Status: pending}
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		recording, err := s.jobOf(tx, p.JobID, `'failed', 'pending'`, "This job runs already or is completed.")
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE OR IGNORE voice_processing_queue SET status = 'pending', attempts = 0, next_attempt_at = ?1, error_kind = '', error_message = '', updated_at = ?1 WHERE id = ?2`, tx.Now, p.JobID); err != nil {
			return err
		}
		return s.setStatus(tx, identity.UserID(ctx), recording, pending, "")
	})
	if err == nil {
		s.wakeUp()
	}
	return out, err
}

// Skip removes a job from the queue. The recording stays without a transcript.
func (s *Service) Skip(ctx context.Context, p JobParams) (TranscribeResult, error) {
	out := TranscribeResult{JobID: p.JobID, Status: failedState}
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		recording, err := s.jobOf(tx, p.JobID, `'failed', 'pending'`, "This job runs already or is completed.")
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`DELETE FROM voice_processing_queue WHERE id = ?`, p.JobID); err != nil {
			return err
		}
		var has bool
		if err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM voice_transcripts WHERE recording_id = ? AND deleted_at IS NULL)`, recording).Scan(&has); err != nil {
			return err
		}
		message := "Transcription was skipped."
		if has {
			out.Status, message = completed, ""
		}
		return s.setStatus(tx, identity.UserID(ctx), recording, out.Status, message)
	})
	return out, err
}

// jobOf returns the recording of a job of the caller. It returns an error with the message
// otherwise if the job is in none of the states.
func (s *Service) jobOf(tx *storage.Tx, id uuid.UUID, states, otherwise string) (recording uuid.UUID, err error) {
	var fits bool
	err = tx.QueryRow(`SELECT recording_id, status IN (`+states+`) FROM voice_processing_queue WHERE id = ? AND user_id = ?`, id, identity.UserID(tx.Context())).Scan(&recording, &fits)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		err = fault.NotFoundf("Job not found.")
	case err == nil && !fits:
		err = fault.Conflictf("%s", otherwise)
	}
	return recording, err
}
