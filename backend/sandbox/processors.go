package sandbox

import (
	"runtime"
	"sync"
	"time"
)

// processors keeps one of the Go runtime's processors free while guests compute. A guest in
// machine code holds its processor until the runtime takes it away, ten milliseconds later
// at the soonest. When guests hold all of them, everything else waits that long for its turn
// again and again: timers, callers, and most of all the garbage collector, whose cycle then
// takes hundreds of milliseconds instead of ten. With one more processor than such guests,
// the operating system shares the cores between all of them, as it does for other threads.
//
// The number of processors belongs to the whole process, so there is one of these.
type processors struct {
	mu      sync.Mutex
	holding map[*watchdog]int // guests that compute for some time already
	usual   int               // the number before it was raised; 0: it is not
	raised  int
	calm    time.Time // since when the usual number would do
	busy    bool      // a change is under way
	changed *sync.Cond
}

var process = newProcessors()

func newProcessors() *processors {
	p := &processors{holding: map[*watchdog]int{}}
	p.changed = sync.NewCond(&p.mu)
	return p
}

// computing is after how long a run counts as one that holds its processor, and calmTime how
// long less must be enough until the number is lowered again: each change stops the world.
const (
	computing = 3 * time.Millisecond
	calmTime  = time.Second
)

// hold says how many guests of a watchdog compute now; settled says that it need not be
// asked again before there are some.
func (p *processors) hold(w *watchdog, n int, now time.Time) (settled bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n == 0 {
		delete(p.holding, w)
	} else {
		p.holding[w] = n
	}
	need := 1
	for _, n := range p.holding {
		need += n
	}
	if p.busy {
		return false
	}
	have := p.raised
	if p.usual == 0 {
		have = runtime.GOMAXPROCS(0)
	}
	switch {
	case need > have:
		if p.usual == 0 {
			p.usual = have
		}
		p.raised = need
		p.set(need)
	case p.usual == 0:
		return true
	case need > p.usual:
		p.calm = time.Time{}
	case p.calm.IsZero():
		p.calm = now
	case now.Sub(p.calm) > calmTime:
		n := p.usual
		p.usual, p.raised, p.calm = 0, 0, time.Time{}
		p.set(n)
	}
	return false
}

// set changes the number on a goroutine of its own, since that waits for a collection in
// progress.
func (p *processors) set(n int) {
	p.busy = true
	go func() { // leave waits for it
		runtime.GOMAXPROCS(n)
		p.mu.Lock()
		p.busy = false
		p.mu.Unlock()
		p.changed.Broadcast()
	}()
}

// leave forgets a watchdog that ends. The last one puts the usual number back.
func (p *processors) leave(w *watchdog) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.busy {
		p.changed.Wait()
	}
	delete(p.holding, w)
	if len(p.holding) == 0 && p.usual != 0 {
		runtime.GOMAXPROCS(p.usual)
		p.usual, p.raised, p.calm = 0, 0, time.Time{}
	}
}
