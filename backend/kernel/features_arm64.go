//go:build arm64 && !purego

package kernel

// Every 64-bit ARM processor supported by Go has NEON.
const hasNEON = true

func level() string { return "neon" }
