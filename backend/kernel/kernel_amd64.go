//go:build amd64 && !purego

package kernel

import "unsafe"

//go:noescape
func dotAVX512(a, b *float32, n int) float32

//go:noescape
func dotAVX2(a, b *float32, n int) float32

//go:noescape
func scanAVX512(q *uint64, words int, codes *uint64, blocks int, limit int, dist *uint16, near *uint64)

//go:noescape
func scanAVX2(q *uint64, words int, codes *uint64, blocks int, limit int, dist *uint16, near *uint64)

//go:noescape
func signsAVX512(dst *uint64, v, mean *float32, n int)

//go:noescape
func signsAVX2(dst *uint64, v, mean *float32, n int)

//go:noescape
func weighAVX512(q *float32, codes *uint64, words int) float32

//go:noescape
func dotBytesAVX512(q *int16, rows *int8, n int, out *int32, count int)

//go:noescape
func dotBytesAVX2(q *int16, rows *int8, n int, out *int32, count int)

func dot(a, b []float32) float32 {
	switch {
	case hasAVX512:
		return dotAVX512(&a[0], &b[0], len(a))
	case hasAVX2:
		whole := len(a) &^ 7
		return dotAVX2(&a[0], &b[0], whole) + dotGo(a[whole:], b[whole:])
	}
	return dotGo(a, b)
}

func scan(q, codes []uint64, limit int, dist []uint16, near []uint64) {
	switch {
	case hasPopcnt512:
		scanAVX512(&q[0], len(q), &codes[0], len(dist)/Lanes, limit, &dist[0], &near[0])
	case hasAVX2:
		scanAVX2(&q[0], len(q), &codes[0], len(dist)/Lanes, limit, &dist[0], &near[0])
	default:
		scanGo(q, codes, limit, dist, near)
	}
}

// signs processes whole registers in assembly and the remaining values in Go. The bytes of a word
// of dst are in the order of the values because amd64 is little-endian.
func signs(dst []uint64, v, mean []float32) {
	whole := 0
	switch {
	case hasAVX512 && len(v) >= 64:
		whole = len(v) &^ 63
		signsAVX512(&dst[0], unsafe.SliceData(v), unsafe.SliceData(mean), whole)
	case hasAVX2 && len(v) >= 64:
		whole = len(v) &^ 63
		signsAVX2(&dst[0], unsafe.SliceData(v), unsafe.SliceData(mean), whole)
	}
	if whole < len(v) {
		signsGo(dst[whole/64:], v[whole:], mean[whole:])
	}
}

func weigh(q []float32, codes []uint64) float32 {
	if hasAVX512 {
		return weighAVX512(&q[0], &codes[0], len(q)/64)
	}
	return weighGo(q, codes)
}

func dotBytes(q []int16, rows []int8, out []int32) {
	switch {
	case hasAVX512:
		dotBytesAVX512(&q[0], &rows[0], len(q), &out[0], len(out))
	case hasAVX2:
		dotBytesAVX2(&q[0], &rows[0], len(q), &out[0], len(out))
	default:
		dotBytesGo(q, rows, out)
	}
}
