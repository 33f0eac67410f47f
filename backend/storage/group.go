package storage

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
)

// Group commits writes of several callers that arrive at the same time in one transaction: each
// commit waits for the disk, and a commit of many writes takes as long as a commit of one. A write
// that arrives while none is running is committed at once and alone. Those that arrive meanwhile
// are committed together, but only writes of the same user, because a transaction belongs to one
// user. Each of them sees the identity of its own caller in the context of the transaction. It is
// safe for concurrent use.
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
	level  syncLevel
	fn     func(*Tx) error
	err    error
	turn   chan []*joined // the next group, which the receiver leads; closed: done
}

// NewGroup returns a Group whose transactions hold writes of at most the given total weight, so
// that the first of them does not wait long; 0 means 64.
func NewGroup(db *DB, most int) *Group {
	if most <= 0 {
		most = 64
	}
	return &Group{db: db, most: most}
}

// Together returns the group of the short writes of all domains, such as the beginnings and ends of
// calls, so that those of calls that run at the same time share commits.
func (db *DB) Together() *Group { return db.together }

// Commits returns the number of transactions committed so far.
func (g *Group) Commits() int64 { return g.commits.Load() }

// Write runs fn in a transaction and returns once it is committed. weight is how much it writes, in
// units of the caller's choice. When a transaction of several writes fails, each of them is retried
// in a transaction of its own. So fn may be called twice and must write the same both times. A
// panic in fn fails only its own write. Inside a Write of the same call it fails as DB.Write does.
func (g *Group) Write(ctx context.Context, weight int, fn func(*Tx) error) error {
	return g.write(ctx, weight, syncFull, fn)
}

// WriteUnsynced is Write without waiting for the disk, unless it is committed together with a
// Write. See DB.WriteUnsynced.
func (g *Group) WriteUnsynced(ctx context.Context, weight int, fn func(*Tx) error) error {
	return g.write(ctx, weight, syncNormal, fn)
}

func (g *Group) write(ctx context.Context, weight int, level syncLevel, fn func(*Tx) error) error {
	if g.db.current(ctx) != nil {
		return errNested // it would wait for a leader that waits for the caller
	}
	e := &joined{ctx: ctx, user: identity.UserID(ctx), weight: weight, level: level, fn: fn, turn: make(chan []*joined, 1)}
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

// pass makes the first of the waiting writes the leader of the next transaction.
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

// commit writes a group in one transaction, or each write in its own transaction when that fails.
func (g *Group) commit(group []*joined) {
	if len(group) > 1 {
		level := syncNormal
		if slices.ContainsFunc(group, func(e *joined) bool { return e.level == syncFull }) {
			level = syncFull
		}
		err := g.db.writeTx(context.WithoutCancel(group[0].ctx), level, func(tx *Tx) error {
			for _, e := range group {
				tx.ctx = context.WithValue(context.WithoutCancel(e.ctx), txKey{g.db}, tx)
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
		if e.err = g.db.writeTx(e.ctx, e.level, func(tx *Tx) error { return fault.Catch(func() error { return e.fn(tx) }) }); e.err == nil {
			g.commits.Add(1)
		}
	}
}
