//go:build unix

package worker

import (
	"fmt"
	"syscall"
	"time"
)

// setLimit lowers a limit of this process; a limit that is already lower is kept.
func setLimit(what int, value uint64) error {
	var have syscall.Rlimit
	if err := syscall.Getrlimit(what, &have); err != nil {
		return fmt.Errorf("read limit %d: %w", what, err)
	}
	have.Max = min(have.Max, value)
	have.Cur = min(have.Cur, have.Max)
	if err := syscall.Setrlimit(what, &have); err != nil {
		return fmt.Errorf("set limit %d: %w", what, err)
	}
	return nil
}

// SelfCPU returns the CPU time that this process has used.
func SelfCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
