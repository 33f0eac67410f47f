package scheduler

import "time"

// Clock has two parts that part ways in life: the wall clock is set by people and jumps over
// system sleep; monotonic time only goes forward and stands still in sleep.
type Clock interface {
	Wall() time.Time
	// Mono is the monotonic time since some fixed moment of this process.
	Mono() time.Duration
	// After gives a channel that receives once d of monotonic time has gone by; stop frees it.
	After(d time.Duration) (c <-chan time.Time, stop func())
}

// systemClock is the computer's.
type systemClock struct{ start time.Time }

func newSystemClock() Clock { return systemClock{time.Now()} }

func (systemClock) Wall() time.Time { return time.Now().Round(0).UTC() }

func (c systemClock) Mono() time.Duration { return time.Since(c.start) }

func (systemClock) After(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}
