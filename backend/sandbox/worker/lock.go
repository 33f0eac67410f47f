package worker

// LockOptions say what the child still needs after the lock.
type LockOptions struct {
	// MemoryBytes is the most that a guest may have; the child itself gets more on top.
	MemoryBytes int64
	// OwnBytes is what the child itself may have on top; 0: 512 MiB.
	OwnBytes int64
	// CPUSeconds is after how many seconds of processor time, from now on, the
	// system ends it; 0: never. It is a second line behind the run's own limits.
	CPUSeconds uint64
}

// The codes of what a lock may lack.
const (
	ReasonLandlock        = "landlock_unavailable"
	ReasonLandlockPartial = "landlock_partial" // files are locked, but not the network: kernel before 6.7
	ReasonBwrapMissing    = "bwrap_missing"
	ReasonBwrapBlocked    = "bwrap_blocked" // installed, but the system does not let it work
	ReasonJob             = "jobobject_failed"
)

// networkABI is the first version of Landlock that can refuse TCP.
const networkABI = 4

// LandlockReasons names what a version of Landlock, 0 for none, leaves open.
func LandlockReasons(abi int) []string {
	switch {
	case abi <= 0:
		return []string{ReasonLandlock}
	case abi < networkABI:
		return []string{ReasonLandlockPartial}
	}
	return nil
}
