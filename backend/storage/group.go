package storage

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
)

// Group commits what several callers write at the same moment in one transaction: each commit
// waits for the disk, and the disk takes many as fast as one. A write that finds nobody
// before it goes at once and alone; those that come meanwhile go together, the ones of a user:
// a transaction says whose it is. It is safe for concurrent use.
type Group struct {
	db      *DB
	most    int
	commits atomic.Int64
	mu      sync.Mutex
	busy    bool
	waiting []*joined
}

// joined is one write of a group.
type joined struct {
	ctx    context.Context
	user   uuid.UUID
	weight int
	fn     func(*Tx) error
	err    error
	turn   chan []*joined // the next group, which the receiver leads; closed: done
}

// NewGroup returns a group whose transactions hold writes of at most that weight together, so
// that the first of them does not wait for long; 0 is 64.
func NewGroup(db *DB, most int) *Group {
	if most <= 0 {
		most = 64
	}
	return &Group{db: db, most: most}
}

// Commits is how many transactions were committed so far.
func (g *Group) Commits() int64 { return g.commits.Load() }

// Write runs fn in a transaction and returns once it is committed. Weight says how much it
// writes, in units of the caller's choice. When one write of a transaction fails, each of the
// others gets one of its own: fn may be called twice, the first time in vain, and must write the
// same both times. A panic in fn is an error of its own write alone.
func (g *Group) Write(ctx context.Context, weight int, fn func(*Tx) error) error {
	e := &joined{ctx: ctx, user: identity.UserID(ctx), weight: weight, fn: fn, turn: make(chan []*joined, 1)}
	g.mu.Lock()
	group := []*joined{e}
	if g.busy {
		g.waiting = append(g.waiting, e)
		group = nil
	}
	g.busy = true
	g.mu.Unlock()
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
		g.pass()
	}()
	g.commit(group)
	return e.err
}

// pass lets the first of those that wait lead the next transaction.
func (g *Group) pass() {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, weight := 0, 0
	for n < len(g.waiting) && (n == 0 || weight+g.waiting[n].weight <= g.most && g.waiting[n].user == g.waiting[0].user) {
		weight += g.waiting[n].weight
		n++
	}
	if n == 0 {
		g.busy = false
		return
	}
	group := g.waiting[:n:n]
	g.waiting = g.waiting[n:]
	group[0].turn <- group
}

// commit writes a group in one transaction, or when that fails each write in its own.
func (g *Group) commit(group []*joined) {
	if len(group) > 1 {
		err := g.db.Write(context.WithoutCancel(group[0].ctx), func(tx *Tx) error {
			for _, e := range group {
				if err := fault.Catch(func() error { return e.fn(tx) }); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			g.commits.Add(1)
			return
		}
	}
	for _, e := range group {
		if e.err = g.db.Write(e.ctx, func(tx *Tx) error { return fault.Catch(func() error { return e.fn(tx) }) }); e.err == nil {
			g.commits.Add(1)
		}
	}
}
