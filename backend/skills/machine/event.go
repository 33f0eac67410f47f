// Package machine is the execution of a skill as a pure state machine. A run is its journal: State
// is the result of applying the events so far, and Next returns what has to be done. The same
// events always lead to the same state and the same next actions. The package has no side effects
// and uses no clock, randomness or database: times, random factors and the results of calls are
// part of the events.
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

// Event is one entry in a run's journal. Seq counts from 1 without gaps. StepPath contains the ids
// of the enclosing steps and of the step itself, separated by slashes. Iteration contains the
// indices of the enclosing maps, separated by dots; it is empty outside of maps.
type Event struct {
	Seq       int64
	Type      Type
	StepPath  string
	Iteration string
	Attempt   int // number of the call's attempt, from 1
	At        time.Time
	Data      json.RawMessage // one of the *Data types of this package
}

// Status is the status of a run or of a step.
type Status string

// The statuses.
const (
	Queued    Status = "queued"
	Running   Status = "running"
	Waiting   Status = "waiting"
	Completed Status = "completed"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
	Skipped   Status = "skipped"
	Unmocked  Status = "unmocked" // a step of a dry run for which there is no result
)

// Failure is the reason of a failure. Kind is one of package fault's.
type Failure struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	// ApprovalID is the approval that would permit a refused call.
	ApprovalID *uuid.UUID `json:"approvalId,omitempty"`
}

// Within returns f as the failure of where, which contains what failed.
func (f *Failure) Within(where string) *Failure {
	return &Failure{Kind: f.Kind, Message: where + ": " + f.Message, ApprovalID: f.ApprovalID}
}

// IntentData is recorded before a step has an effect.
type IntentData struct {
	ToolHash string          `json:"toolHash,omitempty"`
	Input    json.RawMessage `json:"input,omitempty"` // only of the first attempt; later ones reuse it
	Hash     string          `json:"inputHash,omitempty"`
	Key      string          `json:"idempotencyKey,omitempty"` // the same for all attempts
	Tier     string          `json:"tier,omitempty"`
	Count    *int            `json:"count,omitempty"` // number of items of a map
	Case     *int            `json:"case,omitempty"`  // index of the chosen arm of a branch; -1: else
}

// OutcomeData is the outcome of an attempt. Exactly one of Output, Error and Unmocked is set.
type OutcomeData struct {
	Output      json.RawMessage `json:"output,omitempty"`
	Error       *Failure        `json:"error,omitempty"`
	Unknown     bool            `json:"unknown,omitempty"` // the call may have taken effect anyway
	Unmocked    bool            `json:"unmocked,omitempty"`
	TookMs      int64           `json:"tookMs,omitempty"`
	Jitter      float64         `json:"jitter,omitempty"`      // of a failure: 0.5 to 1, drawn by the executor
	RetryAfter  int64           `json:"retryAfter,omitempty"`  // delay in ms that the callable requests
	Source      string          `json:"source,omitempty"`      // of a dry run: mock, recorded, real, schema
	FailedItems []int           `json:"failedItems,omitempty"` // of a map that continued after failures
	Preview     string          `json:"preview,omitempty"`     // the beginning of an invalid output
}

// ProgressData reports progress of a call, or of the run itself.
type ProgressData struct {
	Child   string `json:"child,omitempty"`   // the run that carries the step out
	Waiting string `json:"waiting,omitempty"` // why that run waits; empty: it does not
	// StoppedMs is set in an event without a step: how long Helix was not running. This does not
	// count toward the time limit of the run.
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

// SkippedData is the reason why a step was skipped.
type SkippedData struct {
	Reason string   `json:"reason"`
	Error  *Failure `json:"error,omitempty"`
}

// ReusedData is the result of a step in the run that this one continues.
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

// RequestData is a question to a person.
type RequestData struct {
	Reason  string          `json:"reason"` // one of the Wait constants
	Title   string          `json:"title,omitempty"`
	Message string          `json:"message,omitempty"`
	Show    json.RawMessage `json:"show,omitempty"`
	Form    json.RawMessage `json:"form,omitempty"`
	WaitMs  int64           `json:"waitMs,omitempty"`     // 0: no limit
	ID      string          `json:"approvalId,omitempty"` // of a pending permission
}

// The decisions of a person, or at a timeout.
const (
	Approve  = "approve"
	Decline  = "decline"
	Done     = "done"  // unknown outcome: the step took effect
	TryAgain = "retry" // unknown outcome or permission: (re)try
	GiveUp   = "fail"
	TimeOver = "timeout"
)

// AnswerData is the answer to a request.
type AnswerData struct {
	Decision string          `json:"decision"`
	Data     json.RawMessage `json:"data,omitempty"`
	Output   json.RawMessage `json:"output,omitempty"`
	Token    uuid.UUID       `json:"token,omitzero"` // token created together with the answer
}

// WaitingData is the reason why a run waits.
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

// Notice is a notification that a skill shows at its end.
type Notice struct {
	Title string `json:"title"`
	Body  string `json:"body"`
	Level string `json:"level"` // info, success, warning or error
}
