//go:build !windows

package storage

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A child that is just being started has the lock file open until it executes its own program: a
// second descriptor of the same open file. It must not keep the folder locked.
func TestLockIsReleasedForChildren(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "helix.lock")
	f, err := openLock(path)
	if err != nil {
		t.Fatal(err)
	}
	child, err := unix.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(child) //nolint:errcheck // the test is over
	unlock(f)
	release, err := Lock(path)
	if err != nil {
		t.Fatalf("the folder is still locked: %v", err)
	}
	release()
}
