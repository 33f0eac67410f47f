//go:build unix

package sandbox

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// unsafeFolder returns why a folder must not hold code, or "".
func unsafeFolder(dir string) string {
	i, err := os.Lstat(dir)
	if err != nil {
		return "The cache folder cannot be read."
	}
	if !i.IsDir() {
		return "The cache folder is not a folder."
	}
	if i.Mode().Perm() != 0o700 {
		return "The cache folder must have mode 0700: others could put code into it."
	}
	return foreignOwner(dir)
}

func foreignOwner(path string) string {
	i, err := os.Lstat(path)
	if err != nil {
		return "The cache folder cannot be read."
	}
	if s, ok := i.Sys().(*syscall.Stat_t); !ok || int(s.Uid) != os.Geteuid() {
		return "The cache folder belongs to another user."
	}
	return ""
}

// lastUse returns when a file was last written or read. Systems update the read time at least once
// a day or never, which is precise enough to evict the oldest files.
func lastUse(path string, i os.FileInfo) time.Time {
	used := i.ModTime()
	var s unix.Stat_t
	if unix.Lstat(path, &s) == nil {
		if read := time.Unix(s.Atim.Unix()); read.After(used) {
			used = read
		}
	}
	return used
}
