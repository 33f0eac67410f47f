package agent

import (
	"encoding/json"

	"github.com/google/uuid"

	"helix/backend/providers"
)

// The notifications. Seq is the sequence number in the log of the session. A client that missed some
// calls chat.get and chat.messages.

// SessionEvent is the content of chat.session_created and chat.session_changed.
type SessionEvent struct {
	SessionID uuid.UUID `json:"sessionId"`
	Session   *Session  `json:"session,omitempty"` // nil: deleted
}

// SessionCreated is chat.session_created.
type SessionCreated SessionEvent

// SessionChanged is chat.session_changed.
type SessionChanged SessionEvent

// TurnStarted is chat.turn_started.
type TurnStarted struct {
	SessionID uuid.UUID `json:"sessionId"`
	TurnID    uuid.UUID `json:"turnId"`
	Seq       int64     `json:"seq"`
}

// AssistantDelta is chat.assistant_delta: text to insert at a byte offset of the attempt's answer.
type AssistantDelta struct {
	SessionID uuid.UUID `json:"sessionId"`
	TurnID    uuid.UUID `json:"turnId"`
	Attempt   int       `json:"attempt"`
	Offset    int       `json:"offset"`
	Delta     string    `json:"delta"`
}

// ReasoningDelta is chat.reasoning_delta.
type ReasoningDelta AssistantDelta

// AttemptDiscarded is chat.attempt_discarded: discard the text of the attempt.
type AttemptDiscarded struct {
	SessionID uuid.UUID `json:"sessionId"`
	TurnID    uuid.UUID `json:"turnId"`
	Attempt   int       `json:"attempt"`
}

// TurnProgress is chat.turn_progress.
type TurnProgress struct {
	SessionID uuid.UUID `json:"sessionId"`
	TurnID    uuid.UUID `json:"turnId"`
	Kind      string    `json:"kind"`    // provider_call, tool_execution, rolling_summary, tool_heartbeat or waiting_rate
	Message   string    `json:"message"` // the tool, or the service whose rate limit is waited for; "" once that wait is over
	Turn      int       `json:"turn"`    // the step, from 1
	MaxTurns  int       `json:"maxTurns"`
}

// ToolStarted is chat.tool_started.
type ToolStarted struct {
	SessionID uuid.UUID       `json:"sessionId"`
	TurnID    uuid.UUID       `json:"turnId"`
	Seq       int64           `json:"seq"`
	CallID    string          `json:"callId"`
	Tool      string          `json:"tool"`
	Args      json.RawMessage `json:"args"`
}

// ToolFinished is chat.tool_finished.
type ToolFinished struct {
	SessionID uuid.UUID `json:"sessionId"`
	TurnID    uuid.UUID `json:"turnId"`
	Seq       int64     `json:"seq"`
	CallID    string    `json:"callId"`
	Tool      string    `json:"tool"`
	Status    string    `json:"status"`
	TookMs    int64     `json:"tookMs"`
}

// MediaAttachment is chat.media_attachment: a file shown by the model.
type MediaAttachment struct {
	SessionID uuid.UUID `json:"sessionId"`
	TurnID    uuid.UUID `json:"turnId"`
	Seq       int64     `json:"seq"`
	Blob      string    `json:"blob"`
	Name      string    `json:"name"`
	Mime      string    `json:"mime"`
	Bytes     int64     `json:"bytes"`
	Text      string    `json:"text,omitempty"`
}

// NoticeEvent is chat.notice: a sentence for people, or a question that a turn waits for.
type NoticeEvent struct {
	SessionID  uuid.UUID  `json:"sessionId"`
	TurnID     uuid.UUID  `json:"turnId"`
	Seq        int64      `json:"seq"`
	Kind       string     `json:"kind"` // approval, loop, budget, steps, summary or unusable
	Text       string     `json:"text"`
	ApprovalID *uuid.UUID `json:"approvalId,omitempty"`
	CallID     string     `json:"callId,omitempty"`
}

// BudgetEvent is chat.budget.
type BudgetEvent struct {
	SessionID   uuid.UUID        `json:"sessionId"`
	Scope       string           `json:"scope"`
	SpentMicros providers.Micros `json:"spentMicros"`
	LimitMicros providers.Micros `json:"limitMicros"`
	Level       string           `json:"level"` // warn or stop
}

// TurnEvent is the content of chat.turn_completed, chat.turn_cancelled and chat.turn_failed.
type TurnEvent struct {
	SessionID uuid.UUID `json:"sessionId"`
	Turn      Turn      `json:"turn"`
	Response  string    `json:"response,omitempty"` // the text of the final answer
}

// TurnCompleted is chat.turn_completed.
type TurnCompleted TurnEvent

// TurnCanceled is chat.turn_cancelled.
type TurnCanceled TurnEvent

// TurnFailed is chat.turn_failed.
type TurnFailed TurnEvent

// Changed is agent.changed: budgets, personas or skill documents changed.
type Changed struct {
	What string `json:"what"`
}
