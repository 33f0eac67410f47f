package storage

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// networkFS returns the type of the network file system that holds path, or "" if it is local.
// SQLite's locks and shared memory do not work reliably over a network.
func networkFS(path string) (string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return "", err
	}
	switch uint32(st.Type) {
	case 0x6969:
		return "nfs", nil
	case 0xFF534D42, 0xFE534D42, 0x517B:
		return "cifs", nil
	case 0x01021997:
		return "9p", nil
	case 0x65735546:
		return fuseKind(path), nil
	}
	return "", nil
}

// allocate reserves real blocks for f.
func allocate(f *os.File, size int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return writeZeros(f, size)
	}
	return err
}
