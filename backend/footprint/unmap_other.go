//go:build !linux

package footprint

// unmapProgram does nothing: other systems trim programs that wait themselves.
func unmapProgram() {}
