//go:build arm64 && !purego

package kernel

// Every 64-bit ARM that Go runs on has NEON, so there is nothing to choose.
const hasNEON = true

func level() string { return "neon" }
