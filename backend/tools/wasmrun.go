package tools

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/lifecycle"
	"helix/backend/sandbox"
	"helix/backend/storage"
	"helix/backend/wasmtools"
)

// ExecuteSkill runs a WASM tool of the caller. If capabilities that it requests are not granted,
// the call fails before the module starts, with the open questions as details.
func (s *Service) ExecuteSkill(ctx context.Context, p ExecuteSkillParams) (ExecuteSkillResult, error) {
	return s.ExecuteSkillFor(ctx, Caller{}, p)
}

// ExecuteSkillFor runs a WASM tool on behalf of a skill, a schedule, an agent or another part of
// Helix, with no more authority than the caller has.
func (s *Service) ExecuteSkillFor(ctx context.Context, c Caller, p ExecuteSkillParams) (ExecuteSkillResult, error) {
	switch {
	case p.TimeoutMs < 0:
		return ExecuteSkillResult{}, fault.Invalidf("timeoutMs must not be negative.")
	case len(p.Input) > maxInput:
		return ExecuteSkillResult{}, fault.Invalidf("The input has more than 4 MiB.")
	}
	e, err := s.prepareSkill(ctx, c, p)
	if err != nil {
		return ExecuteSkillResult{}, err
	}
	var out ExecuteSkillResult
	err = e.run(ctx, func() error { return e.checkInput(ctx, p.Input) }, func() error {
		out, err = e.performCode(ctx, func(ctx context.Context) (sandbox.Runnable, error) { return s.moduleOf(ctx, e.skill) })
		return err
	})
	return out, err
}

const maxInput = 4 << 20

// prepareSkill finds the WASM tool and creates the execution, without any effect.
func (s *Service) prepareSkill(ctx context.Context, c Caller, p ExecuteSkillParams) (*execution, error) {
	if s.box == nil {
		return nil, fault.Unavailablef("The sandbox is not available, so no skill can run. Settings › Sandbox says why.")
	}
	e := s.newExecution(ctx, c, p.Interactive)
	if err := s.db.Read(ctx, func(tx *storage.Tx) error {
		w, err := wasmtools.Load(tx, p.SkillID)
		if err != nil {
			return err
		}
		e.skill = w
		return s.wasm.CheckSignature(tx, w)
	}); err != nil {
		if aerr := e.auditUnknown(ctx, p, err); aerr != nil {
			return nil, errors.Join(err, aerr)
		}
		return nil, err
	}
	e.use(e.skill)
	e.limits = e.skill.Limits().Lower(sandbox.Limits{Wall: duration.Of(p.TimeoutMs, time.Millisecond)})
	if c.Kind == "" {
		again := p
		again.Interactive = false
		e.rerun = lifecycle.Text(again)
	}
	return e, nil
}

// auditUnknown records a call of a WASM tool that does not exist or belongs to another user. The
// error is the same in both cases.
func (e *execution) auditUnknown(ctx context.Context, p ExecuteSkillParams, err error) error {
	if !fault.Is(err, fault.NotFound) {
		return nil
	}
	kind, id := e.actor()
	return e.s.audit.Record(ctx, audit.Entry{User: e.user, ActorKind: kind, ActorID: id, Action: audit.Error, SubjectKind: wasmtools.Kind,
		SubjectID: p.SkillID.String(), Outcome: audit.Denied, Details: map[string]any{"reason": "not_found"}})
}

// asTool returns a Tool with the fields that both kinds of runs use.
func asTool(w *wasmtools.WasmSkill) *Tool {
	return &Tool{
		ID: w.ID, owner: w.Owner, hash: w.Hash, DefinitionHash: w.DefinitionHash, Name: w.Name, Version: w.Version, Parameters: w.InputSchema,
		Capabilities: w.Capabilities, SandboxProfile: Permissive, IsEnabled: w.IsEnabled, Mine: true, Author: w.Signature.Signer,
	}
}

// checkInput validates the input against the WASM tool's schema, if it has one.
func (e *execution) checkInput(ctx context.Context, input json.RawMessage) error {
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	if string(e.skill.InputSchema) == wasmtools.AnyInput {
		e.params, e.stored = input, input
		return nil
	}
	return e.checkParams(ctx, input)
}

// beginSkill records the start of a run before its first instruction.
func (e *execution) beginSkill(tx *storage.Tx) error {
	_, err := tx.Exec(`INSERT INTO skill_executions (id, skill_id, user_id, input_params, status, tier, isolation, version, definition_hash, caller,
		parent_id, timestamp, created_at, updated_at) VALUES (?, ?, ?, ?, 'running', ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		e.id, e.skill.ID, e.user, payload(e.stored), e.tier, e.isolation, e.version, e.skill.Hash, e.kind, e.caller.RunID, tx.Now, tx.Now, tx.Now)
	return err
}

// performCode compiles and runs the code. If it cannot be compiled now, the run has not started.
func (e *execution) performCode(ctx context.Context, compile func(context.Context) (sandbox.Runnable, error)) (ExecuteSkillResult, error) {
	prog, compileErr := compile(e.runCtx)
	if fault.Is(compileErr, fault.Unavailable) || fault.Is(compileErr, fault.Canceled) {
		return ExecuteSkillResult{}, compileErr
	}
	o, err := e.perform(ctx, func(context.Context) (sandbox.Runnable, error) { return prog, compileErr })
	if o == nil {
		return ExecuteSkillResult{}, err
	}
	return e.skillResult(o), err
}

// skillResult returns the result of a run of a module or a file.
func (e *execution) skillResult(o *ended) ExecuteSkillResult {
	return ExecuteSkillResult{
		Success: o.class == "", Output: o.output, Error: o.message, ErrorClass: o.class, ErrorStack: o.stack, ErrorDetails: o.details, ExecutionID: e.id,
		Status: wasmtools.SkillStatus(o.state), ExecutionTimeMs: o.wallMs, CPUTimeMs: o.cpuMs(), PeakMemoryBytes: o.usage.PeakMemory, HostCalls: o.usage.HostCalls,
		Fuel: o.usage.Fuel, OutputBytes: o.usage.OutputBytes, Logs: o.logs, Tier: o.tier, Isolation: o.isolation, Reasons: o.reasons,
		Limits: wasmtools.WireLimits(e.limits), AuditLog: orEmpty(e.trail.wire), PendingApprovalID: o.pending, Warnings: o.warnings,
	}
}

// endSkill completes the row of a run. If the start could not be recorded it inserts the row.
func (e *execution) endSkill(tx *storage.Tx, o *ended) error {
	k := e.kept(o)
	_, err := tx.Exec(`INSERT INTO skill_executions (id, skill_id, user_id, input_params, output_result, status, error_class, error_message,
		execution_time_ms, cpu_time_ms, memory_used_mb, host_calls, tier, isolation, version, definition_hash, caller, parent_id, timestamp, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET input_params = excluded.input_params, output_result = excluded.output_result, status = excluded.status,
		error_class = excluded.error_class, error_message = excluded.error_message, execution_time_ms = excluded.execution_time_ms,
		cpu_time_ms = excluded.cpu_time_ms, memory_used_mb = excluded.memory_used_mb, host_calls = excluded.host_calls, tier = excluded.tier,
		isolation = excluded.isolation, updated_at = excluded.updated_at`,
		e.id, e.skill.ID, e.user, k.input, k.output, o.state, k.class, k.message, o.wallMs, o.cpuMs(), o.memory(), o.usage.HostCalls,
		o.tier, o.isolation, e.version, e.skill.Hash, e.kind,
		e.caller.RunID, tx.Now, tx.Now, tx.Now)
	return err
}

// rerunSkill starts a run of a WASM tool again after its question was answered.
func (s *Service) rerunSkill(ctx context.Context, payload json.RawMessage) (uuid.UUID, error) {
	var p ExecuteSkillParams
	if err := json.Unmarshal(payload, &p); err != nil {
		return uuid.Nil, fault.Internalf(err, "The run cannot be started again.")
	}
	return s.startAgain(ctx, func(ctx context.Context, c Caller) error {
		_, err := s.ExecuteSkillFor(ctx, c, p)
		return err
	})
}
