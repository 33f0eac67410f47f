package providers

import (
	"context"
	"slices"
	"time"

	"helix/backend/fault"
)

// slot waits for one of the provider's concurrent calls and for its calls a minute.
func (r *Router) slot(ctx context.Context, t target) (release func(), err error) {
	n := t.entry.MaxConcurrent
	if n == 0 {
		n = 4
	}
	r.mu.Lock()
	slots := r.slots[t.name]
	if cap(slots) != n {
		slots = make(chan struct{}, n)
		r.slots[t.name] = slots
	}
	r.mu.Unlock()
	select { // goroutines that wait to send are served in order
	case slots <- struct{}{}:
	case <-ctx.Done():
		return nil, fault.As(ctx.Err())
	}
	release = func() { <-slots }
	for t.entry.RPM > 0 {
		now := time.Now()
		r.mu.Lock()
		recent := slices.DeleteFunc(r.recent[t.name], func(at time.Time) bool { return now.Sub(at) >= time.Minute })
		if len(recent) < t.entry.RPM {
			r.recent[t.name] = append(recent, now)
			r.mu.Unlock()
			break
		}
		r.recent[t.name] = recent
		wait := time.Minute - now.Sub(recent[0])
		r.mu.Unlock()
		if err := sleep(ctx, wait); err != nil {
			release()
			return nil, err
		}
	}
	return release, nil
}
