package skills

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"database/sql"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/jcs"
	"helix/backend/skills/machine"
	"helix/backend/storage"
)

// maxEventData is the maximum size of the data of an event in skills.run_event; skills.events
// returns larger ones.
const maxEventData = 64 << 10

func wireEvent(run uuid.UUID, e machine.Event) RunEvent {
	out := RunEvent{
		ExecutionID: run, Seq: e.Seq, Type: string(e.Type), StepPath: e.StepPath, Iteration: e.Iteration, Attempt: e.Attempt, At: e.At, Data: e.Data,
	}
	if len(out.Data) > maxEventData {
		out.Data = json.RawMessage(`{"truncated":true}`)
	}
	return out
}

// view returns the run from its row alone.
func (r *runRow) view() Execution {
	x := Execution{
		SkillName: r.name, Version: r.label, VersionID: r.version, DefinitionHash: r.hash, Mode: r.mode, Trigger: r.trigger, Waits: []Wait{},
		ParentExecutionID: r.parent, ParentStepPath: r.parentPath, RestartedFrom: r.restarted, Pinned: r.pinned, CreatedAt: r.created,
		StartedAt: r.started, FinishedAt: r.finished, DeadlineAt: r.deadline,
	}
	x.ExecuteResult = ExecuteResult{
		SkillID: r.skill, UserID: r.user, ExecutionID: r.id, Status: r.status, WaitReason: r.reason, StepResults: []StepResult{}, FinalOutput: r.output,
		ExecutionTimeMs: r.tookMs, StepsCompleted: r.sum.Completed, StepsFailed: r.sum.Failed, StepsSkipped: r.sum.Skipped, TotalSteps: r.sum.Total,
		Input: r.input, Error: r.err,
	}
	if r.reason == WaitQuarantined {
		x.Waits = append(x.Waits, r.quarantineWait())
	}
	x.contextOf()
	return x
}

// execution returns a run of the caller with its steps; with skill set, also with its definition.
func (s *Service) execution(ctx context.Context, id uuid.UUID, skill bool) (Execution, error) {
	x, inner, err := s.loadExecution(ctx, id, skill)
	if err == nil {
		err = s.addInner(ctx, &x, inner)
	}
	return x, err
}

// loadExecution returns a run, and the nested runs that it waits for.
func (s *Service) loadExecution(ctx context.Context, id uuid.UUID, skill bool) (x Execution, inner []innerWait, err error) {
	if r := s.inMemory(id); r != nil && r.row.user == identity.UserID(ctx) && !r.ended() {
		x, inner = r.view(skill)
		return x, inner, nil
	}
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		row, err := ownRun(tx, id)
		if err != nil {
			return err
		}
		x = row.view()
		if skill {
			if prog, err := s.program(tx, row); err == nil {
				x.Skill = prog.body
			} else if !fault.Is(err, fault.NotFound) {
				return err
			}
		}
		if row.final() && row.mode == modeLive {
			return s.fromRows(tx, row, &x)
		}
		made, st, asked, err := s.rebuild(tx, row)
		if err != nil || st == nil {
			return err
		}
		inner = made.fill(&x, st, asked)
		return nil
	})
	return x, inner, err
}

// ended reports whether the end of the run is recorded, so that its rows are complete.
func (r *live) ended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return final(r.recorded)
}

// view returns a loaded run, and the nested runs that it waits for.
func (r *live) view(skill bool) (Execution, []innerWait) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.row.view()
	if skill {
		x.Skill = r.prog.body
	}
	if !r.startAt.IsZero() && r.row.finished == nil {
		waited, now := r.waited, r.s.now()
		if !r.waitAt.IsZero() {
			waited += now.Sub(r.waitAt)
		}
		x.ExecutionTimeMs = float64((now.Sub(r.startAt) - waited).Microseconds()) / 1000
	}
	inner := r.made.fill(&x, r.st, r.asked)
	for i := range x.StepResults {
		if s := &x.StepResults[i]; r.unsure[place(s.StepPath, s.Iteration)] {
			s.Unknown = true
		}
	}
	if final(x.Status) && !final(r.recorded) { // its end is not recorded yet
		x.Status, x.Success = r.recorded, false
	}
	return x, inner
}

// rebuild restores the state of a run from its events. It returns nil if there are none.
func (s *Service) rebuild(tx *storage.Tx, row *runRow) (*created, *machine.State, map[string]time.Time, error) {
	prog, err := s.program(tx, row)
	if err != nil {
		return nil, nil, nil, err
	}
	events, err := loadEvents(tx, row.id, 0, 0)
	if err != nil || len(events) == 0 {
		return nil, nil, nil, err
	}
	made := &created{}
	if err := json.Unmarshal(events[0].Data, made); err != nil {
		return nil, nil, nil, err
	}
	st, err := machine.New(made.start(s, row.id, events[0].At, row.input, prog))
	if err != nil {
		return nil, nil, nil, err
	}
	asked := map[string]time.Time{}
	for _, e := range events {
		if err := st.Apply(e); err != nil {
			return nil, nil, nil, err
		}
		if e.Type == machine.ApprovalRequested {
			asked[place(e.StepPath, e.Iteration)] = e.At
		}
	}
	return made, st, asked, nil
}

// fromRows adds the stored steps of a finished run.
func (s *Service) fromRows(tx *storage.Tx, row *runRow, x *Execution) error {
	err := tx.Select(`SELECT step_path, iteration, tool_type, tool_name, status, reason, attempts, output, output_blob, error_kind, error_message,
		outcome = 'unknown', took_ms, started_at, finished_at FROM composite_skill_steps WHERE execution_id = ? ORDER BY ordinal`, row.id).Each(func(from storage.Row) error {
		var r StepResult
		var reason, output, blob, kind, message sql.NullString
		if err := from.Scan(&r.StepPath, &r.Iteration, &r.ToolType, &r.ToolName, &r.Status, &reason, &r.Attempts, &output, &blob, &kind, &message,
			&r.Unknown, &r.ExecutionTimeMs, storage.TimePtr(&r.StartedAt), storage.TimePtr(&r.FinishedAt)); err != nil {
			return err
		}
		r.StepID = r.StepPath[strings.LastIndex(r.StepPath, "/")+1:]
		r.Success, r.Skipped, r.Reason = r.Status == machine.Completed, r.Status == machine.Skipped, reason.String
		r.RetriesUsed = max(r.Attempts-1, 0)
		if output.Valid {
			r.Output = json.RawMessage(output.String)
		}
		if blob.Valid {
			// An output that cannot be read must not hide the rest of the run.
			var err error
			if r.Output, err = s.blob(blob.String); err != nil {
				s.log.Warn("read a stored step output", "run", row.id, "step", r.StepPath, "err", err)
				r.OutputMissing = fault.As(err).Message
			}
		}
		if kind.Valid {
			r.Error = &machine.Failure{Kind: kind.String, Message: message.String}
		}
		x.StepResults = append(x.StepResults, r)
		return nil
	})
	if err != nil {
		return err
	}
	x.contextOf()
	if err := tx.QueryRow(`SELECT coalesce(max(seq), 0) FROM composite_skill_events WHERE execution_id = ?`, row.id).Scan(&x.LastSeq); err != nil {
		return err
	}
	var notice sql.NullString
	err = tx.QueryRow(`SELECT (SELECT json_extract(payload, '$.notice') FROM composite_skill_events WHERE execution_id = ?1 AND seq = ?2)`,
		row.id, x.LastSeq).Scan(&notice)
	if err == nil && notice.Valid {
		x.Notification = &Notice{}
		err = json.Unmarshal([]byte(notice.String), x.Notification)
	}
	return err
}

// blob reads an output that is stored outside of the database.
func (s *Service) blob(name string) (json.RawMessage, error) {
	var ref storage.Ref
	sum, err := hex.DecodeString(name)
	if err != nil || len(sum) != len(ref.SHA256) {
		return nil, fault.Internalf(fmt.Errorf("blob name %q", name), "The reference to the stored output is damaged.")
	}
	copy(ref.SHA256[:], sum)
	f, err := s.db.Blobs().Open(ref)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, machine.MaxOutput+1))
}

// Status returns the status of a run, or lists the installed skills.
func (s *Service) Status(ctx context.Context, p StatusParams) (StatusResult, error) {
	if p.ExecutionID != nil {
		x, err := s.execution(ctx, *p.ExecutionID, false)
		return StatusResult{Execution: &x}, err
	}
	enabled := true
	list, err := s.ListComposite(ctx, ListParams{Enabled: &enabled, Limit: 100})
	return StatusResult{Skills: list.Skills}, err
}

// GetExecution returns one run with its steps.
func (s *Service) GetExecution(ctx context.Context, p RunParams) (Execution, error) {
	return s.execution(ctx, p.ExecutionID, true)
}

// documentOf returns the run document of a run of the caller after its last step.
func (s *Service) documentOf(ctx context.Context, id uuid.UUID) (json.RawMessage, error) {
	if r := s.inMemory(id); r != nil && r.row.user == identity.UserID(ctx) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return jcs.Marshal(r.st.Document())
	}
	var out json.RawMessage
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		row, err := ownRun(tx, id)
		if err != nil {
			return err
		}
		_, st, _, err := s.rebuild(tx, row)
		if err != nil {
			return err
		}
		if st == nil {
			return fault.NotFoundf("The run hasn't started, or its journal is on another device.")
		}
		out, err = jcs.Marshal(st.Document())
		return err
	})
	return out, err
}

// History lists runs, newest first. Dry runs are excluded.
func (s *Service) History(ctx context.Context, p HistoryParams) (HistoryResult, error) {
	out := HistoryResult{Executions: []Execution{}}
	if err := storage.CheckPage(&p.Limit, nil, 50, 100); err != nil {
		return out, err
	}
	user := identity.UserID(ctx)
	where, args := `x.user_id = ? AND x.mode = 'live' AND x.deleted_at IS NULL`, []any{user}
	add := func(sql string, more ...any) { where, args = where+" AND "+sql, append(args, more...) }
	if p.SkillID != nil {
		add("x.composite_skill_id = ?", p.SkillID)
	}
	if p.Status != "" {
		add("x.status = ?", string(p.Status))
	}
	if p.Trigger != "" {
		add("x.trigger = ?", p.Trigger)
	}
	if p.From != nil {
		add("x.created_at >= ?", p.From)
	}
	if p.To != nil {
		add("x.created_at < ?", p.To)
	}
	after, err := storage.ReadCursor(p.Cursor, "created_at")
	if err != nil {
		return out, err
	}
	if after != nil {
		add("(x.created_at, x.id) < (?, ?)", after.Key, after.ID)
	}
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		err := tx.Select(`SELECT `+runColumns+runTables+`WHERE `+where+` ORDER BY x.created_at DESC, x.id DESC LIMIT ?`, append(args, p.Limit+1)...).Each(func(row storage.Row) error {
			r, err := scanRun(row)
			if err != nil {
				return err
			}
			if len(out.Executions) == p.Limit {
				last := out.Executions[p.Limit-1]
				out.NextCursor = storage.Cursor{Sort: "created_at", Key: last.CreatedAt.UnixMicro(), ID: last.ExecutionID}.String()
				return nil
			}
			x := r.view()
			x.FinalOutput, x.Input, x.ExecutionContext = json.RawMessage("null"), json.RawMessage("{}"), map[string]json.RawMessage{}
			out.Executions = append(out.Executions, x)
			return nil
		})
		if err != nil {
			return err
		}
		out.Bytes, err = s.sizes.get(tx, user, s.now())
		return err
	})
	return out, err
}

// sizes caches the size of each user's history, because computing it reads every row.
type sizes struct {
	mu sync.Mutex
	m  map[uuid.UUID]size
}

type size struct {
	bytes int64
	at    time.Time
}

// sizeAge is the maximum age of a cached size.
const sizeAge = 10 * time.Second

func (z *sizes) get(tx *storage.Tx, user uuid.UUID, now time.Time) (int64, error) {
	z.mu.Lock()
	known, ok := z.m[user]
	z.mu.Unlock()
	if ok && now.Sub(known.at) < sizeAge {
		return known.bytes, nil
	}
	err := tx.QueryRow(`SELECT coalesce(sum(bytes), 0) FROM composite_skill_executions WHERE user_id = ?`, user).Scan(&known.bytes)
	if err != nil {
		return 0, err
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.m == nil || len(z.m) > 1000 {
		z.m = map[uuid.UUID]size{}
	}
	z.m[user] = size{known.bytes, now}
	return known.bytes, nil
}

// forget clears the cache.
func (z *sizes) forget() {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.m = nil
}

// Events returns the events of a run.
func (s *Service) Events(ctx context.Context, p EventsParams) (EventsResult, error) {
	out := EventsResult{Events: []RunEvent{}}
	if err := storage.CheckPage(&p.Limit, nil, 500, 1000); err != nil {
		return out, err
	}
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		if _, err := ownRun(tx, p.ExecutionID); err != nil {
			return err
		}
		events, err := loadEvents(tx, p.ExecutionID, p.AfterSeq, p.Limit)
		if err != nil {
			return err
		}
		for _, e := range events {
			w := wireEvent(p.ExecutionID, e)
			w.Data = e.Data
			out.Events = append(out.Events, w)
		}
		return tx.QueryRow(`SELECT coalesce(max(seq), 0) FROM composite_skill_events WHERE execution_id = ?`, p.ExecutionID).Scan(&out.LastSeq)
	})
	return out, err
}

// Pin excludes a run from pruning, or includes it again.
func (s *Service) Pin(ctx context.Context, p PinParams) (Execution, error) {
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		if _, err := ownRun(tx, p.ExecutionID); err != nil {
			return err
		}
		_, err := tx.Exec(`UPDATE composite_skill_executions SET pinned = ?, updated_at = ? WHERE id = ?`, p.Pinned, tx.Now, p.ExecutionID)
		return err
	})
	if err != nil {
		return Execution{}, err
	}
	if r := s.inMemory(p.ExecutionID); r != nil {
		r.mu.Lock()
		r.row.pinned = p.Pinned
		r.mu.Unlock()
	}
	return s.execution(ctx, p.ExecutionID, false)
}
