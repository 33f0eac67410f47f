package callable

import (
	"cmp"
	"context"
	"crypto/sha256"
	"log/slog"
	"strings"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/storage"
)

// Gate decides what functions of this program may access, limited to what their caller
// holds, and records it.
type Gate struct {
	Permission *permission.Service
	Record     func(ctx context.Context, with func(*storage.Tx) error, e ...audit.Entry) error // see audit.Service.RecordWith
	Logger     *slog.Logger
}

// Reach is what a call requests access to.
type Reach struct {
	Name     string // of the callable
	Subject  permission.Subject
	Cap      permission.Capability // "": a call of Tier that needs no capability
	Resource string
	Ask      string // the pattern that the person is asked for; "": only Resource
	Tier     permission.Tier
	Action   string         // of the audit entry
	Details  map[string]any // of the audit entry, if the call is allowed
	// Begin writes the row of the call in the transaction of the audit entry, if the call is allowed;
	// nil: there is none. It may be called twice.
	Begin func(tx *storage.Tx) error
}

// Pass is the permission of one call to access something. Call End when the call has ended.
type Pass struct {
	// Path is the resolved path of the resource of a file capability; see permission.Decision.
	Path string

	auth *permission.Authority
	end  func()
}

// Allows reports whether the call also holds c for another resource, without asking anyone.
func (p *Pass) Allows(c permission.Capability, resource string) bool {
	return p.auth.Allows(c, resource)
}

// Context returns a context that also ends when the permission is revoked; see
// permission.Authority.
func (p *Pass) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	return p.auth.Context(ctx)
}

// End ends the grants given for this call only.
func (p *Pass) End() { p.end() }

// BuiltinSubject returns the subject of a built-in, or of one use of it, to which grants are given.
func BuiltinSubject(id string) permission.Subject {
	return permission.Subject{Kind: string(Builtin), ID: id, DefinitionHash: sha256.Sum256([]byte("helix-builtin-v1\x00" + id))}
}

// Pass decides whether the call c may access r. The error of a refusal is Denied with a Refusal.
func (g *Gate) Pass(ctx context.Context, c *Request, r Reach) (*Pass, error) {
	run := storage.NewID()
	auth, err := g.Permission.Begin(ctx, c.Caller.Authority, r.Subject, run)
	if err != nil {
		return nil, RefusedAlways(err)
	}
	pass := &Pass{auth: auth, end: func() {
		if err := auth.EndCall(context.WithoutCancel(ctx)); err != nil {
			g.Logger.Warn("end the grants of a call", "err", err)
		}
	}}
	d, err := g.Permission.Decide(ctx, permission.Request{
		Subject: r.Subject, Cap: r.Cap, Resource: r.Resource, Ask: r.Ask, Tier: r.Tier, Caller: c.Caller.Authority, RunID: run, RunKind: cmp.Or(c.Caller.Kind, string(Builtin)), Why: c.Caller.Why(),
	})
	if err == nil && d.Effect != permission.Allow {
		err = r.refused(d)
		if aerr := g.record(ctx, c, &r, nil, audit.Denied, map[string]any{"verdict": d.Reason}); aerr != nil {
			g.Logger.Warn("record a refused call", "err", aerr)
		}
	}
	if err != nil {
		pass.end()
		return nil, err
	}
	if err := g.record(ctx, c, &r, r.Begin, audit.OK, r.Details); err != nil {
		pass.end()
		return nil, fault.Unavailablef("Couldn't write the audit log, so nothing was done.").WithCause(err)
	}
	pass.Path = d.Path
	return pass, nil
}

// Preview returns what a call of i that accesses r needs and whether it is granted, without asking anyone.
func (g *Gate) Preview(ctx context.Context, i Info, r Reach) (permission.PreviewResult, error) {
	i.Capabilities = []string{permission.FormatCapability(r.Cap, cmp.Or(r.Ask, r.Resource))}
	out, run := Needs(i), storage.NewID()
	auth, err := g.Permission.Begin(ctx, nil, r.Subject, run)
	if err != nil {
		return out, err
	}
	if auth.Allows(r.Cap, r.Resource) {
		out.Steps[0].Capabilities[0].State, out.Union[0].State = "granted", "granted"
		out.WillAsk, out.Unattended = []permission.Item{}, "ok"
	}
	return out, g.Permission.EndRun(ctx, run)
}

func (g *Gate) record(ctx context.Context, c *Request, r *Reach, with func(*storage.Tx) error, outcome string, more map[string]any) error {
	details := map[string]any{"capability": r.Cap, "resource": r.Resource, "step": c.Caller.Step, "key": c.Key}
	for k, v := range more {
		details[k] = v
	}
	e := audit.Entry{ActorKind: c.Caller.Kind, Action: r.Action, SubjectKind: r.Subject.Kind, SubjectID: r.Subject.ID, Outcome: outcome, RunID: c.Caller.Run, Details: details}
	if c.Caller.Kind != "" {
		e.ActorID = c.Caller.Run.String()
	}
	return g.Record(context.WithoutCancel(ctx), with, e)
}

// refused returns the error for a decision other than Allow.
func (r *Reach) refused(d permission.Decision) error {
	what := r.Name
	if r.Cap != "" {
		what = permission.FormatCapability(r.Cap, cmp.Or(r.Ask, r.Resource))
	}
	message := "The step may not use " + what + "."
	switch d.Reason {
	case permission.ReasonNeedsApproval:
		message = "The step asks for " + what + ", which you have not allowed yet. The question waits in Approvals."
	case permission.ReasonDeniedByUser:
		message = "You have refused " + what + " to " + r.Name + "."
	case permission.ReasonCallerLacks:
		message = "The caller does not have " + what + ", so it can't pass it on."
	}
	return fault.Deniedf("%s", message).WithDetails(Refusal{PendingApprovalID: d.PendingID, Reason: Reason(d.Reason)})
}

// RefusedAlways returns err as the refusal of a call that has not started and that no approval can permit.
func RefusedAlways(err error) error {
	f := *fault.As(err)
	switch f.Kind {
	case fault.Invalid:
		f.Kind, f.Details = fault.Denied, Refusal{Reason: permission.ReasonNever}
	case fault.Denied:
		r := Refusal{Reason: permission.ReasonInactive}
		if was, ok := f.Details.(permission.Refusal); ok {
			r.Reason = Reason(was.Reason)
			if was.PendingID != nil {
				r.PendingApprovalID = *was.PendingID
			}
		}
		f.Details = r
	}
	return &f
}

// Subjects provides the permission subjects of built-ins, keyed by the first word of their ids.
type Subjects map[string]permission.Source

// Subject implements permission.Source.
func (m Subjects) Subject(ctx context.Context, kind, id string) (permission.SubjectInfo, error) {
	name, _, _ := strings.Cut(id, " ")
	if s := m[name]; s != nil {
		return s.Subject(ctx, kind, id)
	}
	return permission.SubjectInfo{}, fault.NotFoundf("Step not found.")
}
