//go:build linux

package main

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// replaceTree replaces the files in a folder by copies of those in another, with their modes and times. They belong to the
// given user. Links are copied as links, and what is neither file, folder nor link is left out.
func replaceTree(from, to string, owner int) error {
	old, err := os.ReadDir(to)
	if err != nil {
		return err
	}
	for _, e := range old {
		if err := os.RemoveAll(filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return copyFolder(from, to, owner)
}

func copyFolder(from, to string, owner int) error {
	list, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range list {
		if err := copyEntry(filepath.Join(from, e.Name()), filepath.Join(to, e.Name()), owner); err != nil {
			return err
		}
	}
	return nil
}

func copyEntry(from, to string, owner int) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	switch info.Mode().Type() {
	case 0:
		err = copyFile(from, to)
	case fs.ModeDir:
		if err = os.Mkdir(to, 0o700); err == nil {
			err = copyFolder(from, to, owner)
		}
	case fs.ModeSymlink:
		var target string
		if target, err = os.Readlink(from); err == nil {
			err = os.Symlink(target, to)
		}
	default:
		return nil
	}
	if err == nil {
		err = os.Lchown(to, owner, owner)
	}
	if err != nil || info.Mode().Type() == fs.ModeSymlink {
		return err
	}
	if err := os.Chmod(to, info.Mode()&(fs.ModePerm|fs.ModeSticky)); err != nil {
		return err
	}
	st := info.Sys().(*syscall.Stat_t)
	return syscall.UtimesNano(to, []syscall.Timespec{st.Atim, st.Mtim})
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close() //nolint:errcheck // the write failed
		return err
	}
	return out.Close()
}
