package providers

import (
	"context"
	"slices"
	"time"

	"helix/backend/fault"
)

// started is a call of the last minute with its tokens: first those that it may take, then those that
// the service counted.
type started struct {
	at     time.Time
	tokens int64
}

// slot waits for one of the provider's concurrent calls, and for its calls and tokens a minute. tokens are
// those that the prompt may take; release takes what the service counted, 0 if it did not.
func (r *Router) slot(ctx context.Context, t target, tokens int64) (release func(used int64), err error) {
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
	if t.entry.RPM == 0 && t.entry.TPM == 0 {
		return func(int64) { <-slots }, nil
	}
	for {
		call, wait := r.begin(t, tokens, time.Now())
		if call != nil {
			return func(used int64) {
				if used > 0 {
					r.mu.Lock()
					call.tokens = used
					r.mu.Unlock()
				}
				<-slots
			}, nil
		}
		if err := sleep(ctx, wait); err != nil {
			<-slots
			return nil, err
		}
	}
}

// begin notes a call that fits into the minute, or says when the next one may fit. A call that alone takes
// more than the tokens of a minute waits for an empty one: the service knows its limit better.
func (r *Router) begin(t target, tokens int64, now time.Time) (*started, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	recent := slices.DeleteFunc(r.recent[t.name], func(s *started) bool { return now.Sub(s.at) >= time.Minute })
	sum := tokens
	for _, s := range recent {
		sum += s.tokens
	}
	r.recent[t.name] = recent
	if len(recent) > 0 && (t.entry.RPM > 0 && len(recent) >= t.entry.RPM || t.entry.TPM > 0 && sum > int64(t.entry.TPM)) {
		return nil, time.Minute - now.Sub(recent[0].at)
	}
	call := &started{now, tokens}
	r.recent[t.name] = append(recent, call)
	return call, 0
}
