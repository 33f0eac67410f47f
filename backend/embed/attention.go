package embed

import (
	"math"

	"helix/backend/kernel"
)

const heads = 4

// attend computes the attention of one window. qkv holds queries, keys and values of n pieces, each
// width floats; the result is written to y.
func attend(s *scratch, qkv, y []float32, n, width int) {
	size, row := width/heads, 3*width
	scale := float32(1 / math.Sqrt(float64(size)))
	columns := kernel.PackedLen(1, n)
	scores := sized(&s.scores, n*columns)
	packed := sized(&s.packed, max(kernel.PackedLen(size, n), kernel.PackedLen(n, size)))
	clear(y)
	for h := range heads {
		queries, keys, values := qkv[h*size:], qkv[width+h*size:], qkv[2*width+h*size:]
		packKeys(packed, keys, n, size, row)
		clear(scores)
		kernel.MatMul(scores, columns, queries, row, packed, n, size, n, false)
		for i := range n {
			softmax(scores[i*columns:][:n], scale)
		}
		kernel.PackPanels(packed, values, n, size, row)
		kernel.MatMul(y[h*size:], width, scores, columns, packed, n, n, size, false)
	}
}

// packKeys writes the transpose of n rows of size floats, ld apart, as panels.
func packKeys(dst, src []float32, n, size, ld int) {
	const w = kernel.PanelWidth
	for t := 0; t < n; t += w {
		panel := dst[t*size:][:w*size]
		if n-t < w {
			clear(panel)
		}
		for i := range min(w, n-t) {
			for d, v := range src[(t+i)*ld:][:size] {
				panel[d*w+i] = v
			}
		}
	}
}

// softmax replaces the values of v by their softmax, with each value multiplied by scale.
func softmax(v []float32, scale float32) {
	top := v[0]
	for _, x := range v[1:] {
		if x > top {
			top = x
		}
	}
	var sum float32
	for j, x := range v {
		e := exp((x - top) * scale)
		v[j] = e
		sum += e
	}
	f := 1 / sum
	for j := range v {
		v[j] *= f
	}
}

// exp returns e to the power of x for x ≤ 0, with a relative error below 2e-7; below -87 it returns
// 0. It splits x into a multiple of ln 2 and a remainder, whose exponential is approximated by a
// polynomial (Cody and Waite 1980).
func exp(x float32) float32 {
	if !(x > -87) {
		return 0
	}
	const high, low = 0.693359375, -2.12194440e-4 // ln 2; high has few bits
	n := int32(x*math.Log2E - 0.5)                // rounds, because x is not positive
	f := float32(n)
	r := x - f*high - f*low
	p := float32(1.9875691500e-4)
	p = p*r + 1.3981999507e-3
	p = p*r + 8.3334519073e-3
	p = p*r + 4.1665795894e-2
	p = p*r + 1.6666665459e-1
	p = p*r + 5.0000001201e-1
	p = p*r*r + r + 1
	return p * math.Float32frombits(uint32(n+127)<<23)
}
