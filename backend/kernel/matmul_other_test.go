//go:build purego || !amd64

package kernel

func matmulForms() map[string]func(c []float32, ldc int, a []float32, lda int, b []float32, m, k int, relu bool) {
	return nil
}
