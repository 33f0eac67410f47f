//go:build !portable

package linear

import (
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// shared is an image in a sealed memory file. Memories map it privately, so the system copies a
// page when a guest first writes to it.
type shared struct {
	fd      int
	view    []byte // the file, mapped for reading
	opened  sync.Once
	pagemap int // lists private pages; -1 if the system cannot
}

// newShared writes the chunks of an image to a file, from which they are read from then on. It
// returns nil if memory files are not available.
func newShared(im *Image) *shared {
	fd, err := unix.MemfdCreate("helix-image", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil
	}
	s := &shared{fd: fd, pagemap: -1}
	if err := s.fill(im); err != nil {
		s.close()
		return nil
	}
	chunks := make([]Chunk, len(im.chunks))
	for i, c := range im.chunks {
		chunks[i] = Chunk{c.At, s.view[c.At : c.At+len(c.Data)]}
	}
	im.chunks = chunks
	return s
}

func (s *shared) fill(im *Image) error {
	if err := unix.Ftruncate(s.fd, int64(im.size)); err != nil {
		return err
	}
	for _, c := range im.chunks {
		for b, at := c.Data, int64(c.At); len(b) > 0; {
			n, err := unix.Pwrite(s.fd, b, at)
			if err != nil {
				return err
			}
			b, at = b[n:], at+int64(n)
		}
	}
	if _, err := unix.FcntlInt(uintptr(s.fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		return err
	}
	var err error
	s.view, err = unix.Mmap(s.fd, 0, im.size, unix.PROT_READ, unix.MAP_PRIVATE)
	return err
}

// place maps the image over the start of buf, which discards its content.
func (s *shared) place(buf []byte) error {
	_, err := unix.MmapPtr(s.fd, 0, unsafe.Pointer(&buf[0]), uintptr(len(s.view)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED)
	return err
}

func (s *shared) close() {
	if s.view != nil {
		_ = unix.Munmap(s.view) // fails only for a range that is not ours
	}
	if s.pagemap >= 0 {
		_ = unix.Close(s.pagemap)
	}
	_ = unix.Close(s.fd) // closing a memory file loses nothing
}

// discardPages gives the private pages of a range back to the system; the range then shows the
// file's content, or zeros.
func discardPages(b []byte) error { return unix.Madvise(b, unix.MADV_DONTNEED) }

// openPagemap opens the page map when a memory is first restored, so that a process that serves
// only one run does not open it.
func (s *shared) openPagemap() {
	fd, err := unix.Open("/proc/self/pagemap", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	s.pagemap = fd
	if _, ok := s.scan(s.view, new(pageScan)); !ok {
		_ = unix.Close(fd)
		s.pagemap = -1
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

// pageScan is the buffer for the system's report on a memory's pages.
type pageScan struct {
	arg     scanArg
	regions [maxRegions]pageRegion
	list    []span
}

// private returns the pages of a memory that are private copies; ok is false if the system cannot
// report them, or if nothing is shared. If there are more ranges than fit into room, the rest is
// reported as one range. The list is valid until the next call with the same room.
func (s *shared) private(mem []byte, room *pageScan) (list []span, ok bool) {
	if s == nil {
		return nil, false
	}
	s.opened.Do(s.openPagemap)
	return s.scan(mem, room)
}

func (s *shared) scan(mem []byte, room *pageScan) (list []span, ok bool) {
	if s.pagemap < 0 {
		return nil, false
	}
	base := uint64(uintptr(unsafe.Pointer(&mem[0])))
	room.arg = scanArg{
		size: uint64(unsafe.Sizeof(scanArg{})), start: base, end: base + uint64(len(mem)), vec: uint64(uintptr(unsafe.Pointer(&room.regions[0]))), vecLen: maxRegions,
		inverted: pageIsFile, mask: pageIsFile, anyOf: pageIsPresent | pageIsSwapped, result: pageIsPresent,
	}
	n, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(s.pagemap), pagemapScan, uintptr(unsafe.Pointer(&room.arg)))
	runtime.KeepAlive(room) // the regions are on the heap, which does not move
	if e != 0 || n > maxRegions {
		return nil, false
	}
	list = room.list[:0]
	for _, r := range room.regions[:n] {
		list = append(list, span{int(r.start - base), int(r.end - base)})
	}
	if room.arg.walkEnd < room.arg.end {
		list = append(list, span{int(room.arg.walkEnd - base), len(mem)})
	}
	room.list = list
	return list, true
}
