//go:build unix && !linux

package worker

import (
	"fmt"
	"syscall"
	"time"
)

// LandlockABI is the version of Landlock that the kernel offers: none, it is Linux's.
func LandlockABI() int { return 0 }

// Prepare is the child's first act: what it holds does not end up on the disk.
func Prepare() error { return setLimit(syscall.RLIMIT_CORE, 0) }

// LockDown sets what limits there are: no file can be written, and processor time ends.
// It is done after the last file was read and before guest code runs.
func LockDown(o LockOptions) (LockReport, error) {
	r := LockReport{Reasons: LandlockReasons(0)}
	if err := setLimit(syscall.RLIMIT_FSIZE, 0); err != nil {
		return r, err
	}
	if o.CPUSeconds > 0 {
		return r, setLimit(syscall.RLIMIT_CPU, uint64(SelfCPU()/time.Second)+1+o.CPUSeconds)
	}
	return r, nil
}

// setLimit lowers a limit of this process; one that is lower already stays.
func setLimit(what int, value uint64) error {
	var have syscall.Rlimit
	if err := syscall.Getrlimit(what, &have); err != nil {
		return fmt.Errorf("read limit %d: %w", what, err)
	}
	if have.Max > value {
		have.Max = value
	}
	have.Cur = min(have.Cur, have.Max)
	if err := syscall.Setrlimit(what, &have); err != nil {
		return fmt.Errorf("set limit %d: %w", what, err)
	}
	return nil
}

// SelfCPU is the processor time that this process has used.
func SelfCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
