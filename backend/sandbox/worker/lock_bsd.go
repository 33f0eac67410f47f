//go:build unix && !linux

package worker

import (
	"syscall"
	"time"
)

// LandlockABI returns 0: Landlock exists only on Linux.
func LandlockABI() int { return 0 }

// Prepare must be the child's first call: it prevents core dumps, so that the child's memory is not
// written to disk.
func Prepare() error { return setLimit(syscall.RLIMIT_CORE, 0) }

// LockDown sets the limits that exist here: no file can be written, and CPU time is limited. Call
// it after the last file was read and before guest code runs.
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

// attributes keeps the terminal's signals away from the child, which reaches the end of its input
// when its parent is gone.
func attributes(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
