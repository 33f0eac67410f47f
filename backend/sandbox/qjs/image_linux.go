//go:build !portable

package qjs

import (
	"bytes"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cow is an image in a sealed memory file. Instances map it privately, so that the system
// copies a page when a guest first writes to it. Putting a used memory back drops those
// copies, but for the pages that nearly every run writes: to overwrite them costs less than
// to drop them and to copy them again.
type cow struct {
	fd   int
	view []byte // the file, for reading

	mu     sync.Mutex
	looked int    // how many runs were looked at for hot pages
	hot    []bool // by page
	spans  []span // of hot pages
}

// span is a range of bytes; whole pages.
type span struct{ from, to int }

const (
	looks   = 6        // used memories that are looked at for hot pages
	maxHot  = 1 << 20  // bytes
	joinGap = 4 * page // hot spans that are closer become one
)

// newCow gives nil where memory files cannot be had.
func newCow(mem []byte) *cow {
	fd, err := unix.MemfdCreate("helix-template", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil
	}
	c := &cow{fd: fd, hot: make([]bool, len(mem)/page)}
	if err := c.fill(mem); err != nil {
		c.close()
		return nil
	}
	return c
}

func (c *cow) fill(mem []byte) error {
	if err := unix.Ftruncate(c.fd, int64(len(mem))); err != nil {
		return err
	}
	var zero [page]byte
	for i := 0; i < len(mem); i += page {
		if p := mem[i : i+page]; !bytes.Equal(p, zero[:]) {
			if _, err := unix.Pwrite(c.fd, p, int64(i)); err != nil {
				return err
			}
		}
	}
	if _, err := unix.FcntlInt(uintptr(c.fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		return err
	}
	var err error
	c.view, err = unix.Mmap(c.fd, 0, len(mem), unix.PROT_READ, unix.MAP_PRIVATE)
	return err
}

func (c *cow) close() {
	if c.view != nil {
		_ = unix.Munmap(c.view) // only fails for a range that is not ours
	}
	_ = unix.Close(c.fd) // a memory file has nothing to lose
}

// place maps the file over the memory, which drops what was there.
func (c *cow) place(l *linear) error {
	if _, err := unix.MmapPtr(c.fd, 0, unsafe.Pointer(&l.buf[0]), uintptr(len(c.view)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED); err != nil {
		return err
	}
	for _, s := range c.hotSpans() { // copied now, off the path of the run
		copy(l.buf[s.from:s.to], c.view[s.from:s.to])
	}
	return nil
}

func (c *cow) restore(l *linear) error {
	mem := l.buf[:len(c.view)]
	at := 0
	for _, s := range c.look(mem) {
		if err := drop(mem[at:s.from]); err != nil {
			return err
		}
		copy(mem[s.from:s.to], c.view[s.from:s.to])
		at = s.to
	}
	return drop(mem[at:])
}

// drop gives the private pages of a range back; the file's content shows again.
func drop(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	return unix.Madvise(b, unix.MADV_DONTNEED)
}

func (c *cow) hotSpans() []span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spans
}

// look gives the hot pages, which it first learns from a few used memories: those that
// differ from the image.
func (c *cow) look(mem []byte) []span {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.looked == looks {
		return c.spans
	}
	c.looked++
	bytesHot := 0
	for i := range c.hot {
		at := i * page
		if !c.hot[i] && bytesHot < maxHot {
			c.hot[i] = !bytes.Equal(mem[at:at+page], c.view[at:at+page])
		}
		if c.hot[i] {
			bytesHot += page
		}
	}
	c.spans = nil
	for i, hot := range c.hot {
		if !hot {
			continue
		}
		at := i * page
		if n := len(c.spans); n > 0 && at-c.spans[n-1].to <= joinGap {
			c.spans[n-1].to = at + page
			continue
		}
		c.spans = append(c.spans, span{at, at + page})
	}
	return c.spans
}
