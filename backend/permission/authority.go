package permission

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"helix/backend/fault"
)

// Authority is what one run may do at most: what its subject declares and was granted, cut
// down to what its caller holds. It only ever shrinks. It is made by Service.Begin and is
// safe for concurrent use.
type Authority struct {
	svc    *Service
	no     uint64 // tells authorities apart in the cache of decisions
	parent *Authority
	sub    Subject
	run    uuid.UUID
	user   uuid.UUID

	mu      sync.Mutex
	held    []holding
	used    map[uuid.UUID]bool // grants that let something of this run through, besides held
	err     error
	done    chan struct{}
	stopped bool
}

// holding is one right of a run.
type holding struct {
	cap     Capability
	pattern string // normal form
	grant   uuid.UUID
	until   int64 // microseconds; 0: no end
}

// Subject is the definition that runs.
func (a *Authority) Subject() Subject { return a.sub }

// RunID is the run that holds this authority.
func (a *Authority) RunID() uuid.UUID { return a.run }

// Parent is the authority of the caller, nil for a run that the user started.
func (a *Authority) Parent() *Authority { return a.parent }

// Allows reports whether the run holds c for a concrete resource. Links in a path are
// followed now.
func (a *Authority) Allows(c Capability, resource string) bool {
	if a == nil {
		return true // the user holds everything that can be granted
	}
	res, err := a.svc.concrete(c, resource, a.sub)
	return err == nil && a.allows(c, res)
}

func (a *Authority) allows(c Capability, res concrete) bool {
	a.mu.Lock()
	ended, held := a.err != nil, a.held // held is never changed in place
	a.mu.Unlock()
	if ended {
		return false
	}
	// What was revoked, suspended or refused since the run began is gone.
	sh, _, err := a.svc.grantsOf(context.Background(), a.user, a.sub, false)
	if err != nil {
		a.svc.log.Error("read the grants of a run", "error", err)
		return false
	}
	for i := range sh.denials {
		if sh.denials[i].has(&res) {
			return false
		}
	}
	now, sp := a.svc.nowMicro(), a.svc.space()
	for _, h := range held {
		if (h.until == 0 || now < h.until) && implies(h.cap, c) && res.in(h.cap, h.pattern, sp, a.sub) && sh.holds(h, now, a.sub.DefinitionHash) {
			return true
		}
	}
	return false
}

// Done is closed when the run must end because a right that it uses was revoked. Err then
// says why.
func (a *Authority) Done() <-chan struct{} { return a.done }

// Err is nil until Done is closed by a revocation, then a Denied error.
func (a *Authority) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// Context is ctx that also ends when the run loses a right it uses; context.Cause is then
// the Denied error of Err. Call cancel when the run is over.
func (a *Authority) Context(ctx context.Context) (_ context.Context, cancel context.CancelFunc) {
	ctx, stop := context.WithCancelCause(ctx)
	quit := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-a.done:
			if err := a.Err(); err != nil {
				stop(err)
			}
		case <-ctx.Done():
		case <-quit:
		}
	}()
	var once sync.Once
	return ctx, func() {
		once.Do(func() {
			close(quit)
			<-ended
			stop(context.Canceled)
		})
	}
}

// end closes Done; err is nil for a run that is simply over.
func (a *Authority) end(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return
	}
	a.stopped, a.err = true, err
	close(a.done)
}

// usesGrant reports whether the run rests on g.
func (a *Authority) usesGrant(g uuid.UUID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.used[g] {
		return true
	}
	for _, h := range a.held {
		if h.grant == g {
			return true
		}
	}
	return false
}

// mark notes that g let something of this run through.
func (a *Authority) mark(g uuid.UUID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.used == nil {
		a.used = map[uuid.UUID]bool{}
	}
	a.used[g] = true
}

// descends reports whether a is b or a run below it.
func (a *Authority) descends(b *Authority) bool {
	for ; a != nil; a = a.parent {
		if a == b {
			return true
		}
	}
	return false
}

func errRevoked(what string) error {
	return fault.Deniedf("A permission that this run was using was revoked, so the run was stopped.").
		WithDetails(map[string]string{"reason": ReasonRevoked, "by": what})
}
