//go:build !linux && !windows && !(darwin && cgo)

package tray

// New returns a driver without an icon: this system has no notification area that Helix knows.
func New() Driver { return None() }
