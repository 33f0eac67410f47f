package gateway

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"helix/backend/identity"
)

func newCallContext(base context.Context, within time.Duration) *callContext {
	c := &callContext{base: base}
	c.setDeadline(time.Now().Add(within))
	return c
}

func TestCallContextEndsLikeAStandardOne(t *testing.T) {
	t.Parallel()
	why := errors.New("why")
	for _, waited := range []bool{false, true} { // whether someone waits for it before it ends
		synctest.Test(t, func(t *testing.T) {
			session, closeSession := context.WithCancelCause(identity.With(t.Context(), identity.Identity{Client: identity.ClientWindow, Label: "x"}))
			begin := func(within time.Duration) *callContext {
				c := newCallContext(session, within)
				if waited {
					c.Done()
				}
				if c.Err() != nil {
					t.Fatal(c.Err())
				}
				return c
			}
			canceled, timed, child := begin(time.Minute), begin(time.Second), begin(time.Minute)
			if at, ok := timed.Deadline(); !ok || time.Until(at) != time.Second {
				t.Fatal(at, ok)
			}
			if id, _ := identity.From(canceled); id.Label != "x" {
				t.Fatal(id)
			}
			canceled.cancel(why)
			canceled.cancel(errors.New("later"))
			if canceled.Err() != context.Canceled || context.Cause(canceled) != why {
				t.Fatal(canceled.Err(), context.Cause(canceled))
			}
			<-canceled.Done()
			inner, stop := context.WithTimeout(child, time.Hour)
			defer stop()
			time.Sleep(2 * time.Second)
			if timed.Err() != context.DeadlineExceeded {
				t.Fatal(timed.Err())
			}
			<-timed.Done()
			open := begin(time.Minute)
			closeSession(why)
			<-inner.Done()
			if open.Err() != context.Canceled || context.Cause(open) != why || context.Cause(inner) != why {
				t.Fatal(open.Err(), context.Cause(open), context.Cause(inner))
			}
			open.cancel(nil)
			child.cancel(nil)
			timed.cancel(nil)
		})
	}
}
