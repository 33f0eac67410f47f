package sandbox

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// processors keeps one of the Go runtime's processors free while guests compute. A guest in
// machine code holds its processor until the runtime takes it away, ten milliseconds later
// at the soonest. When guests hold all of them, everything else waits that long for its turn
// again and again: timers, callers, and most of all the garbage collector, whose cycle then
// takes hundreds of milliseconds instead of ten. With one more processor than such guests,
// the operating system shares the cores between all of them, as it does for other threads.
//
// The number of processors belongs to the whole process. An engine adds to it and takes
// away what it has added, so that engines beside each other leave it as they found it.
type processors struct {
	added  int       // how many more than usual
	calm   time.Time // since when fewer would do
	busy   atomic.Bool
	change sync.WaitGroup // the change that is under way while busy
}

// computing is after how long a run counts as one that holds its processor, and calmTime how
// long less must be enough until the number is lowered again: each change stops the world.
const (
	computing = 3 * time.Millisecond
	calmTime  = time.Second
)

// hold sees to it that there is a processor more than guests that compute. settled reports
// that it need not be called again before there are some. One goroutine calls it at a time.
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

// add changes the number on a goroutine of its own, since that waits for a collection in
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

// close takes away what was added. hold is not called any more.
func (p *processors) close() {
	p.change.Wait()
	if p.added > 0 {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) - p.added)
		p.added = 0
	}
}
