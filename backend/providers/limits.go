package providers

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"helix/backend/fault"
)

// started is a call of the last minute. tokens is the most that the call may take, and later the
// service's count.
type started struct {
	at     time.Time
	tokens int64
}

// slot waits until the provider's limits on concurrent calls, and on calls and tokens per minute,
// permit a call. tokens is the most that the prompt may take. waits, unless it is nil, is called before
// each wait. The caller passes the service's count to release, or 0 if there is none.
func (r *Router) slot(ctx context.Context, t target, tokens int64, waits func(service string)) (release func(used int64), err error) {
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
	if waits == nil {
		waits = func(string) {}
	}
	select {
	case slots <- struct{}{}:
	default:
		waits(t.title)
		select { // waiting senders are served in order
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil, fault.As(ctx.Err())
		}
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
		waits(t.title)
		if err := sleep(ctx, wait); err != nil {
			<-slots
			return nil, err
		}
	}
}

// remaining is what a service reported as left of its own limits, less the calls begun since. When
// nothing is left, waiting for the reset avoids a call that the service would refuse.
type remaining struct {
	requests, tokens     int64 // negative: not reported
	requestsAt, tokensAt time.Time
}

// wait returns how long a call of tokens must wait for the service's reset. A nil receiver has no
// limits.
func (l *remaining) wait(tokens int64, now time.Time) (wait time.Duration) {
	if l == nil {
		return 0
	}
	if l.requests == 0 {
		wait = l.requestsAt.Sub(now)
	}
	if l.tokens >= 0 && l.tokens < tokens {
		wait = max(wait, l.tokensAt.Sub(now))
	}
	if wait > maxRetryAfter { // too long to wait: make the call and let the service decide
		return 0
	}
	return max(wait, 0)
}

func (l *remaining) take(tokens int64) {
	if l == nil {
		return
	}
	if l.requests > 0 {
		l.requests--
	}
	if l.tokens >= 0 {
		l.tokens = max(l.tokens-tokens, 0)
	}
}

// learnLimits records the remaining limits that a response header reports.
func (r *Router) learnLimits(name string, h http.Header, now time.Time) {
	read := func(names ...[2]string) (left int64, at time.Time) {
		for _, n := range names {
			left, err := strconv.ParseInt(h.Get(n[0]), 10, 64)
			reset := h.Get(n[1])
			if err != nil || left < 0 || reset == "" {
				continue
			}
			if d, err := time.ParseDuration(reset); err == nil {
				return left, now.Add(d)
			}
			if at, err := time.Parse(time.RFC3339, reset); err == nil {
				return left, at
			}
			if s, err := strconv.ParseFloat(reset, 64); err == nil && s >= 0 && s < 1e6 {
				return left, now.Add(time.Duration(s * float64(time.Second)))
			}
		}
		return -1, time.Time{}
	}
	l := &remaining{}
	l.requests, l.requestsAt = read([2]string{"X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"}, [2]string{"Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset"})
	l.tokens, l.tokensAt = read([2]string{"X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"}, [2]string{"Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset"})
	if l.requests < 0 && l.tokens < 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left[name] = l
}

// begin registers a call that fits into the current minute, or returns how long to wait. A call that
// alone exceeds the tokens per minute waits until no other call counts, and is then sent for the
// service to decide.
func (r *Router) begin(t target, tokens int64, now time.Time) (*started, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := r.left[t.name]
	if wait := left.wait(tokens, now); wait > 0 {
		return nil, wait
	}
	if t.entry.RPM == 0 && t.entry.TPM == 0 {
		left.take(tokens)
		return &started{now, tokens}, 0
	}
	recent := slices.DeleteFunc(r.recent[t.name], func(s *started) bool { return now.Sub(s.at) >= time.Minute })
	sum := tokens
	for _, s := range recent {
		sum += s.tokens
	}
	r.recent[t.name] = recent
	if len(recent) > 0 && (t.entry.RPM > 0 && len(recent) >= t.entry.RPM || t.entry.TPM > 0 && sum > int64(t.entry.TPM)) {
		return nil, time.Minute - now.Sub(recent[0].at)
	}
	left.take(tokens)
	call := &started{now, tokens}
	r.recent[t.name] = append(recent, call)
	return call, 0
}
