package sandbox

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// processors keeps one of the Go runtime's processors free while guests compute. A guest in machine
// code holds its processor (P) until the runtime preempts it, after ten milliseconds at the
// earliest. If guests hold all of them, everything else repeatedly waits that long: timers,
// callers, and above all the garbage collector, whose cycle then takes hundreds of milliseconds
// instead of ten. With one processor more than there are such guests, the operating system shares
// the cores among all of them, as it does for other threads.
//
// The number of processors applies to the whole process. An engine adds to it and later subtracts
// only what it added, so that several engines do not interfere.
type processors struct {
	added  int       // how many were added
	calm   time.Time // since when fewer have been enough
	busy   atomic.Bool
	change sync.WaitGroup // the change in progress while busy
}

// computing is how long a run must last to count as one that holds its processor. calmTime is how
// long fewer processors must have been enough before the number is lowered: each change stops the
// world.
const (
	computing = 3 * time.Millisecond
	calmTime  = time.Second
)

// hold ensures that there is one processor more than guests that compute. settled reports that it
// need not be called again until there are some. Only one goroutine may call it at a time.
func (p *processors) hold(guests int, now time.Time) (settled bool) {
	if p.busy.Load() {
		return false
	}
	more := max(guests+1-(runtime.GOMAXPROCS(0)-p.added), 0)
	switch {
	case more > p.added:
		p.add(more - p.added)
	case p.added == 0:
		return true
	case more > 0:
		p.calm = time.Time{}
	case p.calm.IsZero():
		p.calm = now
	case now.Sub(p.calm) > calmTime:
		p.add(-p.added)
	}
	return false
}

// add changes the number on another goroutine, because the change waits for a collection in
// progress.
func (p *processors) add(n int) {
	p.added += n
	p.calm = time.Time{}
	p.busy.Store(true)
	p.change.Go(func() {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + n)
		p.busy.Store(false)
	})
}

// close removes what was added. hold must not be called afterwards.
func (p *processors) close() {
	p.change.Wait()
	if p.added > 0 {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) - p.added)
		p.added = 0
	}
}
