package tools

import (
	"context"
	"errors"
	"strings"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/storage"
)

// nameable reports whether a want names one resource, so that it can be decided before the run. A
// pattern can only be decided once the run names a concrete resource.
func nameable(w permission.Want) bool {
	switch w.Capability {
	case permission.State, permission.Secret:
		return true
	case permission.NetworkHTTPS:
		return !strings.HasPrefix(w.Resource, "*.")
	case permission.NetworkLocalhost:
		return !strings.Contains(w.Resource, "-")
	case permission.ToolCall, permission.MCP:
		return !strings.HasSuffix(w.Resource, "*")
	case permission.FilesystemRead:
		return !strings.HasSuffix(w.Resource, "/**")
	}
	return false
}

// authorize determines the authority of the run. The profile must allow each capability, and each
// one that names its resource must be granted. If a person is present, they are asked and the run
// waits; otherwise every missing capability becomes a pending approval immediately.
func (e *execution) authorize(ctx context.Context) error {
	for _, w := range e.wants {
		if !profileAllows(e.tool.SandboxProfile, w.Capability) {
			return fault.Deniedf("The profile %s never allows %s. Change the tool's profile, or take the capability out.", e.tool.SandboxProfile, w.Capability).
				WithDetails(Denial{Reason: "profile", Capability: string(w.Capability), Resource: w.Resource, Action: "tools.update"})
		}
	}
	if len(e.wants) > 0 {
		if err := e.s.audit.Writable(ctx); err != nil {
			return err
		}
	}
	if err := e.checkSecrets(ctx); err != nil {
		return err
	}
	var err error
	if e.auth, err = e.s.perm.Begin(e.withSubject(ctx), e.caller.Authority, e.subject(), e.id); err != nil {
		return beginDenied(err)
	}
	var first error
	var open []uuid.UUID
	asked := false
	for _, w := range e.wants {
		if !nameable(w) || e.auth.Allows(w.Capability, w.Resource) {
			continue
		}
		asked = true
		d, err := e.s.perm.Decide(ctx, e.request(w.Capability, w.Resource, permission.SideEffecting))
		if err != nil {
			e.endRights(ctx)
			return err
		}
		if d.Effect == permission.Allow {
			e.host.credit(w.Capability, w.Resource)
			continue
		}
		e.ask = false // one refusal is enough: record the other missing capabilities without asking
		if d.PendingID != uuid.Nil {
			open = append(open, d.PendingID)
		}
		if first == nil {
			first = e.capabilityDenied(w.Capability, w.Resource, d)
		}
	}
	if first != nil {
		e.endRights(ctx)
		f := fault.As(first)
		if den, ok := f.Details.(Denial); ok && len(open) > 0 {
			den.PendingApprovalID, den.PendingApprovalIDs, den.Action = &open[0], open, "approvals.decide"
			f.Details = den
		}
		return f
	}
	if asked { // include the new grants in what the run may lend
		e.auth, err = e.s.perm.Begin(ctx, e.caller.Authority, e.subject(), e.id)
		if err != nil {
			e.endRights(ctx)
			return beginDenied(err)
		}
	}
	return nil
}

func (e *execution) endRights(ctx context.Context) {
	if err := e.s.perm.EndRun(context.WithoutCancel(ctx), e.id); err != nil {
		e.s.log.Warn("end the grants of a run", "run", e.id, "error", err)
	}
}

// capabilityDenied returns the error for one capability that a run does not have.
func (e *execution) capabilityDenied(c permission.Capability, resource string, d permission.Decision) error {
	what := permission.FormatCapability(c, resource)
	msg := "The tool may not use " + what + "."
	switch d.Reason {
	case permission.ReasonNeedsApproval:
		msg = "The tool asks for " + what + ", which you have not allowed yet. The question waits in Approvals."
	case permission.ReasonDeniedByUser:
		msg = "You have refused " + what + " to this tool."
	case permission.ReasonUndeclared:
		msg = "The tool used " + what + " without declaring it in its capabilities."
	case permission.ReasonCallerLacks:
		msg = "The caller does not have " + what + ", so it can't pass it on."
	case permission.ReasonNever:
		msg = what + " can never be allowed."
	case permission.ReasonRevoked:
		msg = "A permission that this run was using was revoked."
	}
	return &fault.Error{Kind: fault.Denied, Message: e.withNoun(msg), Details: Denial{
		Reason: d.Reason, Capability: string(c), Resource: resource, PendingApprovalID: idOrNil(d.PendingID),
	}}
}

// withNoun replaces "tool" in a message by the noun for what runs.
func (e *execution) withNoun(msg string) string {
	if e.skill == nil {
		return msg
	}
	return strings.NewReplacer("The tool", "The skill", "the tool", "the skill", "this tool", "this skill").Replace(msg)
}

// beginDenied adds the details of a run to a refusal by permission.Begin.
func beginDenied(err error) error {
	var f *fault.Error
	if !errors.As(err, &f) || f.Kind != fault.Denied {
		return err
	}
	den := Denial{Reason: permission.ReasonInactive}
	if r, ok := f.Details.(permission.Refusal); ok {
		den.Reason, den.PendingApprovalID = r.Reason, r.PendingID
	}
	out := *f
	out.Details = den
	return &out
}

// refused records a run that was denied at the last check: one usage row, because the tool exists
// and its parameters are valid, and the audit entries.
func (e *execution) refused(ctx context.Context, err error) error {
	f := fault.As(err)
	if f.Kind != fault.Denied {
		return err
	}
	den, _ := f.Details.(Denial)
	den.ExecutionID = &e.id
	out := *f
	out.Details = den
	if !e.draft {
		ctx = context.WithoutCancel(ctx)
		werr := e.s.db.Write(ctx, func(tx *storage.Tx) error {
			if err := e.append(tx, audit.PermissionCheck, audit.Denied, map[string]any{
				"capability": den.Capability, "resource": den.Resource, "verdict": den.Reason, "pending": den.PendingApprovalID,
			}); err != nil {
				return err
			}
			if err := e.append(tx, audit.Error, audit.Denied, map[string]any{"errorClass": "host_denied", "reason": den.Reason}); err != nil {
				return err
			}
			return e.insertEnd(tx, &ended{
				state: string(StatusFailure), failure: failure{class: "host_denied", message: f.Message}, tier: e.tier, isolation: e.isolation,
			})
		})
		if werr != nil {
			e.s.log.Error("record a refused run", "run", e.id, "error", werr)
		}
		e.events.done(string(StatusFailure))
	} else if aerr := e.record(ctx, audit.PermissionCheck, audit.Denied, map[string]any{
		"capability": den.Capability, "resource": den.Resource, "verdict": den.Reason, "pending": den.PendingApprovalID,
	}); aerr != nil {
		e.s.log.Error("record a refused draft", "run", e.id, "error", aerr)
	}
	return &out
}
