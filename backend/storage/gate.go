package storage

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"helix/backend/fault"
)

// gate admits transactions and tracks the running reads. It is closed while another database is put
// in place, and for as long as recovery mode lasts.
type gate struct {
	mu    sync.Mutex
	shut  *fault.Error // the error that callers get; nil: open
	reads map[*visit]struct{}
	empty chan struct{} // closed when the last read ends; nil when no one is waiting
}

// visit is one running read.
type visit struct {
	since  time.Time
	pcs    [6]uintptr
	warned bool
}

type insiderKey struct{ g *gate }

// insider marks ctx as belonging to the operation that closed the gate.
func (g *gate) insider(ctx context.Context) context.Context {
	return context.WithValue(ctx, insiderKey{g}, true)
}

// check reports why ctx may not start a transaction now.
func (g *gate) check(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.checkLocked(ctx)
}

func (g *gate) checkLocked(ctx context.Context) error {
	if g.shut == nil || ctx.Value(insiderKey{g}) != nil {
		return nil
	}
	e := *g.shut
	return &e
}

// enter registers a read; call leave on the visit when it ends.
func (g *gate) enter(ctx context.Context) (*visit, error) {
	v := &visit{since: time.Now()}
	runtime.Callers(3, v.pcs[:])
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.checkLocked(ctx); err != nil {
		return nil, err
	}
	if g.reads == nil {
		g.reads = map[*visit]struct{}{}
	}
	g.reads[v] = struct{}{}
	return v, nil
}

func (g *gate) leave(v *visit) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.reads, v)
	if len(g.reads) == 0 && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

// close closes the gate for everyone but insiders.
func (g *gate) close(why *fault.Error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = why
}

// open reopens the gate.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = nil
}

// drain waits until no read is running.
func (g *gate) drain(ctx context.Context) error {
	g.mu.Lock()
	if len(g.reads) == 0 {
		g.mu.Unlock()
		return nil
	}
	if g.empty == nil {
		g.empty = make(chan struct{})
	}
	ch := g.empty
	g.mu.Unlock()
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// longReads returns a description of each read that has run for longer than limit and was
// not returned before.
func (g *gate) longReads(now time.Time, limit time.Duration) (out []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for v := range g.reads {
		if !v.warned && now.Sub(v.since) > limit {
			v.warned = true
			out = append(out, v.caller())
		}
	}
	return out
}

// caller returns the function and line that opened the read: the first frame outside this package's
// Read.
func (v *visit) caller() string {
	fr := runtime.CallersFrames(v.pcs[:])
	for {
		f, more := fr.Next()
		if f.Function != "" && f.Function != "helix/backend/storage.(*DB).Read" {
			return fmt.Sprintf("%s:%d", f.Function, f.Line)
		}
		if !more {
			return "unknown"
		}
	}
}
