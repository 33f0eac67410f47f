//go:build !portable

package sandbox

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// copyBelow is how much of a used memory is put back by copying; what lies above is given
// back to the system, which costs a call and then a fault for each page that is touched.
const copyBelow = 256 << 10

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
		image.lay(m.buf, 0)
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

// restore makes the memory the image again and all that was used behind it zero.
func (m *wasmMemory) restore() error {
	used := max(int(m.peak.Load()), m.image.size)
	at := min(used, copyBelow)
	if m.image.shared != nil {
		at = 0 // its pages come back by themselves
	}
	if used > at {
		if err := unix.Madvise(m.buf[at:used], unix.MADV_DONTNEED); err != nil {
			return err
		}
	}
	if m.image.shared == nil {
		first := m.buf[:at]
		done := 0
		for _, c := range m.image.chunks {
			if c.at >= at {
				break
			}
			clear(first[done:c.at])
			done = c.at + copy(first[c.at:], c.data)
		}
		clear(first[done:])
		m.image.lay(m.buf, at)
	}
	m.refused.Store(false)
	m.peak.Store(m.size.Load())
	return nil
}

func (m *wasmMemory) release() {
	if m.buf != nil {
		_ = unix.Munmap(m.buf) // only fails for a range that is not ours
		m.buf = nil
	}
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
