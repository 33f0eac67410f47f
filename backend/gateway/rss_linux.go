package gateway

import (
	"bytes"
	"os"
	"strconv"
)

// residentBytes returns the resident size of the process, or other if it cannot be read.
func residentBytes(other int64) int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return other
	}
	f := bytes.Fields(b)
	if len(f) < 2 {
		return other
	}
	pages, err := strconv.ParseInt(string(f[1]), 10, 64)
	if err != nil {
		return other
	}
	return pages * int64(os.Getpagesize())
}
