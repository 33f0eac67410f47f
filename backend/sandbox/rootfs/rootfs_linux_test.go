package rootfs

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"
)

func TestRefusedKinds(t *testing.T) {
	t.Parallel()
	w := setup(t)
	fifo := filepath.Join(w.granted, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	f := New([]string{w.granted, "/"}, nil)
	for path, why := range map[string]error{
		fifo: ErrNotRegular, "/proc/self/environ": ErrForbidden, "/dev/zero": ErrForbidden, "/sys/kernel/mm": ErrForbidden,
	} {
		if _, err := f.Read(path, 100); !errors.Is(err, why) {
			t.Errorf("Read(%s) = %v, want %v", path, err, why)
		}
	}
	if _, err := New([]string{"/proc/self"}, nil).Read("/proc/self/environ", 100); !errors.Is(err, ErrForbidden) {
		t.Errorf("a grant below /proc: %v", err)
	}
}
