//go:build !linux

package sandbox

import "testing"

// peakMemory is not implemented here.
func peakMemory(*testing.T) (own, child int64) { return 0, 0 }
