//go:build unix

package sandbox

import (
	"os"
	"syscall"
)

// unsafeFolder says why a folder must not hold code, or "".
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
