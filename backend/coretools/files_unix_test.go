//go:build unix

package coretools

import (
	"net"
	"os"
	"path/filepath"
	"sync"
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

// A file that is exchanged for a FIFO during calls, which has no writer, holds up no call and gives no text.
func TestFileExchangedForAFIFO(t *testing.T) {
	t.Parallel()
	e := setup(t)
	path := e.file(e.in(shared, "a.txt"), "text")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			// The calls may recreate or remove the file, so each of these may fail.
			_ = os.Remove(path)
			_ = syscall.Mkfifo(path, 0o600)
			_ = os.Remove(path)
			_ = os.WriteFile(path, []byte("text"), 0o600)
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for range 100 {
		if out, err := e.call("file.read", in{"path": "/shared/a.txt"}); err == nil && out["text"] != "text" && out["text"] != "x" && out["text"] != "" {
			t.Errorf("it read %v", out)
		}
		_, _ = e.s.Load(e.ctx, agentRequest, "/shared/a.txt", 1000)
		_, _ = e.call("file.search", in{"path": "/shared", "query": "text"})
		_, _ = e.call("file.edit", in{"path": "/shared/a.txt", "old": "text", "new": "x", "hash": "0"})
		_, _ = e.call("file.write", in{"path": "/shared/a.txt", "text": "x"})
	}
	close(stop)
	wg.Wait()
}
