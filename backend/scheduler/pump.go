package scheduler

import (
	"context"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/storage"
)

// pump does everything that is due now and returns how long to wait until it is needed again.
func (s *Service) pump(ctx context.Context) time.Duration {
	now, mono := s.now(), s.clock.Mono()
	s.notice(now, mono)
	poll := mono-s.polled >= s.o.Poll
	if !s.restore(ctx) {
		return s.o.Poll
	}
	if poll {
		s.polled = mono
		s.checkAllRuns()
	}
	refused := s.endPauses(ctx, now)
	s.renewLeases(ctx, mono)
	s.expire(ctx, mono)
	s.ask(ctx)
	refused = s.settleOutcomes(ctx, now) || refused
	next, bad := s.settleAll(ctx, now)
	again, worse := s.continueRuns(ctx, now)
	refused = refused || bad || worse
	if poll || s.seenWall.IsZero() {
		s.followZones(ctx, now)
	}
	s.follow(ctx)
	s.admitAll(ctx, now)
	s.startRuns(ctx, now, mono)
	s.seenWall, s.seenMono, s.awayWhy = now, mono, ""
	s.mu.Lock()
	s.nextDue = next
	s.mu.Unlock()
	wait := s.o.Poll
	if !refused {
		for _, at := range []time.Time{next, again} {
			if !at.IsZero() {
				wait = min(wait, at.Sub(s.now()))
			}
		}
	}
	return max(min(wait, s.nextTimer(mono)), 0)
}

// notice compares both clocks with their previous values. If the wall clock is ahead, the computer
// slept or the clock was set.
func (s *Service) notice(now time.Time, mono time.Duration) {
	if s.seenWall.IsZero() {
		return
	}
	if ahead := now.Sub(s.seenWall) - (mono - s.seenMono); ahead > 30*time.Second {
		s.awayFrom, s.awayWhy = s.seenWall, "asleep"
		s.log.Info("the clock went ahead, as after sleep", "by", ahead.Round(time.Second))
	} else if ahead < -30*time.Second {
		s.log.Info("the clock was set back", "by", -ahead.Round(time.Second))
	}
}

// restore loads the runs that have not ended, after a start or when the database has been replaced.
func (s *Service) restore(ctx context.Context) bool {
	s.mu.Lock()
	need := s.reload
	if need { // before the rows are read, because runs adopted from now on are not in them
		clear(s.live)
		clear(s.targets)
		for _, l := range s.lanes {
			l.running, l.users = 0, nil
			clear(l.queues)
		}
		s.reload, s.outcomes = false, nil
	}
	s.mu.Unlock()
	if !need {
		return true
	}
	var list []runRow
	err := s.db.Write(ctx, func(tx *storage.Tx) (err error) {
		if _, err = tx.Exec(`UPDATE schedule_runs SET status = 'interrupted', updated_at = ? WHERE status = 'running' AND `+open+` AND device_id = ?`, s.now(), s.device()); err != nil {
			return err
		}
		list, err = queryRuns(tx, `WHERE r.target_run_id IS NOT NULL AND r.`+open+` AND r.device_id = ? ORDER BY r.due_at`, s.device())
		return err
	})
	if err == nil {
		err = s.ensureSystem(ctx)
	}
	if err != nil {
		s.log.Warn("the runs of schedules cannot be read; it is tried again", "err", err)
		s.mu.Lock()
		s.reload = true
		s.mu.Unlock()
		return false
	}
	s.adopt(list)
	s.checkAllRuns() // one may have ended meanwhile
	return true
}

// adopt adds runs that their target has created to the lanes.
func (s *Service) adopt(list []runRow) {
	if len(list) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range list {
		if s.live[r.RunID] != nil {
			continue
		}
		l := &live{runRow: r, kind: s.kindLocked(r.TargetKind)}
		if l.kind == nil {
			l.kind = &kind{unavailableTarget{r.TargetKind}, longLane, ""}
		}
		l.home = s.lane(l.kind.lane)
		s.live[r.RunID], s.targets[*r.TargetRunID] = l, l
		switch {
		case r.Status == "waiting":
			l.phase, l.admitted = parked, true
		case r.term > 0 && r.StartedAt == nil && s.o.Leases != nil:
		default:
			l.admitted = true
			l.home.push(l)
		}
		if r.Reason == "timeout" || r.Reason == "person" || r.Reason == "overlap" {
			l.end(r.Reason, s.clock.Mono())
		}
	}
	s.kick()
}

// unavailableTarget is the Starter of a kind of target that this build does not have.
type unavailableTarget struct{ kind string }

func (g unavailableTarget) Check(context.Context, Target) (Target, error) {
	return Target{}, unavailableKind(g.kind)
}
func (g unavailableTarget) Enqueue(*storage.Tx, Occurrence) (uuid.UUID, error) {
	return uuid.Nil, unavailableKind(g.kind)
}
func (g unavailableTarget) Start(uuid.UUID) {}
func (g unavailableTarget) State(context.Context, uuid.UUID) (TargetState, error) {
	return TargetState{}, fault.NotFoundf("%s", fault.As(unavailableKind(g.kind)).Message)
}
func (g unavailableTarget) Cancel(context.Context, uuid.UUID, string) error { return nil }

// end requests the end of a run. The caller must hold mu.
func (r *live) end(why string, now time.Duration) {
	if r.ending == "" {
		r.ending, r.endBy = why, now+cancelWithin
	}
}

// requestCancel records in a transaction that a run should end, and cancels its target after the commit.
func (s *Service) requestCancel(tx *storage.Tx, r runRow, why string, now time.Time) error {
	if _, err := tx.Exec(`UPDATE schedule_runs SET reason = ?, updated_at = ? WHERE id = ? AND `+open, why, now, r.RunID); err != nil {
		return err
	}
	tx.AfterCommit(func() { s.cancel(detached(tx.Context()), r.RunID, why) })
	return nil
}

// cancel tells a target to end its run.
func (s *Service) cancel(ctx context.Context, id uuid.UUID, why string) {
	s.mu.Lock()
	l := s.live[id]
	if l == nil || l.ending != "" {
		s.mu.Unlock()
		return
	}
	l.end(why, s.clock.Mono())
	s.mu.Unlock()
	s.cancelTarget(ctx, l)
}

// cancelReasons are the reasons passed to targets.
var cancelReasons = map[string]string{"timeout": "it reached the time limit of its schedule", "person": "canceled by you", "overlap": "the next scheduled time has come"}

func (s *Service) cancelTarget(ctx context.Context, l *live) {
	s.task(func() error {
		ctx, cancel := context.WithTimeout(s.as(context.WithoutCancel(ctx), l.user), cancelWithin)
		defer cancel()
		err := l.kind.Cancel(ctx, *l.TargetRunID, cancelReasons[l.ending])
		s.Ended(*l.TargetRunID)
		return ignoreNotFound(err)
	}, func(err error) { s.log.Warn("a target does not take cancel", "run", l.RunID, "err", err) })
	s.kick()
}

// expire cancels runs that exceed their time limit, and closes those whose target ignores it.
func (s *Service) expire(ctx context.Context, mono time.Duration) {
	var late []*live
	s.mu.Lock()
	for id, l := range s.live {
		switch {
		case l.ending != "" && mono >= l.endBy:
			s.outcomes = append(s.outcomes, outcome{id, TargetState{Status: "cancelled"}})
		case l.ending == "" && l.phase == started && l.used+mono-l.since >= l.maxRun:
			late = append(late, l)
		}
	}
	s.mu.Unlock()
	for _, l := range late {
		err := s.db.Write(s.as(ctx, l.user), func(tx *storage.Tx) error { return s.requestCancel(tx, l.runRow, "timeout", s.now()) })
		if err != nil {
			s.log.Warn("a run that takes too long is not canceled yet", "run", l.RunID, "err", err)
		}
	}
}

// checkAllRuns queries the state of every run, in case an end was not reported.
func (s *Service) checkAllRuns() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.live {
		l.look = true
	}
}

// ask queries the targets for requested states.
func (s *Service) ask(ctx context.Context) {
	var list []*live
	s.mu.Lock()
	for _, l := range s.live {
		if l.look && !l.looking {
			l.look, l.looking = false, true
			list = append(list, l)
		}
	}
	s.mu.Unlock()
	for _, l := range list {
		done := func(st TargetState, err error) {
			switch {
			case fault.Is(err, fault.NotFound):
				st = failedState(fault.Internalf(err, "The target's run no longer exists."))
			case err != nil:
				s.log.Warn("a target does not tell how its run stands", "run", l.RunID, "err", err)
				st = TargetState{}
			}
			s.mu.Lock()
			l.looking = false
			if st.Status != "" && s.live[l.RunID] == l {
				s.outcomes = append(s.outcomes, outcome{l.RunID, st})
			}
			s.mu.Unlock()
			s.kick()
		}
		s.task(func() error {
			ctx, cancel := context.WithTimeout(s.as(context.WithoutCancel(ctx), l.user), stateWithin)
			defer cancel()
			st, err := l.kind.State(ctx, *l.TargetRunID)
			done(st, err)
			return nil
		}, func(err error) { done(failedState(err), nil) })
	}
}

// startRuns gives slots to queued runs and starts them.
func (s *Service) startRuns(ctx context.Context, now time.Time, mono time.Duration) {
	var list []*live
	s.mu.Lock()
	long := s.lanes[longLane]
	for _, l := range s.live {
		if l.slot != nil && l.slot != long && mono-l.since >= longAfter && long.running < long.capacity {
			l.slot.running--
			l.slot = long
			long.running++
		}
	}
	for _, ln := range s.lanes {
		for l := ln.pop(); l != nil; l = ln.pop() {
			l.hold(ln, mono)
			list = append(list, l)
		}
	}
	s.mu.Unlock()
	if len(list) == 0 {
		return
	}
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		for _, l := range list {
			if err := s.begun(tx, l.runRow, now); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		s.log.Warn("runs cannot begin; it is tried again", "err", err)
		s.mu.Lock()
		for _, l := range list {
			l.free(mono)
			l.used, l.phase = 0, pending
			l.home.push(l)
		}
		s.mu.Unlock()
		return
	}
	for _, l := range list {
		s.task(func() error {
			l.kind.Start(*l.TargetRunID)
			return nil
		}, func(err error) {
			s.mu.Lock()
			s.outcomes = append(s.outcomes, outcome{l.RunID, failedState(err)})
			s.mu.Unlock()
			s.kick()
		})
	}
}

func (s *Service) begun(tx *storage.Tx, r runRow, now time.Time) error {
	late := max(now.Sub(r.DueAt).Milliseconds(), 0)
	res, err := tx.Exec(`UPDATE schedule_runs SET status = 'running', started_at = coalesce(started_at, ?), late_ms = CASE WHEN started_at IS NULL THEN ? ELSE late_ms END,
		reason = CASE WHEN reason IN ('timeout', 'person', 'overlap') THEN reason END, updated_at = ? WHERE id = ? AND `+open, now, late, now, r.RunID)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return err
	}
	s.runEvent(tx, r.user, r.RunID, r.ScheduleID, "running", now)
	return nil
}

// nextTimer returns the time until the next run must be moved, canceled or closed.
func (s *Service) nextTimer(mono time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := s.o.Poll - (mono - s.polled)
	for _, l := range s.live {
		switch {
		case l.ending != "":
			wait = min(wait, l.endBy-mono)
		case l.phase == started:
			wait = min(wait, l.maxRun-l.used-(mono-l.since))
			if d := longAfter - (mono - l.since); l.slot != s.lanes[longLane] && d > 0 {
				wait = min(wait, d)
			}
		}
	}
	if len(s.outcomes) > 0 {
		wait = 0
	}
	return wait
}
