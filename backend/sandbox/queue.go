package sandbox

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// LimitQueue is what a LimitDetail names when too many runs wait for a worker.
const LimitQueue = "queue"

// queuePatience is how long a run waits for a usual worker. Most runs take less, so a shorter wait
// would only make more of them share the processors.
const queuePatience = 100 * time.Millisecond

// queue admits a fixed number of runs at a time. Those that wait are taken in turn by
// user, and first come first served within a user, so that one user cannot starve another.
//
// A program that never ends could hold all workers until its limits. So there are a few more
// workers, for runs that have waited longer than queuePatience and whose program has no worker yet.
type queue struct {
	workers int
	extra   int
	room    int // how many may wait

	mu      sync.Mutex
	busy    int
	holding map[workerKey]int // runs with a worker
	waiting int
	users   []string // with someone waiting, in turn
	lines   map[string][]*waiter
}

// workerKey is what holds workers. Equal sources of one user share one.
type workerKey struct {
	user string
	what Runnable
}

type waiter struct {
	workerKey
	late     bool          // it has waited longer than queuePatience
	admitted chan struct{} // closed when it has a worker
}

func newQueue(workers, room int) *queue {
	return &queue{workers: workers, extra: max(workers/2, 1), room: room, holding: map[workerKey]int{}, lines: map[string][]*waiter{}}
}

// acquire waits for a worker. It fails at once when too many wait already.
func (q *queue) acquire(ctx context.Context, k workerKey) *Error {
	q.mu.Lock()
	if q.busy < q.workers {
		q.start(k)
		q.mu.Unlock()
		return nil
	}
	if q.waiting >= q.room {
		q.mu.Unlock()
		return &Error{Class: ClassUnavailable, Message: fmt.Sprintf("Too many runs are waiting (%d). Try again when some have ended.", q.room),
			Details: LimitDetail{Limit: LimitQueue, Max: int64(q.room), Value: int64(q.room)}}
	}
	w := &waiter{workerKey: k, admitted: make(chan struct{})}
	if len(q.lines[k.user]) == 0 {
		q.users = append(q.users, k.user)
	}
	q.lines[k.user] = append(q.lines[k.user], w)
	q.waiting++
	q.mu.Unlock()
	late := time.AfterFunc(queuePatience, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		w.late = true
		q.admit()
	})
	defer late.Stop()
	select {
	case <-w.admitted:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-w.admitted: // the worker came at the same moment: hand it on
		q.stop(k)
	default:
		q.remove(w)
	}
	return contextError(ctx)
}

// release gives a worker back.
func (q *queue) release(k workerKey) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stop(k)
}

func (q *queue) start(k workerKey) {
	q.busy++
	q.holding[k]++
}

func (q *queue) stop(k workerKey) {
	q.busy--
	if q.holding[k]--; q.holding[k] == 0 {
		delete(q.holding, k)
	}
	q.admit()
}

// admit gives workers to those who may have one now.
func (q *queue) admit() {
	for w := q.next(); w != nil; w = q.next() {
		q.remove(w)
		if len(q.lines[w.user]) > 0 { // the others are first now
			i := slices.Index(q.users, w.user)
			q.users = append(slices.Delete(q.users, i, i+1), w.user)
		}
		q.start(w.workerKey)
		close(w.admitted)
	}
}

// next is who gets a worker now, nil when nobody does.
func (q *queue) next() *waiter {
	for _, user := range q.users {
		for _, w := range q.lines[user] {
			if q.busy < q.workers || q.busy < q.workers+q.extra && w.late && q.holding[w.workerKey] == 0 {
				return w
			}
		}
	}
	return nil
}

func (q *queue) remove(w *waiter) {
	q.waiting--
	line := slices.DeleteFunc(q.lines[w.user], func(x *waiter) bool { return x == w })
	if len(line) > 0 {
		q.lines[w.user] = line
		return
	}
	delete(q.lines, w.user)
	q.users = slices.DeleteFunc(q.users, func(u string) bool { return u == w.user })
}

func (q *queue) counts() (busy, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.busy, q.waiting
}
