package tools

import (
	"context"
	"fmt"
	"sync"

	"helix/backend/fault"
	"helix/backend/storage"
)

// together commits what several runs write at the same moment in one transaction: each
// commit waits for the disk, and the disk takes many as fast as one. A write that finds
// nobody before it goes at once and alone.
type together struct {
	db      *storage.DB
	mu      sync.Mutex
	busy    bool
	waiting []*joined
}

// joined is one write. fn may be called twice, the first time in vain: it must not depend on
// whose context the transaction has, and must not change what it writes.
type joined struct {
	ctx  context.Context
	fn   func(*storage.Tx) error
	err  error
	turn chan []*joined // the next group, which the receiver leads; closed: done
}

// maxTogether bounds a group, so that the first does not wait for long.
const maxTogether = 64

// write runs fn in a transaction and returns once it is committed.
func (g *together) write(ctx context.Context, fn func(*storage.Tx) error) error {
	e := &joined{ctx: ctx, fn: fn, turn: make(chan []*joined, 1)}
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

// pass lets the first of those that wait lead the next group.
func (g *together) pass() {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.waiting), maxTogether)
	if n == 0 {
		g.busy = false
		return
	}
	group := g.waiting[:n:n]
	g.waiting = g.waiting[n:]
	group[0].turn <- group
}

// commit writes a group in one transaction. When one of them fails, none is written, and
// then each gets a transaction of its own.
func (g *together) commit(group []*joined) {
	if len(group) > 1 {
		err := g.db.Write(context.WithoutCancel(group[0].ctx), func(tx *storage.Tx) error {
			for _, e := range group {
				if err := guarded(e.fn, tx); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			return
		}
	}
	for _, e := range group {
		e.err = g.db.Write(e.ctx, func(tx *storage.Tx) error { return guarded(e.fn, tx) })
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
