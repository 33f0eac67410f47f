package containertools

import (
	"context"
	"encoding/json"
	"net"
	"time"

	"helix/backend/audit"
	"helix/backend/callable"
	"helix/backend/container"
	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/storage"
)

// RunImageParams run a command in an image once.
type RunImageParams struct {
	Image     string           `json:"image"`            // reference or id of an image on this computer
	Argv      []string         `json:"argv,omitempty"`   // default: what the image starts
	Params    json.RawMessage  `json:"params,omitempty"` // its standard input; default: nothing
	Limits    container.Limits `json:"limits,omitempty"`
	Hosts     []string         `json:"hosts,omitempty"` // that it may reach, as for a tool
	TimeoutMs int64            `json:"timeoutMs,omitempty"`
}

// RunImage runs a command in an image once, without making a tool of it. Only a person can: what a tool may do is
// approved, but this command is approved by whoever types it. The activity log has the whole command.
func (s *Service) RunImage(ctx context.Context, p RunImageParams) (out RunResult, err error) {
	id, _ := identity.From(ctx)
	if !id.MayApprove() {
		return out, fault.Deniedf("Only a person can run an image without a tool. A program needs a tool that was approved.")
	}
	d, err := s.define(ctx, &AddParams{Name: "run", Image: p.Image, Argv: p.Argv, Limits: p.Limits, Hosts: p.Hosts})
	if err != nil {
		return out, err
	}
	if len(p.Params) > container.MaxInput {
		return out, fault.Limitf("The parameters have %d bytes; a container takes at most %d.", len(p.Params), container.MaxInput)
	}
	out.RunID = storage.NewID()
	ctx, leave, err := s.enter(ctx, out.RunID, id.User, out.RunID)
	if err != nil {
		return out, err
	}
	defer leave()
	shown := make([]string, len(d.Argv))
	for i, a := range d.Argv {
		shown[i] = s.o.Scrub(ctx, a)
	}
	entry := audit.Entry{Action: audit.Start, SubjectKind: string(Kind), SubjectID: d.ImageID, RunID: out.RunID, Details: map[string]any{"image": p.Image, "argv": shown, "hosts": d.Hosts}}
	if err := s.o.Audit.Record(ctx, entry); err != nil {
		return out, fault.Unavailablef("Couldn't write the audit log, so nothing was run.").WithCause(err)
	}
	spec := container.Spec{Name: p.Image, ImageID: d.ImageID, Argv: d.Argv, Input: p.Params, Limits: d.Limits, RunID: out.RunID}
	if p.TimeoutMs > 0 {
		spec.Limits.Wall = max(time.Second, min(duration.Of(p.TimeoutMs, time.Millisecond), 10*time.Minute))
	}
	run := RunChanged{RunID: out.RunID, Name: p.Image}
	spec.Phase = s.phases(id.User, run)
	if len(d.Hosts) > 0 {
		spec.Egress = &imageEgress{s, d.Hosts}
		spec.Contacted = func(c container.Contact) { s.contacted(ctx, d.ImageID, &callable.Caller{}, out.RunID, &c) }
	}
	started := time.Now()
	res, err := s.engine.Execute(ctx, spec)
	out.DurationMs = time.Since(started).Milliseconds()
	if err == nil {
		err = s.outcome(ctx, firstWord(d.Argv, p.Image), &d.Limits, &res, &out)
	}
	s.removed(id.User, run, out.Usage)
	entry.Action, entry.Outcome = audit.Complete, audit.OK
	if err != nil || !out.Success {
		entry.Outcome = audit.Failed
	}
	entry.Details = map[string]any{"durationMs": out.DurationMs, "class": out.ErrorClass, "exitCode": out.ExitCode, "container": res.ContainerID, "usage": out.Usage}
	if rerr := s.o.Audit.Record(context.WithoutCancel(ctx), entry); rerr != nil {
		s.log.Error("record the end of a container run", "run", out.RunID, "err", rerr)
	}
	return out, err
}

func firstWord(argv []string, image string) string {
	if len(argv) == 0 {
		return image
	}
	return argv[0]
}

// imageEgress makes the connections of an image without a tool: those to the hosts that the person named.
type imageEgress struct {
	s     *Service
	hosts []string
}

// Dial implements container.Egress.
func (e *imageEgress) Dial(ctx context.Context, host string, port int) (net.Conn, error) {
	capability, resource := resourceOf(host, port)
	for _, h := range e.hosts {
		w := wantHost(h)
		pattern, err := permission.Normalize(w.Capability, w.Resource)
		if err == nil && w.Capability == capability && permission.Covers(capability, pattern, resource) && e.s.o.Dial != nil {
			return e.s.o.Dial(ctx, host, port)
		}
	}
	address := resource
	if capability == permission.NetworkLocalhost {
		address = net.JoinHostPort(host, resource)
	}
	return nil, fault.Deniedf("The command may not reach %s. Allow it with: --net %s", address, address)
}

// Secret implements container.Egress.
func (*imageEgress) Secret(context.Context, string, string) (string, error) {
	return "", fault.Deniedf("Only a tool that was approved can use secrets.")
}
