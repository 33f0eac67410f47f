package sandbox

import (
	"context"
	"sync"
	"time"
)

// watchTick is how often runs are compared with their limits.
const watchTick = time.Millisecond

// watchdog ends runs at their limits and when their caller goes away. It costs nothing
// while nothing runs, and a run as good as nothing: one timer serves all of them.
type watchdog struct {
	mu      sync.Mutex
	runs    []*control
	list    []*control // of the tick in progress
	timer   *time.Timer
	armed   bool
	idle    int  // ticks without a run
	calm    bool // nothing is left to do when nothing runs
	closed  bool
	ticking sync.Mutex // held during a tick
	after   func()     // called with each tick

	processors processors // used during ticks
}

// lingering is how many ticks without a run it takes for the timer to rest, so that runs
// in quick succession do not start it each time.
const lingering = 20

func (w *watchdog) add(r *control) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.place = len(w.runs)
	w.runs = append(w.runs, r)
	if w.armed {
		return
	}
	w.armed, w.idle = true, 0
	if w.timer == nil {
		w.timer = time.AfterFunc(watchTick, w.tick)
		return
	}
	w.timer.Reset(watchTick)
}

// remove forgets a run and waits for a look at it that is in progress: afterwards nothing
// of the watchdog touches the run or its guest.
func (w *watchdog) remove(r *control) {
	w.mu.Lock()
	last := len(w.runs) - 1
	w.runs[r.place] = w.runs[last]
	w.runs[r.place].place = r.place
	w.runs[last] = nil
	w.runs = w.runs[:last]
	w.mu.Unlock()
	r.watching.Lock()
	r.unwatched = true
	if r.forget != nil {
		r.forget()
	}
	r.watching.Unlock()
}

func (w *watchdog) tick() {
	w.ticking.Lock()
	defer w.ticking.Unlock()
	w.mu.Lock()
	if len(w.runs) > 0 {
		w.idle = 0
	} else if w.idle++; w.idle > lingering && w.calm || w.closed {
		w.armed = false
		w.mu.Unlock()
		return
	}
	w.list = append(w.list[:0], w.runs...)
	list := w.list
	w.mu.Unlock()
	now := time.Now()
	holding := 0
	for i, r := range list {
		r.watching.Lock()
		if !r.unwatched {
			r.look(now)
			if r.inside.Load() && now.Sub(r.start) > computing {
				holding++
			}
		}
		r.watching.Unlock()
		list[i] = nil
	}
	w.calm = w.processors.hold(holding, now)
	w.after()
	w.mu.Lock()
	w.timer.Reset(watchTick)
	w.mu.Unlock()
}

// close ends the ticks. No run is left.
func (w *watchdog) close() {
	w.mu.Lock()
	w.closed = true
	if w.timer != nil {
		w.timer.Stop()
	}
	w.mu.Unlock()
	w.ticking.Lock() // the last one has ended, and another will do nothing
	w.armed = false
	w.ticking.Unlock()
	w.processors.close()
}

// look compares a run with its limits.
func (r *control) look(now time.Time) {
	if r.over() {
		if g := r.grace.Load(); g != 0 && now.UnixNano() > g {
			r.grace.Store(0)
			r.stopGuest()
		}
		return
	}
	if r.caller.Err() != nil {
		r.fail(contextError(r.caller))
		return
	}
	if r.forget == nil && r.caller.Done() != nil {
		// It goes on for longer than a tick: from now on the caller need not wait for one.
		r.forget = context.AfterFunc(r.caller, func() {
			r.watching.Lock()
			defer r.watching.Unlock()
			if !r.unwatched {
				r.fail(contextError(r.caller))
			}
		})
	}
	if ran := now.Sub(r.start); ran >= r.limits.Wall {
		r.fail(r.overLimit(ClassTimeout, "wallMs", r.limits.Wall, ran))
		return
	}
	if r.cpu == nil || now.Before(r.cpuNext) {
		return
	}
	used := r.cpuUsed()
	if used >= r.limits.CPU {
		r.fail(r.overLimit(ClassCPU, "cpuMs", r.limits.CPU, used))
		return
	}
	// One thread cannot use what is left sooner than that; inner runs report in steps.
	r.cpuNext = now.Add(min(r.limits.CPU-used, 10*time.Millisecond))
}
