package eval

import (
	"context"
	"iter"
	"sync"

	"helix/backend/agent"
	"helix/backend/fault"
	"helix/backend/providers"
)

// limited gives access to the person's own models up to a limit of money. Calls are made as the
// person, and recorded in the person's ledger.
type limited struct {
	agent.Models
	ctx  context.Context //nolint:containedctx // the person's, while the scenario's database has its own
	role providers.Role

	mu   sync.Mutex
	left providers.Micros
}

// as returns a context in which a request of a scenario is made as the person.
func (m *limited) as(ctx context.Context, q providers.Request) (context.Context, context.CancelFunc, providers.Request) {
	own, cancel := context.WithCancel(m.ctx)
	stop := context.AfterFunc(ctx, cancel)
	q.Role, q.Model, q.Purpose = m.role, "", "eval"
	return own, func() { stop(); cancel() }, q
}

// Stream implements agent.Models.
func (m *limited) Stream(ctx context.Context, q providers.Request) iter.Seq2[providers.Event, error] {
	return func(yield func(providers.Event, error) bool) {
		own, cancel, q := m.as(ctx, q)
		defer cancel()
		m.mu.Lock()
		left := m.left
		m.mu.Unlock()
		if left <= 0 {
			yield(providers.Event{}, fault.Limitf("The evaluation has reached its cost limit."))
			return
		}
		info, err := m.Models.Describe(own, q)
		if err != nil {
			yield(providers.Event{}, err)
			return
		}
		var used providers.Usage
		defer func() {
			cost, _ := info.Prices.Cost(used)
			m.mu.Lock()
			m.left -= max(cost, used.ReportedMicros)
			m.mu.Unlock()
		}()
		for e, err := range m.Models.Stream(own, q) {
			if e.Usage != nil {
				used = *e.Usage
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// Complete implements agent.Models.
func (m *limited) Complete(ctx context.Context, q providers.Request) (providers.Reply, error) {
	return providers.Fold(m.Stream(ctx, q))
}

// HoldsToSchema implements agent.Models.
func (m *limited) HoldsToSchema(ctx context.Context, q providers.Request) bool {
	own, cancel, q := m.as(ctx, q)
	defer cancel()
	return m.Models.HoldsToSchema(own, q)
}

// Describe implements agent.Models.
func (m *limited) Describe(ctx context.Context, q providers.Request) (providers.ModelInfo, error) {
	own, cancel, q := m.as(ctx, q)
	defer cancel()
	return m.Models.Describe(own, q)
}

// Prepare implements agent.Models.
func (m *limited) Prepare(ctx context.Context, q providers.Request) (providers.ModelInfo, error) {
	own, cancel, q := m.as(ctx, q)
	defer cancel()
	return m.Models.Prepare(own, q)
}

// Roles implements agent.Models.
func (m *limited) Roles(context.Context, struct{}) (providers.RolesResult, error) {
	return m.Models.Roles(m.ctx, struct{}{})
}
