//go:build purego || !(amd64 || arm64)

package kernel

func product(c []float32, ldc int, a []float32, lda int, b []float32, m, k, n int, relu bool) {
	productGo(c, ldc, a, lda, b, m, k, n, relu)
}
