//go:build arm64 && !purego

package kernel

// forms returns nil: there is only one assembly kernel, and it is always selected.
func forms() []twin { return nil }
