//go:build (!linux && !darwin) || portable

package qjs

import "sync/atomic"

// linear is a linear memory on the Go heap; growing copies it, but only while it is small.
type linear struct {
	buf     []byte
	max     uint64
	limit   uint64
	size    atomic.Uint64
	refused atomic.Bool
}

// growsByCopying is up to which size a memory grows step by step. Then it gets all the room
// it may have, so that never two large copies of it exist.
const growsByCopying = 4 << 20

func newLinear(max uint64) *linear { return &linear{max: max, limit: max} }

// Reallocate grows the memory to size bytes, or gives nil above the limit.
func (l *linear) Reallocate(size uint64) []byte {
	if size > l.limit || size > l.max {
		l.refused.Store(true)
		return nil
	}
	if size > uint64(cap(l.buf)) {
		room := min(l.max, l.limit) // what is not touched takes no real memory
		if size <= growsByCopying {
			room = min(room, max(size, 2*uint64(cap(l.buf))))
		}
		b := make([]byte, size, room)
		copy(b, l.buf)
		clear(l.buf) // the collector gives it to others only when it comes to it
		l.buf = b
	}
	l.buf = l.buf[:size]
	l.size.Store(size)
	return l.buf
}

// Free does nothing: wazero calls it while a stopped guest unwinds. release frees.
func (l *linear) Free() {}

// bytes is the memory as far as it has grown.
func (l *linear) bytes() []byte { return l.buf }

// release gives the memory to the collector, with nothing of a run in it.
func (l *linear) release() {
	const piece = 1 << 20 // one long clear would keep a collection waiting
	for b := l.buf; len(b) > 0; b = b[min(piece, len(b)):] {
		clear(b[:min(piece, len(b))])
	}
	l.buf = nil
}
