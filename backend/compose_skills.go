package backend

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/config"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/skills"
	"helix/backend/storage"
	"helix/backend/tools"
)

// openSkills builds composite skills over the domains that their steps call.
func (b *Backend) openSkills(conf config.Config) {
	b.Skills = skills.New(b.DB, skills.Options{
		Logger: b.log,
		Tools:  &toolRunner{tools: b.Tools, perm: b.Permission}, Wasm: &wasmRunner{tools: b.Tools, perm: b.Permission}, MCP: mcpRunner{},
		Gate: approvalGate{b.Permission}, Audit: skillAuditor{},
		Keep: func(tx *storage.Tx) ([]uuid.UUID, error) { return b.Scheduler.LastFailures(tx) },
		Limits: skills.Limits{
			Live: conf.SkillsMaxLive, Queued: conf.SkillsMaxQueued, Input: conf.SkillsMaxInput, Document: conf.SkillsMaxDocument,
			Inline: conf.SkillsInlineOutput, HistoryRuns: conf.SkillsHistoryRuns, HistoryBytes: conf.SkillsHistoryBytes,
		},
	})
	list, closing := skills.Builtins(skills.BuiltinOptions{
		DenyPort: b.ownPort, Allow: b.allowHTTP, Notify: b.notifyUser, Check: checkJSON,
	})
	for _, s := range list {
		if s.Name == httpStep {
			s.Rights = b.httpRights
		}
		b.Skills.Register(s)
	}
	b.Permission.Register(builtinKind, builtinSubjects{}, nil)
	b.closing("skills", func() error {
		b.Skills.Close()
		closing()
		return nil
	})
}

// checkJSON is the check of the step json.validate, with the bounds that parameters have.
func checkJSON(schema, value json.RawMessage) ([]skills.Finding, error) {
	list, err := tools.CheckJSON(schema, value)
	if err != nil {
		return nil, err
	}
	out := make([]skills.Finding, 0, len(list))
	for _, e := range list {
		out = append(out, skills.Finding{Path: e.Path, Keyword: e.Keyword, Message: e.Message})
	}
	return out, nil
}

// notifyUser shows the notice of a step to the user's clients. That a step asked for it is on
// record in the run's journal; a client that was away for a moment gets it when it resumes.
func (b *Backend) notifyUser(ctx context.Context, n skills.Notification) error {
	bus.Publish(b.Bus, identity.UserID(ctx), n)
	return nil
}

// builtinKind is what permission calls a built-in step that reaches out. Its subject is one
// such step with one resource, because what it reaches is known only when it is called: the
// right to ask one host says nothing about another.
const builtinKind = "builtin"

const httpStep = "http.request"

// builtinSubjects tells permission about those subjects.
type builtinSubjects struct{}

// httpSubject is the step http.request towards what a capability names.
func httpSubject(c permission.Capability, resource string) permission.Subject {
	s := permission.Subject{Kind: builtinKind, ID: httpStep + " " + permission.FormatCapability(c, resource)}
	s.DefinitionHash = builtinHash(s.ID)
	return s
}

// builtinHash changes when what such a step does is changed in a way that people should look
// at again.
func builtinHash(id string) [32]byte { return sha256.Sum256([]byte("helix-builtin-v1\x00" + id)) }

// Subject implements permission.Source.
func (builtinSubjects) Subject(_ context.Context, _, id string) (permission.SubjectInfo, error) {
	name, text, ok := strings.Cut(id, " ")
	capability, resource, err := permission.ParseCapability(text)
	if !ok || err != nil || name != httpStep || capability != permission.NetworkHTTPS && capability != permission.NetworkLocalhost {
		return permission.SubjectInfo{}, fault.NotFoundf("There is no such step.")
	}
	doc, err := json.Marshal(map[string]string{"step": name, "reaches": text})
	if err != nil {
		return permission.SubjectInfo{}, err
	}
	return permission.SubjectInfo{
		Name: name, State: permission.Active, DefinitionHash: builtinHash(id), Definition: doc, Approved: true,
		Declared: []permission.Want{{Capability: capability, Resource: resource}},
	}, nil
}

// reaches is the capability that a request to u needs.
func reaches(u *url.URL) (permission.Capability, string, error) {
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if host == "localhost" || host == "127.0.0.1" || host == "::1" {
		port := u.Port()
		if port == "" && u.Scheme == "https" {
			port = "443"
		}
		return permission.NetworkLocalhost, first(port, "80"), nil
	}
	if u.Scheme != "https" {
		return "", "", fault.Deniedf("Only https addresses can be asked, and http on this computer.").WithDetails(skills.Refused{Reason: permission.ReasonNever})
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if p := u.Port(); p != "" && p != "443" {
		host += ":" + p
	}
	return permission.NetworkHTTPS, host, nil
}

// allowHTTP decides whether the step http.request may send to u, for its caller and no more
// than that holds, and puts the request on record before it is sent.
func (b *Backend) allowHTTP(ctx context.Context, c *skills.Call, u *url.URL, _ bool, revoked context.CancelCauseFunc) (func(), error) {
	capability, resource, err := reaches(u)
	if err != nil {
		return nil, err
	}
	if resource, err = permission.Normalize(capability, resource); err != nil {
		return nil, refusedAlways(err)
	}
	sub, run := httpSubject(capability, resource), storage.NewID()
	auth, err := b.Permission.Begin(ctx, c.Authority, sub, run)
	if err != nil {
		return nil, refusedAlways(err)
	}
	end := func() {
		if err := b.Permission.EndRun(context.WithoutCancel(ctx), run); err != nil {
			b.log.Warn("end the rights of a step", "err", err)
		}
	}
	entry := func(outcome string, details map[string]any) error {
		details["capability"], details["resource"], details["step"], details["key"] = capability, resource, c.StepPath, c.Key
		return b.Audit.Record(context.WithoutCancel(ctx), audit.Entry{
			ActorKind: "skill", ActorID: c.Run.String(), Action: audit.NetworkCall, SubjectKind: builtinKind, SubjectID: sub.ID, Outcome: outcome, RunID: c.Run, Details: details,
		})
	}
	d, err := b.Permission.Decide(ctx, permission.Request{
		Subject: sub, Cap: capability, Resource: resource, Tier: permission.SideEffecting, Caller: c.Authority, RunID: run, RunKind: "skill", Why: stepWords(c),
	})
	if err == nil && d.Effect != permission.Allow {
		err = httpRefused(capability, resource, d)
		if aerr := entry(audit.Denied, map[string]any{"verdict": d.Reason}); aerr != nil {
			b.log.Warn("record a refused request", "err", aerr)
		}
	}
	if err != nil {
		end()
		return nil, err
	}
	if err := entry(audit.OK, map[string]any{"host": u.Host}); err != nil {
		end()
		return nil, fault.Unavailablef("The audit log cannot be written, so nothing was sent.").WithCause(err)
	}
	held, stop := auth.Context(ctx)
	unwatch := context.AfterFunc(held, func() { revoked(context.Cause(held)) })
	return func() { unwatch(); stop(); end() }, nil
}

func httpRefused(c permission.Capability, resource string, d permission.Decision) error {
	what := permission.FormatCapability(c, resource)
	message := "The step may not use " + what + "."
	switch d.Reason {
	case permission.ReasonNeedsApproval:
		message = "The step asks for " + what + ", which you have not allowed yet. The question waits in Approvals."
	case permission.ReasonDeniedByUser:
		message = "You have refused " + what + " to http.request."
	case permission.ReasonCallerLacks:
		message = "The caller does not hold " + what + ", so it cannot lend it."
	}
	return fault.Deniedf("%s", message).WithDetails(skills.Refused{PendingApprovalID: d.PendingID, Reason: d.Reason})
}

// refusedAlways is an error before anything was sent that no answer lifts.
func refusedAlways(err error) error {
	f := *fault.As(err)
	switch f.Kind {
	case fault.Invalid:
		f.Kind, f.Details = fault.Denied, skills.Refused{Reason: permission.ReasonNever}
	case fault.Denied:
		r := skills.Refused{Reason: permission.ReasonInactive}
		if was, ok := f.Details.(permission.Refusal); ok {
			r.Reason = was.Reason
			if was.PendingID != nil {
				r.PendingApprovalID = *was.PendingID
			}
		}
		f.Details = r
	}
	return &f
}

// skillName is what a skill of the caller is called, "" when it is gone.
func (b *Backend) skillName(ctx context.Context, id string) string {
	key, err := uuid.Parse(id)
	if err != nil {
		return ""
	}
	name, err := b.Skills.NameOf(ctx, key)
	if err != nil {
		return ""
	}
	return name
}
