package skills

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/skills/machine"
	"helix/backend/storage"
)

// maxGroup bounds the events of one transaction, so that the first run of a group does not
// wait for long.
const maxGroup = 64

// journal commits what several runs write at the same moment in one transaction: each
// commit waits for the disk, and the disk takes many as fast as one. A write that finds
// nobody before it goes at once and alone; those that come meanwhile go together, the ones of
// a user: the transaction says who it is.
type journal struct {
	db      *storage.DB
	commits atomic.Int64 // transactions that reached the disk, for measurements
	mu      sync.Mutex
	busy    bool
	waiting []*entryOf
}

// entryOf is one write. fn may be called twice, the first time in vain: it must not depend
// on whose context the transaction has, and must not change what it writes.
type entryOf struct {
	ctx    context.Context
	user   uuid.UUID
	events int
	fn     func(*storage.Tx) error
	err    error
	turn   chan []*entryOf // the next group, which the receiver leads; closed: done
}

// write runs fn in a transaction and returns once it is committed. events is how many events
// it writes.
func (j *journal) write(ctx context.Context, events int, fn func(*storage.Tx) error) error {
	e := &entryOf{ctx: ctx, user: identity.UserID(ctx), events: events, fn: fn, turn: make(chan []*entryOf, 1)}
	j.mu.Lock()
	group := []*entryOf{e}
	if j.busy {
		j.waiting = append(j.waiting, e)
		group = nil
	}
	j.busy = true
	j.mu.Unlock()
	if group == nil {
		var lead bool
		if group, lead = <-e.turn; !lead {
			return e.err
		}
	}
	defer func() {
		for _, x := range group {
			if x != e {
				close(x.turn)
			}
		}
		j.pass()
	}()
	j.commit(group)
	return e.err
}

// pass lets the first of those that wait lead the next group.
func (j *journal) pass() {
	j.mu.Lock()
	defer j.mu.Unlock()
	n, events := 0, 0
	for n < len(j.waiting) && (n == 0 || events+j.waiting[n].events <= maxGroup && j.waiting[n].user == j.waiting[0].user) {
		events += j.waiting[n].events
		n++
	}
	if n == 0 {
		j.busy = false
		return
	}
	group := j.waiting[:n:n]
	j.waiting = j.waiting[n:]
	group[0].turn <- group
}

// commit writes a group in one transaction. When one of them fails, none is written, and
// then each gets a transaction of its own.
func (j *journal) commit(group []*entryOf) {
	if len(group) > 1 {
		err := j.db.Write(context.WithoutCancel(group[0].ctx), func(tx *storage.Tx) error {
			for _, e := range group {
				if err := guarded(e.fn, tx); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			j.commits.Add(1)
			return
		}
	}
	for _, e := range group {
		if e.err = j.db.Write(e.ctx, func(tx *storage.Tx) error { return guarded(e.fn, tx) }); e.err == nil {
			j.commits.Add(1)
		}
	}
}

// guarded turns a panic into an error: it must not end the runs of others.
func guarded(fn func(*storage.Tx) error, tx *storage.Tx) (err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fault.Internalf(fmt.Errorf("panic: %v", x), "Something went wrong inside Helix.")
		}
	}()
	return fn(tx)
}

// insertEvents adds events to the journal of a run.
func insertEvents(tx *storage.Tx, run uuid.UUID, events []machine.Event) error {
	const width = 8
	for len(events) > 0 {
		n := min(len(events), maxGroup)
		args := make([]any, 0, n*width)
		for _, e := range events[:n] {
			args = append(args, run, e.Seq, string(e.Type), e.StepPath, e.Iteration, e.Attempt, e.Data, e.At)
		}
		_, err := tx.Exec(`INSERT INTO composite_skill_events (execution_id, seq, type, step_path, iteration, attempt, payload, at) VALUES `+
			strings.Repeat("(?,?,?,?,?,?,?,?),", n-1)+"(?,?,?,?,?,?,?,?)", args...)
		if err != nil {
			return err
		}
		events = events[n:]
	}
	return nil
}

// loadEvents reads events of a run after a number, in order; limit 0: all.
func loadEvents(tx *storage.Tx, run uuid.UUID, after int64, limit int) ([]machine.Event, error) {
	if limit <= 0 {
		limit = -1
	}
	rows, err := tx.Query(`SELECT seq, type, step_path, iteration, attempt, payload, at FROM composite_skill_events
		WHERE execution_id = ? AND seq > ? ORDER BY seq LIMIT ?`, run, after, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []machine.Event
	for rows.Next() {
		var e machine.Event
		var typ, data string
		if err := rows.Scan(&e.Seq, &typ, &e.StepPath, &e.Iteration, &e.Attempt, &data, storage.Time(&e.At)); err != nil {
			return nil, err
		}
		e.Type, e.Data = machine.Type(typ), []byte(data)
		out = append(out, e)
	}
	return out, rows.Err()
}
