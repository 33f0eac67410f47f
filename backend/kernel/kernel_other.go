//go:build purego || (!amd64 && !arm64)

package kernel

func dot(a, b []float32) float32 { return dotGo(a, b) }

func scan(q, codes []uint64, limit int, dist []uint16, near []uint64) {
	scanGo(q, codes, limit, dist, near)
}

func signs(dst []uint64, v, mean []float32) { signsGo(dst, v, mean) }

func weigh(q []float32, codes []uint64) float32 { return weighGo(q, codes) }

func dotBytes(q []int16, rows []int8, out []int32) { dotBytesGo(q, rows, out) }
