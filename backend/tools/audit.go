package tools

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

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
