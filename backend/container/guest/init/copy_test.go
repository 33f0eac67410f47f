//go:build linux

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestReplaceTreeCopiesFilesFoldersAndLinks(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(from, "a/b"), 0o755))
	must(os.WriteFile(filepath.Join(from, "a/b/file"), []byte("kept"), 0o640))
	must(os.WriteFile(filepath.Join(from, "secret"), []byte("mine"), 0))
	must(os.Symlink("/etc/passwd", filepath.Join(from, "link")))
	at := time.Unix(1_000_000_000, 0)
	must(os.Chtimes(filepath.Join(from, "a/b/file"), at, at))
	closed := fs.FileMode(0o500)
	if os.Getuid() == 0 { // as in a container
		closed = 0
	}
	must(os.Chmod(filepath.Join(from, "a"), closed))
	must(os.Chmod(filepath.Join(from, "secret"), closed))
	must(os.MkdirAll(filepath.Join(to, "old/folder"), 0o700))
	must(replaceTree(from, to, os.Getuid()))
	if list, err := os.ReadDir(to); err != nil || len(list) != 3 {
		t.Errorf("%v, %v", list, err)
	}
	if b, err := os.ReadFile(filepath.Join(to, "a/b/file")); err != nil || string(b) != "kept" {
		t.Errorf("%s, %v", b, err)
	}
	for name, mode := range map[string]fs.FileMode{"a": fs.ModeDir | closed, "a/b": fs.ModeDir | 0o755, "a/b/file": 0o640, "secret": closed} {
		if info, err := os.Stat(filepath.Join(to, name)); err != nil || info.Mode() != mode || name == "a/b/file" && !info.ModTime().Equal(at) {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if target, err := os.Readlink(filepath.Join(to, "link")); err != nil || target != "/etc/passwd" {
		t.Errorf("%s, %v", target, err)
	}
}
