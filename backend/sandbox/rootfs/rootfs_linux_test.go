package rootfs

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestRefusedKinds(t *testing.T) {
	t.Parallel()
	w := setup(t)
	fifo, sock := filepath.Join(w.docs, "fifo"), filepath.Join(w.docs, "s")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]error{
		fifo: ErrNotRegular, "/dev/zero": ErrNotRegular, "/dev/shm": ErrForbidden, "/sys/kernel": ErrForbidden, "/proc/1": ErrForbidden, "/proc/uptime": ErrForbidden,
		"/proc/self/environ": ErrLink, "/proc/thread-self/environ": ErrLink, "/dev/stdin": ErrLink, "/dev/fd/0": ErrLink,
	}
	if l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", sock); err == nil { // the path may be too long for a socket
		defer l.Close()
		cases[sock] = ErrNotRegular
	}
	f := New(nil, "")
	for path, why := range cases {
		if _, err := os.Lstat(path); err != nil {
			continue
		}
		if file, _, err := f.Open(path); !errors.Is(err, why) {
			t.Errorf("Open(%s) = %v, %v, want %v", path, file, err, why)
		}
	}
}

// TestFolderThatCannotBeListed reads below a folder that can be traversed but not listed.
func TestFolderThatCannotBeListed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	if err := os.Chmod(filepath.Join(w.docs, "sub"), 0o100); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(w.docs, "sub"), 0o700) })
	if b, err := New(nil, "").Read(filepath.Join(w.docs, "sub", "a.txt"), 100); err != nil || string(b) != "text of sub" {
		t.Errorf("read %q, %v", b, err)
	}
}
