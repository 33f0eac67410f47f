//go:build !purego

package kernel

//go:generate go run matmul_gen.go

//go:noescape
func tile512(c *float32, ldc int, a *float32, lda int, b *float32, k, rows, relu int)

//go:noescape
func tile256(c *float32, ldc int, a *float32, lda int, b *float32, k, rows, relu int)

func panel(c []float32, ldc int, a []float32, lda int, b []float32, m, k int, relu bool) {
	switch {
	case hasAVX512:
		panel512(c, ldc, a, lda, b, m, k, relu)
	case hasAVX2:
		panel256(c, ldc, a, lda, b, m, k, relu)
	default:
		panelGo(c, ldc, a, lda, b, m, k, relu)
	}
}

func panel512(c []float32, ldc int, a []float32, lda int, b []float32, m, k int, relu bool) {
	for i, rows := range tiles(m, 12) {
		tile512(&c[i*ldc], 4*ldc, &a[i*lda], 4*lda, &b[0], k, rows, bit(relu))
	}
}

func panel256(c []float32, ldc int, a []float32, lda int, b []float32, m, k int, relu bool) {
	for i, rows := range tiles(m, 6) {
		tile256(&c[i*ldc], 4*ldc, &a[i*lda], 4*lda, &b[0], k, rows, bit(relu))
		tile256(&c[i*ldc+16], 4*ldc, &a[i*lda], 4*lda, &b[16], k, rows, bit(relu))
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
