//go:build !purego

package kernel

// matmulForms are the forms in assembly that this processor has.
func matmulForms() map[string]matmul { return map[string]matmul{"neon": product} }
