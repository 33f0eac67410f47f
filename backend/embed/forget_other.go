//go:build !linux

package embed

// forget leaves it to the system to drop pages of the binary that are not used.
func (w *weights) forget() {}
