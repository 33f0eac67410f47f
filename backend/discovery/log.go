package discovery

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

// end is how a run ended.
type end struct {
	status, class, message string
	output                 json.RawMessage
	blob                   string
	http, sent, received   int
}

const insertRun = `INSERT INTO tool_execution_log (id, user_id, tool_id, operation, input_params, started_at, completed_at, duration_ms, status, error_class, error_message, definition_hash, caller, run_id, created_at, updated_at)
	VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?15)`

// params returns the input as the log keeps it: without secrets, and not if it is large.
func (s *Service) params(ctx context.Context, j *job) json.RawMessage {
	clean := json.RawMessage(s.o.Scrub(ctx, string(j.input)))
	if len(clean) > keptOutput || !json.Valid(clean) {
		return rawJSON(map[string]any{"omitted": len(j.input)})
	}
	return clean
}

// begin records that a run starts, if that is not recorded yet. A run that cannot be recorded does not start.
func (s *Service) begin(ctx context.Context, j *job) error {
	if j.recorded {
		return nil
	}
	err := s.db.Together().Write(ctx, 1, s.insertRunning(ctx, j))
	j.recorded = err == nil
	return err
}

// insertRunning returns what stores the row of a run that starts.
func (s *Service) insertRunning(ctx context.Context, j *job) func(*storage.Tx) error {
	params := s.params(ctx, j)
	return func(tx *storage.Tx) error {
		s.announce(tx, j.tool.user, ExecutionChanged{j.id, j.tool.ID, "running"})
		_, err := tx.Exec(insertRun, j.id, j.tool.user, j.tool.ID, j.op.Name, params, j.began, nil, nil, "running", "", "", j.tool.hash, j.call.Caller.Kind, j.call.Caller.Run, j.began)
		return err
	}
}

// logRefused records a run that was refused before it started.
func (s *Service) logRefused(ctx context.Context, j *job, operation string, err error) {
	f := fault.As(err)
	class := string(f.Kind)
	if f.Kind == fault.Denied {
		class = "not_active"
	}
	params := s.params(ctx, j)
	werr := s.db.Write(context.WithoutCancel(ctx), func(tx *storage.Tx) error {
		if _, err := tx.Exec(insertRun, j.id, j.tool.user, j.tool.ID, clipText(operation, 100), params, j.began, tx.Now, 0, "failure", class, f.Message, j.tool.hash, j.call.Caller.Kind, j.call.Caller.Run, j.began); err != nil {
			return err
		}
		return audit.Append(tx, audit.Entry{ActorKind: j.call.Caller.Kind, Action: audit.Error, SubjectKind: string(Kind), SubjectID: j.tool.ID.String(), Outcome: audit.Denied, RunID: j.id, Details: map[string]any{"operation": operation, "class": class}})
	})
	if werr != nil {
		s.log.Error("record a refused run", "run", j.id, "error", werr)
	}
}

// end records the end of a run.
func (s *Service) end(ctx context.Context, j *job, e end) error {
	output := any(nil)
	if len(e.output) > keptOutput {
		e.output = rawJSON(map[string]any{"omitted": len(e.output)})
	}
	if e.output != nil {
		output = e.output
	}
	blob, status := any(nil), any(nil)
	if e.blob != "" {
		blob = e.blob
	}
	if e.http != 0 {
		status = e.http
	}
	outcome := audit.OK
	if e.status != "success" {
		outcome = audit.Failed
	}
	insert := func(*storage.Tx) error { return nil }
	if !j.recorded { // nothing was sent
		insert = s.insertRunning(ctx, j)
	}
	return s.db.Together().WriteUnsynced(context.WithoutCancel(ctx), 1, func(tx *storage.Tx) error {
		if err := insert(tx); err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE tool_execution_log SET status = ?, error_class = ?, error_message = ?, output = ?, output_blob = ?, http_status = ?, bytes_out = ?, bytes_in = ?, completed_at = ?, updated_at = ?, duration_ms = ? WHERE id = ?`,
			e.status, e.class, e.message, output, blob, status, e.sent, e.received, tx.Now, tx.Now, time.Since(j.began).Milliseconds(), j.id); err != nil {
			return err
		}
		s.announce(tx, j.tool.user, ExecutionChanged{j.id, j.tool.ID, e.status})
		return audit.Append(tx, audit.Entry{ActorKind: j.call.Caller.Kind, Action: audit.Complete, SubjectKind: string(Kind), SubjectID: j.tool.ID.String(), Outcome: outcome, RunID: j.id, Details: map[string]any{"operation": j.op.Operation, "http": e.http, "class": e.class}})
	})
}

// Execution is a run in the log.
type Execution struct {
	ID           uuid.UUID       `json:"executionId"`
	ManifestID   uuid.UUID       `json:"manifestId"`
	Tool         string          `json:"tool"`
	Operation    string          `json:"operation"`
	Status       string          `json:"status"`
	ErrorClass   string          `json:"errorClass,omitempty"`
	ErrorMessage string          `json:"errorMessage,omitempty"`
	HTTPStatus   *int            `json:"httpStatus,omitempty"`
	StartedAt    time.Time       `json:"startedAt"`
	CompletedAt  *time.Time      `json:"completedAt,omitempty"`
	DurationMs   *int64          `json:"durationMs,omitempty"`
	BytesOut     int64           `json:"bytesOut"`
	BytesIn      int64           `json:"bytesIn"`
	Caller       string          `json:"caller,omitempty"`
	Params       json.RawMessage `json:"params,omitempty"` // only of one run
	Output       json.RawMessage `json:"output,omitempty"` // only of one run
	OutputBlob   string          `json:"outputBlob,omitempty"`
}

const runColumns = `l.id, l.tool_id, coalesce(t.name, ''), l.operation, l.status, l.error_class, l.error_message, l.http_status, l.started_at, l.completed_at, l.duration_ms, l.bytes_out, l.bytes_in, l.caller, coalesce(l.output_blob, ''), l.input_params, coalesce(l.output, 'null')
	FROM tool_execution_log l LEFT JOIN tool_manifest t ON t.id = l.tool_id AND t.user_id = l.user_id `

func scanRun(row storage.Row) (Execution, error) {
	var x Execution
	var params, output string
	err := row.Scan(&x.ID, &x.ManifestID, &x.Tool, &x.Operation, &x.Status, &x.ErrorClass, &x.ErrorMessage, &x.HTTPStatus, storage.Time(&x.StartedAt), storage.TimePtr(&x.CompletedAt), &x.DurationMs, &x.BytesOut, &x.BytesIn, &x.Caller, &x.OutputBlob, &params, &output)
	x.Params, x.Output = json.RawMessage(params), json.RawMessage(output)
	return x, err
}

// ExecutionsParams filter the log of runs.
type ExecutionsParams struct {
	ManifestID *uuid.UUID `json:"manifestId,omitempty"`
	Status     string     `json:"status,omitempty"`
	From       *time.Time `json:"from,omitempty"`
	Before     *time.Time `json:"before,omitempty"` // startedAt of the last one seen
	Limit      int        `json:"limit,omitempty"`  // 1..100, default 50
}

// ExecutionsResult is one page of the log, newest first.
type ExecutionsResult struct {
	Executions []Execution `json:"executions"`
}

// Executions returns the log of runs, without inputs and outputs.
func (s *Service) Executions(ctx context.Context, p ExecutionsParams) (ExecutionsResult, error) {
	out := ExecutionsResult{Executions: []Execution{}}
	if err := storage.CheckPage(&p.Limit, nil, 50, 100); err != nil {
		return out, err
	}
	query, args := `SELECT `+runColumns+`WHERE l.user_id = ?`, []any{identity.UserID(ctx)}
	if p.ManifestID != nil {
		query, args = query+` AND l.tool_id = ?`, append(args, *p.ManifestID)
	}
	if p.Status != "" {
		query, args = query+` AND l.status = ?`, append(args, p.Status)
	}
	if p.From != nil {
		query, args = query+` AND l.started_at >= ?`, append(args, *p.From)
	}
	if p.Before != nil {
		query, args = query+` AND l.started_at < ?`, append(args, *p.Before)
	}
	err := s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		out.Executions, err = storage.Collect(tx.Select(query+` ORDER BY l.started_at DESC, l.id DESC LIMIT ?`, append(args, p.Limit)...), scanRun)
		return err
	})
	for i := range out.Executions {
		out.Executions[i].Params, out.Executions[i].Output = nil, nil
	}
	return out, err
}

// ExecutionParams name a run.
type ExecutionParams = CancelParams

// Execution returns one run with its input and output.
func (s *Service) Execution(ctx context.Context, p ExecutionParams) (x Execution, err error) {
	x, err = storage.Result(ctx, s.db.Read, func(tx *storage.Tx) (Execution, error) {
		return scanRun(tx.QueryRow(`SELECT `+runColumns+`WHERE l.id = ? AND l.user_id = ?`, p.ExecutionID, identity.UserID(ctx)))
	})
	if errors.Is(err, sql.ErrNoRows) {
		return Execution{}, fault.NotFoundf("Run not found.")
	}
	return x, err
}
