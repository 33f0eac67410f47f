//go:build (linux || darwin) && !portable

package qjs

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// linear is a linear memory in a reserved range of addresses: growing changes protection
// and never moves or copies, and only touched pages take real memory.
type linear struct {
	buf     []byte // the reservation
	max     uint64
	limit   uint64
	size    atomic.Uint64
	refused atomic.Bool
	scan    pageScan
}

func newLinear(max uint64) *linear {
	l := &linear{max: max, limit: max}
	b, err := unix.Mmap(-1, 0, int(max), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err == nil {
		l.buf = b
	}
	return l
}

// Reallocate grows the memory to size bytes, or gives nil above the limit.
func (l *linear) Reallocate(size uint64) []byte {
	if size > l.limit || size > uint64(len(l.buf)) {
		l.refused.Store(true)
		return nil
	}
	if old := l.size.Load(); size > old {
		if err := unix.Mprotect(l.buf[old:size], unix.PROT_READ|unix.PROT_WRITE); err != nil {
			l.refused.Store(true)
			return nil
		}
		l.size.Store(size)
	}
	return l.buf[:size:len(l.buf)]
}

// Free does nothing: wazero calls it while a stopped guest unwinds, when the host may
// still look at the memory. release frees.
func (l *linear) Free() {}

// bytes is the memory as far as it has grown.
func (l *linear) bytes() []byte { return l.buf[:l.size.Load()] }

func (l *linear) release() {
	if l.buf != nil {
		_ = unix.Munmap(l.buf) // only fails for a range that is not ours
		l.buf = nil
	}
}
