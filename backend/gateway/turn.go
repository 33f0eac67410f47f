package gateway

import (
	"sync/atomic"
	"time"
)

// A very short call costs less than starting a goroutine for it, so the goroutine that reads the
// frames of a WebSocket runs quick calls itself. Their responses are collected and written together
// when no more frames are waiting. If a call takes longer than takeOverAfter after all, another
// goroutine continues reading, and the first one ends with its call: one slow call delays the
// following ones by less than a millisecond.

const (
	quickCall     = 30 * time.Microsecond // average duration of the calls of a quick method
	takeOverAfter = 200 * time.Microsecond
	paceSamples   = 8
)

// pace is how long recent calls of a method took.
type pace struct {
	mean    atomic.Int64 // nanoseconds; a moving average
	samples atomic.Int32 // up to paceSamples
	skip    atomic.Uint32
}

func (p *pace) quick() bool {
	return p.samples.Load() >= paceSamples && p.mean.Load() <= int64(quickCall)
}

// took records one call. A single outlier is more likely due to the machine than to the method.
func (p *pace) took(d time.Duration) {
	d = min(d, 8*quickCall)
	mean := p.mean.Load()
	if p.samples.Load() < paceSamples && p.samples.Add(1) == 1 {
		mean = int64(d)
	}
	p.mean.Store(mean + (int64(d)-mean)/8)
}

// stuck records a call that had to be taken over, so that the next ones get goroutines again.
func (p *pace) stuck() { p.mean.Store(int64(4 * quickCall)) }

// turn determines which goroutine reads. n is odd while the reader runs a call; whoever increments
// it to even is the reader from then on.
type turn struct {
	inline bool // quick calls may run on the reader
	n      atomic.Uint64
	call   atomic.Pointer[call] // the running one
	armed  atomic.Bool
	guard  *time.Timer
	seen   uint64 // what guard saw last; used only by guard
	ended  chan error
}

// collect makes the reader of a WebSocket run quick calls itself.
func (ss *session) collect(f *frameConn) {
	t := &ss.turn
	t.inline = true
	t.ended = make(chan error, 1)
	ss.out.recycle = true
	f.empty = func() {
		if ss.out.flushLater() {
			ss.srv.workers.run(ss.out.drain)
		}
	}
	t.guard = time.AfterFunc(time.Hour, ss.watch)
	t.guard.Stop()
}

// read reads frames until the pipe ends, even if other goroutines take over.
func (ss *session) read() error {
	err, over := ss.readFrames()
	if !over {
		err = <-ss.turn.ended
	}
	return err
}

// runInline runs c, which came in the frame req, on the reader. It reports whether the caller is
// still the reader.
func (ss *session) runInline(c *call, req []byte) bool {
	t := &ss.turn
	ss.answering.Add(1)
	defer ss.answering.Add(-1)
	t.call.Store(c)
	n := t.n.Add(1)
	if !t.armed.Load() {
		t.armed.Store(true)
		t.guard.Reset(takeOverAfter)
	}
	var began time.Time
	measured := c.m.pace.skip.Add(1)%8 == 0
	if measured {
		began = time.Now()
	}
	frame := c.run()
	recycle(req)
	if measured {
		c.m.pace.took(time.Since(began))
	}
	if t.n.CompareAndSwap(n, n+1) {
		ss.reply(frame)
		return true
	}
	ss.out.send(frame)
	return false
}

// watch runs on the guard's goroutine while calls run inline. If it sees the same call twice, it
// becomes the reader.
func (ss *session) watch() {
	t := &ss.turn
	n := t.n.Load()
	switch {
	case n%2 == 0 && n == t.seen: // nothing happened since
		t.armed.Store(false)
		if t.n.Load() == n || !t.armed.CompareAndSwap(false, true) {
			return
		}
	case n%2 == 1 && n == t.seen:
		c := t.call.Load()
		if !t.n.CompareAndSwap(n, n+1) {
			break // it has just ended
		}
		ss.work.Add(1) // the session waits for ended before it waits for its work
		defer ss.work.Done()
		c.m.pace.stuck()
		t.armed.Store(false)
		if ss.out.flushLater() {
			ss.srv.workers.run(ss.out.drain)
		}
		if err, over := ss.readFrames(); over {
			ss.close(1000, "") // this cancels the call that the first reader may still be in
			t.ended <- err
		}
		return
	}
	t.seen = n
	t.guard.Reset(takeOverAfter)
}
