package sandbox

import (
	"io"
	"sync"
	"time"
)

// spares are prepared guests. A used guest is restored to its state before its first run, memory,
// globals and stack, so that nothing of a run can reach the next, and is used again. One that grew
// or failed is discarded.
type spares struct {
	make   func() (*guest, error)
	reset  func(*guest) error
	max    int
	wanted chan struct{} // signals that there is a guest to prepare

	mu     sync.Mutex
	ready  []*guest
	used   []*guest // waiting to be restored
	out    int      // in a run; most of them come back
	keep   int      // how many to keep now: max, or 1 after a time without runs
	last   time.Time
	gone   int64
	closed bool

	closing sync.WaitGroup // guests being discarded
}

func newSpares(n int, mk func() (*guest, error), reset func(*guest) error) *spares {
	return &spares{make: mk, reset: reset, max: n, keep: n, wanted: make(chan struct{}, 1), last: time.Now()}
}

// take returns a prepared guest, or prepares one.
func (s *spares) take() (*guest, error) {
	s.mu.Lock()
	s.last = time.Now()
	s.keep = s.max
	s.out++
	g := pop(&s.ready)
	s.mu.Unlock()
	if g == nil {
		g = s.prepare()
	}
	if g != nil {
		return g, nil
	}
	g, err := s.make()
	if err != nil {
		s.mu.Lock()
		s.out--
		s.mu.Unlock()
	}
	return g, err
}

func pop(list *[]*guest) *guest {
	n := len(*list)
	if n == 0 {
		return nil
	}
	g := (*list)[n-1]
	(*list)[n-1] = nil
	*list = (*list)[:n-1]
	return g
}

// prepare restores a used guest; it returns nil if there is none.
func (s *spares) prepare() *guest {
	for {
		s.mu.Lock()
		g := pop(&s.used)
		s.mu.Unlock()
		if g == nil {
			return nil
		}
		if s.reset(g) == nil {
			return g
		}
		s.throwAway(g)
	}
}

// signal wakes the goroutine that prepares spares, if there is something to do. The watchdog calls
// it, because doing so in a run would cost more than restoring an instance.
func (s *spares) signal() {
	s.mu.Lock()
	work := len(s.used) > 0 || len(s.ready)+s.out < s.keep
	s.mu.Unlock()
	if !work {
		return
	}
	select {
	case s.wanted <- struct{}{}:
	default:
	}
}

// release takes back a guest after its run; again reports whether it can be reused.
func (s *spares) release(g *guest, again bool) {
	s.mu.Lock()
	s.out--
	again = again && !s.closed && len(s.ready)+len(s.used) < s.max
	if again {
		s.used = append(s.used, g)
	}
	s.mu.Unlock()
	if !again {
		s.throwAway(g)
	}
}

// throwAway closes a guest on another goroutine, because freeing a lot of memory takes
// milliseconds.
func (s *spares) throwAway(g *guest) {
	s.mu.Lock()
	s.gone++
	s.mu.Unlock()
	s.closing.Go(g.in.Close)
}

// fill prepares one guest if another is needed; more reports whether it should be called again.
func (s *spares) fill() (more bool, err error) {
	g := s.prepare()
	if g == nil {
		s.mu.Lock()
		enough := s.closed || len(s.ready)+len(s.used)+s.out >= s.keep
		s.mu.Unlock()
		if enough {
			return false, nil
		}
		if g, err = s.make(); err != nil {
			return false, err
		}
	}
	s.put(g)
	return true, nil
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

// trim keeps only one spare if nothing has run for a while.
func (s *spares) trim(idle time.Duration) {
	s.mu.Lock()
	if time.Since(s.last) < idle {
		s.mu.Unlock()
		return
	}
	s.keep = min(1, s.max)
	var gone []*guest
	for len(s.ready) > s.keep {
		gone = append(gone, pop(&s.ready))
	}
	s.mu.Unlock()
	for _, g := range gone {
		g.in.Close()
	}
}

func (s *spares) close() {
	s.closing.Wait() // no run is left that could discard another
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, list := range []*[]*guest{&s.ready, &s.used} {
		for g := pop(list); g != nil; g = pop(list) {
			g.in.Close()
		}
	}
}

// counts returns the number of guests that are ready or will be in a moment, and of those that were
// discarded after a run.
func (s *spares) counts() (idle int, discarded int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ready) + len(s.used), s.gone
}

// reset restores a used guest.
func reset(g *guest) error {
	g.run = nil
	return g.in.Reset()
}

// guest returns a prepared guest; a nil seed is a random one.
func (e *Engine) guest(seed *[8]byte) (*guest, error) {
	g, err := e.spares.take()
	if err != nil {
		return nil, err
	}
	var s [8]byte
	if seed != nil {
		s = *seed
	} else if _, err := io.ReadFull(e.o.Rand, s[:]); err != nil {
		e.spares.release(g, true)
		return nil, err
	}
	g.in.Seed(s)
	return g, nil
}
