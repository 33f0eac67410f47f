package providers

import (
	"errors"
	"slices"
	"sync"
	"time"

	"helix/backend/fault"
)

func (r *Router) circuit(key string) *circuit {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.circuits[key]
	if c == nil {
		c = &circuit{}
		r.circuits[key] = c
	}
	return c
}

// circuit is a circuit breaker: it blocks calls of a failing service, and lets one through after a
// pause.
type circuit struct {
	mu       sync.Mutex
	failures []time.Time
	until    time.Time
	pause    time.Duration // 0: closed
	probing  bool
}

// CircuitState reports whether calls are let through.
type CircuitState struct {
	// State is closed, open or half_open.
	State string     `json:"state"`
	Until *time.Time `json:"until,omitempty"`
}

func (c *circuit) enter(now time.Time, service string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pause == 0 {
		return nil
	}
	if now.Before(c.until) || c.probing {
		f := fault.Unavailablef("%s failed repeatedly. Helix will try it again later.", service).WithCause(errCircuitOpen)
		f.RetryAfter = max(c.until.Sub(now), time.Second)
		return f
	}
	c.probing = true
	return nil
}

var errCircuitOpen = errors.New("circuit open")

func (c *circuit) leave(now time.Time, failed, succeeded bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	probe := c.probing
	c.probing = false
	switch {
	case succeeded:
		c.failures, c.pause = nil, 0
	case failed && probe:
		c.pause = min(2*c.pause, circuitLongest)
		c.until = now.Add(c.pause)
	case failed:
		c.failures = slices.DeleteFunc(c.failures, func(at time.Time) bool { return now.Sub(at) > circuitWindow })
		if c.failures = append(c.failures, now); len(c.failures) >= circuitFailures && c.pause == 0 {
			c.pause, c.until = circuitFirst, now.Add(circuitFirst)
		}
	}
}

func (c *circuit) state(now time.Time) CircuitState {
	c.mu.Lock()
	defer c.mu.Unlock()
	until := c.until
	switch {
	case c.pause == 0:
		return CircuitState{State: "closed"}
	case now.Before(until):
		return CircuitState{State: "open", Until: &until}
	}
	return CircuitState{State: "half_open"}
}
