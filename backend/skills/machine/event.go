// Package machine is the course of a run of a composite skill as a pure state machine. A
// run is its journal: State is what the events so far add up to, Next says what is to be
// done now, and the same events always lead to the same state and the same next things.
// It does nothing itself: no clock, no randomness, no database. Times, random factors and
// the results of calls reach it inside events.
package machine

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Type of an Event.
type Type string

// The events of a run.
const (
	RunCreated        Type = "run.created"
	RunStarted        Type = "run.started"
	RunWaiting        Type = "run.waiting"
	RunResumed        Type = "run.resumed"
	RunFinished       Type = "run.finished"
	StepIntent        Type = "step.intent"
	StepOutcome       Type = "step.outcome"
	StepRetry         Type = "step.retry"
	StepSkipped       Type = "step.skipped"
	StepProgress      Type = "step.progress"
	StepReused        Type = "step.reused"
	MapItem           Type = "map.item"
	ApprovalRequested Type = "approval.requested"
	ApprovalAnswered  Type = "approval.answered"
)

// Event is one line of a run's journal. Seq counts from 1 without gaps. StepPath is the ids
// of the steps around and of the step itself, joined by /; Iteration the indices of the
// maps around it, joined by a dot, and empty outside of maps.
type Event struct {
	Seq       int64
	Type      Type
	StepPath  string
	Iteration string
	Attempt   int // of a call, from 1
	At        time.Time
	Data      json.RawMessage // one of the *Data types of this package
}

// Status of a run or of a step.
type Status string

// The states.
const (
	Queued    Status = "queued"
	Running   Status = "running"
	Waiting   Status = "waiting"
	Completed Status = "completed"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
	Skipped   Status = "skipped"
	Unmocked  Status = "unmocked" // a step of a dry run that nothing answers for
)

// Failure says why something failed. Kind is one of fault's.
type Failure struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	// ApprovalID is the question whose answer would lift a refusal.
	ApprovalID *uuid.UUID `json:"approvalId,omitempty"`
}

// Within returns f as the failure of what it happened in.
func (f *Failure) Within(where string) *Failure {
	return &Failure{Kind: f.Kind, Message: where + ": " + f.Message, ApprovalID: f.ApprovalID}
}

// IntentData is what is written before a step has an effect.
type IntentData struct {
	ToolHash string          `json:"toolHash,omitempty"`
	Input    json.RawMessage `json:"input,omitempty"` // of the first attempt; later ones use it again
	Hash     string          `json:"inputHash,omitempty"`
	Key      string          `json:"idempotencyKey,omitempty"` // the same in all attempts
	Tier     string          `json:"tier,omitempty"`
	Count    *int            `json:"count,omitempty"` // items of a map
	Case     *int            `json:"case,omitempty"`  // arm of a branch; -1: else
}

// OutcomeData is what came of an attempt. Exactly one of Output and Error is set, or
// Unmocked.
type OutcomeData struct {
	Output      json.RawMessage `json:"output,omitempty"`
	Error       *Failure        `json:"error,omitempty"`
	Unknown     bool            `json:"unknown,omitempty"` // the effect may have happened all the same
	Unmocked    bool            `json:"unmocked,omitempty"`
	TookMs      int64           `json:"tookMs,omitempty"`
	Jitter      float64         `json:"jitter,omitempty"`      // of a failure: 0.5 to 1, drawn by who ran the step
	RetryAfter  int64           `json:"retryAfter,omitempty"`  // ms that the callee asks for
	Source      string          `json:"source,omitempty"`      // of a dry run: mock, recorded, real, schema
	FailedItems []int           `json:"failedItems,omitempty"` // of a map that went on
	Preview     string          `json:"preview,omitempty"`     // the start of an output that could not be taken
}

// ProgressData tells about a call on its way, or about the run itself.
type ProgressData struct {
	Child   string `json:"child,omitempty"`   // the run that carries the step out
	Waiting string `json:"waiting,omitempty"` // why that run waits; empty: it goes on
	// StoppedMs, of an event without a step: how long Helix did not run. It does not count as
	// time of the run.
	StoppedMs int64 `json:"stoppedMs,omitempty"`
}

// RetryData announces another attempt.
type RetryData struct {
	DelayMs int64    `json:"delayMs"`
	Error   *Failure `json:"error"`
}

// Reasons for skipping a step.
const (
	ReasonCondition = "condition"
	ReasonBranch    = "branch"
	ReasonError     = "error"
)

// SkippedData says why a step was skipped.
type SkippedData struct {
	Reason string   `json:"reason"`
	Error  *Failure `json:"error,omitempty"`
}

// ReusedData is a step's result in the run that this one continues.
type ReusedData struct {
	Status Status          `json:"status"`
	Output json.RawMessage `json:"output,omitempty"`
	From   string          `json:"from"`
}

// ItemData ends an item of a map.
type ItemData struct {
	Index  int             `json:"index"`
	Output json.RawMessage `json:"output,omitempty"`
	Error  *Failure        `json:"error,omitempty"`
}

// Reasons for waiting.
const (
	WaitApproval   = "approval"
	WaitUnknown    = "unknown_outcome"
	WaitPermission = "permission"
	WaitTimer      = "timer"
)

// RequestData asks a person.
type RequestData struct {
	Reason  string          `json:"reason"` // one of the Wait constants
	Title   string          `json:"title,omitempty"`
	Message string          `json:"message,omitempty"`
	Show    json.RawMessage `json:"show,omitempty"`
	Form    json.RawMessage `json:"form,omitempty"`
	WaitMs  int64           `json:"waitMs,omitempty"`     // 0: as long as it takes
	ID      string          `json:"approvalId,omitempty"` // of a pending permission
}

// The decisions of a person, and of the clock.
const (
	Approve  = "approve"
	Decline  = "decline"
	Done     = "done"  // unknown outcome: it happened
	TryAgain = "retry" // unknown outcome or permission: do it (again)
	GiveUp   = "fail"
	TimeOver = "timeout"
)

// AnswerData is the answer to a request.
type AnswerData struct {
	Decision string          `json:"decision"`
	Data     json.RawMessage `json:"data,omitempty"`
	Output   json.RawMessage `json:"output,omitempty"`
	Token    uuid.UUID       `json:"token,omitzero"` // the created token that the answer came with
}

// WaitingData says why a run waits.
type WaitingData struct {
	Reason string `json:"reason"`
}

// FinishedData ends a run.
type FinishedData struct {
	Status Status          `json:"status"`
	Output json.RawMessage `json:"output,omitempty"`
	Error  *Failure        `json:"error,omitempty"`
	Notice *Notice         `json:"notice,omitempty"`
}

// Notice is what a skill asks to show at its end.
type Notice struct {
	Title string `json:"title"`
	Body  string `json:"body"`
	Level string `json:"level"` // info, success, warning or error
}
