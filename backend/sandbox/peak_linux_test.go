package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"testing"
)

// peakMemory returns the peak resident memory of this process, and of the largest of its ended
// children, in bytes. For its own it reads VmHWM: what getrusage(2) returns begins with the memory
// of the process that started this one.
func peakMemory(t *testing.T) (own, child int64) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := bytes.Cut(status, []byte("VmHWM:"))
	if _, err := fmt.Sscanf(string(after), "%d kB", &own); err != nil {
		t.Fatal(err)
	}
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u); err != nil {
		t.Fatal(err)
	}
	return own << 10, u.Maxrss << 10
}
