package skills

import (
	"context"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/skills/machine"
	"helix/backend/storage"
)

// countAgain is the interval at which runs are checked again that could not be continued because
// the database was full or busy.
const countAgain = 15 * time.Second

// Run continues runs that were interrupted and wakes those that are due. It returns nil when ctx ends.
func (s *Service) Run(ctx context.Context) error {
	s.resume(ctx)
	s.repeatQuestions(ctx)
	prune := time.NewTimer(time.Minute)
	defer prune.Stop()
	for {
		next := time.Hour
		if at, err := s.nextWake(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("look for waiting runs", "error", err)
			next = time.Minute
		} else if !at.IsZero() {
			next = min(next, max(at.Sub(s.now()), 10*time.Millisecond))
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-s.again:
			lost := s.lost.Swap(false)
			if lost {
				s.removeDetached()
			}
			if lost || s.uncounted.Swap(false) {
				s.resume(ctx)
				s.repeatQuestions(ctx)
			}
		case <-timer.C:
			s.wakeDue(ctx)
		}
		timer.Stop()
	}
}

// unfinished is a run that has not ended.
type unfinished struct {
	id, user    uuid.UUID
	status      Status
	reason      string
	stopped     bool // canceled, or its parent has ended
	child, load bool
	began       bool // it has a journal; otherwise it waits for a call of Begin
}

// resume continues interrupted runs.
func (s *Service) resume(ctx context.Context) {
	var list []unfinished
	err := s.countInterruptions(ctx)
	if err != nil { // otherwise a run could crash every process that starts
		if ctx.Err() == nil {
			s.log.Error("runs are not continued because it cannot be noted which were interrupted; it is tried again", "error", err)
			time.AfterFunc(countAgain, func() { s.uncounted.Store(true); s.wake() })
		}
		return
	}
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		var err error
		list, err = storage.Collect(tx.Select(`WITH RECURSIVE held (id) AS (SELECT execution_id FROM composite_skill_interruptions WHERE quarantined_at IS NOT NULL
				UNION SELECT c.id FROM composite_skill_executions c JOIN held ON c.parent_execution_id = held.id)
			SELECT x.id, x.user_id, x.status, coalesce(x.wait_reason, ''),
			x.cancel_requested_at IS NOT NULL OR coalesce(p.status IN ('completed', 'failed', 'cancelled'), 0), x.parent_execution_id IS NOT NULL,
			EXISTS (SELECT 1 FROM composite_skill_executions c WHERE c.parent_execution_id = x.id),
			EXISTS (SELECT 1 FROM composite_skill_events e WHERE e.execution_id = x.id)
			FROM composite_skill_executions x LEFT JOIN composite_skill_executions p ON p.id = x.parent_execution_id
			WHERE x.status IN ('queued', 'running', 'waiting') AND x.mode = 'live' AND x.device_id = ? AND x.id NOT IN (SELECT id FROM held)
			ORDER BY x.created_at, x.id`, s.db.Device().ID), func(row storage.Row) (u unfinished, err error) {
			err = row.Scan(&u.id, &u.user, &u.status, &u.reason, &u.stopped, &u.child, &u.load, &u.began)
			return u, err
		})
		return err
	})
	if err != nil {
		if ctx.Err() == nil {
			s.log.Error("look for runs to continue", "error", err)
		}
		return
	}
	asks := map[uuid.UUID]bool{}
	for _, u := range list {
		switch {
		case u.status == machine.Queued && !u.stopped && !u.child:
			continue // after those that have started
		case u.status == machine.Waiting && u.reason == machine.WaitPermission:
			asks[u.user] = true
		}
		if u.status == machine.Waiting && !u.stopped && !u.load {
			continue // continued at its time or by an answer
		}
		_, _, err := s.open(ctx, u.id, func(r *live) {
			if u.stopped {
				r.stop.Store(new(string))
			}
		})
		if err != nil && ctx.Err() == nil {
			s.broken(ctx, u.id, err)
		}
	}
	for _, u := range list {
		if u.status == machine.Queued && !u.stopped && !u.child && u.began {
			s.queueUp(u.user, s.queued(u.user, u.id), false)
		}
	}
	for user := range asks {
		if s.o.Gate == nil {
			break
		}
		if err := s.permitted(ctx, user, uuid.Nil); err != nil && ctx.Err() == nil {
			s.log.Error("resume runs that waited for a permission", "error", err)
		}
	}
}

// brokenMessage is the error of a run that ended because of a bug in this program.
const brokenMessage = "The run stopped because of an error inside Helix. What its steps did is kept. The log has the details; start it again, or restart it from a step."

// broken ends a run that cannot be continued because its journal or definition cannot be read.
func (s *Service) broken(ctx context.Context, id uuid.UUID, why error) {
	if s.isClosed() {
		return
	}
	s.log.Error("a run cannot be continued", "run", id, "error", why)
	if k := fault.KindOf(why); k != fault.Internal && k != fault.NotFound && k != fault.Invalid {
		return
	}
	err := s.endRow(ctx, id, machine.Failed, &machine.Failure{Kind: string(fault.Internal), Message: brokenMessage})
	if err != nil {
		s.log.Error("end a run that cannot be continued", "run", id, "error", err)
	}
}

// nextWake returns when the next unloaded waiting run is due.
func (s *Service) nextWake(ctx context.Context) (at time.Time, err error) {
	list, err := s.sleepingRuns(ctx, time.Time{})
	for _, u := range list {
		if at.IsZero() || u.at.Before(at) {
			at = u.at
		}
	}
	return at, err
}

type sleepingRun struct {
	id uuid.UUID
	at time.Time
}

// sleepingRuns lists unloaded waiting runs with a wake time: those due by until or, if it is zero,
// only the first.
func (s *Service) sleepingRuns(ctx context.Context, until time.Time) (list []sleepingRun, err error) {
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		bound := int64(1 << 62)
		if !until.IsZero() {
			bound = until.UnixMicro()
		}
		return tx.Select(`SELECT id, wake_at FROM composite_skill_executions WHERE status = 'waiting' AND wake_at <= ? AND device_id = ?
			ORDER BY wake_at LIMIT 1000`, bound, s.db.Device().ID).Each(func(row storage.Row) error {
			var x sleepingRun
			if err := row.Scan(&x.id, storage.Time(&x.at)); err != nil {
				return err
			}
			s.mu.Lock()
			there := s.live[x.id] != nil
			s.mu.Unlock()
			if there {
				return nil
			}
			if list = append(list, x); until.IsZero() {
				return nil
			}
			return nil
		})
	})
	return list, err
}

// wakeDue loads the waiting runs that are due.
func (s *Service) wakeDue(ctx context.Context) {
	list, err := s.sleepingRuns(ctx, s.now())
	if err != nil {
		s.log.Error("look for waiting runs", "error", err)
		return
	}
	for _, x := range list {
		if _, _, err := s.open(ctx, x.id, nil); err != nil && ctx.Err() == nil {
			s.broken(ctx, x.id, err)
		}
	}
}

// inMemory returns the loaded run with an id, or nil. It ignores runs of a replaced database,
// because only the row in the new database is valid.
func (s *Service) inMemory(id uuid.UUID) *live {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.live[id]; r != nil && !r.lost.Load() {
		return r
	}
	return nil
}

// detach marks the loaded runs as runs of a replaced database, and stops their calls. It does not
// wait for them.
func (s *Service) detach() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.live {
		r.lost.Store(true)
		r.cancel(errParked)
	}
}

// removeDetached waits until the runs of the replaced database are unloaded, and clears the queues.
func (s *Service) removeDetached() {
	s.mu.Lock()
	var list []*live
	for _, r := range s.live {
		if r.lost.Load() {
			list = append(list, r)
		}
	}
	for _, l := range s.queues {
		l.queue = nil
	}
	s.mu.Unlock()
	for _, r := range list {
		r.send(message{})
	}
	for _, r := range list {
		<-r.gone
	}
}
