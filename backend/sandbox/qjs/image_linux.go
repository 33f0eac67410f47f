//go:build !portable

package qjs

import (
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cow is an image in a sealed memory file. Instances map it privately, so that the system
// copies a page when a guest first writes to it. To put a used memory back, the pages that
// have become private are overwritten with what the file holds; they stay private, so that
// the next run, which mostly writes the same ones, finds them ready. Above a limit they are
// given back to the system instead.
type cow struct {
	fd      int
	view    []byte // the file, for reading
	opened  sync.Once
	pagemap int // tells which pages are private; -1 where the system cannot

	mu    sync.Mutex
	looks int    // how many used memories were looked at for hot pages
	hot   []bool // by page: nearly every run writes it
	spans []span // of hot pages
}

// span is a range of bytes; whole pages.
type span struct{ from, to int }

// maxLooks is how many used memories are looked at for hot pages.
const maxLooks = 6

// newCow gives nil where memory files cannot be had.
func newCow(im *image) *cow {
	fd, err := unix.MemfdCreate("helix-world", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil
	}
	c := &cow{fd: fd, pagemap: -1, hot: make([]bool, im.size/page)}
	if err := c.fill(im); err != nil {
		c.close()
		return nil
	}
	return c
}

// openPagemap opens the list of pages when a memory is first put back: a process that serves
// one run only holds no file for it.
func (c *cow) openPagemap() {
	fd, err := unix.Open("/proc/self/pagemap", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	c.pagemap = fd
	if _, ok := c.private(c.view, new(pageScan)); !ok {
		_ = unix.Close(fd)
		c.pagemap = -1
	}
}

func (c *cow) fill(im *image) error {
	if err := unix.Ftruncate(c.fd, int64(im.size)); err != nil {
		return err
	}
	for _, k := range im.chunks {
		for b, at := k.data, int64(k.at); len(b) > 0; {
			n, err := unix.Pwrite(c.fd, b, at)
			if err != nil {
				return err
			}
			b, at = b[n:], at+int64(n)
		}
	}
	if _, err := unix.FcntlInt(uintptr(c.fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		return err
	}
	var err error
	c.view, err = unix.Mmap(c.fd, 0, int(im.size), unix.PROT_READ, unix.MAP_PRIVATE)
	return err
}

func (c *cow) close() {
	if c.view != nil {
		_ = unix.Munmap(c.view) // only fails for a range that is not ours
	}
	if c.pagemap >= 0 {
		_ = unix.Close(c.pagemap)
	}
	_ = unix.Close(c.fd) // a memory file has nothing to lose
}

// place maps the file over the memory, which drops what was there.
func (c *cow) place(l *linear) error {
	if _, err := unix.MmapPtr(c.fd, 0, unsafe.Pointer(&l.buf[0]), uintptr(len(c.view)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED); err != nil {
		return err
	}
	for _, s := range c.hotSpans() { // made private now, off the path of the run
		copy(l.buf[s.from:s.to], c.view[s.from:s.to])
	}
	return nil
}

func (c *cow) restore(l *linear) error {
	mem := l.buf[:len(c.view)]
	c.opened.Do(c.openPagemap)
	private, ok := c.private(mem, &l.scan)
	if !ok {
		return c.restoreHot(mem, c.look(mem))
	}
	total := 0
	for _, s := range private {
		total += s.to - s.from
	}
	if total > maxPrivate {
		return c.restoreHot(mem, c.hotSpans())
	}
	c.learn(private)
	for _, s := range private {
		copy(mem[s.from:s.to], c.view[s.from:s.to])
	}
	return nil
}

// restoreHot overwrites the hot pages and gives all others back.
func (c *cow) restoreHot(mem []byte, hot []span) error {
	at := 0
	for _, s := range hot {
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

// look learns the hot pages from a used memory: those that differ from the image. It is for
// systems that do not say which pages are private.
func (c *cow) look(mem []byte) []span {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.looks == maxLooks {
		return c.spans
	}
	for i := range c.hot {
		at := i * page
		c.hot[i] = c.hot[i] || string(mem[at:at+page]) != string(c.view[at:at+page])
	}
	c.looked()
	return c.spans
}

// learn takes the private pages of a used memory as hot.
func (c *cow) learn(private []span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.looks == maxLooks {
		return
	}
	for _, s := range private {
		for i := s.from / page; i < s.to/page; i++ {
			c.hot[i] = true
		}
	}
	c.looked()
}

// looked makes spans of the hot pages, as many as a memory at rest may keep.
func (c *cow) looked() {
	c.looks++
	c.spans = nil
	total := 0
	for i, hot := range c.hot {
		if !hot || total == maxPrivate {
			continue
		}
		at := i * page
		total += page
		if n := len(c.spans); n > 0 && c.spans[n-1].to == at {
			c.spans[n-1].to = at + page
			continue
		}
		c.spans = append(c.spans, span{at, at + page})
	}
}

// scanArg is the argument of the PAGEMAP_SCAN request.
type scanArg struct {
	size, flags, start, end, walkEnd, vec, vecLen, maxPages, inverted, mask, anyOf, result uint64
}

type pageRegion struct{ start, end, categories uint64 }

const (
	pagemapScan   = 0xC0606610 // _IOWR('f', 16, struct pm_scan_arg)
	pageIsFile    = 1 << 2
	pageIsPresent = 1 << 3
	pageIsSwapped = 1 << 4
	maxRegions    = 128
)

// pageScan is room for what the system says of a memory's pages.
type pageScan struct {
	arg     scanArg
	regions [maxRegions]pageRegion
	list    []span
}

// private asks the system for the pages of a mapping that are private copies; ok is false
// when it cannot say. When there are more ranges than room the rest counts as one. The list
// is valid until the next call with the same room.
func (c *cow) private(mem []byte, s *pageScan) (list []span, ok bool) {
	if c.pagemap < 0 {
		return nil, false
	}
	base := uint64(uintptr(unsafe.Pointer(&mem[0])))
	s.arg = scanArg{
		size: uint64(unsafe.Sizeof(scanArg{})), start: base, end: base + uint64(len(mem)), vec: uint64(uintptr(unsafe.Pointer(&s.regions[0]))), vecLen: maxRegions,
		inverted: pageIsFile, mask: pageIsFile, anyOf: pageIsPresent | pageIsSwapped, result: pageIsPresent,
	}
	n, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(c.pagemap), pagemapScan, uintptr(unsafe.Pointer(&s.arg)))
	runtime.KeepAlive(s) // the regions are on the heap, which does not move
	if e != 0 || n > maxRegions {
		return nil, false
	}
	list = s.list[:0]
	for _, r := range s.regions[:n] {
		list = append(list, span{int(r.start - base), int(r.end - base)})
	}
	if s.arg.walkEnd < s.arg.end {
		list = append(list, span{int(s.arg.walkEnd - base), len(mem)})
	}
	s.list = list
	return list, true
}

// privateBytes is how much of a memory is not shared with the file.
func (c *cow) privateBytes(l *linear) (n int, ok bool) {
	list, ok := c.private(l.buf[:len(c.view)], new(pageScan))
	for _, s := range list {
		n += s.to - s.from
	}
	return n, ok
}
