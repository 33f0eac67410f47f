//go:build unix

package storage

import (
	"errors"
	"syscall"
)

func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// isReadOnlyFS tells a disk that is mounted for reading.
func isReadOnlyFS(err error) bool { return errors.Is(err, syscall.EROFS) }

// isMediaError tells a bad sector from trouble of the process, such as too many files.
func isMediaError(err error) bool { return errors.Is(err, syscall.EIO) }
