package skills

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/skills/machine"
)

// RunState is how a run stands, for what started it.
type RunState struct {
	Status     Status
	WaitReason string
	Output     json.RawMessage
	Error      *machine.Failure
	// Unknown says that nobody knows whether one of its effects happened: such a run must not
	// be tried again by itself.
	Unknown bool
	// NeedsApproval says that it failed because a right is missing.
	NeedsApproval bool
	Notice        *Notice // that it asks to show
	StartedAt     time.Time
	FinishedAt    time.Time
}

// StateOf tells how a run of the caller stands; fault.NotFound when it is not there.
func (s *Service) StateOf(ctx context.Context, run uuid.UUID) (RunState, error) {
	x, err := s.execution(ctx, run, false)
	if err != nil {
		return RunState{}, err
	}
	out := RunState{
		Status: x.Status, WaitReason: x.WaitReason, Error: x.Error, Notice: x.Notification,
		NeedsApproval: x.Status == machine.Failed && x.Error != nil && x.Error.Kind == string(fault.Denied),
	}
	if x.Status == machine.Completed {
		out.Output = x.FinalOutput
	}
	for _, r := range x.StepResults {
		out.Unknown = out.Unknown || r.Unknown
	}
	if x.StartedAt != nil {
		out.StartedAt = *x.StartedAt
	}
	if x.FinishedAt != nil {
		out.FinishedAt = *x.FinishedAt
	}
	return out, nil
}
