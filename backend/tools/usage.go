package tools

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// UsageParams choose from the finished runs, newest first.
type UsageParams struct {
	ToolID *uuid.UUID `json:"toolId,omitempty"`
	Status RunStatus  `json:"status,omitempty"`
	Since  *time.Time `json:"since,omitempty"`
	Limit  int        `json:"limit,omitempty"`  // 1..100, default 50
	Before *time.Time `json:"before,omitempty"` // timestamp of the last one seen
}

// RunStatus is how a run ended.
type RunStatus string

// The ends of a run. Time and processor limits are Timeout; everything else that is not
// Success is Failure, with its class in errorClass.
const (
	StatusSuccess RunStatus = "success"
	StatusFailure RunStatus = "failure"
	StatusTimeout RunStatus = "timeout"
)

// Enum lists the values for the generated client.
func (RunStatus) Enum() []string { return []string{"success", "failure", "timeout"} }

// UsageEntry is one finished run. Parameters and output above 64 KiB are cut to
// {"truncated":true,"bytes":n,"head":…}; secrets in them are masked.
type UsageEntry struct {
	ID              uuid.UUID       `json:"id"` // the executionId of the run
	ToolID          uuid.UUID       `json:"toolId"`
	ToolName        string          `json:"toolName"`
	Params          json.RawMessage `json:"params"`
	Output          json.RawMessage `json:"output"`
	Status          RunStatus       `json:"status"`
	Error           string          `json:"error,omitempty"`
	ErrorClass      string          `json:"errorClass,omitempty"`
	ExecutionTimeMs float64         `json:"executionTimeMs"`
	CPUTimeMs       float64         `json:"cpuTimeMs"`
	MemoryUsedMb    float64         `json:"memoryUsedMb"`
	HostCalls       int             `json:"hostCalls"`
	Version         string          `json:"version"`
	DefinitionHash  string          `json:"definitionHash"`
	Caller          string          `json:"caller"` // user, agent, skill, schedule, voice, tool or cli
	ParentID        *uuid.UUID      `json:"parentId,omitempty"`
	Timestamp       time.Time       `json:"timestamp"`
}

// UsageSummary covers all runs that match, not only the page.
type UsageSummary struct {
	Runs    int     `json:"runs"`
	Success int     `json:"success"`
	Failure int     `json:"failure"`
	Timeout int     `json:"timeout"`
	P50Ms   float64 `json:"p50Ms"` // over the newest 1,000 of them
	P95Ms   float64 `json:"p95Ms"`
}

// UsageResult is one page of runs.
type UsageResult struct {
	Entries []UsageEntry `json:"entries"`
	Summary UsageSummary `json:"summary"`
}

// AuditParams choose entries of the audit log about tools.
type AuditParams struct {
	ToolID      *uuid.UUID `json:"toolId,omitempty"`
	ExecutionID *uuid.UUID `json:"executionId,omitempty"`
	Limit       int        `json:"limit,omitempty"`     // 1..100, default 50
	BeforeSeq   int64      `json:"beforeSeq,omitempty"` // seq of the last one seen
}

// ToolAuditEntry is an entry of the audit log with its place in the chain.
type ToolAuditEntry struct {
	Seq       int64           `json:"seq"`
	Timestamp time.Time       `json:"timestamp"`
	Ts        int64           `json:"ts"`
	Action    string          `json:"action"`
	Outcome   string          `json:"outcome"`
	ToolID    string          `json:"toolId"`
	RunID     *uuid.UUID      `json:"runId,omitempty"`
	Details   json.RawMessage `json:"details"`
	Hash      string          `json:"hash"`
	Signed    bool            `json:"signed"`
}

// AuditResult is one page; Verified says whether the chain is intact up to Head.
type AuditResult struct {
	Entries  []ToolAuditEntry `json:"entries"`
	Verified bool             `json:"verified"`
	Head     int64            `json:"head"`
}
