//go:build !linux && !windows

package hotkey

// Register returns ErrUnsupported.
func Register(Combination, func()) (stop func(), err error) { return nil, ErrUnsupported }
