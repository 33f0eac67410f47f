//go:build !linux

package storage

import "testing"

// smallDisk skips the test: it requires a file system that a test can create.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	t.Skip("small disks are made with tmpfs")
	return itoa(size)
}
