//go:build unix && !linux

package worker

import (
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

// attributes keeps the terminal's signals away from the child, which notices the end of
// its input when its parent is gone.
func attributes(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
