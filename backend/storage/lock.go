package storage

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"helix/backend/fault"
)

// ErrLockHeld is in the chain of the error of Lock when another process has the lock.
var ErrLockHeld = errors.New("lock is held")

// Lock takes the lock file of a data folder (helix.lock) for this process and writes its
// pid into it. A second process gets a Conflict that names the first. The operating system releases
// the lock when the process ends in any way; release does so earlier and may be called twice. It
// does not remove the file, because then two processes could lock two different files of the same
// name.
func Lock(path string) (release func(), err error) {
	f, err := openLock(path)
	if err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() { unlock(f) }), nil
}

// unlock releases the lock explicitly. Closing the file is not enough, because a child that is just
// being started may still have it open.
func unlock(f *os.File) {
	_ = f.Truncate(0)
	_ = unlockFile(f)
	_ = f.Close()
}

// openLock opens and locks the lock file and writes the pid into it.
func openLock(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make folder of the lock: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if readOnlyFolder(err) { // the lock file of a used folder exists, and read access is enough to lock it
		if f, err = os.Open(path); err != nil {
			return nil, fault.Unavailablef("The data folder %s is read-only, and Helix was never used in it. Choose another with --data-dir, or make it writable.", filepath.Dir(path)).WithCause(err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := lockFile(f); err != nil {
		defer f.Close()
		if !errors.Is(err, ErrLockHeld) {
			return nil, fmt.Errorf("lock data folder: %w", err)
		}
		pid := lockPID(path)
		if pid == 0 {
			return nil, fault.Conflictf("Helix is already using this folder.").WithCause(err)
		}
		return nil, fault.Conflictf("Helix is already using this folder (pid %d).", pid).WithDetails(map[string]int{"pid": pid}).WithCause(err)
	}
	if err := f.Truncate(0); err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
		if err != nil && !isFull(err) { // on a full disk the lock is held without the pid
			return nil, errors.Join(fmt.Errorf("write pid: %w", err), f.Close())
		}
	}
	return f, nil
}

// lockPID returns the pid that the holder of the lock wrote, or 0 if there is none yet.
func lockPID(path string) int {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 32))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || pid <= 0 {
		return 0
	}
	return pid
}
