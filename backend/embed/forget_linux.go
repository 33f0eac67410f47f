package embed

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// forget tells the system that the weights need not stay in memory. They are read-only pages of the
// binary's file and are read again on the next access.
func (w *weights) forget() {
	if !w.inBinary || len(w.raw) == 0 {
		return
	}
	page := uintptr(os.Getpagesize())
	start := uintptr(unsafe.Pointer(unsafe.SliceData(w.raw)))
	skip := -start & (page - 1) // to the first whole page
	size := (uintptr(len(w.raw)) - skip) &^ (page - 1)
	if uintptr(len(w.raw)) <= skip || size == 0 {
		return
	}
	// A failure is ignored: the memory then stays until the system needs it.
	_ = unix.Madvise(w.raw[skip:skip+size], unix.MADV_DONTNEED)
}
