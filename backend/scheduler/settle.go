package scheduler

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/storage"
)

// batch is the result of a transaction of claims. It is used once the transaction is committed.
type batch struct {
	made   []runRow // runs created by their target
	missed int
	ids    []uuid.UUID // schedules with missed times to notify about
}

// targetError is a target's rejection of a run. The claim's transaction is rolled back.
type targetError struct {
	schedule uuid.UUID
	due      time.Time
	err      error
}

func (e *targetError) Error() string { return "target: " + e.err.Error() }
func (e *targetError) Unwrap() error { return e.err }

// settleAll accounts for everything that is due. It returns when the next schedule is due, zero if
// none, and whether some are left because the database returned an error.
func (s *Service) settleAll(ctx context.Context, now time.Time) (next time.Time, refused bool) {
	list, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) ([]*sched, error) {
		return s.query(tx, `WHERE s.deleted_at IS NULL AND s.status = 'active' AND s.is_enabled = 1
			AND (t.schedule_id IS NULL OR t.revision_seen <> s.revision OR t.next_run_at <= ?)
			AND s.user_id NOT IN (SELECT user_id FROM schedule_pause) ORDER BY s.user_id, t.next_run_at, s.id`, now)
	})
	if err != nil {
		s.log.Warn("due schedules cannot be read", "err", err)
		return next, true
	}
	missed := map[uuid.UUID]*batch{}
	for len(list) > 0 {
		n := 1
		for n < len(list) && n < claimsAtOnce && list[n].user == list[0].user {
			n++
		}
		b, bad := s.settleGroup(ctx, list[:n], now)
		refused = refused || bad
		if m := missed[list[0].user]; m != nil {
			m.missed, m.ids = m.missed+b.missed, append(m.ids, b.ids...)
		} else {
			missed[list[0].user] = &b
		}
		list = list[n:]
	}
	for user, b := range missed {
		s.noticeMissed(ctx, user, b, now)
	}
	next, err = s.nextWake(ctx, now)
	if err != nil {
		s.log.Warn("the next due time cannot be read", "err", err)
		refused = true
	}
	return next, refused
}

// nextWake returns when the next schedule must be claimed.
func (s *Service) nextWake(ctx context.Context, now time.Time) (next time.Time, err error) {
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		list, err := s.query(tx, `WHERE s.deleted_at IS NULL AND s.status = 'active' AND s.is_enabled = 1 AND t.next_run_at IS NOT NULL
			AND s.user_id NOT IN (SELECT user_id FROM schedule_pause)
			AND (t.next_run_at <= ?1 OR t.next_run_at = (SELECT min(next_run_at) FROM schedule_state WHERE next_run_at > ?1))`, now)
		for _, c := range list {
			if c.cad == nil {
				continue
			}
			at := c.fireAt(*c.NextRunAt)
			if !at.After(now) {
				continue // failed: retried by the poll
			}
			if next.IsZero() || at.Before(next) {
				next = at
			}
		}
		return err
	})
	return next, err
}

// settleGroup processes schedules of one user in one transaction. If that fails, it
// processes each in its own.
func (s *Service) settleGroup(ctx context.Context, list []*sched, now time.Time) (out batch, refused bool) {
	uctx, cancel := context.WithTimeout(s.as(ctx, list[0].user), claimWithin)
	defer cancel()
	var ready []*sched
	for _, c := range list {
		if c.cad != nil && s.mayClaim(uctx, c, now) {
			ready = append(ready, c)
		}
	}
	if len(ready) == 0 {
		return out, false
	}
	if len(ready) > 1 {
		var b batch
		err := fault.Catch(func() error {
			return s.db.Write(uctx, func(tx *storage.Tx) error {
				b = batch{}
				for _, c := range ready {
					if err := s.settle(tx, c.ScheduleID, now, nil, &b); err != nil {
						return err
					}
				}
				return nil
			})
		})
		if err == nil {
			s.adopt(b.made)
			return b, false
		}
	}
	for _, c := range ready {
		b, err := s.settleOne(uctx, c.ScheduleID, now)
		if err != nil {
			s.log.Warn("a schedule is due and cannot be claimed; it is tried again", "schedule", c.ScheduleID, "err", err)
			refused = true
			continue
		}
		s.adopt(b.made)
		out.missed, out.ids = out.missed+b.missed, append(out.ids, b.ids...)
	}
	return out, refused
}

// settleOne processes one schedule. If a target rejects its run, the run is recorded as failed.
func (s *Service) settleOne(ctx context.Context, id uuid.UUID, now time.Time) (b batch, err error) {
	var fail *targetError
	for range 2 {
		err = fault.Catch(func() error {
			return s.db.Write(ctx, func(tx *storage.Tx) error {
				b = batch{}
				return s.settle(tx, id, now, fail, &b)
			})
		})
		if !errors.As(err, &fail) {
			return b, err
		}
	}
	return b, err
}

// settle accounts for the due times of one schedule up to now: it claims those that run and records
// those that do not. If fail is not nil, the first claim becomes a failed run instead.
func (s *Service) settle(tx *storage.Tx, id uuid.UUID, now time.Time, fail *targetError, b *batch) error {
	c, err := s.loadSched(tx, id)
	if err != nil || !c.fires() {
		return ignoreNotFound(err)
	}
	if paused, err := pausedAll(tx, c.user); err != nil || paused {
		return err
	}
	if !c.hasState || c.seen != c.Revision { // created or edited on another device
		if c.last.Before(c.UpdatedAt) {
			c.last = c.UpdatedAt
		}
		return s.advance(tx, c)
	}
	if !s.responsible(c) {
		c.last = now
		return s.advance(tx, c)
	}
	lease := s.lease(c.ScheduleID)
	if lease.through.After(c.last) {
		c.last = lease.through
	}
	mode, reason := fire, ""
	if lease.lost {
		mode, reason = miss, "no_lease"
	}
	p, ok := c.due(now, mode)
	if !ok {
		return s.advance(tx, c)
	}
	if reason == "" {
		reason = s.absence(p.first)
	}
	if err := s.recordMissed(tx, c, p, reason, now, b); err != nil {
		return err
	}
	c.last = p.through
	c.NextRunAt = c.nextAfter(c.last)
	if err := s.claimRuns(tx, c, p.runs, lease.term, now, fail, b); err != nil {
		return err
	}
	if c.fires() {
		return s.advance(tx, c)
	}
	return s.saveState(tx, c)
}

func ignoreNotFound(err error) error {
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// advance sets the next time after c.last, saves the state, and completes the schedule if there is none.
func (s *Service) advance(tx *storage.Tx, c *sched) error {
	c.NextRunAt = c.nextAfter(c.last)
	if c.tz == "" {
		c.tz = zonePrint(c.Cadence.Timezone)
	}
	if err := s.saveState(tx, c); err != nil {
		return err
	}
	return s.complete(tx, c, s.now())
}

// complete ends a schedule that has neither a next time nor active runs.
func (s *Service) complete(tx *storage.Tx, c *sched, now time.Time) error {
	if c.Status != "active" || c.NextRunAt != nil || c.cad == nil {
		return nil
	}
	var busy bool
	if err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM schedule_runs WHERE schedule_id = ? AND trigger <> 'manual' AND (`+open+` OR retry_at IS NOT NULL))`, c.ScheduleID).Scan(&busy); err != nil || busy {
		return err
	}
	status, reason := "completed", ""
	if c.Cadence.Type == "once" {
		var ok, failed bool
		if err := tx.QueryRow(`SELECT coalesce(max(status = 'success'), 0), coalesce(max(status = 'failed'), 0) FROM schedule_runs
			WHERE schedule_id = ? AND due_at = ? AND trigger <> 'manual'`, c.ScheduleID, c.Cadence.At.Truncate(time.Second)).Scan(&ok, &failed); err != nil {
			return err
		}
		switch {
		case !ok && failed:
			status, reason = "disabled", "failures"
		case !ok:
			status, reason = "disabled", "missed"
		}
	}
	s.changed(tx, c.user, c.ScheduleID, status)
	if reason != "" {
		if err := s.disabledNotice(tx, c, reason, now); err != nil {
			return err
		}
	}
	return s.setStatus(tx, c, status, reason, now)
}

// absence returns why a due time was not claimed in time.
func (s *Service) absence(at time.Time) string {
	switch {
	case s.awayWhy != "":
		return s.awayWhy
	case at.Before(s.startWall):
		return "not_running"
	}
	return "busy"
}

// recordMissed inserts the rows of due times that do not run.
func (s *Service) recordMissed(tx *storage.Tx, c *sched, p plan, reason string, now time.Time, b *batch) error {
	if p.count == 0 {
		return nil
	}
	row := runRow{user: c.user, revision: c.Revision, system: c.System, term: s.lease(c.ScheduleID).term}
	row.ScheduleID, row.TargetKind, row.Trigger, row.Status, row.Reason = c.ScheduleID, c.Target.Kind, "due", "missed", reason
	if reason == "asleep" && !s.awayFrom.IsZero() {
		row.StartedAt = &s.awayFrom // when checks stopped
	}
	row.FinishedAt = &now
	if p.count > maxRows {
		row.DueAt, row.MissedCount, row.MissedMore, row.LastMissedAt = p.first, &p.count, p.more, &p.latest
		if _, err := s.insertRun(tx, &row, now); err != nil {
			return err
		}
	} else {
		for _, at := range p.missed {
			row.RunID, row.DueAt = uuid.Nil, at
			if _, err := s.insertRun(tx, &row, now); err != nil {
				return err
			}
		}
	}
	b.missed += p.count
	if c.Notification != "never" && (reason == "asleep" || reason == "not_running") {
		b.ids = append(b.ids, c.ScheduleID)
	}
	return nil
}

// claimRuns claims due times, oldest first. The target creates the first run now unless the
// schedule is busy; the other runs are queued.
func (s *Service) claimRuns(tx *storage.Tx, c *sched, runs []due, term int64, now time.Time, fail *targetError, b *batch) error {
	for i, d := range runs {
		if done, err := accounted(tx, c.ScheduleID, d.at, 0); err != nil {
			return err
		} else if done {
			continue
		}
		c.RunCount++
		row := runRow{user: c.user, revision: c.Revision, term: term, system: c.System}
		row.ScheduleID, row.TargetKind, row.DueAt, row.Trigger, row.Status = c.ScheduleID, c.Target.Kind, d.at, d.trigger, "queued"
		row.ClaimedAt = &now
		free := i == 0
		var err error
		switch {
		case len(runs) == 1:
			free, err = s.overlap(tx, c, &row, now)
		case free:
			if free, err = s.busy(tx, c.ScheduleID); err == nil {
				free = !free
			}
		}
		if err != nil {
			return err
		}
		if free {
			err = s.make(tx, c, &row, nil, now, fail, b)
		} else {
			_, err = s.insertRun(tx, &row, now)
		}
		if err != nil {
			return err
		}
	}
	if len(runs) > 0 {
		s.changed(tx, c.user, c.ScheduleID, "fired")
	}
	return nil
}

// busy reports whether the schedule has an active run.
func (s *Service) busy(tx *storage.Tx, id uuid.UUID) (busy bool, err error) {
	err = tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM schedule_runs WHERE schedule_id = ? AND `+atWork+`)`, id).Scan(&busy)
	return busy, err
}

// overlap applies the schedule's overlap rule if it is busy. It returns whether the target may
// create the run now, and sets the row's status.
func (s *Service) overlap(tx *storage.Tx, c *sched, row *runRow, now time.Time) (bool, error) {
	list, err := queryRuns(tx, `WHERE r.id IN (SELECT id FROM schedule_runs WHERE schedule_id = ? AND `+atWork+`)`, c.ScheduleID)
	if err != nil || len(list) == 0 {
		return err == nil, err
	}
	waits := func(r runRow) bool { return r.TargetRunID == nil }
	skip := c.Overlap == "skip"
	for _, r := range list {
		if c.Overlap == "queue" && waits(r) {
			skip = true
		}
	}
	if skip {
		row.Status, row.Reason, row.FinishedAt = "skipped", "overlap", &now
	}
	if c.Overlap == "cancelPrevious" {
		for _, r := range list {
			if waits(r) {
				err = s.closeRun(tx, r, "skipped", "overlap", now)
			} else {
				err = s.requestCancel(tx, r, "overlap", now)
			}
			if err != nil {
				return false, err
			}
		}
	}
	return false, nil
}
