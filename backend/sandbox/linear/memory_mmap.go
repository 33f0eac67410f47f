//go:build (linux || darwin) && !portable

package linear

import "golang.org/x/sys/unix"

// OnHeap reports whether memories are on the Go heap.
const OnHeap = false

// Memory is a linear memory in a reserved range of addresses. Growing changes the protection and
// never moves or copies; only touched pages take real memory.
type Memory struct {
	Limit  uint64 // bytes; growth beyond it is refused
	Shrink bool   // the next Reallocate returns the size of the image
	usage

	image *Image
	buf   []byte // the reservation
	open  int    // accessible bytes
	scan  pageScan
}

// New reserves max bytes that start as the image; Reallocate then sets the size.
func New(image *Image, max uint64) (*Memory, error) {
	m := &Memory{image: image, Limit: max}
	if max == 0 {
		return m, nil
	}
	var err error
	if m.buf, err = unix.Mmap(-1, 0, int(max), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE); err != nil {
		return nil, err
	}
	if err := m.place(); err != nil {
		m.Release()
		return nil, err
	}
	return m, nil
}

// place maps or copies the image into the memory, which has no content yet.
func (m *Memory) place() error {
	im := m.image
	m.open = im.size
	if im.size == 0 {
		return nil
	}
	if im.shared == nil {
		err := unix.Mprotect(m.buf[:im.size], unix.PROT_READ|unix.PROT_WRITE)
		if err == nil {
			im.lay(m.buf, 0, im.size)
		}
		return err
	}
	if err := im.shared.place(m.buf); err != nil {
		return err
	}
	for _, s := range im.hot.of(im.size) { // made private now, outside the run
		im.paint(m.buf, s.from, s.to)
	}
	return nil
}

// Reallocate grows the memory to size bytes, or returns nil if that is above the limit. wazero
// calls it.
func (m *Memory) Reallocate(size uint64) []byte {
	if m.Shrink {
		size = uint64(m.image.size)
		m.size.Store(size)
		return m.buf[:size:len(m.buf)]
	}
	if size > m.Limit || size > uint64(len(m.buf)) {
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
	m.grown(size)
	return m.buf[:size:len(m.buf)]
}

// Free does nothing, because wazero calls it while a stopped guest unwinds and the host may still
// read the memory. Release frees the memory.
func (m *Memory) Free() {}

// Restore restores a used memory to the image, with zeros beyond it. If the system can list the
// pages that a run has written and they are few, they are overwritten: they stay private, so that
// the next run, which usually writes the same pages, finds them ready. Otherwise only the hot pages
// are overwritten, and all others are given back to the system.
func (m *Memory) Restore() error {
	im := m.image
	mem := m.buf[:max(int(m.peak.Load()), im.size)]
	written, ok := im.shared.private(mem, &m.scan)
	total := 0
	for _, s := range written {
		total += s.to - s.from
	}
	if ok && total <= im.hot.keep {
		im.hot.learn(im, mem, written)
		for _, s := range written {
			im.paint(mem, s.from, s.to)
		}
		m.rewind()
		return nil
	}
	if !ok {
		im.hot.learn(im, mem, nil)
	}
	at := 0
	for _, s := range im.hot.of(len(mem)) {
		if err := m.drop(at, s.from); err != nil {
			return err
		}
		im.paint(mem, s.from, s.to)
		at = s.to
	}
	if err := m.drop(at, len(mem)); err != nil {
		return err
	}
	m.rewind()
	return nil
}

// drop restores a range to the image by giving its pages back to the system.
func (m *Memory) drop(from, to int) error {
	if from >= to {
		return nil
	}
	if err := discardPages(m.buf[from:to]); err != nil {
		return err
	}
	if m.image.shared == nil && from < m.image.size { // otherwise the image's content reappears by itself
		m.image.lay(m.buf, from, to)
	}
	return nil
}

// PrivateBytes returns how much of the memory is not shared with the image; ok is false if the
// system does not report it.
func (m *Memory) PrivateBytes() (n int, ok bool) {
	written, ok := m.image.shared.private(m.buf[:m.size.Load()], new(pageScan))
	for _, s := range written {
		n += s.to - s.from
	}
	return n, ok
}

// Release frees the memory. It may be called more than once.
func (m *Memory) Release() {
	if m.buf != nil {
		_ = unix.Munmap(m.buf) // fails only for a range that is not ours
		m.buf = nil
	}
}
