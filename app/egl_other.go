//go:build !linux

package app

// drawWithoutDrivers does nothing: only on Linux the page is drawn in software.
func drawWithoutDrivers() {}
