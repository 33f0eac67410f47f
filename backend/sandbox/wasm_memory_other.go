//go:build !linux || portable

package sandbox

import (
	"errors"
	"sync/atomic"
)

var errLargeMemory = errors.New("not worth to clear")

// memoryOnHeap tells whether guests' memories count as memory of Go.
const memoryOnHeap = true

// wasmMemory is a linear memory on the Go heap; growing copies it, but only while it is
// small.
type wasmMemory struct {
	buf     []byte
	image   *memoryImage
	max     uint64
	shrink  bool
	limit   uint64
	size    atomic.Uint64
	peak    atomic.Uint64
	refused atomic.Bool
}

// growsByCopying is up to which size a memory grows step by step. Then it gets all the room
// it may have, so that never two large copies of it exist.
const growsByCopying = 4 << 20

func newWasmMemory(image *memoryImage, max uint64) (*wasmMemory, error) {
	m := &wasmMemory{image: image, max: max, limit: max, buf: make([]byte, image.size)}
	image.lay(m.buf, 0, image.size)
	return m, nil
}

// Reallocate grows the memory to size bytes, or gives nil above the limit. wazero calls it.
func (m *wasmMemory) Reallocate(size uint64) []byte {
	if m.shrink {
		size = uint64(m.image.size)
		m.size.Store(size)
		m.buf = m.buf[:size]
		return m.buf
	}
	if size > m.limit || size > m.max {
		m.refused.Store(true)
		return nil
	}
	if size > uint64(cap(m.buf)) {
		room := min(m.max, m.limit) // what is not touched takes no real memory
		if size <= growsByCopying {
			room = min(room, max(size, 2*uint64(cap(m.buf))))
		}
		b := make([]byte, size, room)
		copy(b, m.buf)
		m.buf = b
	}
	m.buf = m.buf[:size]
	m.size.Store(size)
	m.peak.Store(size)
	return m.buf
}

// Free does nothing: wazero calls it while a stopped guest unwinds. release frees.
func (m *wasmMemory) Free() {}

// keepBelow is how large a buffer may be to be used again.
const keepBelow = 16 << 20

// restore makes the memory the image again and all that was used behind it zero.
func (m *wasmMemory) restore() error {
	if cap(m.buf) > max(keepBelow, 2*m.image.size) {
		return errLargeMemory
	}
	used := max(int(m.peak.Load()), m.image.size)
	m.image.paint(m.buf[:used], 0, used)
	m.refused.Store(false)
	m.peak.Store(m.size.Load())
	return nil
}

func (m *wasmMemory) release() { m.buf = nil }

// sharedImage is what systems without private mappings of memory files lack.
type sharedImage struct{}

func newSharedImage(*memoryImage) *sharedImage { return nil }

func (*sharedImage) close() {}

// hotPages are learned only where pages can be given back.
type hotPages struct{}
