//go:build !linux

package sandbox

import (
	"sync"
	"time"
)

const cpuMeter = "elapsed"

// cpuClock measures the time that a run spends inside the guest: never less than its
// processor time, more when the machine is busy.
type cpuClock struct {
	mu     sync.Mutex
	total  time.Duration
	since  time.Time
	inside bool
}

func newCPUClock() *cpuClock { return &cpuClock{} }

func (c *cpuClock) used() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inside {
		return c.total + time.Since(c.since)
	}
	return c.total
}

func (c *cpuClock) enter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since, c.inside = time.Now(), true
}

func (c *cpuClock) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inside {
		c.total += time.Since(c.since)
		c.inside = false
	}
}

func (c *cpuClock) close() {}
