package worker

// LockOptions are what the child still needs after the lock.
type LockOptions struct {
	// MemoryBytes is the limit for the guest; the child itself gets OwnBytes in addition.
	MemoryBytes int64
	// OwnBytes is for the child itself; 0: 512 MiB.
	OwnBytes int64
	// CPUSeconds is the CPU time, counted from now, after which the operating system kills the
	// child; 0: never. It is a second line of defense after the run's own limits.
	CPUSeconds uint64
}

// The codes of protections that may be missing.
const (
	ReasonLandlock        = "landlock_unavailable"
	ReasonLandlockPartial = "landlock_partial" // files are locked, but not the network: kernel before 6.7
	ReasonBwrapMissing    = "bwrap_missing"
	ReasonBwrapBlocked    = "bwrap_blocked" // installed, but blocked by the system
	ReasonJob             = "jobobject_failed"
)

// networkABI is the first version of Landlock that can refuse TCP.
const networkABI = 4

// LandlockReasons returns what a version of Landlock, 0 for none, cannot protect.
func LandlockReasons(abi int) []string {
	switch {
	case abi <= 0:
		return []string{ReasonLandlock}
	case abi < networkABI:
		return []string{ReasonLandlockPartial}
	}
	return nil
}
