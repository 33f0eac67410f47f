package audit

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// WireEntry is an entry in the auditLog of a run's result.
type WireEntry struct {
	Timestamp time.Time       `json:"timestamp"`
	TS        int64           `json:"ts"` // milliseconds since 1970
	Action    string          `json:"action"`
	Details   json.RawMessage `json:"details"` // null when there are none, or they were erased
}

// WireActor is who did it.
type WireActor struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
}

// WireSubject is what it was done to, or what did it on the user's behalf.
type WireSubject struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	Name string `json:"name,omitempty"` // as it is called now, when it still exists
}

// LogEntry is an entry as Activity shows it.
type LogEntry struct {
	Seq       int64           `json:"seq"`
	ID        uuid.UUID       `json:"id"`
	Timestamp time.Time       `json:"timestamp"`
	TS        int64           `json:"ts"` // milliseconds since 1970
	Action    string          `json:"action"`
	Actor     WireActor       `json:"actor"`
	Subject   WireSubject     `json:"subject"`
	Outcome   string          `json:"outcome"`
	RunID     *uuid.UUID      `json:"runId,omitempty"`
	Details   json.RawMessage `json:"details"` // null when there are none, or they were erased
	Hash      string          `json:"hash"`    // hexadecimal
	Signed    bool            `json:"signed"`  // inside a signed segment
}
