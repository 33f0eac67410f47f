//go:build !portable

package sandbox

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// memoryOnHeap tells whether guests' memories count as memory of Go.
const memoryOnHeap = false

// wasmMemory is a linear memory in a reserved range of addresses: growing never moves or
// copies, and only touched pages take real memory.
type wasmMemory struct {
	buf     []byte // the reservation
	image   *memoryImage
	open    int // bytes that may be accessed
	shrink  bool
	limit   uint64
	size    atomic.Uint64
	peak    atomic.Uint64
	refused atomic.Bool
}

// newWasmMemory reserves max bytes and puts the image at their start.
func newWasmMemory(image *memoryImage, max uint64) (*wasmMemory, error) {
	m := &wasmMemory{image: image, limit: max}
	if max == 0 {
		return m, nil
	}
	b, err := unix.Mmap(-1, 0, int(max), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	m.buf = b
	if image.size > 0 {
		if image.shared != nil {
			err = image.shared.place(m.buf)
		} else {
			err = unix.Mprotect(m.buf[:image.size], unix.PROT_READ|unix.PROT_WRITE)
		}
		if err != nil {
			m.release()
			return nil, err
		}
		m.open = image.size
		if image.shared == nil {
			image.lay(m.buf, 0, image.size)
		}
	}
	return m, nil
}

// Reallocate grows the memory to size bytes, or gives nil above the limit. wazero calls it.
func (m *wasmMemory) Reallocate(size uint64) []byte {
	if m.shrink {
		size = uint64(m.image.size)
		m.size.Store(size)
		return m.buf[:size:len(m.buf)]
	}
	if size > m.limit || size > uint64(len(m.buf)) {
		m.refused.Store(true)
		return nil
	}
	if int(size) > m.open {
		if err := unix.Mprotect(m.buf[m.open:size], unix.PROT_READ|unix.PROT_WRITE); err != nil {
			m.refused.Store(true)
			return nil
		}
		m.open = int(size)
	}
	m.size.Store(size)
	m.peak.Store(size)
	return m.buf[:size:len(m.buf)]
}

// Free does nothing: wazero calls it while a stopped guest unwinds, when the host may
// still look at the memory. release frees.
func (m *wasmMemory) Free() {}

// restore makes the memory the image again and all that was used behind it zero. Pages that
// nearly every run writes are put back by copying; the others are given back to the system,
// which costs a call and then a fault for each that is touched again.
func (m *wasmMemory) restore() error {
	used := max(int(m.peak.Load()), m.image.size)
	at := 0
	if m.image.shared == nil {
		for _, s := range m.image.hot.look(m.image, m.buf[:used]) {
			if err := m.drop(at, s.from); err != nil {
				return err
			}
			m.image.paint(m.buf, s.from, min(s.to, used))
			at = min(s.to, used)
		}
	}
	if err := m.drop(at, used); err != nil {
		return err
	}
	m.refused.Store(false)
	m.peak.Store(m.size.Load())
	return nil
}

// drop makes a range the image again by giving its pages back.
func (m *wasmMemory) drop(from, to int) error {
	if from >= to {
		return nil
	}
	if err := unix.Madvise(m.buf[from:to], unix.MADV_DONTNEED); err != nil {
		return err
	}
	if m.image.shared == nil && from < m.image.size { // else it comes back by itself
		m.image.lay(m.buf, from, to)
	}
	return nil
}

func (m *wasmMemory) release() {
	if m.buf != nil {
		_ = unix.Munmap(m.buf) // only fails for a range that is not ours
		m.buf = nil
	}
}

// hotPages are the pages that runs of a module write, learned from its first runs.
type hotPages struct {
	mu     sync.Mutex
	looked int
	pages  []bool
	spans  []memorySpan
}

// memorySpan is a range of bytes, whole pages.
type memorySpan struct{ from, to int }

const (
	hotLooks = 8            // used memories that are looked at
	hotMost  = 256          // pages; what lies behind is always given back
	hotGap   = 3 * wasmPage // spans that are closer become one
)

// look gives the hot spans of a used memory.
func (h *hotPages) look(im *memoryImage, mem []byte) []memorySpan {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := min(len(mem)/wasmPage, hotMost)
	if h.looked < hotLooks {
		h.looked++
		for len(h.pages) < n {
			h.pages = append(h.pages, false)
		}
		for i := range n {
			h.pages[i] = h.pages[i] || !im.same(mem, i*wasmPage)
		}
		h.spans = nil
		for i, hot := range h.pages {
			at := i * wasmPage
			if last := len(h.spans) - 1; hot && last >= 0 && at-h.spans[last].to <= hotGap {
				h.spans[last].to = at + wasmPage
			} else if hot {
				h.spans = append(h.spans, memorySpan{at, at + wasmPage})
			}
		}
	}
	spans := h.spans
	for len(spans) > 0 && spans[len(spans)-1].from >= len(mem) {
		spans = spans[:len(spans)-1]
	}
	return spans
}

// sharedImage is an image in a sealed memory file. Memories map it privately, so that the
// system copies a page when a guest first writes to it.
type sharedImage struct {
	fd   int
	size int
}

// newSharedImage gives nil where memory files cannot be had.
func newSharedImage(im *memoryImage) *sharedImage {
	fd, err := unix.MemfdCreate("helix-module", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil
	}
	s := &sharedImage{fd, im.size}
	if s.fill(im) != nil {
		s.close()
		return nil
	}
	return s
}

func (s *sharedImage) fill(im *memoryImage) error {
	if err := unix.Ftruncate(s.fd, int64(s.size)); err != nil {
		return err
	}
	for _, c := range im.chunks {
		for done := 0; done < len(c.data); {
			n, err := unix.Pwrite(s.fd, c.data[done:], int64(c.at+done))
			if err != nil {
				return err
			}
			done += n
		}
	}
	_, err := unix.FcntlInt(uintptr(s.fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	return err
}

// place maps the image over the start of buf.
func (s *sharedImage) place(buf []byte) error {
	_, err := unix.MmapPtr(s.fd, 0, unsafe.Pointer(&buf[0]), uintptr(s.size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED)
	return err
}

func (s *sharedImage) close() { _ = unix.Close(s.fd) } // a memory file has nothing to lose
