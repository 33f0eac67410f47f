package tools

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/lifecycle"
	"helix/backend/storage"
)

// UsageParams filters the finished runs, newest first.
type UsageParams struct {
	ToolID *uuid.UUID `json:"toolId,omitempty"`
	Status RunStatus  `json:"status,omitempty"`
	Since  *time.Time `json:"since,omitempty"`
	Limit  int        `json:"limit,omitempty"`  // 1..100, default 50
	Before *time.Time `json:"before,omitempty"` // timestamp of the last one seen
}

// RunStatus is how a run ended.
type RunStatus string

// The outcomes of a run. Exceeded time and processor limits are Timeout; everything else that is
// not Success is Failure, with its class in errorClass.
const (
	StatusSuccess RunStatus = "success"
	StatusFailure RunStatus = "failure"
	StatusTimeout RunStatus = "timeout"
)

// Enum lists the values for the generated client.
func (RunStatus) Enum() []string { return []string{"success", "failure", "timeout"} }

// UsageEntry is one finished run. Parameters and output above 64 KiB are truncated to
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

// UsageSummary covers the newest 10,000 matching runs, not only the page. No more are kept per tool.
type UsageSummary struct {
	Runs    int     `json:"runs"`
	Success int     `json:"success"`
	Failure int     `json:"failure"`
	Timeout int     `json:"timeout"`
	P50Ms   float64 `json:"p50Ms"` // of the newest 1,000
	P95Ms   float64 `json:"p95Ms"`
}

// UsageResult is one page of runs.
type UsageResult struct {
	Entries []UsageEntry `json:"entries"`
	Summary UsageSummary `json:"summary"`
}

// Usage returns a page of finished runs and a summary of all that match.
func (s *Service) Usage(ctx context.Context, p UsageParams) (UsageResult, error) {
	out := UsageResult{Entries: []UsageEntry{}}
	if err := storage.CheckPage(&p.Limit, nil, 50, 100); err != nil {
		return out, err
	}
	if err := lifecycle.CheckEnum("status", p.Status); err != nil {
		return out, err
	}
	user := identity.UserID(ctx)
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		where, args := []string{"u.user_id = ?"}, []any{user}
		if p.ToolID != nil {
			if _, err := ownTool(tx, *p.ToolID); err != nil {
				return err
			}
			where, args = append(where, "u.custom_tool_id = ?"), append(args, *p.ToolID)
		}
		if p.Status != "" {
			where, args = append(where, "u.status = ?"), append(args, string(p.Status))
		}
		if p.Since != nil {
			where, args = append(where, "u.timestamp >= ?"), append(args, *p.Since)
		}
		cond := strings.Join(where, " AND ")
		if err := summarize(tx, &out.Summary, cond, args); err != nil {
			return err
		}
		if p.Before != nil {
			cond, args = cond+" AND u.timestamp < ?", append(args, *p.Before)
		}
		var err error
		out.Entries, err = storage.Collect(tx.Select(`SELECT u.id, u.custom_tool_id, t.name, u.input_params, u.output_result, u.status, coalesce(u.error_message, ''),
			coalesce(u.error_class, ''), u.execution_time_ms, u.cpu_time_ms, u.memory_used_mb, u.host_calls, u.version, u.definition_hash,
			u.caller, u.parent_id, u.timestamp FROM custom_tool_usage u JOIN custom_tools t ON t.id = u.custom_tool_id
			WHERE `+cond+` ORDER BY u.timestamp DESC LIMIT ?`, append(args, p.Limit)...), scanUsage)
		return err
	})
	return out, err
}

func scanUsage(row storage.Row) (UsageEntry, error) {
	var e UsageEntry
	var params, output sql.NullString
	var hash []byte
	var parent uuid.NullUUID
	err := row.Scan(&e.ID, &e.ToolID, &e.ToolName, &params, &output, &e.Status, &e.Error, &e.ErrorClass, &e.ExecutionTimeMs, &e.CPUTimeMs,
		&e.MemoryUsedMb, &e.HostCalls, &e.Version, &hash, &e.Caller, &parent, storage.Time(&e.Timestamp))
	if err != nil {
		return e, err
	}
	e.Params, e.Output = rawOrNull(params), rawOrNull(output)
	if len(hash) == 32 {
		e.DefinitionHash = hashText([32]byte(hash))
	}
	if parent.Valid {
		e.ParentID = &parent.UUID
	}
	return e, nil
}

func rawOrNull(s sql.NullString) json.RawMessage {
	if !s.Valid {
		return json.RawMessage("null")
	}
	return json.RawMessage(s.String)
}

// Number of runs in a summary, and in its percentiles.
const (
	summaryRuns = 10_000
	newestRuns  = 1000
)

func summarize(tx *storage.Tx, sum *UsageSummary, cond string, args []any) error {
	args = slices.Clip(args)
	err := tx.Select(`SELECT status, count(*) FROM (SELECT u.status AS status FROM custom_tool_usage u WHERE `+cond+`
		ORDER BY u.timestamp DESC LIMIT ?) GROUP BY status`, append(args, summaryRuns)...).Each(func(row storage.Row) error {
		var status RunStatus
		var n int
		if err := row.Scan(&status, &n); err != nil {
			return err
		}
		sum.Runs += n
		switch status {
		case StatusSuccess:
			sum.Success = n
		case StatusTimeout:
			sum.Timeout = n
		default:
			sum.Failure = n
		}
		return nil
	})
	if err != nil {
		return err
	}
	ms, err := storage.Collect(tx.Select(`SELECT u.execution_time_ms FROM custom_tool_usage u WHERE `+cond+` ORDER BY u.timestamp DESC LIMIT ?`,
		append(args, newestRuns)...), storage.RowTo[float64])
	slices.Sort(ms)
	if len(ms) > 0 {
		sum.P50Ms, sum.P95Ms = percentile(ms, 50), percentile(ms, 95)
	}
	return err
}

// percentile returns the smallest of the sorted values such that at least p percent of them do not
// exceed it (nearest rank).
func percentile(sorted []float64, p int) float64 {
	return sorted[(len(sorted)*p+99)/100-1]
}
