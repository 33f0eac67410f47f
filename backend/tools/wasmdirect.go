package tools

import (
	"context"
	"encoding/json"
	"path/filepath"
	"time"
	"weak"

	"github.com/google/uuid"

	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/lifecycle"
	"helix/backend/permission"
	"helix/backend/sandbox"
	"helix/backend/wasmtools"
)

// CodeKind is the kind of code in a file that is run once.
type CodeKind string

// The kinds of code.
const (
	CodeJavaScript CodeKind = "javascript"
	CodeTypeScript CodeKind = "typescript"
	CodeWasm       CodeKind = "wasm"
)

// Enum lists the values for the generated client.
func (CodeKind) Enum() []string { return []string{"javascript", "typescript", "wasm"} }

// RunCodeParams runs code that is not stored, on behalf of the person who calls. Grants lists what
// it may use: listing it answers the questions of the run, and each answer is recorded.
type RunCodeParams struct {
	Kind       CodeKind        `json:"kind"`
	Name       string          `json:"name,omitempty"` // shown in stack traces and in the log
	Code       string          `json:"code,omitempty"` // JavaScript or TypeScript
	Wasm       []byte          `json:"wasm,omitempty"`
	BlobSHA256 string          `json:"blobSha256,omitempty"`
	Input      json.RawMessage `json:"input,omitempty"`
	Profile    string          `json:"profile,omitempty"` // strict, standard, permissive or wasm; default standard, for a module wasm
	Tier       string          `json:"tier,omitempty"`    // t0 or t1; default t0, for a module t1
	Grants     []string        `json:"grants,omitempty"`
	TimeoutMs  int64           `json:"timeoutMs,omitempty"`
}

// RunCode runs a file once, without storing it or a row of the run. The audit log records the run
// and every grant. Only a session that may approve can call it.
func (s *Service) RunCode(ctx context.Context, p RunCodeParams) (ExecuteSkillResult, error) {
	if len(p.Input) > maxInput {
		return ExecuteSkillResult{}, fault.Invalidf("The input has more than 4 MiB.")
	}
	if err := lifecycle.CheckText("name", p.Name, maxAuthor); err != nil {
		return ExecuteSkillResult{}, err
	}
	if p.Name = filepath.Base(filepath.ToSlash(p.Name)); p.Name == "." || p.Name == "/" {
		p.Name = "Unsaved code"
	}
	if s.box == nil {
		return ExecuteSkillResult{}, fault.Unavailablef("The sandbox is not available, so nothing can run. Settings › Sandbox says why.")
	}
	e := s.newExecution(ctx, Caller{}, true)
	e.draft = true
	e.answer = func(pending uuid.UUID) { e.agree(ctx, pending) }
	code, err := e.direct(ctx, &p)
	if err != nil {
		return ExecuteSkillResult{}, err
	}
	if err := e.directLimits(&p); err != nil {
		return ExecuteSkillResult{}, err
	}
	var out ExecuteSkillResult
	err = e.carryOut(ctx, func() error {
		out, err = e.performCode(ctx, code)
		return err
	})
	return out, err
}

// direct prepares the run of a draft or of a module that is not stored.
func (e *execution) direct(ctx context.Context, p *RunCodeParams) (func(context.Context) (sandbox.Runnable, error), error) {
	e.params = p.Input
	if len(e.params) == 0 {
		e.params = json.RawMessage("{}")
	}
	e.stored = e.params
	if p.Kind != CodeWasm {
		if len(p.Wasm) > 0 || p.BlobSHA256 != "" {
			return nil, fault.Invalidf("wasm and blobSha256 belong to kind wasm.")
		}
		err := e.makeDraft(ctx, ExecuteParams{
			Code: p.Code, Language: Language(p.Kind), Metadata: &RunMetadata{Name: p.Name},
			Draft: &Draft{Capabilities: p.Grants, SandboxProfile: Permissive},
		})
		if err != nil {
			return nil, err
		}
		e.wants = permission.ParseWants(e.tool.Capabilities)
		e.tier, e.isolation = wasmtools.TierInProcess, sandbox.IsolationInProcess
		return e.compileTool, nil
	}
	if p.Code != "" {
		return nil, fault.Invalidf("A module is given in wasm or blobSha256, not in code.")
	}
	wasm, err := e.s.wasm.Module(ctx, p.Wasm, p.BlobSHA256)
	if err != nil {
		return nil, err
	}
	w := &wasmtools.WasmSkill{Owner: e.user, Name: p.Name, Version: "draft", Capabilities: p.Grants, MemoryMb: 256, IsEnabled: true}
	w.FillDefaults()
	report, err := e.s.wasm.Examine(ctx, w, wasm)
	if err != nil {
		return nil, err
	}
	if !report.Valid {
		f := fault.As(wasmtools.InstallError(report))
		f.Message = "The module cannot run: " + report.Errors[0].Message
		return nil, f
	}
	e.use(w)
	info := w.Info()
	info.Draft = true
	e.s.drafts.Put(e.user.String()+e.subject().ID, info)
	return func(ctx context.Context) (sandbox.Runnable, error) { return e.s.box.CompileWASM(ctx, wasm) }, nil
}

// directLimits sets the limits from the profile and the requested tier.
func (e *execution) directLimits(p *RunCodeParams) error {
	profile := p.Profile
	if profile == "" {
		if profile = string(Standard); p.Kind == CodeWasm {
			profile = "wasm"
		}
	}
	l, ok := sandbox.Profile(profile)
	if !ok {
		return fault.Invalidf("Unknown profile %q. Choose strict, standard, permissive or wasm.", lifecycle.Shorten(profile, 40))
	}
	if p.TimeoutMs < 0 {
		return fault.Invalidf("timeoutMs must not be negative.")
	}
	e.limits = l.Lower(sandbox.Limits{Wall: duration.Of(p.TimeoutMs, time.Millisecond)})
	switch p.Tier {
	case "":
	case wasmtools.TierInProcess:
		e.tier, e.isolation, e.reasons = wasmtools.TierInProcess, sandbox.IsolationInProcess, nil
		e.force = wasmtools.TierInProcess
	case wasmtools.TierProcess:
		e.tier, e.force = wasmtools.TierProcess, wasmtools.TierProcess
		e.isolation, e.reasons = wasmtools.Isolation(e.s.box.Status())
	default:
		return fault.Invalidf("Unknown tier %q. Choose t0 or t1.", lifecycle.Shorten(p.Tier, 40))
	}
	return nil
}

// agree approves a question of the run on behalf of the person who listed the capability when they
// started it. Anything that was not listed is refused as undeclared, without a question.
func (e *execution) agree(ctx context.Context, pending uuid.UUID) {
	ctx = context.WithoutCancel(ctx)
	q, err := e.s.perm.GetApproval(ctx, permission.GetApprovalParams{ID: pending})
	if err == nil {
		_, err = e.s.perm.AnswerApproval(ctx, permission.AnswerParams{
			ID: pending, Decision: "approve", DefinitionHash: q.DefinitionHash, Scope: "run", Note: "named on the command line",
		})
	}
	if err != nil { // the run then waits for the person as usual
		e.s.log.Warn("answer a question of a run", "run", e.id, "error", err)
	}
}

// use sets the WASM tool to run.
func (e *execution) use(w *wasmtools.WasmSkill) {
	e.s.wasm.Isolate(w)
	e.skill, e.tool = w, asTool(w)
	e.version, e.current = w.Version, w.Version
	e.wants = permission.ParseWants(w.Capabilities)
	e.tier, e.isolation, e.reasons = w.Tier, w.Isolation, w.Reasons
}

// moduleOf compiles the module of a WASM tool. A module that the engine still has is found without
// reading the blob, because the blob's name is its hash.
func (s *Service) moduleOf(ctx context.Context, w *wasmtools.WasmSkill) (*sandbox.Module, error) {
	if p, ok := s.modules.Get(w.WasmBytecode); ok {
		if m := p.Value(); m != nil {
			return m, nil
		}
	}
	wasm, err := s.wasm.Read(ctx, w.Ref())
	if err != nil {
		return nil, err
	}
	m, err := s.box.CompileWASM(ctx, wasm)
	if err == nil {
		s.modules.Put(w.WasmBytecode, weak.Make(m))
	}
	return m, err
}
