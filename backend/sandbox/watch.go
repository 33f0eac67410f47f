package sandbox

import (
	"context"
	"sync"
	"time"
)

// watchTick is how often the limits of runs are checked.
const watchTick = time.Millisecond

// watchdog ends runs at their limits and when their caller is gone. It costs nothing while nothing
// runs, and almost nothing per run: one timer serves all of them.
type watchdog struct {
	mu      sync.Mutex
	runs    []*control
	list    []*control // of the tick in progress
	timer   *time.Timer
	armed   bool
	idle    int  // ticks without a run
	calm    bool // nothing is left to do when idle
	closed  bool
	ticking sync.Mutex // held during a tick
	after   func()     // called with each tick

	processors processors // used during ticks
}

// lingering is the number of ticks without a run after which the timer stops, so that runs in quick
// succession do not start it each time.
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

// remove removes a run and waits for a check of it in progress: afterwards the watchdog no longer
// uses the run or its guest.
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

// close stops the ticks. No run may be left.
func (w *watchdog) close() {
	w.mu.Lock()
	w.closed = true
	if w.timer != nil {
		w.timer.Stop()
	}
	w.mu.Unlock()
	w.ticking.Lock() // the last tick has ended, and another would do nothing
	w.armed = false
	w.ticking.Unlock()
	w.processors.close()
}

// look checks a run against its limits.
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
		// It lasts longer than a tick: from now on, the caller's cancellation takes effect without
		// waiting for one.
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
	// A single thread cannot use up the rest sooner than that; inner runs report in steps.
	r.cpuNext = now.Add(min(r.limits.CPU-used, 10*time.Millisecond))
}
