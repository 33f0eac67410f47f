package storage

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lockFile locks one byte far behind the pid, so that the pid stays readable: Windows locks prevent
// other processes from reading the locked range.
func lockFile(f *os.File) error {
	ol := windows.Overlapped{Offset: 1 << 20}
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &ol)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrLockHeld
	}
	return err
}

func unlockFile(f *os.File) error {
	ol := windows.Overlapped{Offset: 1 << 20}
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &ol)
}
