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

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/skills/definition"
	"helix/backend/skills/machine"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
)

// hand is a runner of tools that the tests make up: what a tool does depends on its name.
type hand struct {
	mu    sync.Mutex
	calls []Call
	does  map[string]func(ctx context.Context, c Call) (json.RawMessage, error)
	gone  map[string]bool
}

func (h *hand) tool(name string) definition.Callable {
	c := definition.Callable{Kind: definition.Custom, ID: name, Name: name, Hash: "hash-" + name, InputSchema: json.RawMessage(`{"type":"object"}`)}
	c.ReadOnly = strings.HasPrefix(name, "read")
	c.Idempotent = strings.HasPrefix(name, "idem")
	if name == "read-strict" {
		c.InputSchema = json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)
		c.OutputSchema = json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer","default":3}}}`)
	}
	return c
}

func (h *hand) Find(_ context.Context, id, name string) ([]definition.Callable, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if id != "" {
		name = id
	}
	if h.gone[name] {
		return nil, nil
	}
	return []definition.Callable{h.tool(name)}, nil
}

func (h *hand) List(context.Context) ([]definition.Callable, error) { return nil, nil }

func (h *hand) Rights(_ context.Context, c definition.Callable) (Rights, error) {
	return Rights{Needs: []string{"network:" + c.Name}, Granted: []string{}, Missing: []string{}, Tier: tier(c)}, nil
}

func (h *hand) Call(ctx context.Context, c Call) (Reply, error) {
	h.mu.Lock()
	h.calls = append(h.calls, c)
	f := h.does[c.Target.Name]
	h.mu.Unlock()
	if f == nil {
		return Reply{Output: c.Input}, nil
	}
	out, err := f(ctx, c)
	return Reply{Output: out}, err
}

func (h *hand) on(name string, f func(ctx context.Context, c Call) (json.RawMessage, error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.does[name] = f
}

func (h *hand) made(name string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.calls {
		if c.Target.Name == name {
			n++
		}
	}
	return n
}

// bench is a service with a hand.
type bench struct {
	t   testing.TB
	db  *storage.DB
	ctx context.Context
	s   *Service
	h   *hand
}

func newBench(t testing.TB, change ...func(*Options)) *bench {
	t.Helper()
	db := storagetest.Open(t)
	b := &bench{t: t, db: db, ctx: storagetest.Ctx(t, db), h: &hand{does: map[string]func(context.Context, Call) (json.RawMessage, error){}, gone: map[string]bool{}}}
	b.s = b.service(change...)
	return b
}

// service is another start of Helix over the same database.
func (b *bench) service(change ...func(*Options)) *Service {
	o := Options{Tools: b.h}
	for _, f := range change {
		f(&o)
	}
	s := New(b.db, o)
	list, closing := Builtins(BuiltinOptions{})
	for _, x := range list {
		s.Register(x)
	}
	b.t.Cleanup(func() {
		s.Close()
		closing()
	})
	return s
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

func (b *bench) run(skill json.RawMessage, input string) ExecuteResult {
	b.t.Helper()
	out, err := b.s.ExecuteComposite(b.ctx, ExecuteParams{Skill: skill, Input: json.RawMessage(input)})
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

func (b *bench) async(skill json.RawMessage, input string) uuid.UUID {
	b.t.Helper()
	out, err := b.s.ExecuteComposite(b.ctx, ExecuteParams{Skill: skill, Input: json.RawMessage(input), Async: true})
	if err != nil {
		b.t.Fatal(err)
	}
	return out.ExecutionID
}

// until waits for a run to stand as wanted.
func (b *bench) until(id uuid.UUID, ok func(x Execution) bool) Execution {
	b.t.Helper()
	news, cancel := b.s.watch(id)
	defer cancel()
	limit := time.After(30 * time.Second)
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

func (b *bench) replay(id uuid.UUID) {
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
	b := newBench(t)
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
