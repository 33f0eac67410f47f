package skills

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/permission"
	"helix/backend/skills/machine"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
)

// Call is the request of a tool in these tests.
type Call = callable.Request

// fakeTools provides tools for tests. The behavior of a tool depends on its name.
type fakeTools struct {
	mu    sync.Mutex
	calls []string // ids
	does  map[string]func(ctx context.Context, c Call) (json.RawMessage, error)
	gone  map[string]bool
}

func (h *fakeTools) Kind() callable.Kind { return callable.Tool }

func (h *fakeTools) tool(name string) callable.Info {
	i := callable.Info{Ref: callable.Ref{Kind: callable.Tool, ID: name}, Name: name, Hash: "hash-" + name, Input: json.RawMessage(`{"type":"object"}`)}
	i.Effects = callable.Effects{ReadOnly: strings.HasPrefix(name, "read"), Idempotent: strings.HasPrefix(name, "idem")}
	if name == "read-strict" {
		i.Input = json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)
		i.Output = json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer","default":3}}}`)
	}
	return i
}

func (h *fakeTools) Find(_ context.Context, id, name string) ([]callable.Info, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if id != "" {
		name = id
	}
	if h.gone[name] {
		return nil, nil
	}
	return []callable.Info{h.tool(name)}, nil
}

func (h *fakeTools) List(context.Context) ([]callable.Info, error) { return nil, nil }

// Rights returns that each tool needs the network, which is granted.
func (h *fakeTools) Rights(_ context.Context, i callable.Info, _ json.RawMessage) (permission.PreviewResult, error) {
	return preview("granted", "network:https", i.Name+".example.org"), nil
}

// preview returns the preview of a call that needs one capability.
func preview(state, capability, resource string) permission.PreviewResult {
	p := permission.NewPreview()
	c := permission.PreviewCapability{Capability: permission.Capability(capability), Resource: resource, State: state}
	p.Steps = []permission.PreviewStep{{StepID: "run", Capabilities: []permission.PreviewCapability{c}}}
	return p
}

func (h *fakeTools) Call(ctx context.Context, ref callable.Ref, c Call) (callable.Result, error) {
	h.mu.Lock()
	h.calls = append(h.calls, ref.ID)
	f := h.does[ref.ID]
	h.mu.Unlock()
	if f == nil {
		return callable.Result{Output: c.Input}, nil
	}
	out, err := f(ctx, c)
	return callable.Result{Output: out}, err
}

func (h *fakeTools) on(name string, f func(ctx context.Context, c Call) (json.RawMessage, error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.does[name] = f
}

func (h *fakeTools) made(name string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range h.calls {
		if id == name {
			n++
		}
	}
	return n
}

// fixture is a service with fakeTools.
type fixture struct {
	t   testing.TB
	db  *storage.DB
	ctx context.Context
	s   *Service
	h   *fakeTools
}

func newFixture(t testing.TB, change ...func(*Options)) *fixture {
	t.Helper()
	db := storagetest.Open(t)
	b := &fixture{t: t, db: db, ctx: storagetest.Ctx(t, db), h: &fakeTools{does: map[string]func(context.Context, Call) (json.RawMessage, error){}, gone: map[string]bool{}}}
	b.s = b.service(change...)
	return b
}

// service starts another service on the same database.
func (b *fixture) service(change ...func(*Options)) *Service {
	list, closing := Builtins(BuiltinOptions{})
	o := Options{Callables: offering(b.h, list...)}
	for _, f := range change {
		f(&o)
	}
	s := New(b.db, o)
	o.Callables.Add(s.Provider())
	b.t.Cleanup(func() {
		s.Close()
		closing()
	})
	return s
}

// offering returns a registry with one provider and some built-ins.
func offering(p callable.Provider, list ...callable.Func) *callable.Registry {
	r := callable.NewRegistry(nil)
	if p != nil {
		r.Add(p)
	}
	set := callable.NewSet(callable.Builtin, nil)
	set.Add(list...)
	r.Add(set)
	return r
}

func skillText(steps ...string) json.RawMessage {
	return json.RawMessage(`{"name":"s","steps":[` + strings.Join(steps, ",") + `]}`)
}

func step(id, tool, more string) string {
	if more != "" {
		more = "," + more
	}
	return fmt.Sprintf(`{"stepId":%q,"toolType":"custom","toolName":%q%s}`, id, tool, more)
}

func (b *fixture) run(skill json.RawMessage, input string) ExecuteResult {
	b.t.Helper()
	out, err := b.s.ExecuteComposite(b.ctx, ExecuteParams{Skill: skill, Input: json.RawMessage(input)})
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

func (b *fixture) async(skill json.RawMessage, input string) uuid.UUID {
	b.t.Helper()
	out, err := b.s.ExecuteComposite(b.ctx, ExecuteParams{Skill: skill, Input: json.RawMessage(input), Async: true})
	if err != nil {
		b.t.Fatal(err)
	}
	return out.ExecutionID
}

// until waits until ok returns true for a run.
func (b *fixture) until(id uuid.UUID, ok func(x Execution) bool) Execution {
	b.t.Helper()
	news, cancel := b.s.watch(id)
	defer cancel()
	limit := time.After(5 * time.Minute)
	for {
		x, err := b.s.GetExecution(b.ctx, RunParams{ExecutionID: id})
		if err != nil {
			b.t.Fatal(err)
		}
		if ok(x) {
			return x
		}
		select {
		case <-news:
		case <-time.After(50 * time.Millisecond):
		case <-limit:
			b.s.mu.Lock()
			defer b.s.mu.Unlock()
			b.t.Fatalf("the run stands otherwise: %s %s, %d events, %d runs in memory, %+v", x.Status, x.WaitReason, x.LastSeq, len(b.s.live), x.StepResults)
		}
	}
}

func is(status Status) func(Execution) bool {
	return func(x Execution) bool { return x.Status == status }
}

func (b *fixture) state(id uuid.UUID) (callable.State, error) {
	return b.s.Provider().(callable.Starter).State(b.ctx, id)
}

func (b *fixture) replay(id uuid.UUID) {
	b.t.Helper()
	r, err := b.s.Replay(b.ctx, RunParams{ExecutionID: id})
	if err != nil {
		b.t.Fatal(err)
	}
	if !r.Identical {
		b.t.Fatalf("the replay differs: %d\nwant %s\n got %s", r.FirstDifference.Seq, r.FirstDifference.Expected, r.FirstDifference.Actual)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	b.h.on("double", func(_ context.Context, c Call) (json.RawMessage, error) {
		var in struct{ N int }
		if err := json.Unmarshal(c.Input, &in); err != nil {
			return nil, err
		}
		return json.RawMessage(fmt.Sprintf(`{"n":%d}`, 2*in.N)), nil
	})
	out := b.run(skillText(
		step("one", "double", `"inputMapping":{"n":"$.input.n"}`),
		`{"stepId":"two","toolType":"transform","value":{"x":"$.one.n"}}`,
		step("three", "double", `"inputMapping":{"n":"$.two.x"}`),
	), `{"n":5}`)
	if !out.Success || out.Status != machine.Completed || string(out.FinalOutput) != `{"n":20}` || len(out.StepResults) != 3 {
		t.Fatalf("%+v", out)
	}
	if out.StepsCompleted != 3 || out.TotalSteps != 3 || string(out.ExecutionContext["two"]) != `{"x":10}` || string(out.ExecutionContext["input"]) != `{"n":5}` {
		t.Fatalf("%+v", out)
	}
	x, err := b.s.GetExecution(b.ctx, RunParams{ExecutionID: out.ExecutionID})
	if err != nil || x.Trigger != "user" || x.SkillName != "s" || x.Skill == nil || x.Mode != "live" || x.LastSeq != 8 {
		t.Fatalf("%+v %v", x, err)
	}
	b.replay(out.ExecutionID)
}

var _ = fault.Invalid
var _ = identity.Read
