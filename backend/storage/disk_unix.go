//go:build unix

package storage

import "golang.org/x/sys/unix"

const isWindows = false

const (
	errNoSpace = unix.ENOSPC
	errQuota   = unix.EDQUOT
)

func diskSpace(path string) (space, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return space{}, err
	}
	return space{Free: int64(st.Bavail) * int64(st.Bsize), Total: int64(st.Blocks) * int64(st.Bsize)}, nil
}
