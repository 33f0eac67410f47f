package skills

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/skills/definition"
	"helix/backend/skills/machine"
	"helix/backend/storage"
)

// provider provides skills as callables, and durable runs of any callable: a callable that is not a
// skill runs as a skill of one step.
type provider struct{ s *Service }

// Provider returns a provider of the user's skills. It also implements callable.Starter for every
// kind of callable.
func (s *Service) Provider() callable.Provider { return provider{s} }

// Kind implements callable.Provider.
func (provider) Kind() callable.Kind { return callable.Skill }

// Find implements callable.Provider. Names of the user's own skills are matched ignoring case.
func (p provider) Find(ctx context.Context, id, name string) ([]callable.Info, error) {
	c := &requestCatalog{s: p.s, ctx: ctx, known: map[catalogKey][]definition.Callable{}}
	found, err := c.skills(id, name)
	if err == nil && len(found) == 0 && name != "" && id == "" {
		err = p.s.db.Read(ctx, func(tx *storage.Tx) error {
			r, err := p.s.sameName(tx, name)
			if err == nil && r != nil {
				found = []definition.Callable{r.callable()}
			}
			return err
		})
	}
	out := make([]callable.Info, 0, len(found))
	for _, f := range found {
		if len(found) == 1 && f.Blocked == "" {
			valid, err := p.s.isValid(ctx, &f)
			if err != nil {
				return nil, err
			}
			if !valid {
				f.Blocked = callable.ReasonDraft
			}
		}
		out = append(out, f.Info)
	}
	return out, err
}

// isValid reports whether the definition of a skill is valid.
func (s *Service) isValid(ctx context.Context, f *definition.Callable) (bool, error) {
	text, err := (&definition.Skill{Name: f.Name, Version: f.Version, Body: *f.Body}).Text()
	if err != nil {
		return false, err
	}
	report, err := definition.Read(text, s.catalog(ctx))
	return err == nil && report.Valid(), err
}

// FindVersion implements callable.Versioned.
func (p provider) FindVersion(ctx context.Context, id, version string) ([]callable.Info, error) {
	found, err := (&requestCatalog{s: p.s, ctx: ctx, known: map[catalogKey][]definition.Callable{}}).FindVersion(id, version)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return []callable.Info{found[0].Info}, nil
}

// List implements callable.Provider.
func (p provider) List(ctx context.Context) (out []callable.Info, err error) {
	err = p.s.db.Read(ctx, func(tx *storage.Tx) error {
		list, err := callableRows(tx, identity.UserID(ctx))
		for _, r := range list {
			out = append(out, r.callable().Info)
		}
		return err
	})
	return out, err
}

// Call implements callable.Provider. If ctx ends, the run is canceled, unless it waits for a
// person; then it continues without the caller.
func (p provider) Call(ctx context.Context, ref callable.Ref, r callable.Request) (callable.Result, error) {
	id, err := uuid.Parse(ref.ID)
	if err != nil {
		return callable.Result{}, callable.NotFound(ref)
	}
	if r.Hash != "" {
		found, err := p.pinned(ctx, ref, r.Version)
		if err != nil {
			return callable.Result{}, err
		}
		if found.Hash != r.Hash {
			return callable.Result{}, callable.Changed(found)
		}
	}
	e := ExecuteParams{SkillID: &id, Version: r.Version, Input: r.Input, WaitMs: (24 * time.Hour).Milliseconds()}
	if r.Key != "" {
		e.RequestID = "call:" + r.Key
	}
	by := beginning{trigger: r.Caller.Kind, attended: r.Caller.Attended || r.Caller.Kind == "", authority: r.Caller.Authority, budget: r.Budget, limit: r.Timeout}
	if by.trigger == "" {
		by.trigger = triggerOf(ctx)
	}
	out, err := p.s.execute(ctx, e, by)
	switch {
	case err != nil:
		return callable.Result{}, withRefusal(ref, err)
	case ctx.Err() != nil && !final(out.Status):
		_, err := p.s.Cancel(context.WithoutCancel(ctx), CancelParams{ExecutionID: out.ExecutionID, Reason: "its caller went away"})
		if err == nil {
			err = ctx.Err()
		}
		return callable.Result{}, err
	case out.Status == machine.Waiting:
		return callable.Result{}, fault.Deniedf("The skill is waiting for you (%s). Answer in Approvals to continue the run.", out.WaitReason).
			WithDetails(map[string]any{"executionId": out.ExecutionID, "waitReason": out.WaitReason})
	case !out.Success:
		kind, message := fault.Internal, "The run did not complete."
		if out.Error != nil {
			kind, message = fault.Kind(out.Error.Kind), out.Error.Message
		} else if out.Status == machine.Cancelled {
			kind, message = fault.Canceled, "The run was canceled."
		}
		return callable.Result{}, fault.New(kind, "%s", message)
	}
	return callable.Result{Output: out.FinalOutput, Notes: out.Warnings, Untrusted: true}, nil
}

func (p provider) pinned(ctx context.Context, ref callable.Ref, version string) (callable.Info, error) {
	found, err := p.Find(ctx, ref.ID, "")
	if version != "" {
		found, err = p.FindVersion(ctx, ref.ID, version)
	}
	if err == nil && len(found) == 0 {
		err = callable.NotFound(ref)
	}
	if err != nil {
		return callable.Info{}, err
	}
	return found[0], nil
}

// withRefusal adds the details of a refused call to the error of a run that did not start.
func withRefusal(ref callable.Ref, err error) error {
	out := *fault.As(err)
	switch out.Kind {
	case fault.NotFound:
		return fault.As(callable.NotFound(ref)).WithCause(err)
	case fault.Conflict:
		out.Details = callable.Refusal{Reason: callable.ReasonDisabled}
	case fault.Invalid:
		out.Details = callable.Refusal{Reason: callable.ReasonInput}
	}
	return &out
}

// Rights implements callable.Provider. A skill has no capabilities of its own; its steps need them.
func (p provider) Rights(ctx context.Context, i callable.Info, _ json.RawMessage) (permission.PreviewResult, error) {
	id, err := uuid.Parse(i.ID)
	if err != nil {
		return permission.PreviewResult{}, callable.NotFound(i.Ref)
	}
	r, err := p.s.visible(ctx, id)
	if err != nil {
		return permission.PreviewResult{}, err
	}
	l, err := p.s.previewRights(ctx, p.s.catalog(ctx), r.body)
	if err != nil {
		return permission.PreviewResult{}, err
	}
	if !r.enabled {
		l.whole.Unattended = "will_stop"
		l.whole.Stops = append(l.whole.Stops, permission.PreviewStop{
			Subject: permission.SubjectRef{Kind: string(callable.Skill), ID: i.ID, Name: permission.Sanitize(r.name)}, Reason: permission.ReasonInactive,
			Message: fmt.Sprintf("Skill %q is disabled", r.name),
		})
	}
	return l.whole, nil
}

// Diff implements callable.Differ. By default From is the previous version and To the current one;
// the hashes in d select others.
func (p provider) Diff(ctx context.Context, d permission.DiffParams) (out permission.DiffResult, err error) {
	out.Changes = []permission.DiffChange{}
	id, err := uuid.Parse(d.SubjectID)
	if err != nil {
		return out, callable.NotFound(callable.Ref{Kind: callable.Skill, ID: d.SubjectID})
	}
	list, err := p.s.ListVersions(ctx, SkillParams{SkillID: id})
	if err != nil {
		return out, err
	}
	at := func(hash string, otherwise int) (int, error) {
		if hash == "" {
			return min(otherwise, len(list.Versions)), nil
		}
		for n, v := range list.Versions {
			if v.DefinitionHash == hash {
				return n, nil
			}
		}
		return 0, fault.NotFoundf("Definition not found.")
	}
	body := func(n int) (json.RawMessage, string, error) {
		if n >= len(list.Versions) {
			return nil, "", nil
		}
		v, err := p.s.GetVersion(ctx, VersionParams{VersionID: list.Versions[n].VersionID})
		return v.Body, v.DefinitionHash, err
	}
	to, err := at(d.To, 0)
	if err != nil {
		return out, err
	}
	from, err := at(d.From, to+1)
	if err != nil {
		return out, err
	}
	before, hash, err := body(from)
	if err != nil {
		return out, err
	}
	out.From = hash
	after, hash, err := body(to)
	if err != nil {
		return out, err
	}
	out.To = hash
	out.Changes, out.Capabilities, err = permission.Compare(before, after)
	return out, err
}

// Enqueue implements callable.Starter. The key of the request becomes the key of the run, so that
// the same key never creates two runs.
func (p provider) Enqueue(tx *storage.Tx, ref callable.Ref, r callable.Request) (uuid.UUID, error) {
	e := Enqueue{Input: r.Input, Trigger: r.Caller.Kind, RequestID: r.Key, Authority: r.Caller.Authority, Budget: r.Budget}
	if ref.Kind == callable.Skill {
		id, err := uuid.Parse(ref.ID)
		if err != nil {
			return uuid.Nil, callable.NotFound(ref)
		}
		e.SkillID, e.Version = &id, r.Version
		return p.s.EnqueueTx(tx, e)
	}
	found, err := p.s.o.Callables.Find(tx.Context(), ref.Kind, ref.ID, "")
	if err != nil {
		return uuid.Nil, err
	}
	if len(found) != 1 || found[0].Blocked == callable.ReasonForeign {
		return uuid.Nil, callable.NotFound(ref)
	}
	params := map[string]json.RawMessage{}
	if len(r.Input) > 0 {
		if err := json.Unmarshal(r.Input, &params); err != nil {
			return uuid.Nil, fault.Invalidf("The input of a step is an object.")
		}
	}
	limit := min(max(r.Timeout, time.Second), time.Hour).Milliseconds()
	kind := string(ref.Kind)
	e.Input = nil
	e.Skill, err = json.Marshal(map[string]any{
		"name": strings.ToUpper(kind[:1]) + kind[1:] + " " + found[0].Name, "overallTimeoutMs": limit,
		"steps": []any{map[string]any{"stepId": "call", "toolType": definition.KindOf(ref.Kind), "toolId": ref.ID, "parameters": params, "timeoutMs": limit}},
	})
	if err != nil {
		return uuid.Nil, err
	}
	return p.s.EnqueueTx(tx, e)
}

// Start implements callable.Starter.
func (p provider) Start(run uuid.UUID) { p.s.Begin(run) }

// Cancel implements callable.Starter.
func (p provider) Cancel(ctx context.Context, run uuid.UUID, reason string) error {
	_, err := p.s.Cancel(ctx, CancelParams{ExecutionID: run, Reason: reason})
	return err
}

// State implements callable.Starter.
func (p provider) State(ctx context.Context, run uuid.UUID) (callable.State, error) {
	x, err := p.s.execution(ctx, run, false)
	if err != nil {
		return callable.State{}, err
	}
	out := callable.State{Status: string(x.Status), WaitReason: x.WaitReason}
	if x.Status == machine.Completed {
		out.Status, out.Output = "success", x.FinalOutput
	}
	failure := x.Error
	if x.SkillID == nil && len(x.StepResults) == 1 && x.StepResults[0].Error != nil { // the one-step run of another callable
		failure = x.StepResults[0].Error
	}
	if failure != nil {
		out.ErrorKind, out.Error = failure.Kind, failure.Message
	}
	if x.Error != nil {
		out.NeedsApproval = x.Status == machine.Failed && x.Error.Kind == string(fault.Denied)
	}
	for _, r := range x.StepResults {
		out.Unknown = out.Unknown || r.Unknown
	}
	if n := x.Notification; n != nil {
		out.Notice = &callable.Notice{Title: n.Title, Body: n.Body, Level: n.Level}
	}
	if x.StartedAt != nil {
		out.StartedAt = *x.StartedAt
	}
	if x.FinishedAt != nil {
		out.FinishedAt = *x.FinishedAt
	}
	return out, nil
}
