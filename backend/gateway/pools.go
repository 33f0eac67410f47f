package gateway

import "sync"

// The memory of small frames, which come and go with every call, is reused. Only recycle a frame
// that nothing else refers to any more.

const smallFrame = 1024

type smallBuffer = [smallFrame]byte

var (
	smallFrames = sync.Pool{New: func() any { return new(smallBuffer) }}
	scanners    = sync.Pool{New: func() any { return &scanner{keys: make([][]byte, 0, 16)} }}
)

// newFrame returns an empty frame with capacity for small messages.
func newFrame(size int) []byte {
	if size > smallFrame {
		return make([]byte, 0, size)
	}
	return smallFrames.Get().(*smallBuffer)[:0]
}

// recycle makes the memory of a frame available again if newFrame allocated it and it did not grow.
// Others are left to the garbage collector.
func recycle(frame []byte) {
	if cap(frame) == smallFrame {
		smallFrames.Put((*smallBuffer)(frame[:smallFrame]))
	}
}

// scan returns a scanner for b from a pool. Return it with done.
func scan(b []byte) *scanner {
	s := scanners.Get().(*scanner)
	s.b, s.i = b, 0
	return s
}

func (s *scanner) done() {
	clear(s.keys[:cap(s.keys)])
	s.b, s.keys = nil, s.keys[:0]
	scanners.Put(s)
}
