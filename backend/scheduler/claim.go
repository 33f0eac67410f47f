package scheduler

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/storage"
)

// make lets the target create its run and inserts the row, in the transaction of the claim. A
// rejection by the target is returned as *targetError. If fail, such an error from a previous
// attempt, is not nil, the row is inserted as failed.
func (s *Service) make(tx *storage.Tx, c *sched, row *runRow, input json.RawMessage, now time.Time, fail *targetError, b *batch) error {
	if row.RunID == uuid.Nil {
		row.RunID = storage.NewID()
	}
	row.maxRun = duration.Of(c.MaxRunMs, time.Millisecond)
	if fail != nil && fail.schedule == c.ScheduleID && fail.due.Equal(row.DueAt) {
		added, err := s.insertRun(tx, row, now)
		if err != nil || !added {
			return err
		}
		return s.finish(tx, c, *row, failedState(fail.err), now)
	}
	k := s.kind(c.Target.Kind)
	if input == nil {
		input = c.Target.Input
	}
	target, err := enqueue(k, tx, c, Occurrence{
		RunID: row.RunID, ScheduleID: c.ScheduleID, User: c.user, Name: c.Name, Target: c.Target, Input: input,
		DueAt: row.DueAt, Trigger: row.Trigger, Attempt: row.Attempt, MaxRun: row.maxRun, Budget: c.Budget,
	})
	if err != nil {
		if ofDatabase(err) {
			return err
		}
		return &targetError{c.ScheduleID, row.DueAt, err}
	}
	row.TargetRunID = &target
	row.ScheduleName = c.Name
	if added, err := s.insertRun(tx, row, now); err != nil {
		return err
	} else if !added {
		return fault.Conflictf("This scheduled time already has a run.")
	}
	b.made = append(b.made, *row)
	return nil
}

func enqueue(k *kind, tx *storage.Tx, c *sched, occ Occurrence) (id uuid.UUID, err error) {
	if k == nil {
		return id, unavailableKind(c.Target.Kind)
	}
	err = fault.Catch(func() (err error) {
		id, err = k.Enqueue(tx, occ)
		return err
	})
	if err == nil && id == uuid.Nil {
		err = fault.Internalf(errors.New("target made no run"), "The target made no run.")
	}
	return id, err
}

// unavailableKind returns the error for a kind of target that cannot be used.
func unavailableKind(name string) error {
	for _, k := range knownKinds {
		if k.Kind == name {
			return fault.Unavailablef("%s", k.Reason)
		}
	}
	return fault.Invalidf("The kind of a target must be skill, tool, synthesis, decay or agent, not %q.", name)
}

// ofDatabase reports whether an error is one of the database, such as a full disk. The due time
// then remains due.
func ofDatabase(err error) bool {
	var e interface {
		error
		Code() int // as the engine's errors have
	}
	return errors.As(err, &e) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, sql.ErrTxDone) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// failedState returns the state of a run that its target rejected.
func failedState(err error) TargetState {
	e := fault.As(err)
	return TargetState{Status: "failed", Error: &RunError{Kind: string(e.Kind), Message: e.Message}}
}

// again processes one run in its own transaction. If the target rejects it, it repeats the
// transaction with fail set, which ends the run as failed.
func (s *Service) again(ctx context.Context, user uuid.UUID, fn func(tx *storage.Tx, fail *targetError, b *batch) error) error {
	ctx, cancel := context.WithTimeout(s.as(ctx, user), claimWithin)
	defer cancel()
	var fail *targetError
	var b batch
	var err error
	for range 2 {
		err = s.db.Write(ctx, func(tx *storage.Tx) error {
			b = batch{}
			return fn(tx, fail, &b)
		})
		if !errors.As(err, &fail) {
			break
		}
	}
	if err == nil {
		s.adopt(b.made)
	}
	return err
}

// continueRuns starts further attempts and queued runs. It returns the time of the next attempt.
func (s *Service) continueRuns(ctx context.Context, now time.Time) (next time.Time, refused bool) {
	var tries, waits bool
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM schedule_runs WHERE retry_at IS NOT NULL), EXISTS (SELECT 1 FROM schedule_runs WHERE status = 'queued' AND `+open+` AND target_run_id IS NULL)`).Scan(&tries, &waits)
	})
	if err != nil {
		s.log.Warn("runs cannot be read", "err", err)
		return next, true
	}
	if tries {
		next, refused = s.retries(ctx, now)
	}
	if waits {
		refused = s.promote(ctx, now) || refused
	}
	return next, refused
}

// retries starts the further attempts that are due. It returns the time of the next one.
func (s *Service) retries(ctx context.Context, now time.Time) (next time.Time, refused bool) {
	list, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) ([]runRow, error) {
		return queryRuns(tx, `WHERE r.retry_at IS NOT NULL AND s.user_id NOT IN (SELECT user_id FROM schedule_pause) ORDER BY r.retry_at`)
	})
	if err != nil {
		s.log.Warn("further attempts cannot be read", "err", err)
		return next, true
	}
	for _, r := range list {
		if r.RetryAt.After(now) {
			if next.IsZero() {
				next = *r.RetryAt
			}
			continue
		}
		if err := s.again(ctx, r.user, func(tx *storage.Tx, fail *targetError, b *batch) error { return s.retry(tx, r, now, fail, b) }); err != nil {
			s.log.Warn("a further attempt cannot be claimed; it is tried again", "run", r.RunID, "err", err)
			refused = true
		}
	}
	return next, refused
}

// retry claims the next attempt of a due time, or gives up if it is too late.
func (s *Service) retry(tx *storage.Tx, r runRow, now time.Time, fail *targetError, b *batch) error {
	c, err := s.loadSched(tx, r.ScheduleID)
	if err != nil {
		return ignoreNotFound(err)
	}
	if c.Status == "paused" || !s.holds(c) && !s.firedElsewhere(c) {
		return nil
	}
	if _, err := tx.Exec(`UPDATE schedule_runs SET retry_at = NULL, updated_at = ? WHERE id = ?`, now, r.RunID); err != nil {
		return err
	}
	if c.deletedAt != nil || c.cad == nil || c.Status == "disabled" || s.firedElsewhere(c) {
		return nil
	}
	if d, ok := c.cad.Next(*r.FinishedAt); ok && !d.At.After(now) && c.nextAfter(*r.FinishedAt) != nil || // the next regular time has come
		now.Sub(*r.RetryAt) > duration.Of(c.GraceSecs, time.Second) {
		return s.failedFor(tx, c, r, now)
	}
	if done, err := accounted(tx, r.ScheduleID, r.DueAt, r.Attempt+1); err != nil || done {
		return err
	}
	row := runRow{user: c.user, revision: c.Revision, term: s.lease(c.ScheduleID).term, system: c.System}
	row.ScheduleID, row.TargetKind, row.DueAt, row.Attempt, row.Trigger, row.Status = c.ScheduleID, c.Target.Kind, r.DueAt, r.Attempt+1, "retry", "queued"
	row.ClaimedAt = &now
	if busy, err := s.busy(tx, c.ScheduleID); err != nil {
		return err
	} else if busy {
		_, err = s.insertRun(tx, &row, now)
		return err
	}
	return s.make(tx, c, &row, nil, now, fail, b)
}

// promote creates the target runs of queued runs whose schedule is free.
func (s *Service) promote(ctx context.Context, now time.Time) (refused bool) {
	list, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) ([]runRow, error) {
		return queryRuns(tx, `WHERE r.status = 'queued' AND r.target_run_id IS NULL AND s.user_id NOT IN (SELECT user_id FROM schedule_pause)
			AND r.schedule_id NOT IN (SELECT schedule_id FROM schedule_runs WHERE target_run_id IS NOT NULL AND `+atWork+`)
			ORDER BY r.due_at, r.attempt`)
	})
	if err != nil {
		s.log.Warn("waiting runs cannot be read", "err", err)
		return true
	}
	first := map[uuid.UUID]bool{}
	for _, r := range list {
		if first[r.ScheduleID] {
			continue
		}
		first[r.ScheduleID] = true
		if err := s.again(ctx, r.user, func(tx *storage.Tx, fail *targetError, b *batch) error {
			return s.promoteOne(tx, r.RunID, now, fail, b)
		}); err != nil {
			s.log.Warn("a waiting run cannot be claimed; it is tried again", "run", r.RunID, "err", err)
			refused = true
		}
	}
	return refused
}

func (s *Service) promoteOne(tx *storage.Tx, id uuid.UUID, now time.Time, fail *targetError, b *batch) error {
	r, err := loadRun(tx, id)
	if err != nil || r.Status != "queued" || r.TargetRunID != nil {
		return ignoreNotFound(err)
	}
	c, err := s.loadSched(tx, r.ScheduleID)
	if err != nil {
		return err
	}
	if s.firedElsewhere(c) {
		return s.closeRun(tx, r, "skipped", "other_device", now)
	}
	if c.Status == "paused" || !s.holds(c) {
		return nil
	}
	if c.deletedAt != nil || c.Status == "disabled" || c.cad == nil {
		return s.closeRun(tx, r, "skipped", "disabled", now)
	}
	if fail != nil && fail.schedule == c.ScheduleID {
		return s.finish(tx, c, r, failedState(fail.err), now)
	}
	target, err := enqueue(s.kind(c.Target.Kind), tx, c, Occurrence{
		RunID: r.RunID, ScheduleID: c.ScheduleID, User: c.user, Name: c.Name, Target: c.Target, Input: c.Target.Input,
		DueAt: r.DueAt, Trigger: r.Trigger, Attempt: r.Attempt, MaxRun: duration.Of(c.MaxRunMs, time.Millisecond), Budget: c.Budget,
	})
	if err != nil {
		if ofDatabase(err) {
			return err
		}
		return &targetError{c.ScheduleID, r.DueAt, err}
	}
	if _, err := tx.Exec(`UPDATE schedule_runs SET target_run_id = ?, target_kind = ?, updated_at = ? WHERE id = ?`, target, c.Target.Kind, now, r.RunID); err != nil {
		return err
	}
	r.TargetRunID, r.TargetKind = &target, c.Target.Kind
	b.made = append(b.made, r)
	return nil
}
