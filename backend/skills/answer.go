package skills

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/jcs"
	"helix/backend/lifecycle"
	"helix/backend/permission"
	"helix/backend/skills/expr"
	"helix/backend/skills/machine"
	"helix/backend/storage"
)

// answer is an answer to a question of a run, from a person or from package permission.
type answer struct {
	ctx             context.Context // of the caller waiting for reply; limits the validation of the data
	path, iteration string
	approval        string // id of the answered approval; path and iteration are then empty
	data            machine.AnswerData
	reply           chan error
}

func errNotAsked() error {
	return fault.Conflictf("The run is no longer asking this.")
}

// Cancel cancels a run. The request is recorded before the run is stopped. For a run that has ended
// it returns its status.
func (s *Service) Cancel(ctx context.Context, p CancelParams) (CancelResult, error) {
	row, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) (*runRow, error) { return ownRun(tx, p.ExecutionID) })
	if err != nil || row.final() {
		if row != nil {
			return CancelResult{Status: row.status}, nil
		}
		return CancelResult{}, err
	}
	reason := lifecycle.Cut(p.Reason, 500)
	err = s.writes.Write(context.WithoutCancel(ctx), 1, func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE composite_skill_executions SET cancel_requested_at = coalesce(cancel_requested_at, ?), updated_at = ?
			WHERE id = ? AND status IN ('queued', 'running', 'waiting')`, s.now(), tx.Now, row.id)
		return err
	})
	if err != nil {
		return CancelResult{}, err
	}
	if row.reason == WaitQuarantined {
		why := &machine.Failure{Kind: string(fault.Canceled), Message: "the run was canceled"}
		return CancelResult{Status: machine.Cancelled}, s.endQuarantined(ctx, row.id, machine.Cancelled, why)
	}
	if s.leaveQueue(row.user, row.id) {
		s.serve(row.user)
	}
	status, err := s.abort(ctx, row.id, reason)
	return CancelResult{Status: status}, err
}

// abort makes a run end as canceled, waits for its end and returns its status.
func (s *Service) abort(ctx context.Context, id uuid.UUID, reason string) (Status, error) {
	for {
		loaded := false
		r, ended, err := s.open(ctx, id, func(r *live) {
			r.stop.Store(&reason)
			loaded = true
		})
		switch {
		case err != nil:
			return "", err
		case ended != nil:
			return ended.status, nil
		}
		r.stop.CompareAndSwap(nil, &reason)
		r.send(message{})
		select {
		case <-r.gone:
		case <-ctx.Done():
		}
		status, _, _ := r.watch()
		if final(status) || loaded || ctx.Err() != nil || r.quiet() {
			return status, nil
		}
		// It was being unloaded, and may not have seen the request.
	}
}

// Answer answers a question of a run, or of a nested run that it is waiting for.
func (s *Service) Answer(ctx context.Context, p AnswerParams) (Execution, error) {
	row, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) (*runRow, error) { return ownRun(tx, p.ExecutionID) })
	switch {
	case err != nil:
		return Execution{}, err
	case row.final() || row.status == machine.Queued:
		return Execution{}, errNotAsked()
	case row.reason == WaitQuarantined && p.StepPath == "":
		if err := s.release(ctx, row, p.Decision); err != nil {
			return Execution{}, err
		}
		return s.execution(ctx, row.id, true)
	}
	if len(p.Data) > machine.MaxOutput || len(p.Output) > machine.MaxOutput {
		return Execution{}, fault.Limitf("An answer can have at most 1 MiB.")
	}
	for _, raw := range []json.RawMessage{p.Data, p.Output} {
		if len(raw) > 0 && !json.Valid(raw) {
			return Execution{}, fault.Invalidf("data and output must be JSON.")
		}
		if err := jcs.CheckNumbers(raw); err != nil {
			return Execution{}, err
		}
	}
	if strings.Contains(p.StepPath, "/") {
		_, inner, err := s.loadExecution(ctx, row.id, false)
		if err != nil {
			return Execution{}, err
		}
		if to := answerInner(inner, p); to != nil {
			if _, err := s.Answer(ctx, *to); err != nil {
				return Execution{}, err
			}
			return s.execution(ctx, row.id, true)
		}
	}
	who, _ := identity.From(ctx)
	a := &answer{
		ctx: ctx, path: p.StepPath, iteration: p.Iteration, reply: make(chan error, 1),
		data: machine.AnswerData{Decision: p.Decision, Data: p.Data, Output: p.Output, Token: who.Token},
	}
	if err := s.deliver(ctx, row.id, a); err != nil {
		return Execution{}, err
	}
	return s.execution(ctx, row.id, true)
}

// deliver passes an answer to a run, which it loads if necessary, and waits until the answer is recorded.
func (s *Service) deliver(ctx context.Context, run uuid.UUID, a *answer) error {
	for {
		r, ended, err := s.open(ctx, run, nil)
		if err != nil {
			return err
		}
		if ended != nil {
			return errNotAsked()
		}
		if !r.send(message{answer: a}) {
			continue // it was unloaded at this moment
		}
		select {
		case err := <-a.reply:
			return err
		case <-r.gone:
			select {
			case err := <-a.reply:
				return err
			default:
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// answer applies an answer to its question.
func (r *live) answer(a *answer) error {
	waits := r.next().Waits
	for _, w := range waits {
		if a.approval != "" {
			if w.Request.ID != a.approval {
				continue
			}
		} else if only := a.path == "" && len(waits) == 1; !only && (w.Path != a.path || w.Iteration != a.iteration) {
			continue
		}
		if err := r.s.fits(a.ctx, w.Request, a.data); err != nil {
			return err
		}
		if !r.apply(machine.Answer(w, a.data), r.s.now()) {
			return errNotAsked()
		}
		return nil
	}
	return errNotAsked()
}

// fits checks that an answer is valid for the question.
func (s *Service) fits(ctx context.Context, q machine.RequestData, a machine.AnswerData) error {
	allowed := map[string][]string{
		machine.WaitApproval:   {machine.Approve, machine.Decline},
		machine.WaitUnknown:    {machine.Done, machine.TryAgain, machine.GiveUp},
		machine.WaitPermission: {machine.TryAgain, machine.GiveUp},
	}[q.Reason]
	found := false
	for _, d := range allowed {
		found = found || d == a.Decision
	}
	switch {
	case len(allowed) == 0:
		return fault.Conflictf("The run is waiting for a time, not for an answer.")
	case !found:
		return fault.Invalidf("decision is %q; it must be one of %v.", a.Decision, allowed)
	}
	if a.Decision != machine.Approve || len(q.Form) == 0 || string(q.Form) == "null" {
		return nil
	}
	data := a.Data
	if len(data) == 0 {
		data = json.RawMessage("{}") // an empty form
	}
	v, err := expr.Decode(data)
	if err != nil {
		return fault.Invalidf("data must be JSON.")
	}
	return checkValue(ctx, &s.schemas, q.Form, v, "data")
}

// approvalChanged handles the event that a pending approval was decided. It must not block.
func (s *Service) approvalChanged(user uuid.UUID, e permission.ApprovalChanged) {
	if s.o.Gate == nil || e.Status == "pending" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.background("resume runs that waited for a permission", func() {
		if err := s.permitted(s.life, user, e.ID); err != nil && s.life.Err() == nil {
			s.log.Error("resume runs that waited for a permission", "approval", e.ID, "error", err)
		}
	})
}

// permitted passes a decision on an approval to the runs that wait for it. If approval is the zero
// UUID, it checks all runs that wait for any approval.
func (s *Service) permitted(ctx context.Context, user, approval uuid.UUID) error {
	type asking struct {
		run uuid.UUID
		id  string
	}
	var list []asking
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		var err error
		list, err = storage.Collect(tx.Select(`SELECT DISTINCT e.execution_id, json_extract(e.payload, '$.approvalId') FROM composite_skill_executions x
			JOIN composite_skill_events e ON e.execution_id = x.id AND e.type = 'approval.requested'
			WHERE x.status IN ('running', 'waiting') AND x.user_id = ? AND x.device_id = ? AND json_extract(e.payload, '$.approvalId') IS NOT NULL
			AND (? OR json_extract(e.payload, '$.approvalId') = ?)`, user, s.db.Device().ID, approval == uuid.Nil, approval.String()), func(row storage.Row) (a asking, err error) {
			err = row.Scan(&a.run, &a.id)
			return a, err
		})
		return err
	})
	if err != nil {
		return err
	}
	ctx = identity.With(ctx, identity.Identity{User: user, Scopes: identity.Read | identity.Write, Client: identity.ClientProgram, Pipe: "skills"})
	for _, a := range list {
		id, perr := uuid.Parse(a.id)
		if perr != nil {
			continue
		}
		said, gerr := s.answered(ctx, id)
		if gerr != nil {
			err = errors.Join(err, gerr)
			continue
		}
		decision := machine.GiveUp
		switch said {
		case "open":
			continue
		case "approved":
			decision = machine.TryAgain
		}
		derr := s.deliver(ctx, a.run, &answer{ctx: ctx, approval: a.id, data: machine.AnswerData{Decision: decision}, reply: make(chan error, 1)})
		if derr != nil && !fault.Is(derr, fault.Conflict) {
			err = errors.Join(err, derr)
		}
	}
	return err
}
