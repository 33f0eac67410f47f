package storage

import (
	"errors"

	"golang.org/x/sys/windows"
)

func isDiskFull(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}

// isReadOnlyFS reports whether err means that the disk is write-protected.
func isReadOnlyFS(err error) bool { return errors.Is(err, windows.ERROR_WRITE_PROTECT) }

// isMediaError reports whether err is a media error, such as a bad sector, and not a problem of the
// process, such as too many open files.
func isMediaError(err error) bool {
	return errors.Is(err, windows.ERROR_CRC) || errors.Is(err, windows.ERROR_READ_FAULT)
}
