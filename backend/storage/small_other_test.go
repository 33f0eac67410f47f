//go:build !linux

package storage

import "testing"

// smallDisk needs a file system that can be made by a test.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	t.Skip("small disks are made with tmpfs")
	return itoa(size)
}
