//go:build !unix

package worker

import "time"

// LandlockABI is the version of Landlock that the kernel offers, 0 for none.
func LandlockABI() int { return 0 }

// Prepare is the child's first act.
func Prepare() error { return nil }

// LockDown takes away what the child does not need any more, where the system has a way.
func LockDown(LockOptions) (LockReport, error) {
	return LockReport{Reasons: LandlockReasons(0)}, nil
}

// SelfCPU is the processor time that this process has used, 0 where it is not known.
func SelfCPU() time.Duration { return 0 }
