package scheduler

import "time"

// Clock is a wall clock and a monotonic clock. The wall clock can be set, and advances during
// system sleep; the monotonic clock only advances while the system is awake.
type Clock interface {
	Wall() time.Time
	// Mono returns the monotonic time since an arbitrary moment in this process.
	Mono() time.Duration
	// After returns a channel that receives once after d of monotonic time; stop releases it.
	After(d time.Duration) (c <-chan time.Time, stop func())
}

// systemClock is the computer's clock.
type systemClock struct{ start time.Time }

func newSystemClock() Clock { return systemClock{time.Now()} }

func (systemClock) Wall() time.Time { return time.Now().Round(0).UTC() }

func (c systemClock) Mono() time.Duration { return time.Since(c.start) }

func (systemClock) After(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}
