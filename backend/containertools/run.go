package containertools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/callable"
	"helix/backend/container"
	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/schema"
	"helix/backend/storage"
)

// Limits of what the log keeps.
const (
	keptOutput = 64 << 10
	maxParams  = 32 << 10 // of TOOL_PARAMS
)

// RunParams run a tool.
type RunParams struct {
	ToolID    *uuid.UUID      `json:"toolId,omitempty"`
	Name      string          `json:"name,omitempty"` // instead of toolId
	Params    json.RawMessage `json:"params,omitempty"`
	TimeoutMs int64           `json:"timeoutMs,omitempty"`
}

// RunResult is the result of a run whose container was started.
type RunResult struct {
	Success    bool            `json:"success"`
	Output     json.RawMessage `json:"output"` // standard output: its JSON, or its text
	RunID      uuid.UUID       `json:"runId"`
	Status     string          `json:"status"` // success, failure, timeout or cancelled
	ErrorClass string          `json:"errorClass,omitempty"`
	Error      string          `json:"error,omitempty"`
	ExitCode   int             `json:"exitCode"`
	Log        string          `json:"log"` // the end of standard error
	DurationMs int64           `json:"durationMs"`
	Usage      Usage           `json:"usage"`

	hidden []string // secrets among the parameters
}

// Usage is what a run used.
type Usage struct {
	CPUMs      int64 `json:"cpuMs"`
	PeakMemory int64 `json:"peakMemory"` // bytes
	BytesOut   int64 `json:"bytesOut"`   // over the network
	BytesIn    int64 `json:"bytesIn"`
}

// Run runs a tool and returns when its container has been removed. A program that fails is a result without
// success; a run that could not start is an error.
func (s *Service) Run(ctx context.Context, p RunParams) (RunResult, error) {
	if (p.ToolID == nil) == (p.Name == "") || p.TimeoutMs < 0 {
		return RunResult{}, fault.Invalidf("Provide either toolId or name, and a time limit above 0.")
	}
	t, err := s.find(ctx, p.ToolID, p.Name)
	if err != nil {
		return RunResult{}, err
	}
	return s.run(ctx, t, &callable.Request{Input: p.Params, Timeout: duration.Of(min(p.TimeoutMs, 600_000), time.Millisecond), Caller: callable.Caller{Attended: true}})
}

func (s *Service) find(ctx context.Context, id *uuid.UUID, name string) (t *Tool, err error) {
	return storage.Result(ctx, s.db.Read, func(tx *storage.Tx) (*Tool, error) { return load(tx, id, name) })
}

// check carries out every check that needs neither a permission nor the engine.
func (s *Service) check(ctx context.Context, t *Tool, r *callable.Request) error {
	if r.Hash != "" && r.Hash != t.DefinitionHash {
		return callable.Changed(callable.Info{Name: t.Name})
	}
	refuse := func(reason callable.Reason, format string, args ...any) error {
		return fault.Deniedf(format, args...).WithDetails(callable.Refusal{Reason: reason})
	}
	switch t.Status {
	case StatusPending:
		return refuse(permission.ReasonInactive, "The tool %s waits for approval. Review it in Approvals first.", t.Name)
	case StatusDisabled:
		return refuse(callable.ReasonDisabled, "The tool %s is disabled. Switch it on first.", t.Name)
	case StatusRevoked:
		return refuse(permission.ReasonInactive, "The tool %s is revoked.", t.Name)
	}
	if len(r.Input) == 0 {
		r.Input = json.RawMessage("{}")
	}
	if err := callable.CheckInput(ctx, t.info(), r.Input); err != nil {
		return err
	}
	if len(r.Input) > container.MaxInput {
		return fault.Limitf("The parameters have %d bytes; a container takes at most %d.", len(r.Input), container.MaxInput)
	}
	return nil
}

// run is the only way to a container: every caller comes through here.
func (s *Service) run(ctx context.Context, t *Tool, r *callable.Request) (out RunResult, err error) {
	if err := s.check(ctx, t, r); err != nil {
		return out, err
	}
	if err := ctx.Err(); err != nil {
		return out, fault.New(fault.Canceled, "The run was canceled before it started.").WithCause(err)
	}
	out.RunID = storage.NewID()
	ctx, leave, err := s.enter(ctx, t.ID, t.user, out.RunID)
	if err != nil {
		return out, err
	}
	defer leave()
	pass, err := s.gate.Pass(ctx, r, callable.Reach{
		Name: t.Name, Subject: t.subject(), Tier: permission.SideEffecting, Action: audit.Start,
		Details: map[string]any{"execution": out.RunID, "definitionHash": t.DefinitionHash, "imageId": t.Definition.ImageID},
	})
	if err != nil {
		return out, err
	}
	defer pass.End()
	held, stop := pass.Context(ctx)
	defer stop()
	if err := s.begin(ctx, t, r, &out); err != nil {
		return out, err
	}
	started := time.Now()
	spec := s.spec(ctx, t, r, out.RunID)
	if len(t.Definition.Hosts) > 0 {
		spec.Egress = &egress{s, pass}
		spec.Contacted = func(c container.Contact) { s.contacted(held, t.ID.String(), &r.Caller, out.RunID, &c) }
	}
	res, err := s.engine.Execute(held, spec)
	out.DurationMs = time.Since(started).Milliseconds()
	if cause := context.Cause(held); cause != nil && fault.Is(cause, fault.Denied) {
		err = cause // it was revoked, disabled or lost its permission
	}
	if err == nil {
		err = s.read(ctx, t, &res, &out)
	} else {
		f := fault.As(err)
		out.Status, out.ErrorClass, out.Error = "failure", string(f.Kind), f.Message
		if f.Kind == fault.Canceled {
			out.Status = "cancelled"
		}
	}
	s.removed(t.user, RunChanged{RunID: out.RunID, ToolID: t.ID, Name: t.Name}, out.Usage)
	if rerr := s.ended(ctx, t, r, &out, &res); rerr != nil {
		s.log.Error("record a container run", "run", out.RunID, "err", rerr)
	}
	return out, err
}

func (s *Service) spec(ctx context.Context, t *Tool, r *callable.Request, id uuid.UUID) container.Spec {
	d := &t.Definition
	x := container.Spec{Name: t.Name, ImageID: d.ImageID, Argv: d.Argv, Input: r.Input, Limits: d.Limits, RunID: id}
	x.Limits.Wall = duration.Of(int64(d.TimeoutSeconds), time.Second)
	if r.Timeout > 0 {
		x.Limits.Wall = max(time.Second, min(x.Limits.Wall, r.Timeout))
	}
	// The environment of a container can be inspected, so only parameters without secrets are in it.
	if c, err := schema.Compile(d.Input); err == nil && !c.HasSecrets() && len(r.Input) <= maxParams && s.o.Scrub(ctx, string(r.Input)) == string(r.Input) {
		x.Env = append(x.Env, "TOOL_PARAMS="+string(r.Input))
	}
	if d.StateBytes > 0 {
		x.Volume = &container.Volume{Name: volumeName(t.ID), Quota: d.StateBytes}
	}
	x.Phase = s.phases(t.user, RunChanged{RunID: id, ToolID: t.ID, Name: t.Name})
	return x
}

// phases returns a function that publishes the phases of a run except the last, whose event has the usage.
func (s *Service) phases(user uuid.UUID, run RunChanged) func(phase string) {
	return func(phase string) {
		if phase != container.PhaseRemoved {
			run.Phase = phase
			publish(s, user, run)
		}
	}
}

// removed publishes the last phase of a run.
func (s *Service) removed(user uuid.UUID, run RunChanged, used Usage) {
	run.Phase, run.Usage = container.PhaseRemoved, &used
	publish(s, user, run)
}

// enter counts a run against the limit of its user and makes it end with Kill. leave ends it.
func (s *Service) enter(ctx context.Context, tool, user, run uuid.UUID) (_ context.Context, leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.running {
		if r.user == user {
			n++
		}
	}
	if n >= perUser {
		return nil, nil, fault.Limitf("%d containers of yours are running. Wait for one to end.", perUser)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	s.running[run] = &inProgress{tool, user, cancel}
	return ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.running, run)
		cancel(nil)
	}, nil
}

// endRuns ends the runs of a tool.
func (s *Service) endRuns(tool uuid.UUID, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.running {
		if r.tool == tool {
			r.cancel(fault.Deniedf("%s", why))
		}
	}
}

// RunIDParams name a run.
type RunIDParams struct {
	RunID uuid.UUID `json:"runId"`
}

// KillResult says whether a run was in progress.
type KillResult struct {
	Killed bool `json:"killed"`
}

// Kill ends a run of the user.
func (s *Service) Kill(ctx context.Context, p RunIDParams) (KillResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.running[p.RunID]
	if r == nil || r.user != identity.UserID(ctx) {
		return KillResult{}, nil
	}
	r.cancel(context.Canceled)
	return KillResult{true}, nil
}

// read makes the result of how a tool ended.
func (s *Service) read(ctx context.Context, t *Tool, res *container.Result, out *RunResult) error {
	if err := s.outcome(ctx, t.Name, &t.Definition.Limits, res, out); err != nil || !out.Success {
		return err
	}
	list, err := s.mismatch(ctx, t, res.Stdout)
	if err == nil && list != "" {
		out.Success, out.Status, out.ErrorClass, out.Error = false, "failure", "output", list
	}
	return err
}

// outcome makes the result of how a program ended.
func (s *Service) outcome(ctx context.Context, name string, l *container.Limits, res *container.Result, out *RunResult) error {
	out.ExitCode, out.Log = res.ExitCode, s.o.Scrub(ctx, strings.ToValidUTF8(string(res.StderrTail), "\uFFFD"))
	out.Status, out.ErrorClass = "failure", string(res.Outcome)
	out.Usage = Usage{res.Usage.CPU.Milliseconds(), res.Usage.PeakMemory, res.Usage.BytesOut, res.Usage.BytesIn}
	var err error
	if out.Output, err = output(res.Stdout); err != nil {
		return err
	}
	switch res.Outcome {
	case container.Success:
		out.Status, out.ErrorClass, out.Success = "success", "", true
	case container.TimedOut:
		out.Status, out.ErrorClass, out.Error = "timeout", "timeout", fmt.Sprintf("%s did not end within its time limit.", name)
	case container.Cancelled:
		out.Status, out.ErrorClass, out.Error = "cancelled", "canceled", "The run was canceled."
	case container.OOM:
		out.Error = fmt.Sprintf("%s needs more than %d MiB of memory.", name, l.MemoryBytes>>20)
	case container.Storage:
		out.Error = fmt.Sprintf("%s stores more than it may.", name)
	case container.TooLarge:
		out.Error = fmt.Sprintf("%s wrote more than %d bytes.", name, l.OutputBytes)
	default:
		out.Error = fmt.Sprintf("%s ended with status %d.", name, res.ExitCode)
		if res.ExitCode == 137 { // not every engine says why
			out.Error += fmt.Sprintf(" It was killed, perhaps because it needs more than %d MiB of memory.", l.MemoryBytes>>20)
		}
		if last := lastLine(out.Log); last != "" {
			out.Error += " It wrote: " + last
		}
	}
	return nil
}

// mismatch says what is wrong with the output of a tool that declares a schema; "": nothing.
func (s *Service) mismatch(ctx context.Context, t *Tool, stdout []byte) (string, error) {
	if len(t.Definition.Output) == 0 || string(t.Definition.Output) == "null" {
		return "", nil
	}
	if !json.Valid(stdout) {
		return "The output isn't JSON, as its schema demands.", nil
	}
	list, err := schema.CheckJSON(ctx, t.Definition.Output, stdout)
	if err != nil || len(list) == 0 {
		return "", err
	}
	return fmt.Sprintf("The output doesn't match its schema: %s: %s.", list[0].Path, list[0].Message), nil
}

// output is what callers get: the JSON that was written, or its text.
func output(stdout []byte) (json.RawMessage, error) {
	trimmed := json.RawMessage(strings.TrimSpace(string(stdout)))
	if len(trimmed) > 0 && utf8.Valid(trimmed) && json.Valid(trimmed) {
		return trimmed, nil
	}
	if !utf8.Valid(stdout) {
		return json.Marshal(map[string]any{"base64": stdout})
	}
	return json.Marshal(string(stdout))
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	last := lines[len(lines)-1]
	if len(last) > 500 {
		last = strings.ToValidUTF8(last[:500], "") + "…"
	}
	return last
}

// begin records that a run starts. A run that cannot be recorded does not start.
func (s *Service) begin(ctx context.Context, t *Tool, r *callable.Request, out *RunResult) error {
	kept := r.Input
	if c, err := schema.Compile(t.Definition.Input); err == nil {
		kept, out.hidden = c.RedactJSON(kept)
	}
	params := s.o.Scrub(ctx, string(kept))
	if len(params) > keptOutput || !json.Valid([]byte(params)) {
		params = fmt.Sprintf(`{"omitted":%d}`, len(r.Input))
	}
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`INSERT INTO container_runs (id, user_id, tool_id, input, status, definition_hash, caller, run_id, created_at) VALUES (?, ?, ?, ?, 'running', ?, ?, ?, ?)`,
			out.RunID, t.user, t.ID, params, t.hash, r.Caller.Kind, r.Caller.Run, tx.Now)
		return err
	})
}

// ended records the end of a run, with its audit entry.
func (s *Service) ended(ctx context.Context, t *Tool, r *callable.Request, out *RunResult, res *container.Result) error {
	stored := func(text string) string { // the program may have repeated secret parameters
		return s.o.Scrub(ctx, string(schema.Mask([]byte(text), out.hidden)))
	}
	kept := stored(string(out.Output))
	if len(kept) > keptOutput {
		kept = strings.ToValidUTF8(kept[:keptOutput], "") + "…"
	}
	result := audit.OK
	if !out.Success {
		result = audit.Failed
	}
	return s.db.Write(context.WithoutCancel(ctx), func(tx *storage.Tx) error {
		if _, err := tx.Exec(`UPDATE container_runs SET output = ?, log = ?, status = ?, error_class = ?, error_message = ?, exit_code = ?, container_id = ?, duration_ms = ? WHERE id = ?`,
			kept, stored(out.Log), out.Status, out.ErrorClass, stored(out.Error), out.ExitCode, res.ContainerID, out.DurationMs, out.RunID); err != nil {
			return err
		}
		e := audit.Entry{ActorKind: r.Caller.Kind, Action: audit.Complete, SubjectKind: string(Kind), SubjectID: t.ID.String(), Outcome: result, RunID: out.RunID,
			Details: map[string]any{"durationMs": out.DurationMs, "class": out.ErrorClass, "exitCode": out.ExitCode, "container": res.ContainerID, "usage": out.Usage}}
		if r.Caller.Kind != "" {
			e.ActorID = r.Caller.Run.String()
		}
		return audit.Append(tx, e)
	})
}

// provider provides the tools as callables. The id of one is the id of the tool.
type provider struct{ s *Service }

// Callables returns the provider of container tools.
func (s *Service) Callables() callable.Provider { return provider{s} }

// Kind implements callable.Provider.
func (provider) Kind() callable.Kind { return Kind }

func (t *Tool) info() callable.Info {
	d := &t.Definition
	i := callable.Info{
		Ref: callable.Ref{Kind: Kind, ID: t.ID.String()}, Name: t.Name, Description: d.Description, Hash: t.DefinitionHash, Input: d.Input, Untrusted: true,
	}
	if wants, err := d.wants(); err == nil { // they were checked when the tool was added
		for _, w := range wants {
			i.Capabilities = append(i.Capabilities, permission.FormatCapability(w.Capability, w.Resource))
		}
	}
	if string(d.Output) != "null" {
		i.Output = d.Output
	}
	switch t.Status {
	case StatusActive:
	case StatusDisabled:
		i.Blocked = callable.ReasonDisabled
	default:
		i.Blocked = permission.ReasonInactive
	}
	return i
}

// Find implements callable.Provider.
func (p provider) Find(ctx context.Context, id, name string) ([]callable.Info, error) {
	var key *uuid.UUID
	if id != "" {
		parsed, err := uuid.Parse(id)
		if err != nil {
			return nil, nil
		}
		key = &parsed
	}
	t, err := p.s.find(ctx, key, name)
	if fault.Is(err, fault.NotFound) || err == nil && t.Status == StatusRevoked {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return []callable.Info{t.info()}, nil
}

// List implements callable.Provider. It returns the tools that can run.
func (p provider) List(ctx context.Context) ([]callable.Info, error) {
	tools, err := p.s.tools(ctx)
	out := []callable.Info{}
	for _, t := range tools {
		if t.Status == StatusActive {
			out = append(out, t.info())
		}
	}
	return out, err
}

var errFailed = errors.New("the program failed")

// Call implements callable.Provider. A program that fails is an error.
func (p provider) Call(ctx context.Context, ref callable.Ref, r callable.Request) (callable.Result, error) {
	id, err := uuid.Parse(ref.ID)
	if err != nil {
		return callable.Result{}, callable.NotFound(ref)
	}
	t, err := p.s.find(ctx, &id, "")
	if fault.Is(err, fault.NotFound) {
		return callable.Result{}, callable.NotFound(ref)
	}
	if err != nil {
		return callable.Result{}, err
	}
	out, err := p.s.run(ctx, t, &r)
	if err != nil {
		return callable.Result{}, err
	}
	if !out.Success {
		kind := fault.Invalid
		switch out.Status {
		case "timeout":
			kind = fault.Timeout
		case "cancelled":
			kind = fault.Canceled
		}
		if out.ErrorClass == string(container.OOM) || out.ErrorClass == string(container.TooLarge) {
			kind = fault.Limit
		}
		return callable.Result{}, fault.New(kind, "%s", out.Error).WithCause(errFailed)
	}
	return callable.Result{Output: out.Output, Untrusted: true}, nil
}

// Rights implements callable.Provider.
func (p provider) Rights(ctx context.Context, i callable.Info, _ json.RawMessage) (permission.PreviewResult, error) {
	return p.s.o.Permission.Preview(ctx, permission.PreviewParams{Subject: permission.PreviewSubject{Kind: string(Kind), ID: i.ID}})
}
