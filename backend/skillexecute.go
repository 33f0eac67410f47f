package backend

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/skills"
	"helix/backend/tools"
	"helix/backend/wasmtools"
)

// ExecuteSkillParams run a skill of either kind by its id, or a composite skill that is not
// saved.
type ExecuteSkillParams struct {
	SkillID *uuid.UUID      `json:"skillId,omitempty"`
	Skill   json.RawMessage `json:"skill,omitempty"`
	Input   json.RawMessage `json:"input,omitempty"` // default {}

	Version   string `json:"version,omitempty"`   // of a composite skill
	Async     bool   `json:"async,omitempty"`     // of a composite skill: return at once
	WaitMs    int64  `json:"waitMs,omitempty"`    // of a composite skill: how long to wait for the end, default 120000
	RequestID string `json:"requestId,omitempty"` // of a composite skill: the same id returns the same run

	TimeoutMs   int64 `json:"timeoutMs,omitempty"`   // of a WASM tool: lowers its time limit
	Interactive bool  `json:"interactive,omitempty"` // of a WASM tool: wait up to 120 s for an approval
}

// ExecuteSkillResult is the result of skills.execute_composite or of sandbox.run, depending on the
// kind of the skill.
type ExecuteSkillResult struct {
	wasm      *tools.ExecuteSkillResult
	composite *skills.ExecuteResult
}

// MarshalJSON encodes the one that is set.
func (r ExecuteSkillResult) MarshalJSON() ([]byte, error) {
	if r.wasm != nil {
		return json.Marshal(r.wasm)
	}
	return json.Marshal(r.composite)
}

// ExecuteSkill runs a WASM tool or a composite skill, whichever has the id.
func (b *Backend) ExecuteSkill(ctx context.Context, p ExecuteSkillParams) (ExecuteSkillResult, error) {
	if p.SkillID != nil && len(p.Skill) == 0 {
		wasm, err := b.isWasm(ctx, *p.SkillID)
		if err != nil {
			return ExecuteSkillResult{}, err
		}
		if wasm {
			return b.executeWasm(ctx, p)
		}
	}
	if p.TimeoutMs != 0 {
		return ExecuteSkillResult{}, fault.Invalidf("timeoutMs is for WASM tools. A skill has overallTimeoutMs.")
	}
	r, err := b.Skills.ExecuteComposite(ctx, skills.ExecuteParams{
		SkillID: p.SkillID, Skill: p.Skill, Input: p.Input, Version: p.Version, Async: p.Async, WaitMs: p.WaitMs, RequestID: p.RequestID,
	})
	return ExecuteSkillResult{composite: &r}, err
}

// isWasm reports whether an id belongs to a WASM tool. An unknown id counts as one, because that
// domain records who asked for it.
func (b *Backend) isWasm(ctx context.Context, id uuid.UUID) (bool, error) {
	wasm, err := b.Tools.IsWasm(ctx, id)
	if err != nil || wasm {
		return true, err
	}
	_, err = b.Skills.NameOf(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return true, nil
	}
	return false, err
}

func (b *Backend) executeWasm(ctx context.Context, p ExecuteSkillParams) (ExecuteSkillResult, error) {
	if p.Version != "" || p.Async || p.WaitMs != 0 || p.RequestID != "" {
		return ExecuteSkillResult{}, fault.Invalidf("version, async, waitMs and requestId are for skills.")
	}
	r, err := b.Tools.ExecuteSkill(ctx, tools.ExecuteSkillParams{SkillID: *p.SkillID, Input: p.Input, TimeoutMs: p.TimeoutMs, Interactive: p.Interactive})
	return ExecuteSkillResult{wasm: &r}, err
}

// CancelSkillResult is the state of the run after the call.
type CancelSkillResult struct {
	Status   skills.Status `json:"status"`
	Canceled bool          `json:"canceled"` // it was running and is ending now, or was already canceled
}

// CancelSkill stops a run of a skill of either kind. For a run that has ended it returns the
// status.
func (b *Backend) CancelSkill(ctx context.Context, p skills.CancelParams) (CancelSkillResult, error) {
	r, err := b.Skills.Cancel(ctx, p)
	if !fault.Is(err, fault.NotFound) {
		return CancelSkillResult{Status: r.Status, Canceled: r.Status == "cancelled"}, err
	}
	c, cerr := b.Tools.Cancel(ctx, tools.CancelParams{ExecutionID: p.ExecutionID})
	if cerr != nil || c.Canceled {
		return CancelSkillResult{Status: "cancelled", Canceled: c.Canceled}, cerr
	}
	status, serr := b.Tools.SkillRun(ctx, p.ExecutionID)
	if serr != nil {
		return CancelSkillResult{}, err
	}
	as := map[wasmtools.SkillStatus]skills.Status{wasmtools.SkillSuccess: "completed", wasmtools.SkillCanceled: "cancelled", wasmtools.SkillRunning: "running"}[status]
	if as == "" {
		as = "failed"
	}
	return CancelSkillResult{Status: as, Canceled: as == "cancelled"}, nil
}
