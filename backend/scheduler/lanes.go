package scheduler

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// lane has a number of slots for runs of some kinds. It serves users in turn, so that one user with
// many runs does not delay the others.
type lane struct {
	name     string
	capacity int
	running  int
	users    []uuid.UUID // with queued runs; the first is next
	queues   map[uuid.UUID][]*live
}

func (l *lane) push(r *live) {
	if len(l.queues[r.user]) == 0 {
		l.users = append(l.users, r.user)
	}
	l.queues[r.user] = append(l.queues[r.user], r)
}

// pop returns the next run and takes a slot for it, or nil if there is none.
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

// drop removes a queued run.
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

// phase is the state of a run in this process.
type phase int

const (
	pending phase = iota // waits for a slot
	started              // holds a slot
	parked               // waits for something else, such as an answer, without a slot
)

// live is a run that the target has created and that has not ended.
type live struct {
	runRow
	kind    *kind
	home    *lane // of its kind
	slot    *lane // the lane whose slot it holds; nil: none
	phase   phase
	since   time.Duration // when it took the slot, monotonic
	used    time.Duration // total before since, without waits
	look    bool          // its state must be queried
	looking bool
	ending  string        // why it is being canceled: timeout, person, overlap
	endBy   time.Duration // when it is closed even if the target has not ended it

	// Only for schedules with a lease: the hub records a run before it starts.
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

// free releases the slot of r.
func (r *live) free(now time.Duration) {
	if r.slot != nil {
		r.slot.running--
		r.used += now - r.since
		r.slot = nil
	}
}
