package meter

import (
	"errors"
	"math"
	"sync"

	"github.com/tetratelabs/wazero/api"
)

// Gauge is the runtime side of the meter: the globals of one instance. Stop, Stopped and Used may
// be called from any goroutine while the guest runs; Arm only between runs.
type Gauge struct {
	fuel, budget, stop, depth api.MutableGlobal

	mu      sync.Mutex
	armed   uint64
	used    uint64 // the largest value seen
	stopped bool
}

// mostBudget prevents sums of the globals from overflowing.
const mostBudget = math.MaxInt64 / 2

// NewGauge returns the Gauge of an instance of an instrumented module.
func NewGauge(m api.Module) (*Gauge, error) {
	g := &Gauge{}
	for _, f := range []struct {
		name string
		to   *api.MutableGlobal
	}{{FuelGlobal, &g.fuel}, {BudgetGlobal, &g.budget}, {StopGlobal, &g.stop}, {DepthGlobal, &g.depth}} {
		v, ok := m.ExportedGlobal(f.name).(api.MutableGlobal)
		if !ok {
			return nil, errors.New("the module is not metered: no global " + f.name)
		}
		*f.to = v
	}
	return g, nil
}

// Arm sets the budget of the next run in units and clears the stop flag. The first check of the run
// calls into Go, so a Stop before it takes effect at once.
func (g *Gauge) Arm(budget uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	budget = min(budget, mostBudget)
	g.armed, g.used, g.stopped = budget, 0, false
	g.fuel.Set(0)
	g.budget.Set(budget)
	g.stop.Set(0)
	g.depth.Set(DefaultStack)
}

// Stop ends the run at the next check of the flag, at most one slice later. It may be called from
// any goroutine and more than once.
func (g *Gauge) Stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopped = true
	g.stop.Set(1)
}

// Stopped reports whether Stop was called since Arm.
func (g *Gauge) Stopped() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stopped
}

// Used returns the number of units charged since Arm, at most the budget. It never decreases; while
// the guest runs it may lag by one slice.
func (g *Gauge) Used() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	left := max(g.left(), 0)
	g.used = max(g.used, g.armed-min(uint64(left), g.armed))
	return g.used
}

// Exhausted reports whether the budget is used up: the run ended because of it.
func (g *Gauge) Exhausted() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.left() < 0
}

// TooDeep reports whether the guest's calls exceeded its native stack.
func (g *Gauge) TooDeep() bool { return int32(uint32(g.depth.Get())) < 0 }

func (g *Gauge) left() int64 { return int64(g.budget.Get()) + int64(g.fuel.Get()) }
