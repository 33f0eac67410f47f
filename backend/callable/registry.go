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

// NewRegistry returns one without providers. perm answers for subjects that no provider has; it
// may be nil.
func NewRegistry(perm *permission.Service) *Registry {
	return &Registry{perm: perm, all: map[Kind]Provider{}}
}

// Add adds a provider; another one of its kind is replaced.
func (r *Registry) Add(p Provider) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all[p.Kind()] == nil {
		r.order = append(r.order, p.Kind())
	}
	r.all[p.Kind()] = p
}

// Provider gives what serves a kind; nil when nothing does. A nil registry has no providers.
func (r *Registry) Provider(k Kind) Provider {
	if r == nil {
		return nil
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.all[k]
}

// Kinds lists the kinds in the order in which they were added.
func (r *Registry) Kinds() []Kind {
	if r == nil {
		return nil
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Clone(r.order)
}

// Starter gives what starts runs of a kind that outlive the process. What has no such runs of
// its own runs as a skill of one step. nil: neither is there.
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

// Find gives the callables of a kind by id or name; nothing of a kind that nobody serves.
func (r *Registry) Find(ctx context.Context, k Kind, id, name string) ([]Info, error) {
	p := r.Provider(k)
	if p == nil {
		return nil, nil
	}
	return p.Find(ctx, id, name)
}

// One gives the one callable of an id or a name. With an empty kind every provider is asked.
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
	if len(found) > 1 { // what the user may call comes before what is only visible
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

// List gives everything that the user may call, without the kinds that are not available now.
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

// Call calls a callable and returns once it has ended. Its panic is an error of this call.
func (r *Registry) Call(ctx context.Context, ref Ref, q Request) (out Result, err error) {
	p := r.Provider(ref.Kind)
	if p == nil {
		return Result{}, fault.Unavailablef("This version of Helix doesn't have callables of the kind %s.", ref.Kind)
	}
	defer func() {
		if x := recover(); x != nil {
			err = fault.Internalf(fmt.Errorf("panic in %s: %v", ref, x), "%s has an internal error.", ref)
		}
	}()
	return p.Call(ctx, ref, q)
}

// Rights says what a call of i needs. Of a kind that nobody serves nothing is known.
func (r *Registry) Rights(ctx context.Context, i Info, input json.RawMessage) (permission.PreviewResult, error) {
	p := r.Provider(i.Kind)
	if p == nil {
		return permission.PreviewResult{}, fault.Unavailablef("This version of Helix doesn't have callables of the kind %s.", i.Kind)
	}
	return p.Rights(ctx, i, input)
}

// Preview tells what a run of a callable would need and which of it is granted. It runs nothing.
func (r *Registry) Preview(ctx context.Context, p permission.PreviewParams) (permission.PreviewResult, error) {
	found, err := r.Find(ctx, Kind(p.Subject.Kind), p.Subject.ID, "")
	if err != nil || len(found) == 0 || found[0].Blocked == ReasonForeign {
		return r.perm.Preview(ctx, p) // a subject that is no callable, such as one address of a built-in
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

// ListParams choose callables.
type ListParams struct {
	Kind  Kind   `json:"kind,omitempty"`
	Query string `json:"query,omitempty"` // part of the name or the description
	// Limit is how many are listed at most, 1 to 500. Then each is also checked as a call would
	// check it, so that blocked is complete; without a limit only what is known without that is.
	Limit int `json:"limit,omitempty"`
}

// ListResult holds callables by kind and name.
type ListResult struct {
	Callables []Info `json:"callables"`
}

// CallParams name a callable and its input.
type CallParams struct {
	Kind      Kind   `json:"kind,omitempty"` // "": any
	ID        string `json:"id,omitempty"`
	Name      string `json:"name,omitempty"` // when there is no id
	Version   string `json:"version,omitempty"`
	Hash      string `json:"hash,omitempty"` // refuse another definition
	TimeoutMs int64  `json:"timeoutMs,omitempty"`
	Key       string `json:"idempotencyKey,omitempty"`
	// Interactive lets a tool wait up to 120 s for an answer to what it asks.
	Interactive bool `json:"interactive,omitempty"`

	Input json.RawMessage `json:"input,omitempty"` // default {}
}

// CallResult is what came of the call.
type CallResult struct {
	Ref
	Name string `json:"name"`
	Result
}

// maxListed bounds a list whose entries are checked one by one.
const maxListed = 500

// maxKey bounds an idempotency key.
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

// findBlocked fills in why calls would be refused where the list of a provider did not say.
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
			list[n].Blocked = ReasonGone // since it was listed
		case found[0].Blocked != "":
			list[n].Blocked = found[0].Blocked
		case suspended[i.String()]:
			list[n].Blocked = ReasonChanged
		}
	}
	return nil
}

// CallByName calls anything that the user can call, by its id or its name, and answers once it
// has ended.
func (r *Registry) CallByName(ctx context.Context, p CallParams) (CallResult, error) {
	if p.ID == "" && p.Name == "" || p.TimeoutMs < 0 || len(p.Key) > maxKey {
		return CallResult{}, fault.Invalidf("Provide the ID or the name of what to call, a timeout above 0 and a key of at most %d bytes.", maxKey)
	}
	i, err := r.One(ctx, p.Kind, p.ID, p.Name)
	if fault.Is(err, fault.NotFound) && p.ID == "" { // people may also write an id
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
