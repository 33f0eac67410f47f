//go:build arm64 && !purego

package kernel

//go:noescape
func dotNEON(a, b *float32, n int) float32

//go:noescape
func scanNEON(q *uint64, words int, codes *uint64, blocks int, limit int, dist *uint16, near *uint64)

//go:noescape
func dotBytesNEON(q *int16, rows *int8, n int, out *int32, count int)

func dot(a, b []float32) float32 {
	whole := len(a) &^ 3
	return dotNEON(&a[0], &b[0], whole) + dotGo(a[whole:], b[whole:])
}

// scan writes the results byte by byte, which is in the order of the codes because Go's arm64 is
// little-endian.
func scan(q, codes []uint64, limit int, dist []uint16, near []uint64) {
	if limit < 0 {
		scanGo(q, codes, limit, dist, near)
		return
	}
	scanNEON(&q[0], len(q), &codes[0], len(dist)/Lanes, limit, &dist[0], &near[0])
}

func signs(dst []uint64, v, mean []float32) { signsGo(dst, v, mean) }

func weigh(q []float32, codes []uint64) float32 { return weighGo(q, codes) }

func dotBytes(q []int16, rows []int8, out []int32) {
	dotBytesNEON(&q[0], &rows[0], len(q), &out[0], len(out))
}
