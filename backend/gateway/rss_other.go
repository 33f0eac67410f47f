//go:build !linux

package gateway

// residentBytes returns other, the memory that the Go runtime took from the system. That is close
// enough where reading the resident size needs cgo or a system call.
func residentBytes(other int64) int64 { return other }
