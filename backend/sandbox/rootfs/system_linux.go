package rootfs

import (
	"os"

	"golang.org/x/sys/unix"
)

var systemFolders = []string{"/proc", "/sys", "/dev"}

const openFlags = unix.O_NONBLOCK | unix.O_NOFOLLOW

func checkName(string) error { return nil }

// checkFilesystem refuses kernel interfaces that look like files, wherever they are mounted.
func checkFilesystem(f *os.File) error {
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &s); err != nil {
		return err
	}
	switch int64(s.Type) {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC,
		unix.SECURITYFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.BPF_FS_MAGIC:
		return ErrForbidden
	}
	return nil
}
