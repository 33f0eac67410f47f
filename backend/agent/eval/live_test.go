package eval

import (
	"context"
	"iter"
	"sync"
	"testing"

	"helix/backend/agent"
	"helix/backend/identity"
	"helix/backend/providers"
	"helix/backend/storage/storagetest"
)

// real stands for the person's own models: each answer costs 300 micros.
type real struct {
	agent.Models
	mu    sync.Mutex
	calls []providers.Request
	users []identity.Identity
}

func (m *real) Describe(context.Context, providers.Request) (providers.ModelInfo, error) {
	price := providers.Micros(1_000_000)
	return providers.ModelInfo{Window: 128_000, Output: 4000, Prices: providers.Price{Input: &price, Output: &price}}, nil
}

func (m *real) Prepare(ctx context.Context, q providers.Request) (providers.ModelInfo, error) {
	return m.Describe(ctx, q)
}

func (m *real) Roles(context.Context, struct{}) (providers.RolesResult, error) {
	return providers.RolesResult{}, nil
}

func (m *real) HoldsToSchema(context.Context, providers.Request) bool { return false }

func (m *real) Stream(ctx context.Context, q providers.Request) iter.Seq2[providers.Event, error] {
	return func(yield func(providers.Event, error) bool) {
		who, _ := identity.From(ctx)
		m.mu.Lock()
		m.calls, m.users = append(m.calls, q), append(m.users, who)
		m.mu.Unlock()
		for _, e := range []providers.Event{
			{Type: providers.EventAttempt, Attempt: 1, Provider: "p", Model: "m"}, {Type: providers.EventText, Delta: "Yes, from the real one."},
			{Type: providers.EventUsage, Usage: &providers.Usage{Input: 200, Output: 100, Requests: 1}}, {Type: providers.EventFinish, Reason: providers.FinishStop},
		} {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// A live run asks the person's own model for the role, as the person and for the purpose eval, and not
// the script. It makes no further call once its limit is reached, and is compared only with live runs.
func TestLiveRunsStopAtTheirLimit(t *testing.T) {
	t.Parallel()
	db, model := storagetest.Open(t), &real{}
	ctx := storagetest.Ctx(t, db)
	s := New(db, model, "test")
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	run := func(live *Live) Result {
		t.Helper()
		begun, err := s.Run(ctx, RunParams{Live: live, Scenarios: []string{"name: says-yes\ninputs: [\"Is it so?\", \"Really?\", \"For sure?\"]\nscript: [{text: No.}, {text: No.}, {text: No.}]\nexpect: {answer: Yes}"}})
		if err != nil {
			t.Fatal(err)
		}
		for {
			r, err := s.Result(ctx, ResultParams{EvalID: begun.EvalID, WaitMs: 120_000})
			if err != nil {
				t.Fatal(err)
			}
			if r.State != "running" {
				return r
			}
		}
	}
	if r := run(nil); r.Passed != 0 || len(model.calls) != 0 {
		t.Errorf("without live: %+v, %d calls", r, len(model.calls))
	}
	if r := run(&Live{Role: providers.RoleChat, MaxCostMicros: 1_000_000}); r.Passed != 1 || len(r.Baseline) != 0 || len(model.calls) != 3 {
		t.Errorf("with money for all: %+v, %d calls", r, len(model.calls))
	}
	for i, q := range model.calls {
		if q.Purpose != "eval" || q.Role != providers.RoleChat || q.Model != "" || model.users[i].User != db.LocalUser().ID {
			t.Errorf("call %d: for %s, of the role %q and model %q, as %s", i, q.Purpose, q.Role, q.Model, model.users[i].User)
		}
	}
	model.calls = nil
	if r := run(&Live{Role: providers.RoleChat, MaxCostMicros: 500}); r.Passed != 0 || len(model.calls) != 2 || len(r.Worse) != 1 {
		t.Errorf("with money for less than two: %+v, %d calls", r, len(model.calls))
	}
}
