//go:build unix

package config

import (
	"errors"
	"os"
	"syscall"

	"helix/backend/fault"
)

// closeFolder removes other users' permissions for dir. With mine, a folder that belongs to another
// user is refused; otherwise it is left unchanged.
func closeFolder(dir string, mine bool) error {
	st, err := os.Stat(dir)
	if err != nil {
		return nil //nolint:nilerr // creating it has failed, which is reported
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if me := os.Geteuid(); ok && me != 0 && int(sys.Uid) != me {
		if mine {
			return fault.Deniedf("The folder %s belongs to another user, so Helix does not use it. Remove it, or set XDG_RUNTIME_DIR to a folder of your own.", dir)
		}
		return nil
	}
	if st.Mode().Perm()&0o077 == 0 {
		return nil
	}
	return os.Chmod(dir, 0o700)
}

// syncDir makes a rename in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil // the file system does not support it
	}
	return errors.Join(err, d.Close())
}

// tryLock locks f until it is closed; it returns false if another process holds the lock.
func tryLock(f *os.File) (bool, error) {
	for {
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, err
		}
	}
}

// othersCanRead reports whether users besides the owner may read the file.
func othersCanRead(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().Perm()&0o077 != 0
}
