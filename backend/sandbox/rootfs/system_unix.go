//go:build unix && !linux

package rootfs

import (
	"os"

	"golang.org/x/sys/unix"
)

var systemFolders = []string{"/proc", "/dev"}

const openFlags = unix.O_NONBLOCK | unix.O_NOFOLLOW

func checkName(string) error { return nil }

func checkFilesystem(*os.File) error { return nil }

func openExact(path string, walk func(string) (*os.File, error)) (*os.File, error) { return walk(path) }
