package sandbox

import (
	"sync"
	"time"
)

// spares are prepared guests. A guest serves one run and is then thrown away, so that
// nothing of a run can reach the next.
type spares struct {
	make   func(*[8]byte) (*guest, error)
	max    int
	wanted chan struct{} // says that one was taken

	mu     sync.Mutex
	ready  []*guest
	keep   int // how many to hold now: max, or 1 after a time without runs
	last   time.Time
	used   int64
	closed bool
}

func newSpares(n int, mk func(*[8]byte) (*guest, error)) *spares {
	return &spares{make: mk, max: n, keep: n, wanted: make(chan struct{}, 1), last: time.Now()}
}

// take gives a prepared guest, or makes one. With a seed it always makes one.
func (s *spares) take(seed *[8]byte) (*guest, error) {
	if seed != nil {
		return s.make(seed)
	}
	s.mu.Lock()
	s.last = time.Now()
	s.keep = s.max
	var g *guest
	if n := len(s.ready); n > 0 {
		g = s.ready[n-1]
		s.ready[n-1] = nil
		s.ready = s.ready[:n-1]
	}
	s.mu.Unlock()
	select {
	case s.wanted <- struct{}{}:
	default:
	}
	if g != nil {
		return g, nil
	}
	return s.make(nil)
}

// discard ends a used guest.
func (s *spares) discard(g *guest) {
	g.in.Close()
	s.mu.Lock()
	s.used++
	s.mu.Unlock()
}

func (s *spares) need() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed && len(s.ready) < s.keep
}

func (s *spares) put(g *guest) {
	s.mu.Lock()
	if s.closed || len(s.ready) >= s.max {
		s.mu.Unlock()
		g.in.Close()
		return
	}
	s.ready = append(s.ready, g)
	s.mu.Unlock()
}

// trim keeps one spare only when nothing ran for a while.
func (s *spares) trim(idle time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.last) < idle {
		return
	}
	s.keep = min(1, s.max)
	for len(s.ready) > s.keep {
		n := len(s.ready) - 1
		s.ready[n].in.Close()
		s.ready = s.ready[:n]
	}
}

func (s *spares) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, g := range s.ready {
		g.in.Close()
	}
	s.ready = nil
}

func (s *spares) counts() (idle int, discarded int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ready), s.used
}
