//go:build !linux

package embed

// forget does nothing: the system drops unused pages of the binary by itself.
func (w *weights) forget() {}
