package storage

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// smallDisk mounts a disk of size bytes, which requires root; otherwise the test is skipped.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	if os.Geteuid() != 0 {
		t.Skip("mounting a small disk needs root")
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+itoa(size)); err != nil {
		t.Skip("mounting a small disk:", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}
