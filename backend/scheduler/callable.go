package scheduler

import (
	"context"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/storage"
)

// target starts callables of one kind.
type target struct {
	reg  *callable.Registry
	kind callable.Kind
}

// find returns the callable of a schedule. For a kind with only one callable, neither id
// nor name is necessary.
func (t target) find(ctx context.Context, what Target) (callable.Info, error) {
	id := ""
	if what.ID != nil {
		id = what.ID.String()
	}
	found, err := t.reg.Find(ctx, t.kind, id, what.Name)
	if err == nil && len(found) == 0 && id == "" {
		found, err = t.reg.Find(ctx, t.kind, "", "")
	}
	switch {
	case err != nil:
		return callable.Info{}, err
	case len(found) == 0 && id == "" && what.Name == "":
		return callable.Info{}, fault.Invalidf("Give the id or the name of the %s.", t.kind)
	case len(found) == 0 || found[0].Blocked == callable.ReasonForeign:
		return callable.Info{}, fault.NotFoundf("No such %s.", t.kind).WithDetails(callable.Refusal{Reason: callable.ReasonGone})
	case len(found) > 1:
		return callable.Info{}, fault.Conflictf("Several are named %q. Choose one.", what.Name)
	}
	return found[0], nil
}

// Check implements Starter.
func (t target) Check(ctx context.Context, what Target) (Target, error) {
	i, err := t.find(ctx, what)
	if err != nil {
		return what, err
	}
	what.Name = i.Name
	if id, err := uuid.Parse(i.ID); err == nil {
		what.ID = &id
	}
	switch i.Blocked {
	case "":
	case callable.ReasonDraft:
		return what, fault.Invalidf("The %s %q is a draft with errors. Fix them first.", t.kind, i.Name).WithDetails(callable.Refusal{Reason: i.Blocked})
	default:
		return what, fault.Conflictf("The %s %q is disabled. Enable it first.", t.kind, i.Name).WithDetails(callable.Refusal{Reason: i.Blocked})
	}
	if what.Version != "" && what.Version != i.Version {
		v, ok := t.reg.Provider(t.kind).(callable.Versioned)
		if !ok {
			return what, fault.Invalidf("A schedule always runs the current version of a %s. Leave out the version.", t.kind)
		}
		found, err := v.FindVersion(ctx, i.ID, what.Version)
		if err != nil {
			return what, err
		}
		if len(found) == 0 {
			return what, fault.NotFoundf("The %s %q has no version %s.", t.kind, i.Name, what.Version)
		}
		i = found[0]
	}
	if err := callable.CheckInput(ctx, i, what.Input); err != nil {
		return what, fault.In("input", err)
	}
	return what, nil
}

// Enqueue implements Starter. The id of the schedule's run is the key, so that one due time never
// creates two runs.
func (t target) Enqueue(tx *storage.Tx, occ Occurrence) (uuid.UUID, error) {
	i, err := t.find(tx.Context(), occ.Target)
	if err != nil {
		return uuid.Nil, err
	}
	return t.reg.Starter(t.kind).Enqueue(tx, i.Ref, callable.Request{
		Input: occ.Input, Version: occ.Target.Version, Key: "schedule:" + occ.RunID.String(), Timeout: occ.MaxRun,
		Budget: callable.Budget{MaxTurns: occ.Budget.MaxTurns, MaxCostMicros: occ.Budget.MaxCostMicros},
		Caller: callable.Caller{Kind: "schedule", ID: occ.ScheduleID.String(), Label: occ.Name, Run: occ.RunID},
	})
}

// Start implements Starter.
func (t target) Start(run uuid.UUID) { t.reg.Starter(t.kind).Start(run) }

// Cancel implements Starter.
func (t target) Cancel(ctx context.Context, run uuid.UUID, reason string) error {
	return t.reg.Starter(t.kind).Cancel(ctx, run, reason)
}

// State implements Starter.
func (t target) State(ctx context.Context, run uuid.UUID) (TargetState, error) {
	x, err := t.reg.Starter(t.kind).State(ctx, run)
	out := TargetState{
		Status: x.Status, WaitReason: x.WaitReason, Output: x.Output, Unknown: x.Unknown, NeedsApproval: x.NeedsApproval,
		StartedAt: x.StartedAt, FinishedAt: x.FinishedAt, Notice: (*Notice)(x.Notice), Turns: x.Usage.Turns, CostMicros: x.Usage.CostMicros,
	}
	if x.ErrorKind != "" {
		out.Error = &RunError{Kind: x.ErrorKind, Message: x.Error}
	}
	return out, err
}
