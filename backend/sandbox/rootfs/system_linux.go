package rootfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

var systemFolders = []string{"/proc", "/sys", "/dev"}

const openFlags = unix.O_NONBLOCK | unix.O_NOFOLLOW

func checkName(string) error { return nil }

// openExact opens path with one system call that follows no link; if the kernel lacks it, it calls
// walk.
func openExact(path string, walk func(string) (*os.File, error)) (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	for {
		fd, err := unix.Openat2(unix.AT_FDCWD, path, &how)
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), path), nil
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case errors.Is(err, unix.ELOOP):
			return nil, ErrLink
		case errors.Is(err, unix.ENXIO): // a socket
			return nil, ErrNotRegular
		case errors.Is(err, unix.ENOTDIR):
			return nil, os.ErrNotExist
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM): // before Linux 5.6, or filtered
			return walk(path)
		}
		return nil, err
	}
}

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
