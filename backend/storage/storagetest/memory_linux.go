package storagetest

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// memoryDir makes a folder in the file system that is in memory, if it has a gigabyte of room.
func memoryDir() (string, error) {
	const shm = "/dev/shm"
	var fs unix.Statfs_t
	if err := unix.Statfs(shm, &fs); err != nil {
		return "", err
	}
	if fs.Type != unix.TMPFS_MAGIC || fs.Bavail*uint64(fs.Bsize) < 1<<30 {
		return "", errors.ErrUnsupported
	}
	return os.MkdirTemp(shm, "helix-test-")
}
