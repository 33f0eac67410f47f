//go:build amd64 && !purego

package kernel

// forms returns the assembly kernels that this processor can run, including those that it
// would not select.
func forms() []twin {
	var fs []twin
	if hasAVX2 {
		fs = append(fs, twin{
			name: "avx2",
			dot: func(a, b []float32) float32 {
				n := len(a) &^ 7
				return dotAVX2(&a[0], &b[0], n) + dotGo(a[n:], b[n:])
			},
			scan: func(q, codes []uint64, limit int, dist []uint16, near []uint64) {
				scanAVX2(&q[0], len(q), &codes[0], len(dist)/Lanes, limit, &dist[0], &near[0])
			},
			signs: func(dst []uint64, v, mean []float32) {
				n := len(v) &^ 63
				if n > 0 {
					signsAVX2(&dst[0], &v[0], &mean[0], n)
				}
				if n < len(v) {
					signsGo(dst[n/64:], v[n:], mean[n:])
				}
			},
			bytes: func(q []int16, rows []int8, out []int32) {
				dotBytesAVX2(&q[0], &rows[0], len(q), &out[0], len(out))
			},
		})
	}
	return fs
}
