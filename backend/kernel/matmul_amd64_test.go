//go:build !purego

package kernel

// matmulForms returns the assembly implementations that this processor supports.
func matmulForms() map[string]matmul {
	forms := map[string]matmul{}
	if hasAVX2 {
		forms["avx2"] = product256
	}
	if hasAVX512 {
		forms["avx512"] = product512
	}
	return forms
}
