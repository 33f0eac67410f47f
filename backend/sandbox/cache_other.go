//go:build !unix

package sandbox

import (
	"os"
	"time"
)

// unsafeFolder returns why a folder must not hold code, or "". The user's profile folder is private
// by its access control list, which is not checked here.
func unsafeFolder(dir string) string {
	i, err := os.Lstat(dir)
	if err != nil {
		return "The cache folder cannot be read."
	}
	if !i.IsDir() {
		return "The cache folder is not a folder."
	}
	return ""
}

func foreignOwner(string) string { return "" }

func lastUse(_ string, i os.FileInfo) time.Time { return i.ModTime() }
