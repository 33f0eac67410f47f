//go:build !linux

package gateway

// residentBytes is what the Go runtime took from the system: close enough where reading the
// resident size needs cgo or a system call of its own.
func residentBytes(other int64) int64 { return other }
