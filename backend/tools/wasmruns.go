package tools

import (
	"context"
	"encoding/json"
	"helix/backend/identity"
	"helix/backend/lifecycle"
	"helix/backend/storage"
	"helix/backend/wasmtools"
	"time"

	"github.com/google/uuid"
)

// ExecuteSkillParams runs a WASM tool.
type ExecuteSkillParams struct {
	SkillID     uuid.UUID       `json:"skillId"`
	Input       json.RawMessage `json:"input,omitempty"`       // any JSON, at most 4 MiB; default {}
	TimeoutMs   int64           `json:"timeoutMs,omitempty"`   // lowers the time limit for this run
	Interactive bool            `json:"interactive,omitempty"` // wait up to 120 s for an approval instead of failing
}

// ExecuteSkillResult is the result of a run. A WASM tool that failed is a result with Success
// false, not an error of the call; an error means that it did not start.
type ExecuteSkillResult struct {
	Success           bool                  `json:"success"`
	Output            json.RawMessage       `json:"output,omitempty"`
	Error             string                `json:"error,omitempty"`
	ErrorClass        string                `json:"errorClass,omitempty"` // thrown, trap, timeout, cpu, memory, output, input, host_denied, canceled, …
	ErrorStack        string                `json:"errorStack,omitempty"` // of JavaScript: positions in its source
	ErrorDetails      json.RawMessage       `json:"errorDetails,omitempty"`
	ExecutionID       uuid.UUID             `json:"executionId"`
	Status            wasmtools.SkillStatus `json:"status"`
	ExecutionTimeMs   float64               `json:"executionTimeMs"`
	CPUTimeMs         float64               `json:"cpuTimeMs"`
	PeakMemoryBytes   int64                 `json:"peakMemoryBytes"`
	HostCalls         int                   `json:"hostCalls"`
	Fuel              uint64                `json:"fuel"` // metered units of work
	OutputBytes       int64                 `json:"outputBytes"`
	Logs              []LogLine             `json:"logs"`
	Tier              string                `json:"tier"`      // t0 or t1
	Isolation         string                `json:"isolation"` // inprocess, process, process+landlock or process+landlock+bwrap
	Reasons           []string              `json:"reasons"`   // why the isolation is weaker than possible
	Limits            wasmtools.SkillLimits `json:"limits"`
	AuditLog          []AuditEntry          `json:"auditLog"`
	PendingApprovalID *uuid.UUID            `json:"pendingApprovalId,omitempty"`
	Warnings          []string              `json:"warnings,omitempty"`
}

// SkillExecutionsParams filters the runs of a WASM tool, newest first.
type SkillExecutionsParams struct {
	SkillID uuid.UUID             `json:"skillId"`
	Status  wasmtools.SkillStatus `json:"status,omitempty"`
	Limit   int                   `json:"limit,omitempty"`  // 1..100, default 50
	Before  *uuid.UUID            `json:"before,omitempty"` // id of the last run seen
}

// SkillExecution is one run in the history. Input and output above 64 KiB are truncated to
// {"truncated":true,"bytes":n,"head":…}; secrets in them are masked.
type SkillExecution struct {
	ID              uuid.UUID             `json:"id"`
	SkillID         uuid.UUID             `json:"skillId"`
	Input           json.RawMessage       `json:"input"`
	Output          json.RawMessage       `json:"output"`
	Status          wasmtools.SkillStatus `json:"status"`
	ErrorClass      string                `json:"errorClass,omitempty"`
	Error           string                `json:"error,omitempty"`
	ExecutionTimeMs float64               `json:"executionTimeMs"`
	CPUTimeMs       float64               `json:"cpuTimeMs"`
	MemoryUsedMb    float64               `json:"memoryUsedMb"`
	HostCalls       int                   `json:"hostCalls"`
	Tier            string                `json:"tier"`
	Isolation       string                `json:"isolation"`
	Version         string                `json:"version"`
	Caller          string                `json:"caller"` // user, cli, http, agent, skill, schedule, voice or tool
	Timestamp       time.Time             `json:"timestamp"`
}

// SkillExecutionsResult is one page of runs.
type SkillExecutionsResult struct {
	Executions []SkillExecution `json:"executions"`
	More       bool             `json:"more"` // there are older runs
}

// SkillExecutionChanged reports the progress of a run of a WASM tool. Seq counts from 1 within a
// run. Status is running until the last report. Progress is the fraction of the time limit that has
// passed, 0 to 1. Waiting is queued or approval while the run has not started. Log is a line
// written by the WASM tool.
type SkillExecutionChanged struct {
	ExecutionID uuid.UUID             `json:"executionId"`
	SkillID     uuid.UUID             `json:"skillId"`
	Status      wasmtools.SkillStatus `json:"status"`
	Seq         int64                 `json:"seq"`
	Progress    float64               `json:"progress,omitempty"`
	Waiting     string                `json:"waiting,omitempty"`
	Log         *LogLine              `json:"log,omitempty"`
}

// WasmExecutions returns a page of the runs of a WASM tool, newest first.
func (s *Service) WasmExecutions(ctx context.Context, p SkillExecutionsParams) (SkillExecutionsResult, error) {
	out := SkillExecutionsResult{Executions: []SkillExecution{}}
	if err := storage.CheckPage(&p.Limit, nil, 50, 100); err != nil {
		return out, err
	}
	if err := lifecycle.CheckEnum("status", p.Status); err != nil {
		return out, err
	}
	user := identity.UserID(ctx)
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		if _, err := wasmtools.Load(tx, p.SkillID); err != nil {
			return err
		}
		where, args := "skill_id = ? AND user_id = ?", []any{p.SkillID, user}
		if p.Status != "" {
			where, args = where+" AND status = ?", append(args, string(p.Status))
		}
		if p.Before != nil {
			where += " AND (timestamp, id) < (SELECT timestamp, id FROM skill_executions WHERE id = ? AND skill_id = ? AND user_id = ?)"
			args = append(args, *p.Before, p.SkillID, user)
		}
		var err error
		out.Executions, err = storage.Collect(tx.Select(`SELECT id, skill_id, input_params, output_result, status, coalesce(error_class, ''), coalesce(error_message, ''),
			execution_time_ms, cpu_time_ms, memory_used_mb, host_calls, tier, isolation, version, caller, timestamp
			FROM skill_executions WHERE `+where+` ORDER BY timestamp DESC, id DESC LIMIT ?`, append(args, p.Limit+1)...), func(row storage.Row) (x SkillExecution, err error) {
			err = row.Scan(&x.ID, &x.SkillID, storage.JSON(&x.Input), storage.JSON(&x.Output), &x.Status, &x.ErrorClass, &x.Error,
				&x.ExecutionTimeMs, &x.CPUTimeMs, &x.MemoryUsedMb, &x.HostCalls, &x.Tier, &x.Isolation, &x.Version, &x.Caller, storage.Time(&x.Timestamp))
			return x, err
		})
		return err
	})
	if len(out.Executions) > p.Limit {
		out.Executions, out.More = out.Executions[:p.Limit], true
	}
	return out, err
}
