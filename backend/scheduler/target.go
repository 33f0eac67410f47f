package scheduler

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"helix/backend/storage"
)

// Starter is a kind of target: it starts what schedules refer to. Every kind of callable has one;
// Register adds others.
type Starter interface {
	// Check returns an error for a target that cannot be started because it is missing, belongs to another
	// user, or its input does not match its schema. Otherwise it returns the target with id and name set.
	Check(ctx context.Context, t Target) (Target, error)
	// Enqueue creates the run within the claim's transaction, so that both are committed together.
	// The run does not start yet. The transaction's context holds the user.
	Enqueue(tx *storage.Tx, occ Occurrence) (run uuid.UUID, err error)
	// Start starts a run that was enqueued and committed. It must return immediately and may be
	// called again after a restart.
	Start(run uuid.UUID)
	// State returns the state of a run, or a fault.NotFound error.
	State(ctx context.Context, run uuid.UUID) (TargetState, error)
	// Cancel requests the end of a run and returns immediately.
	Cancel(ctx context.Context, run uuid.UUID, reason string) error
}

// Occurrence is one claimed due time.
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

// TargetState is the state of a target's run.
type TargetState struct {
	Status     string // queued, running, waiting, success, failed or cancelled
	WaitReason string
	Output     json.RawMessage
	Error      *RunError
	// Unknown means that an effect may have happened. Such a run is not retried.
	Unknown bool
	// NeedsApproval means that the run failed because a permission is missing.
	NeedsApproval bool
	// Notice is the notification that the target requests; nil: none.
	Notice     *Notice
	Turns      int   // model calls
	CostMicros int64 // their cost
	StartedAt  time.Time
	FinishedAt time.Time
}

// Notice is a notification that a target requests.
type Notice struct {
	Title, Body, Level string
}
