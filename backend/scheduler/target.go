package scheduler

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"helix/backend/storage"
)

// Starter is a kind of target: it starts what schedules name. Every callable is one; Register
// adds others.
type Starter interface {
	// Check refuses a target that cannot be started: gone, another user's, or an input that
	// does not match its schema. It returns the target with id and name filled in.
	Check(ctx context.Context, t Target) (Target, error)
	// Enqueue makes the run inside the claim's transaction, so that both come into being or
	// neither. The run does not begin yet. The transaction's context holds the user.
	Enqueue(tx *storage.Tx, occ Occurrence) (run uuid.UUID, err error)
	// Start begins a run that was enqueued and committed. It returns at once and may be
	// called again after a restart.
	Start(run uuid.UUID)
	// State tells how a run stands; fault.NotFound when it is not there.
	State(ctx context.Context, run uuid.UUID) (TargetState, error)
	// Cancel asks a run to end and returns at once.
	Cancel(ctx context.Context, run uuid.UUID, reason string) error
}

// Occurrence is one due time that was claimed.
type Occurrence struct {
	RunID      uuid.UUID // of the schedule's run
	ScheduleID uuid.UUID
	User       uuid.UUID
	Name       string // of the schedule
	Target     Target
	Input      json.RawMessage
	DueAt      time.Time
	Trigger    string
	Attempt    int
	MaxRun     time.Duration
	Budget     Budget
}

// TargetState is how a target's run stands.
type TargetState struct {
	Status     string // queued, running, waiting, success, failed or cancelled
	WaitReason string
	Output     json.RawMessage
	Error      *RunError
	// Unknown says that an effect may have happened: such a run is not tried again.
	Unknown bool
	// NeedsApproval says that it failed because a right is missing.
	NeedsApproval bool
	// Notice is what the target asks to show, nil for nothing.
	Notice     *Notice
	Turns      int   // calls of a model
	CostMicros int64 // of them
	StartedAt  time.Time
	FinishedAt time.Time
}

// Notice is what a target asks to show.
type Notice struct {
	Title, Body, Level string
}
