package tools

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// ExecuteParams run a stored tool by its id, or Code as a draft. With ToolID the code, schema,
// capabilities and limits come from the store, and Code, Draft and Metadata are refused.
type ExecuteParams struct {
	ToolID         *uuid.UUID      `json:"toolId,omitempty"`
	Version        string          `json:"version,omitempty"` // default: the current one
	Code           string          `json:"code,omitempty"`
	Language       Language        `json:"language,omitempty"` // of Code; default javascript
	Params         json.RawMessage `json:"params,omitempty"`   // default {}
	Metadata       *RunMetadata    `json:"metadata,omitempty"`
	Draft          *Draft          `json:"draft,omitempty"`
	IdempotencyKey string          `json:"idempotencyKey,omitempty"` // same key and call: run once, same answer
	TimeoutMs      int64           `json:"timeoutMs,omitempty"`      // lowers the time limit of this run
	Interactive    bool            `json:"interactive,omitempty"`    // wait up to 120 s for an approval instead of ending denied
}

// RunMetadata names a draft to its own code (skillName, skillVersion, skillAuthor).
type RunMetadata struct {
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
	Author  string `json:"author,omitempty"`
}

// Draft is the rest of an unsaved definition.
type Draft struct {
	Parameters     json.RawMessage `json:"parameters,omitempty"`
	Capabilities   []string        `json:"capabilities,omitempty"`
	SandboxProfile Profile         `json:"sandboxProfile,omitempty"`
	Limits         *Limits         `json:"limits,omitempty"`
}

// ExecuteResult is how a run ended. A tool that failed is a result with Success false, not an
// error of the call; calls that never started the tool are errors.
type ExecuteResult struct {
	Success           bool            `json:"success"`
	Output            json.RawMessage `json:"output"` // null when the tool returned nothing or failed
	Error             string          `json:"error,omitempty"`
	ErrorClass        string          `json:"errorClass,omitempty"` // thrown, timeout, cpu, memory, output, host_denied, canceled, …
	ErrorStack        string          `json:"errorStack,omitempty"` // positions in the tool's own text
	ErrorDetails      json.RawMessage `json:"errorDetails,omitempty"`
	ExecutionTimeMs   float64         `json:"executionTimeMs"`
	AuditLog          []AuditEntry    `json:"auditLog"`
	ExecutionID       uuid.UUID       `json:"executionId"`
	CPUTimeMs         float64         `json:"cpuTimeMs"`
	MemoryUsedMb      float64         `json:"memoryUsedMb"`
	Logs              []LogLine       `json:"logs"`
	PendingApprovalID *uuid.UUID      `json:"pendingApprovalId,omitempty"`
	Warnings          []string        `json:"warnings,omitempty"` // for example that the run could not be recorded
	Draft             bool            `json:"draft,omitempty"`    // unsaved code: nothing was recorded in usage
}

// AuditEntry is one entry of the audit log, short form.
type AuditEntry struct {
	Timestamp time.Time       `json:"timestamp"`
	Ts        int64           `json:"ts"`     // the same in milliseconds since 1970
	Action    string          `json:"action"` // start, permission_check, resource_access, network_call, log, complete or error
	Details   json.RawMessage `json:"details"`
}

// CancelParams name a run.
type CancelParams struct {
	ExecutionID uuid.UUID `json:"executionId"`
}

// CancelResult says whether such a run was there to cancel.
type CancelResult struct {
	Canceled bool `json:"canceled"`
}
