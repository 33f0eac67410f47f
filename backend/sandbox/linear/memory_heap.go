//go:build (!linux && !darwin) || portable

package linear

import "errors"

// OnHeap tells whether memories count as memory of Go.
const OnHeap = true

// Memory is a linear memory on the Go heap; growing copies it, but only while it is small.
type Memory struct {
	Limit  uint64 // bytes; more is refused
	Shrink bool   // the next Reallocate gives the size of the image
	usage

	image *Image
	buf   []byte
	max   uint64
}

// New makes a memory of at most max bytes that begins as the image; Reallocate then gives as
// many as are asked.
func New(image *Image, max uint64) (*Memory, error) {
	m := &Memory{image: image, max: max, Limit: max, buf: make([]byte, image.size)}
	image.lay(m.buf, 0, image.size)
	return m, nil
}

// growsByCopying is up to which size a memory grows step by step. Then it gets all the room
// it may have, so that never two large copies of it exist.
const growsByCopying = 4 << 20

// Reallocate grows the memory to size bytes, or gives nil above the limit. wazero calls it.
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
		room := min(m.max, m.Limit) // what is not touched takes no real memory
		if size <= growsByCopying {
			room = min(room, max(size, 2*uint64(cap(m.buf))))
		}
		b := make([]byte, size, room)
		copy(b, m.buf)
		wipe(m.buf) // the collector gives it to others only when it comes to it
		m.buf = b
	}
	m.buf = m.buf[:size]
	m.grown(size)
	return m.buf
}

// Free does nothing: wazero calls it while a stopped guest unwinds. Release frees.
func (m *Memory) Free() {}

// keepBelow is how large a buffer may be to be used again.
const keepBelow = 16 << 20

var errLargeMemory = errors.New("not worth to clear")

// Restore makes a used memory the image again, and zero behind it. It fails for a large one,
// which is sooner made than cleared.
func (m *Memory) Restore() error {
	if cap(m.buf) > max(keepBelow, 2*m.image.size) {
		return errLargeMemory
	}
	used := max(int(m.peak.Load()), m.image.size)
	m.image.paint(m.buf[:used], 0, used)
	m.rewind()
	return nil
}

// PrivateBytes is how much of the memory is not shared with the image; ok is false where
// nothing is.
func (m *Memory) PrivateBytes() (n int, ok bool) { return 0, false }

// Release gives the memory to the collector, with nothing of a run in it.
func (m *Memory) Release() {
	wipe(m.buf)
	m.buf = nil
}

// shared is what this memory lacks.
type shared struct{}

func newShared(*Image) *shared { return nil }

func (*shared) close() {}
