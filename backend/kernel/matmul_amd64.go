//go:build !purego

package kernel

//go:generate go run matmul_gen.go

//go:noescape
func tile512(c *float32, ldc int, a *float32, lda int, b *float32, k, rows, relu int)

//go:noescape
func tile256(c *float32, ldc int, a *float32, lda int, b *float32, k, rows, relu int)

func product(c []float32, ldc int, a []float32, lda int, b []float32, m, k, n int, relu bool) {
	switch {
	case hasAVX512:
		product512(c, ldc, a, lda, b, m, k, n, relu)
	case hasAVX2:
		product256(c, ldc, a, lda, b, m, k, n, relu)
	default:
		productGo(c, ldc, a, lda, b, m, k, n, relu)
	}
}

func product512(c []float32, ldc int, a []float32, lda int, b []float32, m, k, n int, relu bool) {
	for j := 0; j < n; j += PanelWidth {
		for i, rows := range tiles(m, 12) {
			tile512(&c[i*ldc+j], 4*ldc, &a[i*lda], 4*lda, &b[j*k], k, rows, bit(relu))
		}
	}
}

func product256(c []float32, ldc int, a []float32, lda int, b []float32, m, k, n int, relu bool) {
	for j := 0; j < n; j += PanelWidth {
		for i, rows := range tiles(m, 6) {
			tile256(&c[i*ldc+j], 4*ldc, &a[i*lda], 4*lda, &b[j*k], k, rows, bit(relu))
			tile256(&c[i*ldc+j+16], 4*ldc, &a[i*lda], 4*lda, &b[j*k+16], k, rows, bit(relu))
		}
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
