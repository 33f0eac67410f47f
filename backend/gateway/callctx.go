package gateway

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// callContext is the context of one call. Most calls only check whether it has ended, so the timer
// and the channel for waiting are created on demand.
type callContext struct {
	base     context.Context // the session's context, with its identity
	mu       sync.Mutex
	deadline time.Time // set before the handler runs
	ended    error     // why it was canceled before full was created
	full     atomic.Pointer[fullContext]
}

type fullContext struct {
	context.Context
	end context.CancelCauseFunc
}

// Deadline implements context.Context.
func (c *callContext) Deadline() (time.Time, bool) {
	c.mu.Lock()
	own := c.deadline
	c.mu.Unlock()
	at, ok := c.base.Deadline()
	if own.IsZero() || (ok && at.Before(own)) {
		return at, ok
	}
	return own, true
}

// Done implements context.Context.
func (c *callContext) Done() <-chan struct{} { return c.complete().Done() }

// Err implements context.Context.
func (c *callContext) Err() error {
	if f := c.full.Load(); f != nil {
		return f.Err()
	}
	c.mu.Lock()
	ended := c.ended != nil || (!c.deadline.IsZero() && !time.Now().Before(c.deadline))
	c.mu.Unlock()
	if ended || c.base.Err() != nil {
		return c.complete().Err()
	}
	return nil
}

// Value implements context.Context.
func (c *callContext) Value(key any) any {
	if f := c.full.Load(); f != nil {
		return f.Value(key)
	}
	return c.base.Value(key)
}

// complete creates a standard context with the same behavior.
func (c *callContext) complete() *fullContext {
	if f := c.full.Load(); f != nil {
		return f
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.full.Load(); f != nil {
		return f
	}
	ctx, end := context.WithCancelCause(c.base)
	f := &fullContext{ctx, end}
	if !c.deadline.IsZero() {
		timed, stop := context.WithDeadline(ctx, c.deadline)
		f.Context, f.end = timed, func(cause error) { end(cause); stop() }
	}
	if c.ended != nil {
		f.end(c.ended)
	}
	c.full.Store(f)
	return f
}

// cancel ends the context; only the first cause is kept.
func (c *callContext) cancel(cause error) {
	if cause == nil {
		cause = context.Canceled
	}
	c.mu.Lock()
	f := c.full.Load()
	if f == nil && c.ended == nil {
		c.ended = cause
	}
	c.mu.Unlock()
	if f != nil {
		f.end(cause)
	}
}

// setDeadline is called once, before the handler has the context.
func (c *callContext) setDeadline(at time.Time) {
	c.mu.Lock()
	c.deadline = at
	c.mu.Unlock()
}
