package callable

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/permission"
)

// Func is a callable that is a function of this program.
type Func struct {
	// Info describes it. Its Name is also its id; the set sets Kind, ID and Hash.
	Info
	// Run performs a call and returns its output, or a Result.
	Run func(ctx context.Context, r Request) (any, error)
	// Rights returns what a call needs; nil: its Capabilities, whose grants are only
	// checked during the call.
	Rights func(ctx context.Context, input json.RawMessage) (permission.PreviewResult, error)
	// Hidden reports whether the function is not listed now, because what it needs is missing; nil: it is
	// always listed.
	Hidden func() bool
	// Records means that Run records its effects itself.
	Records bool
}

// Set is a Provider of functions. It validates each input against the schema and the caller's hash
// against the function, and records calls with effects before they start.
type Set struct {
	kind   Kind
	record func(ctx context.Context, e ...audit.Entry) error

	mu  sync.RWMutex
	all map[string]Func
}

// NewSet returns a set of a kind. If record is nil nothing is recorded.
func NewSet(kind Kind, record func(ctx context.Context, e ...audit.Entry) error) *Set {
	return &Set{kind: kind, record: record, all: map[string]Func{}}
}

// Add adds functions.
func (s *Set) Add(list ...Func) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range list {
		text, _ := json.Marshal([]any{f.Name, f.Input, f.Output, f.Effects, f.Capabilities}) // cannot fail: our own data
		sum := sha256.Sum256(text)
		f.Kind, f.ID, f.Hash, f.Description = s.kind, f.Name, hex.EncodeToString(sum[:]), cmp.Or(f.Description, f.Title)
		s.all[f.Name] = f
	}
}

// Kind implements Provider.
func (s *Set) Kind() Kind { return s.kind }

// Find implements Provider.
func (s *Set) Find(_ context.Context, id, name string) ([]Info, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if f, ok := s.all[cmp.Or(id, name)]; ok {
		return []Info{f.Info}, nil
	}
	return nil, nil
}

// List implements Provider.
func (s *Set) List(context.Context) ([]Info, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]Info, 0, len(s.all))
	for _, f := range s.all {
		if f.Hidden == nil || !f.Hidden() {
			out = append(out, f.Info)
		}
	}
	slices.SortFunc(out, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func (s *Set) get(id string) (Func, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	f, ok := s.all[id]
	if !ok {
		return f, NotFound(Ref{s.kind, id})
	}
	return f, nil
}

// Call implements Provider.
func (s *Set) Call(ctx context.Context, ref Ref, r Request) (Result, error) {
	f, err := s.get(ref.ID)
	if err != nil {
		return Result{}, err
	}
	if r.Hash != "" && r.Hash != f.Hash {
		return Result{}, Changed(f.Info)
	}
	if len(r.Input) == 0 {
		r.Input = json.RawMessage("{}")
	}
	if err := CheckInput(ctx, f.Info, r.Input); err != nil {
		return Result{}, err
	}
	if err := ctx.Err(); err != nil {
		return Result{}, fault.New(fault.Canceled, "The call was canceled before it started.").WithCause(err)
	}
	if s.record != nil && !f.Effects.ReadOnly && !f.Records {
		e := audit.Entry{ActorKind: r.Caller.Kind, Action: "callable.call", SubjectKind: string(s.kind), SubjectID: f.ID, Outcome: audit.OK, RunID: r.Caller.Run}
		if r.Caller.Kind != "" {
			e.ActorID = r.Caller.Run.String()
		}
		if err := s.record(ctx, e); err != nil {
			return Result{}, fault.Unavailablef("Couldn't write the audit log, so nothing was done.").WithCause(err)
		}
	}
	v, err := f.Run(ctx, r)
	if err != nil {
		return Result{}, err
	}
	out, ok := v.(Result)
	if !ok {
		if out.Output, err = json.Marshal(v); err != nil {
			return Result{}, fault.Internalf(err, "The output of %s cannot be written as JSON.", f.Name)
		}
	}
	out.Untrusted = out.Untrusted || f.Untrusted
	return out, nil
}

// Typed converts a function with a typed input to the Run of a Func.
func Typed[P any](run func(ctx context.Context, r Request, in P) (any, error)) func(context.Context, Request) (any, error) {
	return func(ctx context.Context, r Request) (any, error) {
		var in P
		if err := json.Unmarshal(r.Input, &in); err != nil {
			return nil, fault.Invalidf("The input isn't valid for this callable.").WithCause(err)
		}
		return run(ctx, r, in)
	}
}

// Rights implements Provider.
func (s *Set) Rights(ctx context.Context, i Info, input json.RawMessage) (permission.PreviewResult, error) {
	f, err := s.get(i.ID)
	if err != nil {
		return permission.PreviewResult{}, err
	}
	if f.Rights != nil {
		return f.Rights(ctx, input)
	}
	return Needs(f.Info), nil
}

// Needs returns the preview of a call whose grants are only checked during the call: everything
// that it needs is listed as missing.
func Needs(i Info) permission.PreviewResult {
	out := permission.NewPreview()
	step := permission.PreviewStep{StepID: "run", Subject: permission.SubjectRef{Kind: string(i.Kind), ID: i.ID, Name: i.Name}, Capabilities: []permission.PreviewCapability{}}
	if !i.Effects.ReadOnly {
		out.Tier = permission.SideEffecting.String()
	}
	step.Tier = out.Tier
	for _, text := range i.Capabilities {
		c, resource, _ := strings.Cut(strings.TrimSuffix(text, ")"), "(")
		need := permission.PreviewCapability{Capability: permission.Capability(c), Resource: resource, State: "missing"}
		step.Capabilities, out.Union = append(step.Capabilities, need), append(out.Union, need)
		out.WillAsk, out.Unattended = append(out.WillAsk, permission.Item{Capability: need.Capability, Resource: resource}), "will_stop"
	}
	out.Steps = append(out.Steps, step)
	return out
}

// Changed returns the refusal of a call that expects an earlier definition.
func Changed(i Info) error {
	return fault.Deniedf("%q has changed since its caller started. Review the change, then start again.", i.Name).WithDetails(Refusal{Reason: ReasonChanged})
}
