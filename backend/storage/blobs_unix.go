//go:build unix

package storage

import (
	"errors"
	"syscall"
)

func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// isReadOnlyFS reports whether err means that the file system is mounted read-only.
func isReadOnlyFS(err error) bool { return errors.Is(err, syscall.EROFS) }

// isMediaError reports whether err is a media error, such as a bad sector, and not a problem of the
// process, such as too many open files.
func isMediaError(err error) bool { return errors.Is(err, syscall.EIO) }
