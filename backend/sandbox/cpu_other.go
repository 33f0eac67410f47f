//go:build (!linux || portable) && !windows

package sandbox

import (
	"fmt"
	"math"
	"time"
)

const cpuMeter = "fuel"

// cpuClock derives processor time from the fuel that a run has used and the speed at which
// this machine uses it.
type cpuClock struct{ r *control }

func newCPUClock(r *control) *cpuClock { return &cpuClock{r} }

func (c *cpuClock) enter() {}
func (c *cpuClock) leave() {}

func (c *cpuClock) used() time.Duration {
	if c.r.fuel == nil {
		return 0
	}
	return time.Duration(float64(c.r.fuel()) * c.r.e.unitTime)
}

// calibration is a program that does a little of everything; it takes a few milliseconds.
const calibration = `(() => {
	let x = 0;
	const a = [];
	for (let i = 0; i < 20000; i++) { x = (x * 31 + i) % 65521; a[i & 255] = { x, s: "" + x }; }
	return JSON.parse(JSON.stringify(a)).length + a.map((o) => o.x).sort().length;
})()`

// calibrate measures how long a unit of fuel takes, in nanoseconds. The best of three
// counts: what disturbs a measurement only makes it slower, and a unit that is taken for
// too slow would end runs too early.
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
	e.spares.giveBack(g, true)
	e.unitTime = best
	return nil
}
