package tools

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// AuditParams filters the entries of the audit log about tools.
type AuditParams struct {
	ToolID      *uuid.UUID `json:"toolId,omitempty"`
	ExecutionID *uuid.UUID `json:"executionId,omitempty"`
	Limit       int        `json:"limit,omitempty"`     // 1..100, default 50
	BeforeSeq   int64      `json:"beforeSeq,omitempty"` // seq of the last one seen
}

// ToolAuditEntry is an entry of the audit log with its position in the hash chain.
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

// AuditResult is one page of entries. Verified means that the chain is intact from the oldest entry
// on the page up to Head.
type AuditResult struct {
	Entries  []ToolAuditEntry `json:"entries"`
	Verified bool             `json:"verified"`
	Head     int64            `json:"head"`
}

// toolActions are the actions to list when the request names no tool or run.
var toolActions = []string{
	audit.Start, audit.PermissionCheck, audit.ResourceAccess, audit.NetworkCall, audit.Complete, audit.Error, audit.SecretUsed,
	"tool.created", "tool.updated", "tool.enabled", "tool.disabled", "tool.deleted", "tool.restored", "tool.signed", "tool.shared",
	"tool.unshared", "tool.exported", "tool.imported", "tool.state_cleared", "tool.state_restored",
}

// Audit returns entries of the audit log about one tool, one run or all tools, newest first, and
// whether the chain is intact.
func (s *Service) Audit(ctx context.Context, p AuditParams) (AuditResult, error) {
	out := AuditResult{Entries: []ToolAuditEntry{}}
	if err := storage.CheckPage(&p.Limit, nil, 50, 100); err != nil {
		return out, err
	}
	if p.BeforeSeq < 0 {
		return out, fault.Invalidf("beforeSeq must not be negative.")
	}
	q := audit.ListParams{RunID: p.ExecutionID, Limit: p.Limit, Before: p.BeforeSeq}
	if p.ToolID != nil {
		q.SubjectID = p.ToolID.String()
		if err := s.db.Read(ctx, func(tx *storage.Tx) error { return hadTool(tx, *p.ToolID) }); err != nil {
			return out, err
		}
	} else if p.ExecutionID == nil {
		q.Actions = toolActions
	}
	for len(out.Entries) < p.Limit {
		r, err := s.audit.List(ctx, q)
		if err != nil {
			return out, err
		}
		for _, e := range r.Entries {
			if e.Subject.Kind != subjectKind || len(out.Entries) == p.Limit {
				continue
			}
			out.Entries = append(out.Entries, ToolAuditEntry{
				Seq: e.Seq, Timestamp: e.Timestamp, Ts: e.TS, Action: e.Action, Outcome: e.Outcome, ToolID: e.Subject.ID, RunID: e.RunID,
				Details: e.Details, Hash: e.Hash, Signed: e.Signed,
			})
		}
		if r.Next == nil {
			break
		}
		q.Before = *r.Next
	}
	// Verify the part of the chain from the oldest entry shown to the end. audit.verify
	// verifies all of it.
	from := time.Now().Add(-time.Hour)
	if n := len(out.Entries); n > 0 {
		from = out.Entries[n-1].Timestamp
	}
	r, err := s.audit.Verify(ctx, audit.VerifyParams{From: &from})
	if err != nil {
		return out, err
	}
	out.Verified, out.Head = r.OK, r.LastSeq
	return out, nil
}

// hadTool returns nil if the caller has the tool, even if it is deleted, because its history
// remains readable.
func hadTool(tx *storage.Tx, id uuid.UUID) error {
	var one int
	err := tx.QueryRow(`SELECT 1 FROM custom_tools WHERE id = ? AND user_id = ?`, id, identity.UserID(tx.Context())).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return errNotFound()
	}
	return err
}
