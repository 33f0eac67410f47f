//go:build !unix

package worker

import "time"

// LandlockABI returns the version of Landlock that the kernel offers, 0 for none.
func LandlockABI() int { return 0 }

// Prepare must be the child's first call.
func Prepare() error { return nil }

// LockDown drops what the child no longer needs, if the system has a way.
func LockDown(LockOptions) (LockReport, error) {
	return LockReport{Reasons: LandlockReasons(0)}, nil
}

// SelfCPU returns the CPU time that this process has used, 0 if unknown.
func SelfCPU() time.Duration { return 0 }
