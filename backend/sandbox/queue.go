package sandbox

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// LimitQueue is the limit named in a LimitDetail when too many runs are waiting for a worker.
const LimitQueue = "queue"

// queuePatience is how long a run waits for one of the regular workers. Most runs take less time,
// so a shorter wait would only make more of them share the processors.
const queuePatience = 100 * time.Millisecond

// queue admits a fixed number of concurrent runs. Waiting runs are admitted round-robin by user,
// and in order of arrival within a user, so that one user cannot starve another.
//
// A program that never ends could occupy all workers until its limits. So there are a few extra
// workers, for runs that have waited longer than queuePatience and whose program has no worker yet.
type queue struct {
	workers int
	extra   int
	room    int // maximum number of waiting runs

	mu      sync.Mutex
	busy    int
	holding map[workerKey]int // runs with a worker
	waiting int
	users   []string // with waiting runs, in round-robin order
	lines   map[string][]*waiter
}

// workerKey identifies what occupies workers. Equal sources of one user share a key.
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

// acquire waits for a worker. It fails at once if too many runs are already waiting.
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
	case <-w.admitted: // admitted at the same moment: release the worker
		q.stop(k)
	default:
		q.remove(w)
	}
	return contextError(ctx)
}

// release releases a worker.
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

// admit gives workers to the runs that may have one now.
func (q *queue) admit() {
	for w := q.next(); w != nil; w = q.next() {
		q.remove(w)
		if len(q.lines[w.user]) > 0 { // now the other users come first
			i := slices.Index(q.users, w.user)
			q.users = append(slices.Delete(q.users, i, i+1), w.user)
		}
		q.start(w.workerKey)
		close(w.admitted)
	}
}

// next returns the run that gets a worker now, or nil if none may.
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
