package gateway

import "sync"

// Small frames come and go with every call; their memory is used again. A frame may be
// recycled by the one who knows that nobody else looks at it any more.

const smallFrame = 1024

type smallBuffer = [smallFrame]byte

var (
	smallFrames = sync.Pool{New: func() any { return new(smallBuffer) }}
	scanners    = sync.Pool{New: func() any { return &scanner{keys: make([][]byte, 0, 16)} }}
)

// newFrame returns an empty frame that holds small messages without growing.
func newFrame(size int) []byte {
	if size > smallFrame {
		return make([]byte, 0, size)
	}
	return smallFrames.Get().(*smallBuffer)[:0]
}

// recycle gives the memory of a frame back that newFrame made and that did not grow. Others
// are left to the garbage collector.
func recycle(frame []byte) {
	if cap(frame) == smallFrame {
		smallFrames.Put((*smallBuffer)(frame[:smallFrame]))
	}
}

// scan lends a scanner for b. It must go back with done.
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
