//go:build (!linux && !darwin) || portable

package linear

import "errors"

// OnHeap reports whether memories are on the Go heap.
const OnHeap = true

// Memory is a linear memory on the Go heap. Growing copies it, but only while it is small.
type Memory struct {
	Limit  uint64 // bytes; growth beyond it is refused
	Shrink bool   // the next Reallocate returns the size of the image
	usage

	image *Image
	buf   []byte
	max   uint64
}

// New returns a memory of at most max bytes that starts as the image; Reallocate then sets its
// size.
func New(image *Image, max uint64) (*Memory, error) {
	m := &Memory{image: image, max: max, Limit: max, buf: make([]byte, image.size)}
	image.lay(m.buf, 0, image.size)
	return m, nil
}

// growsByCopying is the size in bytes up to which a memory grows step by step. Beyond it the memory
// gets all the space it may have, so that two large copies never exist at the same time.
const growsByCopying = 4 << 20

// Reallocate grows the memory to size bytes, or returns nil if that is above the limit. wazero
// calls it.
func (m *Memory) Reallocate(size uint64) []byte {
	if m.Shrink {
		size = uint64(m.image.size)
		m.size.Store(size)
		m.buf = m.buf[:size]
		return m.buf
	}
	if size > m.Limit || size > m.max {
		m.refused.Store(true)
		return nil
	}
	if size > uint64(cap(m.buf)) {
		room := min(m.max, m.Limit) // untouched pages take no real memory
		if size <= growsByCopying {
			room = min(room, max(size, 2*uint64(cap(m.buf))))
		}
		b := make([]byte, size, room)
		copy(b, m.buf)
		wipe(m.buf) // the collector may keep it for a while
		m.buf = b
	}
	m.buf = m.buf[:size]
	m.grown(size)
	return m.buf
}

// Free does nothing, because wazero calls it while a stopped guest unwinds. Release frees the
// memory.
func (m *Memory) Free() {}

// keepBelow is the largest size in bytes of a buffer that is reused.
const keepBelow = 16 << 20

var errLargeMemory = errors.New("not worth to clear")

// Restore restores a used memory to the image, with zeros beyond it. It fails for a large memory,
// because creating a new one is faster than clearing it.
func (m *Memory) Restore() error {
	if cap(m.buf) > max(keepBelow, 2*m.image.size) {
		return errLargeMemory
	}
	used := max(int(m.peak.Load()), m.image.size)
	m.image.paint(m.buf[:used], 0, used)
	m.rewind()
	return nil
}

// PrivateBytes returns how much of the memory is not shared with the image; ok is false if nothing
// is shared.
func (m *Memory) PrivateBytes() (n int, ok bool) { return 0, false }

// Release leaves the memory to the garbage collector, cleared of all data of the run.
func (m *Memory) Release() {
	wipe(m.buf)
	m.buf = nil
}

// shared is unused here: memories on the heap share no pages.
type shared struct{}

func newShared(*Image) *shared { return nil }

func (*shared) close() {}
