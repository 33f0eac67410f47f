package sandbox

import (
	"context"
	"fmt"
	"sync"
)

// LimitQueue is what a LimitDetail names when too many runs wait for a worker.
const LimitQueue = "queue"

// queue admits a fixed number of runs at a time. Those that wait are taken in turn by
// user, and first come first served within a user, so that one user cannot starve another.
type queue struct {
	mu      sync.Mutex
	free    int
	room    int // how many more may wait
	total   int
	waiting int
	users   []string // with someone waiting, in turn
	lines   map[string][]chan struct{}
}

func newQueue(workers, room int) *queue {
	return &queue{free: workers, total: workers, room: room, lines: map[string][]chan struct{}{}}
}

// acquire waits for a worker. It fails at once when too many wait already.
func (q *queue) acquire(ctx context.Context, user string) *Error {
	q.mu.Lock()
	if q.free > 0 {
		q.free--
		q.mu.Unlock()
		return nil
	}
	if q.waiting >= q.room {
		q.mu.Unlock()
		return &Error{Class: ClassUnavailable, Message: fmt.Sprintf("Too many runs are waiting (%d). Try again when some have ended.", q.room),
			Details: LimitDetail{Limit: LimitQueue, Max: int64(q.room), Value: int64(q.room)}}
	}
	ch := make(chan struct{})
	if len(q.lines[user]) == 0 {
		q.users = append(q.users, user)
	}
	q.lines[user] = append(q.lines[user], ch)
	q.waiting++
	q.mu.Unlock()
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-ch: // the worker came at the same moment: hand it on
		q.next()
	default:
		q.drop(user, ch)
	}
	return contextError(ctx)
}

// release gives a worker back.
func (q *queue) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.next()
}

func (q *queue) next() {
	if len(q.users) == 0 {
		q.free++
		return
	}
	user := q.users[0]
	q.users = q.users[1:]
	line := q.lines[user]
	close(line[0])
	q.waiting--
	if line = line[1:]; len(line) == 0 {
		delete(q.lines, user)
		return
	}
	q.lines[user] = line
	q.users = append(q.users, user)
}

func (q *queue) drop(user string, ch chan struct{}) {
	line := q.lines[user]
	for i, c := range line {
		if c != ch {
			continue
		}
		q.waiting--
		if len(line) == 1 {
			delete(q.lines, user)
			for j, u := range q.users {
				if u == user {
					q.users = append(q.users[:j:j], q.users[j+1:]...)
					break
				}
			}
			return
		}
		q.lines[user] = append(line[:i:i], line[i+1:]...)
		return
	}
}

func (q *queue) counts() (busy, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.total - q.free, q.waiting
}
