package gateway

import (
	"sync"
	"time"
)

// bucket is a token bucket. The zero value is not usable; call newBucket.
type bucket struct {
	mu    sync.Mutex
	rate  float64 // tokens per second
	burst float64
	have  float64
	at    time.Time
}

func newBucket(rate, burst float64) *bucket {
	return &bucket{rate: rate, burst: burst, have: burst}
}

// take removes one token. If there is none, it returns how long until there will be one.
func (b *bucket) take(now time.Time) (wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if d := now.Sub(b.at); d > 0 {
		if !b.at.IsZero() {
			b.have = min(b.burst, b.have+d.Seconds()*b.rate)
		}
		b.at = now
	}
	if b.have < 1 {
		return time.Duration((1 - b.have) / b.rate * float64(time.Second)), false
	}
	b.have--
	return 0, true
}

// full reports whether the bucket can be dropped without losing state.
func (b *bucket) full(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.have+now.Sub(b.at).Seconds()*b.rate >= b.burst
}

// keyed has one bucket per key. Buckets that are full again are dropped.
type keyed[K comparable] struct {
	rate, burst float64
	mu          sync.Mutex
	m           map[K]*bucket
}

func (k *keyed[K]) take(key K, now time.Time) (time.Duration, bool) {
	k.mu.Lock()
	b := k.m[key]
	if b == nil {
		if k.m == nil {
			k.m = map[K]*bucket{}
		}
		if len(k.m) >= 1024 {
			for old, ob := range k.m {
				if ob.full(now) {
					delete(k.m, old)
				}
			}
		}
		b = newBucket(k.rate, k.burst)
		k.m[key] = b
	}
	k.mu.Unlock()
	return b.take(now)
}

// lockouts counts wrong tokens by peer: after five in a minute, further wrong tokens of the peer
// are refused without checking for 30 s, then 60 s, up to 15 min. Neither a correct token nor a new
// connection resets the count.
type lockouts struct {
	perMinute int // wrong tokens that start a lockout
	mu        sync.Mutex
	peers     map[string]*peerRecord
}

type peerRecord struct {
	wrong   []time.Time // within the last minute
	until   time.Time
	penalty time.Duration // of the last lockout
}

const (
	firstLockout   = 30 * time.Second
	longestLockout = 15 * time.Minute
)

// locked returns how much longer peer is locked out.
func (l *lockouts) locked(peer string, now time.Time) (time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.peers[peer]
	if r == nil || !now.Before(r.until) {
		return 0, false
	}
	return r.until.Sub(now), true
}

// wrong records a wrong token. If that starts a lockout, it returns its duration.
func (l *lockouts) wrong(peer string, now time.Time) (began time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.peers == nil {
		l.peers = map[string]*peerRecord{}
	}
	l.forget(now)
	r := l.peers[peer]
	if r == nil {
		r = &peerRecord{}
		l.peers[peer] = r
	}
	keep := r.wrong[:0]
	for _, t := range r.wrong {
		if now.Sub(t) < time.Minute {
			keep = append(keep, t)
		}
	}
	keep = append(keep, now)
	r.wrong = keep
	if len(r.wrong) < l.perMinute || now.Before(r.until) {
		return 0
	}
	if now.Sub(r.until) > time.Hour {
		r.penalty = 0
	}
	r.penalty = min(max(firstLockout, 2*r.penalty), longestLockout)
	r.until = now.Add(r.penalty)
	r.wrong = r.wrong[:0]
	return r.penalty
}

// forget drops peers without wrong tokens for an hour, to keep the map small.
func (l *lockouts) forget(now time.Time) {
	if len(l.peers) < 256 {
		return
	}
	for p, r := range l.peers {
		if now.Sub(r.until) > time.Hour && (len(r.wrong) == 0 || now.Sub(r.wrong[len(r.wrong)-1]) > time.Hour) {
			delete(l.peers, p)
		}
	}
}
