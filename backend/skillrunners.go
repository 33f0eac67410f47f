package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/sandbox"
	"helix/backend/skills"
	"helix/backend/skills/definition"
	"helix/backend/storage"
	"helix/backend/tools"
)

// The tiers of a step's call, as journals and previews write them.
const (
	readOnly      = "readOnly"
	sideEffecting = "sideEffecting"
)

// toolRunner lets steps call custom tools.
type toolRunner struct {
	tools *tools.Service
	perm  *permission.Service
}

func callable(kind definition.Kind, c *tools.Callable) definition.Callable {
	d := definition.Callable{
		Kind: kind, ID: c.ID.String(), Name: c.Name, Description: c.Description, Hash: c.DefinitionHash, InputSchema: c.Parameters,
		ReadOnly: c.ReadOnly(), Capabilities: c.Capabilities, Tier: sideEffecting,
	}
	if d.ReadOnly {
		d.Tier = readOnly
	}
	return d
}

func callablesOf(kind definition.Kind, list []tools.Callable, err error) ([]definition.Callable, error) {
	out := make([]definition.Callable, 0, len(list))
	for i := range list {
		out = append(out, callable(kind, &list[i]))
	}
	return out, err
}

// findBy calls find with an id, or with a name when there is none. An id that is none finds
// nothing.
func findBy(ctx context.Context, kind definition.Kind, id, name string, find func(context.Context, uuid.UUID, string) ([]tools.Callable, error)) ([]definition.Callable, error) {
	var parsed uuid.UUID
	if id != "" {
		var err error
		if parsed, err = uuid.Parse(id); err != nil || parsed == uuid.Nil {
			return []definition.Callable{}, nil
		}
	}
	list, err := find(ctx, parsed, name)
	return callablesOf(kind, list, err)
}

// Find implements skills.Runner.
func (r *toolRunner) Find(ctx context.Context, id, name string) ([]definition.Callable, error) {
	return findBy(ctx, definition.Custom, id, name, r.tools.FindCallable)
}

// List implements skills.Runner.
func (r *toolRunner) List(ctx context.Context) ([]definition.Callable, error) {
	list, err := r.tools.Callables(ctx)
	return callablesOf(definition.Custom, list, err)
}

// Call implements skills.Runner. The step's idempotency key is not one of tools': a stored
// failure would come back at each retry.
func (r *toolRunner) Call(ctx context.Context, c skills.Call) (skills.Reply, error) {
	id, err := uuid.Parse(c.Target.ID)
	if err != nil {
		return skills.Reply{}, fault.NotFoundf("tool %q no longer exists", c.Target.Name)
	}
	res, err := r.tools.ExecuteFor(ctx, stepCaller(&c), tools.ExecuteParams{ToolID: &id, Params: c.Input, TimeoutMs: millis(c.Timeout)})
	if err != nil {
		return skills.Reply{}, notBegun(ctx, "tool", &c, err)
	}
	if !res.Success {
		return skills.Reply{}, runFailed(ctx, res.ErrorClass, res.Error)
	}
	return skills.Reply{Output: res.Output, Notes: res.Warnings}, nil
}

// Rights implements skills.Runner.
func (r *toolRunner) Rights(ctx context.Context, c definition.Callable) (skills.Rights, error) {
	return rightsOf(ctx, r.perm, "tool", c)
}

// wasmRunner lets steps call WASM skills.
type wasmRunner struct {
	tools *tools.Service
	perm  *permission.Service
}

// Find implements skills.Runner.
func (r *wasmRunner) Find(ctx context.Context, id, name string) ([]definition.Callable, error) {
	return findBy(ctx, definition.WASM, id, name, r.tools.FindCallableWasm)
}

// List implements skills.Runner.
func (r *wasmRunner) List(ctx context.Context) ([]definition.Callable, error) {
	list, err := r.tools.CallableWasm(ctx)
	return callablesOf(definition.WASM, list, err)
}

// Call implements skills.Runner.
func (r *wasmRunner) Call(ctx context.Context, c skills.Call) (skills.Reply, error) {
	id, err := uuid.Parse(c.Target.ID)
	if err != nil {
		return skills.Reply{}, fault.NotFoundf("WASM skill %q no longer exists", c.Target.Name)
	}
	res, err := r.tools.ExecuteSkillFor(ctx, stepCaller(&c), tools.ExecuteSkillParams{SkillID: id, Input: c.Input, TimeoutMs: millis(c.Timeout)})
	if err != nil {
		return skills.Reply{}, notBegun(ctx, "WASM skill", &c, err)
	}
	if !res.Success {
		return skills.Reply{}, runFailed(ctx, res.ErrorClass, res.Error)
	}
	return skills.Reply{Output: res.Output, Notes: res.Warnings}, nil
}

// Rights implements skills.Runner.
func (r *wasmRunner) Rights(ctx context.Context, c definition.Callable) (skills.Rights, error) {
	return rightsOf(ctx, r.perm, "wasm", c)
}

// mcpRunner stands where the tools of MCP servers will be: this build has no MCP client, so
// there is nothing to find and a call says so.
type mcpRunner struct{}

func noMCP() error {
	return fault.Unavailablef("This version of Helix cannot call MCP servers.")
}

// Find implements skills.Runner.
func (mcpRunner) Find(context.Context, string, string) ([]definition.Callable, error) {
	return []definition.Callable{}, nil
}

// List implements skills.Runner.
func (mcpRunner) List(context.Context) ([]definition.Callable, error) {
	return []definition.Callable{}, nil
}

// Call implements skills.Runner.
func (mcpRunner) Call(context.Context, skills.Call) (skills.Reply, error) {
	return skills.Reply{}, noMCP()
}

// Rights implements skills.Runner.
func (mcpRunner) Rights(context.Context, definition.Callable) (skills.Rights, error) {
	return skills.Rights{}, noMCP()
}

// stepCaller is the skill as a tool's run knows it: it lends what its own caller holds and
// nothing more, and the definition that was found when the run began is the one that runs.
func stepCaller(c *skills.Call) tools.Caller {
	return tools.Caller{
		Kind: "skill", Authority: c.Authority, RunID: c.Run, Why: stepWords(c), Definition: c.Target.Hash,
	}
}

// stepWords name a step in a permission prompt.
func stepWords(c *skills.Call) string {
	words := fmt.Sprintf("Step %s of the skill %s", c.StepPath, first(c.Skill, "that was not saved"))
	if c.Iteration != "" {
		words += ", item " + c.Iteration
	}
	return words
}

func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// millis is a time limit as tools take it, at least one millisecond.
func millis(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return max(1, d.Milliseconds())
}

// notBegun turns the refusal of a run into what a step can tell: nothing of the callee's code
// has run.
func notBegun(ctx context.Context, what string, c *skills.Call, err error) error {
	f := fault.As(err)
	out := *f
	switch f.Kind {
	case fault.NotFound:
		return fault.NotFoundf("%s %q no longer exists", what, c.Target.Name).WithCause(err)
	case fault.Denied:
		r := skills.Refused{Reason: permission.ReasonInactive}
		if d, ok := f.Details.(tools.Denial); ok {
			r.Reason = d.Reason
			if d.PendingApprovalID != nil {
				r.PendingApprovalID = *d.PendingApprovalID
			}
		}
		if r.Reason == permission.ReasonDefinitionChanged && r.PendingApprovalID == uuid.Nil {
			out.Message = fmt.Sprintf("%s %q has changed since the run began. Look at the change, then restart the run from this step.", what, c.Target.Name)
		}
		out.Details = r
	case fault.Canceled:
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			out.Kind, out.Message = fault.Unavailable, "It did not get its turn in time."
		}
	case fault.Invalid:
		out.Details = nil // the paths are in the message; parameters are not repeated
	}
	return &out
}

// runFailed turns how a run ended into a fault: the error classes of the sandbox, in the
// kinds that retries know.
func runFailed(ctx context.Context, class, message string) error {
	kind := fault.Internal
	switch sandbox.Class(class) {
	case sandbox.ClassTimeout, sandbox.ClassCPU:
		kind = fault.Timeout
	case sandbox.ClassMemory, sandbox.ClassOutput:
		kind = fault.Limit
	case sandbox.ClassCompile, sandbox.ClassMissingExport, sandbox.ClassInput:
		kind = fault.Invalid
	case sandbox.ClassHostDenied:
		kind = fault.Denied
	case sandbox.ClassUnavailable:
		kind = fault.Unavailable
	case sandbox.ClassCanceled:
		kind = fault.Canceled
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			kind, message = fault.Timeout, "It did not end in time."
		}
	}
	return fault.New(kind, "%s", first(message, class))
}

// changedDefinition stands among the rights of what changed since it was approved.
const changedDefinition = "approval of its changed definition"

// rightsOf asks permission what a subject needs and has, without a question to anybody.
func rightsOf(ctx context.Context, perm *permission.Service, kind string, c definition.Callable) (skills.Rights, error) {
	out := skills.Rights{Needs: []string{}, Granted: []string{}, Missing: []string{}, Tier: first(c.Tier, sideEffecting)}
	p, err := perm.Preview(ctx, permission.PreviewParams{Subject: permission.PreviewSubject{Kind: kind, ID: c.ID}})
	if fault.Is(err, fault.NotFound) {
		out.Needs = slices.Clone(c.Capabilities)
		out.Denied = fmt.Sprintf("%q belongs to somebody else. Clone it first, then use your copy.", c.Name)
		return out, nil
	}
	if err != nil {
		return out, err
	}
	for _, st := range p.Steps {
		for _, k := range st.Capabilities {
			text := permission.FormatCapability(k.Capability, k.Resource)
			out.Needs = append(out.Needs, text)
			switch k.State {
			case "granted":
				out.Granted = append(out.Granted, text)
			case "denied":
				out.Missing = append(out.Missing, text)
				out.Denied = first(out.Denied, fmt.Sprintf("%s was refused to %q.", text, c.Name))
			default:
				out.Missing = append(out.Missing, text)
			}
		}
	}
	for _, why := range p.Unresolved {
		if strings.HasSuffix(why, "has changed since it was approved") { // a question, not a refusal
			out.Needs, out.Missing = append(out.Needs, changedDefinition), append(out.Missing, changedDefinition)
			continue
		}
		out.Denied = first(out.Denied, why+".")
	}
	return out, nil
}

// approvalGate tells skills how a question was answered.
type approvalGate struct{ perm *permission.Service }

// Answered implements skills.Gate.
func (g approvalGate) Answered(ctx context.Context, id uuid.UUID) (string, error) {
	status, err := g.perm.ApprovalStatus(ctx, id)
	switch {
	case fault.Is(err, fault.NotFound):
		return "expired", nil // it was removed: nobody will answer it any more
	case err != nil:
		return "", err
	}
	switch status {
	case "pending":
		return "open", nil
	case "approved", "denied":
		return status, nil
	}
	return "expired", nil
}

// skillAuditor writes what happens to skills and their runs into the audit log.
type skillAuditor struct{}

// Append implements skills.Auditor.
func (skillAuditor) Append(tx *storage.Tx, action, outcome string, skill, run uuid.UUID, details any) error {
	e := audit.Entry{Action: action, Outcome: outcome, SubjectKind: "skill", RunID: run, Details: details}
	if skill != uuid.Nil {
		e.SubjectID = skill.String()
	}
	return audit.Append(tx, e)
}
