package capture

import "sync/atomic"

// ring is a queue of samples from one writer, the audio thread, to one reader. If it is full, the
// writer counts what it drops, and the reader gets silence of the same length instead.
type ring struct {
	buf        []float32
	head, tail atomic.Int64 // samples written and read so far

	dropped int // by the writer since the last gap; used only by the writer
	gaps    [64]gap
	gapHead atomic.Int64
	gapTail atomic.Int64
}

// gap is a number of missing samples before the sample at.
type gap struct {
	at int64
	n  int
}

func newRing(samples int) *ring { return &ring{buf: make([]float32, samples)} }

// write adds samples. It never blocks and does not allocate.
func (r *ring) write(p []float32) {
	head := r.head.Load()
	if r.dropped > 0 {
		k := r.gapHead.Load()
		if int64(len(r.buf))-(head-r.tail.Load()) < int64(len(p)) || k-r.gapTail.Load() == int64(len(r.gaps)) {
			r.dropped += len(p)
			return
		}
		r.gaps[k%int64(len(r.gaps))] = gap{head, r.dropped}
		r.gapHead.Store(k + 1)
		r.dropped = 0
	}
	if int64(len(r.buf))-(head-r.tail.Load()) < int64(len(p)) {
		r.dropped = len(p)
		return
	}
	at := int(head % int64(len(r.buf)))
	n := copy(r.buf[at:], p)
	copy(r.buf, p[n:])
	r.head.Store(head + int64(len(p)))
}

// flush publishes a gap at the end of the stream. The writer must have stopped.
func (r *ring) flush() {
	if r.dropped > 0 {
		k := r.gapHead.Load()
		r.gaps[k%int64(len(r.gaps))] = gap{r.head.Load(), r.dropped}
		r.gapHead.Store(k + 1)
		r.dropped = 0
	}
}

// read calls samples and missing, in order, with everything written so far.
func (r *ring) read(samples func([]float32), missing func(n int)) {
	head := r.head.Load()
	for {
		tail, limit := r.tail.Load(), head
		k := r.gapTail.Load()
		var g gap
		has := k < r.gapHead.Load()
		if has {
			g = r.gaps[k%int64(len(r.gaps))]
			has = g.at <= head
		}
		if has {
			limit = g.at
		}
		for tail < limit {
			at := int(tail % int64(len(r.buf)))
			n := min(len(r.buf)-at, int(limit-tail))
			samples(r.buf[at : at+n])
			tail += int64(n)
			r.tail.Store(tail)
		}
		if !has {
			return
		}
		r.gapTail.Store(k + 1)
		missing(g.n)
	}
}
