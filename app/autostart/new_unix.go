//go:build !windows

package autostart

import (
	"os"
	"path/filepath"
	"runtime"
)

// New returns the entry of this system for the program at exe.
func New(exe string) (Entry, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return Entry{}, err
	}
	if runtime.GOOS == "darwin" {
		return Darwin(home, exe), nil
	}
	dir := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) { // a relative one must be ignored
		dir = filepath.Join(home, ".config")
	}
	return Linux(dir, exe), nil
}
