//go:build !purego

package kernel

// matmulForms returns the assembly implementations that this processor supports.
func matmulForms() map[string]matmul { return map[string]matmul{"neon": product} }
