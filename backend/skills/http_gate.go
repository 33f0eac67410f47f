package skills

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"log/slog"
	"net/url"
	"strings"

	"helix/backend/audit"
	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/storage"
)

// builtinKind is what permission calls a built-in step that reaches out. Its subject is one
// such step with one resource, because what it reaches is known only when it is called: the
// right to ask one host says nothing about another.
const builtinKind = string(callable.Builtin)

const httpStep = "http.request"

// HTTPGate decides what the step http.request may reach, and tells permission about those
// subjects.
type HTTPGate struct {
	Permission *permission.Service
	Record     func(ctx context.Context, e ...audit.Entry) error
	Logger     *slog.Logger
}

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
func (*HTTPGate) Subject(_ context.Context, _, id string) (permission.SubjectInfo, error) {
	name, text, ok := strings.Cut(id, " ")
	capability, resource, err := permission.ParseCapability(text)
	if !ok || err != nil || name != httpStep || capability != permission.NetworkHTTPS && capability != permission.NetworkLocalhost {
		return permission.SubjectInfo{}, fault.NotFoundf("Step not found.")
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
		return "", "", fault.Deniedf("Only https addresses can be asked, and http on this computer.").WithDetails(callable.Refusal{Reason: permission.ReasonNever})
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if p := u.Port(); p != "" && p != "443" {
		host += ":" + p
	}
	return permission.NetworkHTTPS, host, nil
}

// Allow decides whether the step http.request may send to u, for its caller and no more than
// that holds, and puts the request on record before it is sent.
func (g *HTTPGate) Allow(ctx context.Context, c *callable.Request, u *url.URL, _ bool, revoked context.CancelCauseFunc) (func(), error) {
	capability, resource, err := reaches(u)
	if err != nil {
		return nil, err
	}
	if resource, err = permission.Normalize(capability, resource); err != nil {
		return nil, refusedAlways(err)
	}
	sub, run := httpSubject(capability, resource), storage.NewID()
	auth, err := g.Permission.Begin(ctx, c.Caller.Authority, sub, run)
	if err != nil {
		return nil, refusedAlways(err)
	}
	end := func() {
		if err := g.Permission.EndRun(context.WithoutCancel(ctx), run); err != nil {
			g.Logger.Warn("end the grants of a step", "err", err)
		}
	}
	entry := func(outcome string, details map[string]any) error {
		details["capability"], details["resource"], details["step"], details["key"] = capability, resource, c.Caller.Step, c.Key
		return g.Record(context.WithoutCancel(ctx), audit.Entry{
			ActorKind: "skill", ActorID: c.Caller.Run.String(), Action: audit.NetworkCall, SubjectKind: builtinKind, SubjectID: sub.ID, Outcome: outcome, RunID: c.Caller.Run, Details: details,
		})
	}
	d, err := g.Permission.Decide(ctx, permission.Request{
		Subject: sub, Cap: capability, Resource: resource, Tier: permission.SideEffecting, Caller: c.Caller.Authority, RunID: run, RunKind: "skill", Why: c.Caller.Why(),
	})
	if err == nil && d.Effect != permission.Allow {
		err = httpRefused(capability, resource, d)
		if aerr := entry(audit.Denied, map[string]any{"verdict": d.Reason}); aerr != nil {
			g.Logger.Warn("record a refused request", "err", aerr)
		}
	}
	if err != nil {
		end()
		return nil, err
	}
	if err := entry(audit.OK, map[string]any{"host": u.Host}); err != nil {
		end()
		return nil, fault.Unavailablef("Couldn't write the audit log, so nothing was sent.").WithCause(err)
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
		message = "The caller does not have " + what + ", so it can't pass it on."
	}
	return fault.Deniedf("%s", message).WithDetails(callable.Refusal{PendingApprovalID: d.PendingID, Reason: callable.Reason(d.Reason)})
}

// refusedAlways is an error before anything was sent that no answer lifts.
func refusedAlways(err error) error {
	f := *fault.As(err)
	switch f.Kind {
	case fault.Invalid:
		f.Kind, f.Details = fault.Denied, callable.Refusal{Reason: permission.ReasonNever}
	case fault.Denied:
		r := callable.Refusal{Reason: permission.ReasonInactive}
		if was, ok := f.Details.(permission.Refusal); ok {
			r.Reason = callable.Reason(was.Reason)
			if was.PendingID != nil {
				r.PendingApprovalID = *was.PendingID
			}
		}
		f.Details = r
	}
	return &f
}

// anyHost is what a request needs whose address is known only when it is sent.
const anyHost = "network:https(host of the url)"

// Rights says what the step http.request needs and whether it is granted. An address that comes
// from the run's data is not known before: then somebody may have to be asked.
func (g *HTTPGate) Rights(ctx context.Context, input json.RawMessage) (permission.PreviewResult, error) {
	var in struct{ URL *string }
	if json.Unmarshal(input, &in) != nil || in.URL == nil {
		return callable.Needs(callable.Info{Ref: callable.Ref{Kind: callable.Builtin, ID: httpStep}, Name: httpStep, Capabilities: []string{anyHost}}), nil
	}
	u, err := url.Parse(*in.URL)
	if err != nil {
		return permission.PreviewResult{}, fault.Invalidf("The address cannot be read.")
	}
	capability, resource, err := reaches(u)
	if err != nil {
		return permission.PreviewResult{}, err
	}
	if resource, err = permission.Normalize(capability, resource); err != nil {
		return permission.PreviewResult{}, err
	}
	return g.Permission.Preview(ctx, permission.PreviewParams{Subject: permission.PreviewSubject{Kind: builtinKind, ID: httpSubject(capability, resource).ID}})
}
