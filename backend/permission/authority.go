package permission

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"helix/backend/fault"
)

// Authority is the upper bound of what one run may do: what its subject declares and was granted,
// limited to what its caller holds. It only ever shrinks. It is created by Service.Begin and safe
// for concurrent use.
type Authority struct {
	svc    *Service
	no     uint64 // identifies authorities in the cache of decisions
	parent *Authority
	sub    Subject
	run    uuid.UUID
	user   uuid.UUID
	binds  bool // Begin bound run grants to the run

	mu      sync.Mutex
	held    []holding
	used    map[uuid.UUID]bool // grants that allowed a call of this run, besides held
	err     error
	done    chan struct{}
	stopped bool
}

// holding is one permission of a run.
type holding struct {
	cap     Capability
	pattern string // normalized
	grant   uuid.UUID
	until   int64 // microseconds; 0: no end
}

// Subject returns the subject that runs.
func (a *Authority) Subject() Subject { return a.sub }

// RunID returns the id of the run.
func (a *Authority) RunID() uuid.UUID { return a.run }

// Parent returns the authority of the caller, or nil for a run started by the user.
func (a *Authority) Parent() *Authority { return a.parent }

// Allows reports whether the run holds c for a concrete resource. Symbolic links in a path
// are resolved now.
func (a *Authority) Allows(c Capability, resource string) bool {
	if a == nil {
		return true // the user holds everything that can be granted
	}
	res, err := a.svc.concrete(c, resource, a.sub)
	return err == nil && a.allows(c, res)
}

func (a *Authority) allows(c Capability, res concrete) bool {
	a.mu.Lock()
	ended, held := a.err != nil, a.held // held is never modified in place
	a.mu.Unlock()
	if ended {
		return false
	}
	// Take into account what was revoked, suspended or denied since the run began.
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

// Done returns a channel that is closed when the run must end because a grant that it uses was
// revoked, or when the run is over. Err returns the reason.
func (a *Authority) Done() <-chan struct{} { return a.done }

// Err returns a Denied error after a revocation has ended the run, and else nil.
func (a *Authority) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// Context returns a context that also ends when the run loses a grant it uses; context.Cause is
// then the error of Err. Call cancel when the run is over.
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

// end closes Done. err is nil for a run that has ended normally.
func (a *Authority) end(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return
	}
	a.stopped, a.err = true, err
	close(a.done)
}

// usesGrant reports whether the run depends on g.
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

// mark records that g allowed a call of this run.
func (a *Authority) mark(g uuid.UUID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.used == nil {
		a.used = map[uuid.UUID]bool{}
	}
	a.used[g] = true
}

// descends reports whether a is b or a descendant of it.
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
