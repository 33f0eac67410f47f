//go:build unix

package config

import (
	"errors"
	"os"
	"syscall"
)

// syncDir makes a rename in dir survive power loss.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil // the file system has no such call
	}
	return errors.Join(err, d.Close())
}

// othersCanRead reports whether users besides the owner may read the file.
func othersCanRead(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().Perm()&0o077 != 0
}
