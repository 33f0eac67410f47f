package scheduler

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// lane has slots for runs of some kinds. Users take turns in it, so that one with many runs
// does not delay the others.
type lane struct {
	name     string
	capacity int
	running  int
	users    []uuid.UUID // that have waiting runs; the first is next
	queues   map[uuid.UUID][]*live
}

func (l *lane) push(r *live) {
	if len(l.queues[r.user]) == 0 {
		l.users = append(l.users, r.user)
	}
	l.queues[r.user] = append(l.queues[r.user], r)
}

// pop takes the next run when there is a slot, and takes the slot for it.
func (l *lane) pop() *live {
	if l.running >= l.capacity || len(l.users) == 0 {
		return nil
	}
	user := l.users[0]
	r := l.queues[user][0]
	l.queues[user] = l.queues[user][1:]
	l.users = l.users[1:]
	if len(l.queues[user]) > 0 {
		l.users = append(l.users, user)
	} else {
		delete(l.queues, user)
	}
	l.running++
	return r
}

// drop takes a waiting run out.
func (l *lane) drop(r *live) {
	q := l.queues[r.user]
	i := slices.Index(q, r)
	if i < 0 {
		return
	}
	if q = slices.Delete(slices.Clone(q), i, i+1); len(q) > 0 {
		l.queues[r.user] = q
		return
	}
	delete(l.queues, r.user)
	l.users = slices.DeleteFunc(l.users, func(u uuid.UUID) bool { return u == r.user })
}

func (l *lane) waiting() (n int) {
	for _, q := range l.queues {
		n += len(q)
	}
	return n
}

// phase is where a run stands in this process.
type phase int

const (
	pending phase = iota // waits for a slot
	started              // holds a slot
	parked               // waits for something else, such as an answer, and holds none
)

// live is a run whose target was made and that is not over.
type live struct {
	runRow
	kind    *kind
	home    *lane // of its kind
	slot    *lane // whose slot it holds; nil: none
	phase   phase
	since   time.Duration // when it took the slot, monotonic
	used    time.Duration // before that, not counting what it waited
	look    bool          // its state is to be asked
	looking bool
	ending  string        // why it was canceled: timeout, person, overlap
	endBy   time.Duration // when it is closed all the same

	// Of schedules with a lease: the hub records a run before it starts.
	admitted, admitting, refused bool
	asked                        time.Duration
}

// outcome is what a target reported about a run.
type outcome struct {
	run   uuid.UUID
	state TargetState
}

// take gives r a slot of l.
func (r *live) take(l *lane, now time.Duration) {
	l.running++
	r.hold(l, now)
}

func (r *live) hold(l *lane, now time.Duration) {
	r.slot, r.phase, r.since = l, started, now
}

// free gives its slot back.
func (r *live) free(now time.Duration) {
	if r.slot != nil {
		r.slot.running--
		r.used += now - r.since
		r.slot = nil
	}
}
