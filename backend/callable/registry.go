package callable

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/permission"
)

// Registry holds the providers of this installation. It is safe for concurrent use.
type Registry struct {
	perm *permission.Service

	mu    sync.RWMutex
	order []Kind
	all   map[Kind]Provider
}

// NewRegistry returns a Registry without providers. perm handles subjects that no provider
// has; it may be nil.
func NewRegistry(perm *permission.Service) *Registry {
	return &Registry{perm: perm, all: map[Kind]Provider{}}
}

// Add adds a provider, replacing any other of its kind.
func (r *Registry) Add(p Provider) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all[p.Kind()] == nil {
		r.order = append(r.order, p.Kind())
	}
	r.all[p.Kind()] = p
}

// Provider returns the provider of a kind, or nil. A nil registry has no providers.
func (r *Registry) Provider(k Kind) Provider {
	if r == nil {
		return nil
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.all[k]
}

// Kinds returns the kinds in the order in which they were added.
func (r *Registry) Kinds() []Kind {
	if r == nil {
		return nil
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Clone(r.order)
}

// Starter returns what starts durable runs of a kind. Callables without durable runs run as a skill
// of one step. It returns nil if neither is available.
func (r *Registry) Starter(k Kind) Starter {
	p := r.Provider(k)
	if p == nil {
		return nil
	}
	if s, ok := p.(Starter); ok {
		return s
	}
	s, _ := r.Provider(Skill).(Starter)
	return s
}

// Find returns the callables of a kind by id or name, or nothing if the kind has no provider.
func (r *Registry) Find(ctx context.Context, k Kind, id, name string) ([]Info, error) {
	p := r.Provider(k)
	if p == nil {
		return nil, nil
	}
	return p.Find(ctx, id, name)
}

// One returns the callable with an id or a name. If the kind is empty it searches all providers.
func (r *Registry) One(ctx context.Context, k Kind, id, name string) (Info, error) {
	kinds := []Kind{k}
	if k == "" {
		kinds = r.Kinds()
	}
	var found []Info
	for _, k := range kinds {
		list, err := r.Find(ctx, k, id, name)
		if err != nil {
			return Info{}, err
		}
		found = append(found, list...)
	}
	if len(found) > 1 { // callables that the user may call take precedence over those that are only visible
		if own := slices.DeleteFunc(slices.Clone(found), func(i Info) bool { return i.Blocked == ReasonForeign }); len(own) > 0 {
			found = own
		}
	}
	if id == "" {
		id = name
	}
	switch len(found) {
	case 0:
		return Info{}, NotFound(Ref{orAny(k), id})
	case 1:
		return found[0], nil
	}
	return Info{}, fault.Conflictf("%d callables are named %q. Use a kind and id, such as %s.", len(found), id, found[0].Ref)
}

func orAny(k Kind) Kind {
	if k == "" {
		return "callable"
	}
	return k
}

// List returns everything that the user may call. Kinds that are currently unavailable are omitted.
func (r *Registry) List(ctx context.Context) ([]Info, error) {
	out := []Info{}
	for _, k := range r.Kinds() {
		list, err := r.Provider(k).List(ctx)
		if fault.Is(err, fault.Unavailable) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	return out, nil
}

// Call calls a callable and returns when it has ended. A panic in it is returned as an error.
func (r *Registry) Call(ctx context.Context, ref Ref, q Request) (out Result, err error) {
	p := r.Provider(ref.Kind)
	if p == nil {
		return Result{}, fault.Unavailablef("This version of Helix has no callables of kind %s.", ref.Kind)
	}
	defer func() {
		if x := recover(); x != nil {
			err = fault.Internalf(fmt.Errorf("panic in %s: %v", ref, x), "%s has an internal error.", ref)
		}
	}()
	return p.Call(ctx, ref, q)
}

// Rights returns what a call of i needs; nothing if the kind has no provider.
func (r *Registry) Rights(ctx context.Context, i Info, input json.RawMessage) (permission.PreviewResult, error) {
	p := r.Provider(i.Kind)
	if p == nil {
		return permission.PreviewResult{}, fault.Unavailablef("This version of Helix has no callables of kind %s.", i.Kind)
	}
	return p.Rights(ctx, i, input)
}

// Preview returns what a run of a callable would need and what of it is granted, without running anything.
func (r *Registry) Preview(ctx context.Context, p permission.PreviewParams) (permission.PreviewResult, error) {
	found, err := r.Find(ctx, Kind(p.Subject.Kind), p.Subject.ID, "")
	if err != nil || len(found) == 0 || found[0].Blocked == ReasonForeign {
		return r.perm.Preview(ctx, p) // a subject that is not a callable, such as one address of a built-in
	}
	return r.Rights(ctx, found[0], p.Input)
}

// Diff compares two definitions of a callable.
func (r *Registry) Diff(ctx context.Context, p permission.DiffParams) (permission.DiffResult, error) {
	if d, ok := r.Provider(Kind(p.SubjectKind)).(Differ); ok {
		return d.Diff(ctx, p)
	}
	return r.perm.Diff(ctx, p)
}

// ListParams filters callables.
type ListParams struct {
	Kind  Kind   `json:"kind,omitempty"`
	Query string `json:"query,omitempty"` // substring of the name or the description
	// Limit is the maximum number of results, 1 to 500. With a limit each callable is also checked
	// as for a call, so that blocked is complete; without one, blocked contains only what is known
	// without this check.
	Limit int `json:"limit,omitempty"`
}

// ListResult contains callables sorted by kind and name.
type ListResult struct {
	Callables []Info `json:"callables"`
}

// CallParams identifies a callable and contains its input.
type CallParams struct {
	Kind      Kind   `json:"kind,omitempty"` // "": any
	ID        string `json:"id,omitempty"`
	Name      string `json:"name,omitempty"` // alternative to id
	Version   string `json:"version,omitempty"`
	Hash      string `json:"hash,omitempty"` // reject any other definition
	TimeoutMs int64  `json:"timeoutMs,omitempty"`
	Key       string `json:"idempotencyKey,omitempty"`
	// Interactive lets a tool wait up to 120 s for the answer to a question.
	Interactive bool `json:"interactive,omitempty"`

	Input json.RawMessage `json:"input,omitempty"` // default {}
}

// CallResult is the result of the call.
type CallResult struct {
	Ref
	Name string `json:"name"`
	Result
}

// maxListed limits a list whose entries are checked one by one.
const maxListed = 500

// maxKey is the maximum length of an idempotency key.
const maxKey = 128

// ListCallables lists what the user can call: tools, WASM tools, skills and built-ins.
func (r *Registry) ListCallables(ctx context.Context, p ListParams) (ListResult, error) {
	if p.Limit < 0 || p.Limit > maxListed {
		return ListResult{}, fault.Invalidf("limit is %d; it must be 1 to %d.", p.Limit, maxListed)
	}
	list, err := r.List(ctx)
	out := ListResult{Callables: []Info{}}
	for _, i := range list {
		if query := strings.ToLower(p.Query); (p.Kind == "" || p.Kind == i.Kind) && strings.Contains(strings.ToLower(i.Name+"\n"+i.Description), query) {
			out.Callables = append(out.Callables, i)
		}
	}
	slices.SortStableFunc(out.Callables, func(a, b Info) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)), cmp.Compare(a.ID, b.ID))
	})
	if p.Limit == 0 || err != nil {
		return out, err
	}
	out.Callables = out.Callables[:min(p.Limit, len(out.Callables))]
	return out, r.findBlocked(ctx, out.Callables)
}

// findBlocked sets why calls would be refused, for callables whose provider did not.
func (r *Registry) findBlocked(ctx context.Context, list []Info) error {
	suspended := map[string]bool{}
	for p := (permission.ListParams{State: "suspended", Limit: 100}); r.perm != nil; {
		grants, err := r.perm.List(ctx, p)
		if err != nil {
			return err
		}
		for _, g := range grants.Grants {
			suspended[g.Subject.Kind+":"+g.Subject.ID] = true
		}
		if p.Offset += len(grants.Grants); len(grants.Grants) == 0 || p.Offset >= grants.Total {
			break
		}
	}
	for n, i := range list {
		if i.Blocked != "" {
			continue
		}
		found, err := r.Provider(i.Kind).Find(ctx, i.ID, "")
		if err != nil {
			return err
		}
		switch {
		case len(found) == 0:
			list[n].Blocked = ReasonGone // deleted since it was listed
		case found[0].Blocked != "":
			list[n].Blocked = found[0].Blocked
		case suspended[i.String()]:
			list[n].Blocked = ReasonChanged
		}
	}
	return nil
}

// CallByName calls anything that the user can call, by its id or its name, and returns when it has ended.
func (r *Registry) CallByName(ctx context.Context, p CallParams) (CallResult, error) {
	if p.ID == "" && p.Name == "" || p.TimeoutMs < 0 || len(p.Key) > maxKey {
		return CallResult{}, fault.Invalidf("Give the id or the name of what to call, a timeout above 0 and a key of at most %d bytes.", maxKey)
	}
	i, err := r.One(ctx, p.Kind, p.ID, p.Name)
	if fault.Is(err, fault.NotFound) && p.ID == "" { // people may also give an id as the name
		i, err = r.One(ctx, p.Kind, p.Name, "")
	}
	if err != nil {
		return CallResult{}, err
	}
	limit := duration.Of(p.TimeoutMs, time.Millisecond)
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	out, err := r.Call(ctx, i.Ref, Request{Input: p.Input, Key: p.Key, Version: p.Version, Hash: p.Hash, Timeout: limit, Caller: Caller{Attended: p.Interactive}})
	if fault.Is(err, fault.Canceled) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fault.New(fault.Timeout, "%q took too long.", i.Name).WithCause(err)
	}
	if len(out.Output) == 0 {
		out.Output = []byte("null")
	}
	return CallResult{Ref: i.Ref, Name: i.Name, Result: out}, err
}
