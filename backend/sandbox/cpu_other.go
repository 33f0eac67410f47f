//go:build (!linux || portable) && !windows

package sandbox

import (
	"fmt"
	"math"
	"sync"
	"time"
)

const cpuMeter = "fuel"

// cpuClock derives CPU time from the fuel that a run has used and the speed at which this machine
// uses it. Some instructions take far longer than their fuel suggests (filling memory, WASI calls).
// So a run is assumed to get at least a share of one core while it computes: its CPU time is never
// less than that share of the wall time.
type cpuClock struct {
	r      *control
	mu     sync.Mutex
	total  time.Duration // of wall time, computing, before since
	since  time.Time
	inside bool
}

// leastShare is the assumed minimum share of a core, as a divisor. By this share alone, a run that
// computes all the time reaches the usual CPU limit of 10 s after 40 s, which is beyond its wall
// time limit of 30 s. So a busy machine does not end it early.
const leastShare = 4

func newCPUClock(r *control) *cpuClock { return &cpuClock{r: r} }

// enter starts measuring: the run is computing.
func (c *cpuClock) enter() {
	c.mu.Lock()
	c.since, c.inside = time.Now(), true
	c.mu.Unlock()
}

// leave stops measuring: the run is waiting.
func (c *cpuClock) leave() {
	c.mu.Lock()
	if c.inside {
		c.total += time.Since(c.since)
		c.inside = false
	}
	c.mu.Unlock()
}

func (c *cpuClock) used() time.Duration {
	c.mu.Lock()
	computing := c.total
	if c.inside {
		computing += time.Since(c.since)
	}
	c.mu.Unlock()
	least := computing / leastShare
	if c.r.fuel == nil {
		return least
	}
	return max(least, time.Duration(float64(c.r.fuel())*c.r.e.unitTime))
}

// calibration is a program that does a bit of everything; it takes a few milliseconds.
const calibration = `(() => {
	let x = 0;
	const a = [];
	for (let i = 0; i < 20000; i++) { x = (x * 31 + i) % 65521; a[i & 255] = { x, s: "" + x }; }
	return JSON.parse(JSON.stringify(a)).length + a.map((o) => o.x).sort().length;
})()`

// calibrate measures the duration of a unit of fuel in nanoseconds. It takes the best of three
// measurements: interference only makes them slower, and an overestimate would end runs too early.
func (e *Engine) calibrate() error {
	code, err := e.bytecode(e.background, calibration, "calibration", false)
	if err != nil {
		return err
	}
	g, err := e.guest(nil)
	if err != nil {
		return err
	}
	best := math.Inf(1)
	for range 3 {
		g.in.Arm(math.MaxInt64)
		start := time.Now()
		if _, err := g.in.EvalBytecode(code); err != nil {
			return fmt.Errorf("calibrate: %w", err)
		}
		took := float64(time.Since(start))
		if used := g.in.Fuel(); used > 0 {
			best = min(best, took/float64(used))
		}
		if err := g.in.Reset(); err != nil {
			return err
		}
	}
	e.spares.release(g, true)
	e.unitTime = best
	return nil
}
