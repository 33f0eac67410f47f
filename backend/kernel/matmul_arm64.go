//go:build !purego

package kernel

//go:noescape
func tileNEON(c *float32, ldc int, a *float32, lda int, b *float32, k, rows int)

func panel(c []float32, ldc int, a []float32, lda int, b []float32, m, k int, relu bool) {
	for i, rows := range tiles(m, 6) {
		tileNEON(&c[i*ldc], 4*ldc, &a[i*lda], 4*lda, &b[0], k, rows)
		tileNEON(&c[i*ldc+16], 4*ldc, &a[i*lda], 4*lda, &b[16], k, rows)
	}
	if relu {
		reluGo(c, ldc, m)
	}
}
