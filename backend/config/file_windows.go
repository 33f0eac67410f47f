package config

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// closeFolder does nothing: folders inherit the user's own access list.
func closeFolder(string, bool) error { return nil }

// syncDir does nothing: NTFS journals renames.
func syncDir(string) error { return nil }

// tryLock locks f until it is closed; it returns false if another process holds the lock.
func tryLock(f *os.File) (bool, error) {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &windows.Overlapped{})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return false, nil
	}
	return err == nil, err
}

// othersCanRead returns false, because files inherit the user's own access list.
func othersCanRead(string) bool { return false }
