package tools

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/lifecycle"
	"helix/backend/permission"
	"helix/backend/sandbox"
	"helix/backend/schema"
	"helix/backend/storage"
	"helix/backend/wasmtools"
)

var errCanceledByUser = errors.New("canceled by the user")

// trail collects the run's audit entries for the result.
type trail struct{ wire []AuditEntry }

func (t *trail) add(now time.Time, action string, details any) {
	t.wire = append(t.wire, AuditEntry{Timestamp: now, Ts: now.UnixMilli(), Action: action, Details: lifecycle.Text(details)})
}

// entry returns an audit entry about this run. Details contain digests and sizes, never contents.
func (e *execution) entry(action, result string, details map[string]any) audit.Entry {
	if details == nil {
		details = map[string]any{}
	}
	details["definitionHash"] = e.tool.DefinitionHash
	if e.draft {
		details["draft"] = true
	}
	a := audit.Entry{
		User: e.user, Action: action, SubjectKind: e.subject().Kind, SubjectID: e.subject().ID, Outcome: result, RunID: e.id, Details: details,
	}
	a.ActorKind, a.ActorID = e.actor()
	return a
}

// actor returns who runs it, for the audit log.
func (e *execution) actor() (kind, id string) {
	switch {
	case e.caller.RunID != uuid.Nil:
		return e.kind, e.caller.RunID.String()
	case e.token != uuid.Nil:
		return audit.TokenActor, e.token.String()
	}
	return e.kind, e.user.String()
}

// append writes an entry in tx.
func (e *execution) append(tx *storage.Tx, action, result string, details map[string]any) error {
	a := e.entry(action, result, details)
	if err := audit.Append(tx, a); err != nil {
		return err
	}
	e.host.mu.Lock()
	defer e.host.mu.Unlock()
	e.trail.add(tx.Now, action, a.Details)
	return nil
}

// rewrite returns a function that a write transaction calls first. If the transaction is retried,
// the function removes the entries of the previous attempt from the trail.
func (e *execution) rewrite() func() {
	from, tries := 0, 0
	return func() {
		e.host.mu.Lock()
		defer e.host.mu.Unlock()
		if tries++; tries == 1 {
			from = len(e.trail.wire)
			return
		}
		e.trail.wire = e.trail.wire[:from]
	}
}

// record commits one entry on its own.
func (e *execution) record(ctx context.Context, action, result string, details map[string]any) error {
	a := e.entry(action, result, details)
	if err := e.s.audit.Record(context.WithoutCancel(ctx), a); err != nil {
		return err
	}
	e.host.mu.Lock()
	defer e.host.mu.Unlock()
	e.trail.add(time.Now().UTC().Truncate(time.Microsecond), action, a.Details)
	return nil
}

// ended describes how a run ended; its row and the result are derived from it.
type ended struct {
	state     string // success, failure, timeout or canceled
	output    json.RawMessage
	failure   // zero on success
	wallMs    float64
	usage     sandbox.Usage
	tier      string
	isolation string
	reasons   []string
	logs      []LogLine
	warnings  []string
}

// failure is the reason why a run failed.
type failure struct {
	class, message, stack string
	details               json.RawMessage
	pending               *uuid.UUID
}

func (o *ended) cpuMs() float64  { return ms(o.usage.CPU) }
func (o *ended) memory() float64 { return float64(o.usage.PeakMemory) / (1 << 20) }

// keptRun holds the fields of an ended run that both tables of runs store, with secrets masked.
type keptRun struct {
	input, output  json.RawMessage
	class, message any
}

func (e *execution) kept(o *ended) keptRun {
	hidden := append(append([]string{}, e.hidden...), e.host.secretValues()...)
	k := keptRun{input: payload(schema.Mask(e.stored, hidden))}
	if o.output != nil {
		k.output = payload(schema.Mask(o.output, hidden))
	}
	if o.class != "" {
		k.class = o.class
	}
	if o.message != "" {
		k.message = string(schema.Mask([]byte(lifecycle.Shorten(o.message, 4000)), hidden))
	}
	return k
}

// insertEnd stores the end of the run.
func (e *execution) insertEnd(tx *storage.Tx, o *ended) error {
	if e.skill != nil {
		return e.endSkill(tx, o)
	}
	return e.insertUsage(tx, o)
}

// insertUsage inserts the usage row of a tool's run and updates the counters.
func (e *execution) insertUsage(tx *storage.Tx, o *ended) error {
	k, status := e.kept(o), RunStatus(o.state)
	if !slices.Contains(status.Enum(), o.state) {
		status = StatusFailure
	}
	if _, err := tx.Exec(`INSERT INTO custom_tool_usage (id, custom_tool_id, user_id, input_params, output_result, status, error_class,
		error_message, execution_time_ms, cpu_time_ms, memory_used_mb, host_calls, version, definition_hash, caller, parent_id, timestamp, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		e.id, e.tool.ID, e.user, k.input, k.output, string(status), k.class, k.message, o.wallMs, o.cpuMs(), o.memory(), o.usage.HostCalls,
		e.version, e.tool.hash, e.kind, e.caller.RunID, tx.Now, tx.Now, tx.Now); err != nil {
		return err
	}
	if _, err := tx.Exec(`DELETE FROM custom_tool_runs WHERE id = ?`, e.id); err != nil {
		return err
	}
	_, err := tx.Exec(`UPDATE custom_tools SET usage_count = usage_count + 1, last_used = ? WHERE id = ? AND user_id = ?`, tx.Now, e.tool.ID, e.user)
	return err
}

// begin records the start before the first instruction: the audit entry and, for a stored tool, the
// mark by which a crash is detected later. A tool without capabilities runs even if the log cannot
// be written; the result then contains a warning.
func (e *execution) begin(ctx context.Context) (warning string, err error) {
	again := e.rewrite()
	err = e.s.writes.Write(ctx, 1, func(tx *storage.Tx) error {
		again()
		if err := e.append(tx, audit.Start, audit.OK, map[string]any{
			"version": e.version, "caller": e.kind, "params": digest(e.params), "bytes": len(e.params), "capabilities": e.tool.Capabilities,
		}); err != nil {
			return err
		}
		if e.draft {
			return nil
		}
		if e.skill != nil {
			return e.beginSkill(tx)
		}
		_, err := tx.Exec(`INSERT INTO custom_tool_runs (id, custom_tool_id, user_id, input_params, version, definition_hash, caller, parent_id, started_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`, e.id, e.tool.ID, e.user, payload(e.stored), e.version, e.tool.hash, e.kind, e.caller.RunID, tx.Now)
		return err
	})
	if err == nil || ctx.Err() != nil {
		return "", err
	}
	if len(e.wants) > 0 {
		return "", fault.Unavailablef("Couldn't write the audit log, so tools that ask for capabilities can't run.").WithCause(err)
	}
	e.s.log.Error("record the start of a tool run", "run", e.id, "error", err)
	return "The start of this run could not be recorded.", nil
}

// perform compiles and runs the code and stores how it ended.
func (e *execution) perform(ctx context.Context, compile func(context.Context) (sandbox.Runnable, error)) (*ended, error) {
	warning, err := e.begin(ctx)
	if err != nil {
		return nil, err
	}
	if e.caller.begun != nil {
		e.caller.begun(e.id)
	}
	e.started = time.Now()
	runCtx, stop := e.auth.Context(e.runCtx)
	defer stop()
	if left, inner := sandbox.Remaining(runCtx); inner {
		e.limits = e.limits.Lower(left)
	}
	e.events.start(e.limits.Wall)
	var res sandbox.Result
	prog, err := compile(runCtx)
	if err == nil {
		res, err = e.s.box.Execute(runCtx, prog, sandbox.Call{
			Input: e.params, Limits: e.limits, Host: e.host, Trust: e.trust(), Tier: e.force,
			Meta: sandbox.Meta{Name: e.tool.Name, Version: e.version, Author: e.tool.Author, User: e.user.String()},
			Log:  e.events.log,
		})
	}
	return e.finish(ctx, res, err, warning)
}

func (e *execution) compileTool(ctx context.Context) (sandbox.Runnable, error) {
	return e.s.box.CompileJS(ctx, e.tool.definition().source("tool"))
}

// toolResult returns the result of a run of a tool.
func (e *execution) toolResult(o *ended) ExecuteResult {
	out := ExecuteResult{
		Success: o.class == "", Output: o.output, Error: o.message, ErrorClass: o.class, ErrorStack: o.stack, ErrorDetails: o.details,
		ExecutionTimeMs: o.wallMs, AuditLog: orEmpty(e.trail.wire), ExecutionID: e.id, CPUTimeMs: o.cpuMs(), MemoryUsedMb: o.memory(), Logs: o.logs,
		PendingApprovalID: o.pending, Warnings: o.warnings, Draft: e.draft,
	}
	if out.Output == nil {
		out.Output = json.RawMessage("null")
	}
	return out
}

func (e *execution) trust() sandbox.Trust {
	switch {
	case e.skill != nil:
		return e.skill.Trust()
	case e.tool.Origin == OriginLocal:
		return sandbox.TrustOwn
	case e.tool.Signature.State == lifecycle.SignatureTrusted:
		return sandbox.TrustSigned
	}
	return sandbox.TrustForeign
}

// finish stores how the sandbox ended: the row and the last audit entries, in one transaction. The
// error means that the sandbox was not available; that run is recorded too.
func (e *execution) finish(ctx context.Context, res sandbox.Result, runErr error, warning string) (*ended, error) {
	ctx = context.WithoutCancel(ctx)
	o := &ended{
		state: string(StatusSuccess), wallMs: ms(time.Since(e.started)), usage: res.Usage, tier: res.Tier, isolation: res.Isolation,
		reasons: orEmpty(res.Reasons), logs: []LogLine{},
	}
	if o.tier == "" { // it failed before that
		o.tier, o.isolation, o.reasons = e.tier, e.isolation, orEmpty(e.reasons)
	}
	if warning != "" {
		o.warnings = append(o.warnings, warning)
	}
	for _, l := range res.Logs {
		o.logs = append(o.logs, e.logLine(l))
	}
	details := map[string]any{
		"microseconds": time.Since(e.started).Microseconds(), "cpuMicroseconds": o.usage.CPU.Microseconds(), "hostCalls": o.usage.HostCalls,
	}
	if e.tier != "" {
		details["tier"], details["isolation"] = o.tier, o.isolation
	}
	action, result := audit.Complete, audit.OK
	if runErr == nil {
		if o.output = res.Output; len(o.output) == 0 {
			o.output = json.RawMessage("null")
		}
		details["output"], details["bytes"] = digest(o.output), len(o.output)
	} else {
		o.failure, o.state = e.explain(runErr), string(StatusFailure)
		action, result = audit.Error, audit.Failed
		details["errorClass"] = o.class
		switch sandbox.Class(o.class) {
		case sandbox.ClassTimeout, sandbox.ClassCPU:
			o.state = string(StatusTimeout)
		case sandbox.ClassCanceled:
			o.state = string(wasmtools.SkillCanceled)
		case sandbox.ClassHostDenied:
			result = audit.Denied
		}
	}
	done, again := e.host.take(), e.rewrite()
	err := e.s.writes.WriteUnsynced(ctx, 1, func(tx *storage.Tx) error {
		again()
		for _, a := range done {
			if err := e.append(tx, a.action, a.outcome, a.details); err != nil {
				return err
			}
		}
		if err := e.append(tx, action, result, maps.Clone(details)); err != nil {
			return err
		}
		if e.draft {
			return nil
		}
		return e.insertEnd(tx, o)
	})
	if err != nil {
		e.s.log.Error("record the end of a run", "run", e.id, "error", err)
		o.warnings = append(o.warnings, "This run could not be recorded: "+fault.As(err).Message)
	}
	e.host.close()
	e.events.done(o.state)
	sandbox.Charge(ctx, o.usage) // a nested run counts against the run that called it
	switch {
	case e.draft:
	case e.skill != nil:
		bus.Publish(e.s.db.Bus(), e.user, wasmtools.WasmChanged{SkillID: e.skill.ID, Kind: "used"})
	default:
		bus.Publish(e.s.db.Bus(), e.user, Changed{ToolID: e.tool.ID, Kind: "used"})
	}
	if o.class == string(sandbox.ClassUnavailable) {
		return o, fault.Unavailablef("%s", o.message).WithCause(runErr)
	}
	return o, nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// explain returns the reason why a run failed.
func (e *execution) explain(err error) failure {
	var se *sandbox.Error
	if !errors.As(err, &se) {
		e.s.log.Error("run a tool", "run", e.id, "error", err)
		return failure{class: string(sandbox.ClassTrap), message: e.withNoun(fault.As(err).Message)}
	}
	if se.Err != nil {
		e.s.log.Debug("tool run failed", "run", e.id, "error", se)
	}
	out := failure{class: string(se.Class), message: se.Message, stack: se.Stack}
	if se.Class == sandbox.ClassCanceled && e.auth != nil && e.auth.Err() != nil {
		out.class, out.message = string(sandbox.ClassHostDenied), fault.As(e.auth.Err()).Message
	}
	if se.Details != nil {
		out.details = lifecycle.Text(se.Details)
	}
	if out.class == string(sandbox.ClassHostDenied) {
		out.pending = idOrNil(e.host.lastPending())
		if se.Message == "" {
			out.message = "The tool was refused something it needs."
		}
	}
	out.message = e.withNoun(out.message)
	return out
}

// waiting reports to clients that the run waits for a person.
func (e *execution) waiting(pending uuid.UUID) {
	if e.answer != nil {
		e.answer(pending)
		return
	}
	e.events.report("waiting", 0, nil)
}

// logLine converts a log line of the engine, with secrets masked.
func (e *execution) logLine(l sandbox.LogLine) LogLine {
	return LogLine{At: l.Time, Level: l.Level, Message: e.host.scrub(l.Message), Fields: e.host.scrubJSON(l.Fields)}
}

// request returns a permission request of this run.
func (e *execution) request(c permission.Capability, resource string, tier permission.Tier) permission.Request {
	return permission.Request{
		Subject: e.subject(), Cap: c, Resource: resource, Tier: tier, Caller: e.caller.Authority, RunID: e.id,
		Interactive: e.ask, Why: e.caller.Why, RunKind: e.kind, Rerun: e.rerun, Waiting: e.waiting,
	}
}
