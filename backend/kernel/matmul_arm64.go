//go:build !purego

package kernel

//go:generate go run matmul_gen.go

//go:noescape
func tileNEON(c *float32, ldc int, a *float32, lda int, b *float32, k, rows int)

func product(c []float32, ldc int, a []float32, lda int, b []float32, m, k, n int, relu bool) {
	for j := 0; j < n; j += PanelWidth {
		for i, rows := range tiles(m, 6) {
			tileNEON(&c[i*ldc+j], 4*ldc, &a[i*lda], 4*lda, &b[j*k], k, rows)
			tileNEON(&c[i*ldc+j+16], 4*ldc, &a[i*lda], 4*lda, &b[j*k+16], k, rows)
		}
	}
	if relu {
		reluGo(c, ldc, m, n)
	}
}
