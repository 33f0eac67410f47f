//go:build linux

package main

import (
	"os"
	"path/filepath"
	"testing"
)

// What counts against the quota of stored data are blocks: not the length of a sparse file, each file
// once however many links it has, and also what is in a folder that was made unreadable.
func TestAllocatedCountsBlocks(t *testing.T) {
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	empty := allocated(dir)
	must(os.WriteFile(filepath.Join(dir, "sparse"), nil, 0o600))
	must(os.Truncate(filepath.Join(dir, "sparse"), 100<<20))
	if n := allocated(dir) - empty; n > 64<<10 {
		t.Errorf("a sparse file counts %d bytes", n)
	}
	closed := filepath.Join(dir, "closed")
	must(os.Mkdir(closed, 0o700))
	must(os.WriteFile(filepath.Join(closed, "file"), make([]byte, 1<<20), 0o600))
	for _, link := range []string{"one", "two", "three"} {
		must(os.Link(filepath.Join(closed, "file"), filepath.Join(dir, link)))
	}
	must(os.Symlink("/", filepath.Join(dir, "link")))
	must(os.Chmod(closed, 0))
	if n := allocated(dir) - empty; n < 1<<20 || n > 1<<20+128<<10 {
		t.Errorf("a file of 1 MiB with three links more counts %d bytes", n)
	}
	if info, err := os.Stat(closed); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder is still unreadable: %v, %v", info.Mode(), err)
	}
}
