//go:build purego || !(amd64 || arm64)

package kernel

func panel(c []float32, ldc int, a []float32, lda int, b []float32, m, k int, relu bool) {
	panelGo(c, ldc, a, lda, b, m, k, relu)
}
