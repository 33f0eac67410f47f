package skills

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/skills/definition"
	"helix/backend/skills/machine"
	"helix/backend/storage"
)

// stepRow is the stored result of one step.
type stepRow struct {
	id     uuid.UUID
	result StepResult
	hash   string // of the input
	blob   string // SHA-256 of an output that is too large to store in its row
}

// result builds the API view of a step of a run.
func (c *created) result(res *machine.StepResult) StepResult {
	name := res.Step.ToolName
	if t, ok := c.Tools[res.Step.StepID]; ok {
		name = t.Name
	}
	out := StepResult{
		StepID: res.Step.StepID, StepPath: res.Path, Iteration: res.Iteration, ToolName: name, ToolType: res.Step.ToolType, Status: res.Status,
		Success: res.Status == machine.Completed, Skipped: res.Status == machine.Skipped, Reason: res.Reason, Output: res.Output, Error: res.Error,
		Unknown: res.Unknown, ExecutionTimeMs: float64(res.TookMs), RetriesUsed: res.Retries, Attempts: res.Attempts, Source: res.Source,
	}
	if !res.StartedAt.IsZero() {
		out.StartedAt = &res.StartedAt
	}
	if !res.EndedAt.IsZero() {
		out.FinishedAt = &res.EndedAt
		if took := res.EndedAt.Sub(res.StartedAt); out.ExecutionTimeMs == 0 && took > 0 {
			out.ExecutionTimeMs = float64(took.Microseconds()) / 1000
		}
	}
	return out
}

// ended returns a step's result in a run that has ended. Calls that were in progress were stopped.
func ended(r StepResult, at time.Time) StepResult {
	if r.Status == machine.Running || r.Status == machine.Waiting {
		r.Status, r.FinishedAt = machine.Cancelled, &at
	}
	return r
}

// project updates the row of a run that has ended and returns its steps.
func (r *live) project(fin *machine.FinishedData) []stepRow {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.lastAt
	r.row.status, r.row.reason, r.row.err, r.row.output, r.row.finished = fin.Status, "", fin.Error, fin.Output, &at
	r.row.deadline, r.row.wake = nil, nil
	r.row.sum = r.st.Summary()
	if !r.startAt.IsZero() {
		waited := r.waited
		if !r.waitAt.IsZero() {
			waited += at.Sub(r.waitAt)
		}
		r.row.tookMs = float64((at.Sub(r.startAt) - waited).Microseconds()) / 1000
	}
	r.row.bytes = r.bytes + int64(len(r.row.input)+len(r.row.body)+len(r.row.output))
	var out []stepRow
	for _, res := range r.st.Results() {
		step := stepRow{id: storage.NewID(), result: ended(r.made.result(res), at), hash: res.InputHash}
		if key := place(res.Path, res.Iteration); res.Status == machine.Running && r.underWay(key, res.Step.StepID) {
			step.result.Unknown = true
			if r.unsure == nil {
				r.unsure = map[string]bool{}
			}
			r.unsure[key] = true
		}
		if len(step.result.Output) > r.s.limits.Inline {
			ref, err := r.s.db.Blobs().PutBytes(context.WithoutCancel(r.ctx), step.result.Output)
			if err == nil {
				step.blob, step.result.Output = hex.EncodeToString(ref.SHA256[:]), nil
			} else {
				r.s.log.Error("keep a large output beside the database", "run", r.row.id, "error", err)
			}
		}
		r.row.bytes += int64(len(step.result.Output) + len(step.result.StepPath) + stepBytes)
		out = append(out, step)
	}
	return out
}

// underWay reports whether a call that must not be repeated was in progress when the run ended or
// Helix stopped.
func (r *live) underWay(key, step string) bool {
	return (r.calls[key] != nil || r.halted[key] != nil || r.crashed[key]) && !canRepeat(r.made.Tools[step].Tool)
}

// stepBytes is the approximate size of the row of a step without its output.
const stepBytes = 256

// stepSummary is a top-level step in the row of a run.
type stepSummary struct {
	StepID   string  `json:"stepId"`
	Status   Status  `json:"status"`
	Attempts int     `json:"attempts"`
	TookMs   float64 `json:"tookMs"`
}

// finish stores the end of a run: its row, its steps, and the counters of its skill.
func (s *Service) finish(tx *storage.Tx, r *runRow, steps []stepRow) error {
	summaries := []stepSummary{}
	for _, x := range steps {
		if x.result.Iteration == "" && !strings.Contains(x.result.StepPath, "/") {
			summaries = append(summaries, stepSummary{x.result.StepID, x.result.Status, x.result.Attempts, x.result.ExecutionTimeMs})
		}
	}
	text, err := json.Marshal(summaries)
	if err != nil {
		return err
	}
	if err := insertSteps(tx, r, steps); err != nil {
		return err
	}
	var kind, message any
	if r.err != nil {
		kind, message = r.err.Kind, r.err.Message
	}
	res, err := tx.Exec(`UPDATE composite_skill_executions SET status = ?, wait_reason = NULL, wake_at = NULL, deadline_at = NULL, steps_executed = ?,
		final_output = ?, error_kind = ?, error_message = ?, execution_time_ms = ?, steps_completed = ?, steps_failed = ?, steps_skipped = ?,
		total_steps = ?, bytes = ?, started_at = ?, finished_at = ?, updated_at = ?
		WHERE id = ? AND status IN ('queued', 'running', 'waiting')`,
		string(r.status), string(text), r.output, kind, message, r.tookMs, r.sum.Completed, r.sum.Failed, r.sum.Skipped, r.sum.Total, r.bytes, r.started,
		r.finished, tx.Now, r.id)
	if err := oneRow(res, err); err != nil {
		return err
	}
	if r.parent == nil && r.mode == modeLive {
		e := audit.Entry{Action: "skill.run", Outcome: auditOutcome(r), RunID: r.id, Details: map[string]any{"trigger": r.trigger, "status": r.status}}
		if r.skill != nil {
			e.SubjectID = r.skill.String()
		}
		if err := s.audit(tx, e); err != nil {
			return err
		}
	}
	if r.skill == nil || r.mode != modeLive {
		return nil
	}
	res, err = tx.Exec(`UPDATE composite_skills SET execution_count = execution_count + 1, last_executed = ? WHERE id = ? AND user_id = ?`,
		r.finished, r.skill, r.user)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return err
	}
	e, user := Changed{SkillID: *r.skill, Version: r.label, Change: "used"}, r.user
	tx.AfterCommit(func() { bus.Publish(s.db.Bus(), user, e) })
	return nil
}

func auditOutcome(r *runRow) string {
	switch {
	case r.status == machine.Completed:
		return "ok"
	case r.err != nil && r.err.Kind == string(fault.Denied):
		return "denied"
	}
	return "error"
}

func insertSteps(tx *storage.Tx, r *runRow, steps []stepRow) error {
	const most = 40
	for at := 0; at < len(steps); at += most {
		part := steps[at:min(at+most, len(steps))]
		var args []any
		for i, x := range part {
			s := x.result
			outcome := "known"
			if s.Unknown {
				outcome = "unknown"
			}
			var kind, message any
			if s.Error != nil {
				kind, message = s.Error.Kind, s.Error.Message
			}
			args = append(args, x.id, r.id, r.user, at+i, s.StepPath, s.Iteration, string(s.ToolType), s.ToolName, string(s.Status), storage.NullText(s.Reason),
				s.Attempts, storage.NullText(x.hash), s.Output, storage.NullText(x.blob), kind, message, outcome, s.ExecutionTimeMs, s.StartedAt, s.FinishedAt, r.created, tx.Now)
		}
		row := "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
		_, err := tx.Exec(`INSERT INTO composite_skill_steps (id, execution_id, user_id, ordinal, step_path, iteration, tool_type, tool_name, status, reason,
			attempts, input_hash, output, output_blob, error_kind, error_message, outcome, took_ms, started_at, finished_at, created_at, updated_at) VALUES `+
			strings.Repeat(row+",", len(part)-1)+row, args...)
		if err != nil {
			return err
		}
	}
	return nil
}

// fill completes the API view of a run from its state. It returns the nested runs that the run waits for.
func (c *created) fill(x *Execution, st *machine.State, asked map[string]time.Time) (inner []innerWait) {
	x.LastSeq, x.StepResults = st.Seq(), []StepResult{}
	var todo machine.Todo
	if x.WaitReason != WaitQuarantined { // viewing such a run must not evaluate its expressions
		x.Status, x.WaitReason = st.Status()
		x.Waits = []Wait{}
		todo = st.Next()
	}
	sum := st.Summary()
	x.StepsCompleted, x.StepsFailed, x.StepsSkipped, x.TotalSteps = sum.Completed, sum.Failed, sum.Skipped, sum.Total
	waits := map[string]bool{}
	for _, w := range todo.Waits {
		waits[place(w.Path, w.Iteration)] = true
		wait := Wait{StepPath: w.Path, Iteration: w.Iteration, Request: w.Request, AskedAt: asked[place(w.Path, w.Iteration)]}
		if !w.Until.IsZero() {
			wait.Until = &w.Until
		}
		if id, err := uuid.Parse(w.Request.ID); err == nil {
			wait.ApprovalID = &id
		}
		if w.Request.Reason == machine.WaitUnknown {
			wait.Input = w.Input
		}
		x.Waits = append(x.Waits, wait)
	}
	for _, p := range todo.Paused {
		waits[place(p.Path, p.Iteration)] = true
		inner = append(inner, innerWait{childID(x.ExecutionID, p), p.Path, p.Iteration})
	}
	fin := st.Finished()
	for _, res := range st.Results() {
		s := c.result(res)
		if waits[place(res.Path, res.Iteration)] {
			s.Status = machine.Waiting
		}
		if fin != nil && x.FinishedAt != nil {
			s = ended(s, *x.FinishedAt)
		}
		x.StepResults = append(x.StepResults, s)
	}
	for _, w := range x.Waits { // approvals have no call
		if w.StepPath != "" && !slices.ContainsFunc(x.StepResults, func(s StepResult) bool { return s.StepPath == w.StepPath && s.Iteration == w.Iteration }) {
			at := w.AskedAt
			id := w.StepPath[strings.LastIndex(w.StepPath, "/")+1:]
			x.StepResults = append(x.StepResults, StepResult{
				StepID: id, StepPath: w.StepPath, Iteration: w.Iteration, ToolType: definition.Approval, Status: machine.Waiting, StartedAt: &at,
			})
		}
	}
	if fin != nil {
		x.FinalOutput, x.Error = fin.Output, fin.Error
		if fin.Notice != nil {
			n := Notice(*fin.Notice)
			x.Notification = &n
		}
	}
	x.contextOf()
	return inner
}

// innerWait is a nested run that a step waits for.
type innerWait struct {
	run             uuid.UUID
	path, iteration string
}

// addInner adds the questions of nested runs, so that the view of a run shows all its questions.
// Their step paths begin with that of the step; the iterations of both are joined by a slash.
func (s *Service) addInner(ctx context.Context, x *Execution, inner []innerWait) error {
	for _, in := range inner {
		child, err := s.execution(ctx, in.run, false)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return err
		}
		for _, w := range child.Waits {
			w.StepPath = in.path + "/" + w.StepPath
			if in.iteration != "" || w.Iteration != "" {
				w.Iteration = in.iteration + "/" + w.Iteration
			}
			x.Waits = append(x.Waits, w)
		}
	}
	return nil
}

// answerInner returns the answer addressed to the nested run that asked, or nil if it is for none.
func answerInner(inner []innerWait, p AnswerParams) *AnswerParams {
	for _, in := range inner {
		path, ok := strings.CutPrefix(p.StepPath, in.path+"/")
		outer, iteration, _ := strings.Cut(p.Iteration, "/")
		if ok && outer == in.iteration {
			p.ExecutionID, p.StepPath, p.Iteration = in.run, path, iteration
			return &p
		}
	}
	return nil
}

// contextOf derives the fields that depend on the steps and the status.
func (x *Execution) contextOf() {
	x.Success = x.Status == machine.Completed
	if len(x.FinalOutput) == 0 {
		x.FinalOutput = json.RawMessage("null")
	}
	x.ExecutionContext = map[string]json.RawMessage{"input": x.Input}
	for _, s := range x.StepResults {
		if s.Iteration == "" && s.StepID == s.StepPath && s.Status == machine.Completed {
			x.ExecutionContext[s.StepID] = s.Output
		}
	}
}
