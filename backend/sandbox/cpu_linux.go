//go:build linux && !portable

package sandbox

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const cpuMeter = "thread"

// cpuClock measures the CPU time that a run uses on the OS threads it is locked to. It can be read
// from any thread.
type cpuClock struct {
	mu     sync.Mutex
	total  time.Duration // of the threads that it has left
	id     int32         // of the clock of the current thread
	since  time.Duration
	inside bool
}

func newCPUClock(*control) *cpuClock { return &cpuClock{} }

// enter starts measuring the calling thread, to which the goroutine must be locked.
func (c *cpuClock) enter() {
	// The kernel's id for the CPU clock of a thread: CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED.
	id := int32(^unix.Gettid()<<3 | 6)
	now := threadTime(unix.CLOCK_THREAD_CPUTIME_ID)
	c.mu.Lock()
	c.id, c.since, c.inside = id, now, true
	c.mu.Unlock()
}

// leave stops measuring; the goroutine may be unlocked afterwards.
func (c *cpuClock) leave() {
	now := threadTime(unix.CLOCK_THREAD_CPUTIME_ID)
	c.mu.Lock()
	if c.inside {
		c.total += now - c.since
		c.inside = false
	}
	c.mu.Unlock()
}

func (c *cpuClock) used() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.inside {
		return c.total
	}
	return c.total + max(threadTime(c.id)-c.since, 0)
}

func threadTime(clock int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// calibrate does nothing where threads have a clock.
func (e *Engine) calibrate() error { return nil }
