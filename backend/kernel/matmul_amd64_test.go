//go:build !purego

package kernel

// matmulForms are the forms in assembly that this processor has.
func matmulForms() map[string]func(c []float32, ldc int, a []float32, lda int, b []float32, m, k int, relu bool) {
	forms := map[string]func(c []float32, ldc int, a []float32, lda int, b []float32, m, k int, relu bool){}
	if hasAVX2 {
		forms["avx2"] = panel256
	}
	if hasAVX512 {
		forms["avx512"] = panel512
	}
	return forms
}
