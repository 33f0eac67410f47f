package skills

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/skills/machine"
	"helix/backend/storage"
)

// A run that was active when the process died, twice in a row and without progress in between, may
// be the cause. It is quarantined: it is not continued automatically, and is shown as waiting until
// a person resumes or cancels it. The quarantine is not part of its journal.

// WaitQuarantined is the reason for waiting of a quarantined run.
const WaitQuarantined = "quarantined"

// maxInterruptions is how often in a row the process may die during a run before the run is quarantined.
const maxInterruptions = 2

const quarantineMessage = "Helix stopped unexpectedly twice during this run, so it was not resumed automatically. Completed steps are kept. Resume it, or cancel it."

func errQuarantined() *fault.Error { return fault.Conflictf("%s", quarantineMessage) }

// quarantineWait returns the question of a quarantined run.
func (r *runRow) quarantineWait() Wait {
	w := Wait{Request: machine.RequestData{Reason: WaitQuarantined, Title: "Resume this run?", Message: quarantineMessage}, AskedAt: r.created}
	if r.quarantined != nil {
		w.AskedAt = *r.quarantined
	}
	return w
}

// countInterruptions records, before anything is resumed, which runs were active when the process
// died, and quarantines those that have reached the limit. It does this once, because runs loaded
// later have not been interrupted.
func (s *Service) countInterruptions(ctx context.Context) error {
	if s.counted.Load() {
		return nil
	}
	type run struct {
		parent uuid.UUID
		atWork bool
		held   bool
	}
	held := 0
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		held = 0
		runs := map[uuid.UUID]run{}
		err := tx.Select(`SELECT x.id, x.parent_execution_id, coalesce(i.stopped = 0, x.status = 'running'), i.quarantined_at IS NOT NULL
			FROM composite_skill_executions x LEFT JOIN composite_skill_interruptions i ON i.execution_id = x.id
			WHERE x.status IN ('queued', 'running', 'waiting') AND x.mode = 'live' AND x.device_id = ?`, s.db.Device().ID).Each(func(row storage.Row) error {
			var id uuid.UUID
			var parent uuid.NullUUID
			var r run
			if err := row.Scan(&id, &parent, &r.atWork, &r.held); err != nil {
				return err
			}
			r.parent = parent.UUID
			runs[id] = r
			return nil
		})
		if err != nil {
			return err
		}
		s.mu.Lock()
		for id := range s.live { // started or answered in this process
			delete(runs, id)
		}
		s.mu.Unlock()
		suspects := map[uuid.UUID]bool{}
		for id, r := range runs {
			if !r.atWork {
				continue
			}
			var chain []uuid.UUID
			held := false
			for at, ok := id, true; ok; _, ok = runs[at] { // a nested run is continued by its parent
				chain = append(chain, at)
				held = held || runs[at].held
				at = runs[at].parent
			}
			for _, x := range chain {
				suspects[x] = suspects[x] || !held
			}
		}
		if _, err := tx.Exec(`DELETE FROM composite_skill_interruptions WHERE stopped = 1`); err != nil {
			return err
		}
		for id, suspect := range suspects {
			if !suspect {
				continue
			}
			var times int
			err := tx.QueryRow(`INSERT INTO composite_skill_interruptions (execution_id, times) VALUES (?, 1)
				ON CONFLICT (execution_id) DO UPDATE SET times = times + 1 RETURNING times`, id).Scan(&times)
			if err != nil {
				return err
			}
			if _, nested := runs[runs[id].parent]; nested || times < maxInterruptions {
				continue
			}
			held++
			if err := s.quarantine(tx, id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.counted.Store(true)
	if held > 0 {
		s.log.Warn("runs are not continued because the process ended unexpectedly with them twice; a person can resume or cancel them", "runs", held)
	}
	return nil
}

func (s *Service) quarantine(tx *storage.Tx, id uuid.UUID) error {
	_, err := tx.Exec(`UPDATE composite_skill_interruptions SET quarantined_at = ? WHERE execution_id = ?`, tx.Now, id)
	if err == nil {
		_, err = tx.Exec(`UPDATE composite_skill_executions SET status = 'waiting', wait_reason = NULL, wake_at = NULL, deadline_at = NULL, updated_at = ?
			WHERE id = ?`, tx.Now, id)
	}
	if err != nil {
		return err
	}
	row, err := anyRun(tx, id)
	if err != nil {
		return err
	}
	return s.ask(tx, row, machine.Wait{Request: row.quarantineWait().Request})
}

// noteStop records that the running runs were interrupted by an orderly shutdown, so that the next
// start does not count it.
func (s *Service) noteStop() {
	if !s.counted.Load() || !s.leftRunning.Load() {
		return
	}
	err := s.db.Write(context.Background(), func(tx *storage.Tx) error {
		_, err := tx.Exec(`INSERT INTO composite_skill_interruptions (execution_id, times, stopped)
			SELECT id, 0, 1 FROM composite_skill_executions WHERE status = 'running' AND mode = 'live' AND device_id = ?
			ON CONFLICT (execution_id) DO UPDATE SET times = 0, stopped = 1 WHERE quarantined_at IS NULL`, s.db.Device().ID)
		if err == nil {
			_, err = tx.Exec(`UPDATE composite_skill_interruptions SET times = 0, stopped = 1 WHERE quarantined_at IS NULL`)
		}
		return err
	})
	if err != nil { // the next start counts one interruption too many, which alone does not quarantine a run
		s.log.Warn("the shutdown of running runs is not recorded", "error", err)
	}
}

// noteAtWork records that a waiting run is loaded. If the process dies, this counts as an
// interruption of the run.
func noteAtWork(tx *storage.Tx, id uuid.UUID) error {
	_, err := tx.Exec(`INSERT INTO composite_skill_interruptions (execution_id, times) VALUES (?, 0) ON CONFLICT DO NOTHING`, id)
	return err
}

// clearOnUnload deletes that record when the run is unloaded while it still waits.
func (r *live) clearOnUnload() {
	if !r.suspect {
		return
	}
	err := r.s.writes.Write(context.WithoutCancel(r.ctx), 1, func(tx *storage.Tx) error { return clearInterruptions(tx, r.row.id) })
	if err != nil {
		r.s.log.Warn("that a run rests is not on record", "run", r.row.id, "error", err)
	}
}

// progressed reports whether events contain progress of the run, so that it is no longer suspect.
// Events that every start repeats are not progress.
func progressed(events []machine.Event) bool {
	return slices.ContainsFunc(events, func(e machine.Event) bool {
		switch e.Type {
		case machine.RunCreated, machine.RunStarted, machine.RunWaiting, machine.RunResumed, machine.StepProgress:
			return false
		}
		return true
	})
}

// clearInterruptions deletes the interruptions of a run and of its ancestors.
func clearInterruptions(tx *storage.Tx, id uuid.UUID) error {
	_, err := tx.Exec(`WITH RECURSIVE up (id) AS (VALUES (?1) UNION
		SELECT x.parent_execution_id FROM composite_skill_executions x JOIN up ON x.id = up.id WHERE x.parent_execution_id IS NOT NULL)
		DELETE FROM composite_skill_interruptions WHERE execution_id IN (SELECT id FROM up) AND quarantined_at IS NULL`, id)
	return err
}

// release carries out a person's decision about a quarantined run.
func (s *Service) release(ctx context.Context, row *runRow, decision string) error {
	switch decision {
	case machine.TryAgain:
		who, _ := identity.From(ctx)
		err := s.writes.Write(context.WithoutCancel(ctx), 1, func(tx *storage.Tx) error {
			// If the process dies with it once more, it is quarantined again.
			res, err := tx.Exec(`UPDATE composite_skill_interruptions SET quarantined_at = NULL, times = ? WHERE execution_id = ? AND quarantined_at IS NOT NULL`,
				maxInterruptions-1, row.id)
			if err := oneRow(res, err); err != nil {
				return errNotAsked()
			}
			_, err = tx.Exec(`UPDATE composite_skill_executions SET status = 'running', updated_at = ? WHERE id = ? AND status = 'waiting'`, tx.Now, row.id)
			if err == nil && s.o.Questions != nil {
				err = s.o.Questions.CloseTx(tx, row.id, quarantineRef, decision, who.Token)
			}
			return err
		})
		if err == nil {
			_, _, err = s.open(ctx, row.id, nil)
		}
		return err
	case machine.GiveUp:
		return s.endQuarantined(ctx, row.id, machine.Failed, &machine.Failure{Kind: string(fault.Internal), Message: "Helix stopped unexpectedly twice during this run, and it was not resumed"})
	}
	return fault.Invalidf("decision is %q; it must be %q or %q.", decision, machine.TryAgain, machine.GiveUp)
}

// endQuarantined ends a quarantined run and its nested runs without evaluating their expressions.
func (s *Service) endQuarantined(ctx context.Context, id uuid.UUID, status Status, why *machine.Failure) error {
	var ids []uuid.UUID
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		var err error
		ids, err = storage.Collect(tx.Select(`WITH RECURSIVE down (id) AS (VALUES (?1) UNION
			SELECT x.id FROM composite_skill_executions x JOIN down ON x.parent_execution_id = down.id)
			SELECT x.id FROM composite_skill_executions x JOIN down ON x.id = down.id WHERE x.status IN ('queued', 'running', 'waiting')
			ORDER BY x.id = ?1`, id), storage.RowTo[uuid.UUID])
		return err
	})
	for _, x := range ids {
		if x != id {
			err = errors.Join(err, s.endAsIs(ctx, x, machine.Cancelled, &machine.Failure{Kind: string(fault.Canceled), Message: parentEnded}))
		} else {
			err = errors.Join(err, s.endAsIs(ctx, x, status, why))
		}
	}
	return err
}

// endAsIs ends a run in its present state.
func (s *Service) endAsIs(ctx context.Context, id uuid.UUID, status Status, why *machine.Failure) error {
	door := &s.loadLocks[id[len(id)-1]%loadLockCount]
	door.Lock()
	defer door.Unlock()
	if s.inMemory(id) != nil { // an answer has loaded it
		s.abortLater(id, why.Message)
		return nil
	}
	err := fault.Catch(func() error {
		row, prog, events, err := s.stored(ctx, id)
		if err != nil || row.final() {
			return err
		}
		var made created
		if len(events) > 0 {
			if err := json.Unmarshal(events[0].Data, &made); err != nil {
				return err
			}
		}
		r, err := s.newLive(*row, prog, made, events)
		if err != nil {
			return err
		}
		defer r.cancel(errParked)
		if !r.apply(machine.End(status, why), s.now()) || !r.commit() {
			return errUnwritten()
		}
		return nil
	})
	if err != nil && !fault.Is(err, fault.Unavailable) { // its journal is unusable
		return s.endRow(ctx, id, status, why)
	}
	return err
}

// endRow ends a run whose journal is unusable.
func (s *Service) endRow(ctx context.Context, id uuid.UUID, status Status, why *machine.Failure) error {
	e := machine.End(status, why)
	e.At = s.now()
	var user uuid.UUID
	err := s.writes.Write(context.WithoutCancel(ctx), 1, func(tx *storage.Tx) error {
		row, err := anyRun(tx, id)
		if err != nil || row.final() {
			return err
		}
		res, err := tx.Exec(`UPDATE composite_skill_executions SET status = ?, wait_reason = NULL, wake_at = NULL, deadline_at = NULL, error_kind = ?,
			error_message = ?, finished_at = ?, updated_at = ? WHERE id = ? AND status IN ('queued', 'running', 'waiting')`,
			string(status), why.Kind, why.Message, e.At, tx.Now, id)
		if err := oneRow(res, err); err != nil {
			return err
		}
		if err := clearInterruptions(tx, id); err != nil {
			return err
		}
		user = row.user
		if err := tx.QueryRow(`SELECT coalesce(max(seq), 0) + 1 FROM composite_skill_events WHERE execution_id = ?`, id).Scan(&e.Seq); err != nil {
			return err
		}
		if err := s.updateQuestions(tx, row, nil, nil, true); err != nil {
			return err
		}
		return insertEvents(tx, id, []machine.Event{e})
	})
	if err == nil && user != uuid.Nil {
		s.notifyWatchers(id)
		bus.Publish(s.db.Bus(), user, wireEvent(id, e))
	}
	return err
}
