//go:build !portable

package linear

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// shared is unused here: this system has no private mappings of memory files.
type shared struct{}

type pageScan struct{}

func newShared(*Image) *shared { return nil }

func (*shared) place([]byte) error                       { return nil }
func (*shared) close()                                   {}
func (*shared) private([]byte, *pageScan) ([]span, bool) { return nil, false }

// discardPages zeroes a range by mapping new pages over it.
func discardPages(b []byte) error {
	_, err := unix.MmapPtr(-1, 0, unsafe.Pointer(&b[0]), uintptr(len(b)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_FIXED|unix.MAP_NORESERVE)
	return err
}
