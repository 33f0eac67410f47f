//go:build unix

package coretools

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"helix/backend/fault"
)

// A FIFO without a writer and a socket are rejected at once, and replaced like a file.
func TestSpecialFiles(t *testing.T) {
	t.Parallel()
	e := setup(t)
	fifo := e.in(shared, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	names := []string{"fifo"}
	if dir, err := os.MkdirTemp("/tmp", "s"); err == nil { // the path of the workspace may be too long for a socket
		defer os.RemoveAll(dir)
		if l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, "s")); err == nil {
			defer l.Close()
			if os.Rename(filepath.Join(dir, "s"), e.in(shared, "socket")) == nil {
				names = append(names, "socket")
			}
		}
	}
	for _, name := range names {
		for tool, v := range map[string]in{
			"file.read": {"path": "/shared/" + name}, "file.list": {"path": "/shared/" + name}, "file.write": {"path": "/shared/" + name, "text": "x"}, "file.edit": {"path": "/shared/" + name, "old": "a", "new": "b", "hash": "0"},
			"file.write below": {"path": "/shared/" + name + "/x", "text": "x"},
		} {
			if tool == "file.write below" {
				if out, err := e.call("file.write", v); err == nil {
					t.Errorf("below %s: %v", name, out)
				}
				continue
			}
			e.fails(fault.Denied, tool, v)
		}
	}
	e.must("file.search", in{"path": "/shared", "query": "x"})
	e.must("file.list", in{"path": "/shared"})
	e.must("file.delete", in{"path": "/shared/fifo"})
}
