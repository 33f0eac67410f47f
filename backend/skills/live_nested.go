package skills

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/skills/definition"
	"helix/backend/skills/machine"
	"helix/backend/storage"
)

// childID returns the id of the run that carries out an attempt of a nested skill. It is derived,
// so that the run is found again after a restart.
func childID(parent uuid.UUID, c *machine.Call) uuid.UUID {
	return uuid.NewSHA1(parent, []byte(c.Key+"#"+strconv.Itoa(c.Attempt)))
}

// nested carries out a skill step as a run of its own and follows it. While that run waits, the
// step reports so, and no time counts. A nil event means that the run is being unloaded.
func (r *live) nested(ctx context.Context, c *machine.Call) (out *machine.Event, known bool) {
	id := childID(r.row.id, c)
	begun := time.Now()
	child, ended, err := r.child(ctx, c, id)
	reported, first := "", true
	for {
		if err != nil && r.quiet() {
			return nil, false
		}
		switch {
		case err != nil && ctx.Err() == nil:
			return end(machine.Outcome(c, r.s.failed(err))), true
		case err == nil && child == nil:
			d := r.s.childOutcome(ended)
			d.TookMs = time.Since(begun).Milliseconds()
			return end(machine.Outcome(c, d)), ended.status != machine.Cancelled
		}
		var news, gone <-chan struct{}
		if child != nil {
			status, reason, changed := child.watch()
			news, gone = changed, child.gone
			waits := ""
			if status == machine.Waiting {
				waits = reason
			}
			if first || waits != reported {
				e := machine.Progress(c, machine.ProgressData{Child: id.String(), Waiting: waits})
				r.send(message{key: callKey(c), progress: &e})
				reported, first = waits, false
			}
		}
		select {
		case <-news:
			continue
		case <-gone:
		case <-r.s.quiet:
			return nil, false // it is followed again after the next start
		case <-ctx.Done():
			if cause := context.Cause(ctx); errors.Is(cause, errShutdown) || errors.Is(cause, errParked) || cause == nil {
				return nil, false
			}
			if child != nil {
				if _, err := r.s.abort(r.s.life, id, parentEnded); err != nil && !r.quiet() {
					r.s.log.Error("cancel a nested run", "run", id, "error", err)
				}
			}
			return end(machine.Outcome(c, machine.OutcomeData{Error: &machine.Failure{Kind: string(fault.Canceled), Message: "it was canceled"}})), false
		}
		child, ended, err = r.s.open(ctx, id, nil)
	}
}

// childOutcome returns the outcome of a step from its nested run, which has ended.
func (s *Service) childOutcome(row *runRow) machine.OutcomeData {
	switch row.status {
	case machine.Completed:
		return s.output(row.output)
	case machine.Cancelled:
		return s.failed(fault.New(fault.Canceled, "skill %q: the run was canceled", row.name))
	}
	why := row.err
	if why == nil {
		why = &machine.Failure{Kind: string(fault.Internal), Message: "the run failed"}
	}
	d := machine.OutcomeData{Error: why.Within("skill " + strconv.Quote(row.name)), Jitter: s.jitter()}
	err := s.db.Read(context.Background(), func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM composite_skill_steps WHERE execution_id = ? AND outcome = 'unknown')`, row.id).Scan(&d.Unknown)
	})
	if err != nil {
		s.log.Error("read the steps of a nested run", "run", row.id, "error", err)
	}
	return d
}

// child finds or creates the run of a nested step. For a run that has ended it returns the row.
func (r *live) child(ctx context.Context, c *machine.Call, id uuid.UUID) (*live, *runRow, error) {
	found, ended, err := r.s.open(ctx, id, nil)
	if !fault.Is(err, fault.NotFound) {
		return found, ended, err
	}
	t := r.made.Tools[c.Step.StepID]
	switch {
	case r.row.depth+2 > definition.MaxCalls:
		return nil, nil, fault.Limitf("skills call one another more than %d levels deep", definition.MaxCalls)
	case slices.Contains(r.made.Above, t.ID):
		return nil, nil, fault.Invalidf("the skill %q calls itself", t.Name)
	}
	key, err := uuid.Parse(t.ID)
	if err != nil {
		return nil, nil, fault.NotFoundf("tool %q no longer exists", t.Name)
	}
	var skill *row
	err = r.s.db.Read(ctx, func(tx *storage.Tx) error {
		skill, err = visibleSkill(tx, key)
		if err != nil || skill.hash == t.Hash {
			return err
		}
		return skill.atHash(tx, t.Hash)
	})
	switch {
	case fault.Is(err, fault.NotFound):
		return nil, nil, fault.NotFoundf("tool %q no longer exists, or has changed since the run started", t.Name)
	case err != nil:
		return nil, nil, err
	case !skill.enabled:
		return nil, nil, fault.Conflictf("the skill %q is disabled", t.Name)
	}
	r.mu.Lock()
	left := r.deadline().Sub(r.s.now())
	r.mu.Unlock()
	n, err := r.s.newRun(ctx, skill, beginning{
		id: id, user: r.row.user, input: c.Input, trigger: "skill", attended: r.made.Attended, above: r.made.Above, authority: r.authority, budget: r.budget,
		limit: min(left, c.Step.Timeout()), parent: &r.row.id, path: c.Path, depth: r.row.depth + 1,
	})
	if err != nil {
		return nil, nil, err
	}
	return r.s.launch(n)
}

// parentEnded is why a nested run is canceled.
const parentEnded = "the run that it belongs to ended"

// abortLater cancels a run, if it exists, without waiting for it.
func (s *Service) abortLater(id uuid.UUID, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.background("cancel a run", func() {
		if _, err := s.abort(s.life, id, reason); err != nil && !fault.Is(err, fault.NotFound) && !s.isClosed() {
			s.log.Error("cancel a run", "run", id, "error", err)
		}
	})
}

// wakeParent loads the parent of a run, because the run, which carries out one of its steps, has changed.
func (s *Service) wakeParent(id uuid.UUID) {
	s.mu.Lock()
	there := s.live[id] != nil || s.closed
	s.mu.Unlock()
	if there {
		return
	}
	s.background("wake a run whose nested run has changed", func() {
		if _, _, err := s.open(s.life, id, nil); err != nil && !fault.Is(err, fault.NotFound) && s.life.Err() == nil {
			s.log.Error("wake a run whose nested run has changed", "run", id, "error", err)
		}
	})
}
