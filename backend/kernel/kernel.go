// Package kernel holds the inner loops of vector search and of the sentence encoder: dot
// products, Hamming distances and matrix products over float32 and bits. Each has a form in
// pure Go and, where the processor has the instructions, one in assembly; the choice is made
// once. The build tag purego leaves the assembly out.
//
// All functions are safe for concurrent use, allocate nothing and never look at bytes past
// the slices that they are given.
package kernel

// Lanes is how many binary codes lie side by side in one block: word w of code c is element
// (c/Lanes*words+w)*Lanes + c%Lanes of the codes that Scan reads. So one vector register
// holds the same word of several codes and their counts add up without crossing lanes.
const Lanes = 8

// Group is the number of codes whose verdicts fit one word of Scan's result.
const Group = 64

// ByteLanes is what the lengths that DotBytes takes are multiples of.
const ByteLanes = 32

// Dot is the inner product of a and b, which have the same length.
func Dot(a, b []float32) float32 {
	if len(a) == 0 {
		return 0
	}
	return dot(a, b[:len(a)])
}

// DotRows sets out[i] to the inner product of q and the len(q) values of rows from i*stride
// on. It gives the same bits as Dot does for each row.
func DotRows(q, rows []float32, stride int, out []float32) {
	if len(out) == 0 {
		return
	}
	if len(q) == 0 {
		clear(out)
		return
	}
	if stride < len(q) || len(rows) < (len(out)-1)*stride+len(q) {
		panic("kernel: DotRows: rows are too short")
	}
	for i := range out {
		out[i] = dot(q, rows[i*stride:i*stride+len(q)])
	}
}

// Scan measures the Hamming distance of q to len(dist) codes that lie in blocks of Lanes. It
// sets dist[i] for each, and bit i%Group of near[i/Group] where that is at most limit. The
// number of codes is a multiple of Group; q has at most 1,000 words.
func Scan(q, codes []uint64, limit int, dist []uint16, near []uint64) {
	if len(dist)%Group != 0 || len(near) < len(dist)/Group || len(codes) < len(q)*len(dist) || len(q) == 0 || len(q) > 1000 {
		panic("kernel: Scan: lengths do not fit")
	}
	if len(dist) == 0 {
		return
	}
	scan(q, codes, limit, dist, near)
}

// Weigh adds up the values of q at the bits that one code has; the words of the code lie Lanes
// apart in codes. len(q) is a multiple of 64.
func Weigh(q []float32, codes []uint64) float32 {
	if len(q)%64 != 0 || len(q) == 0 || len(codes) < (len(q)/64-1)*Lanes+1 {
		panic("kernel: Weigh: lengths do not fit")
	}
	return weigh(q, codes)
}

// DotBytes sets out[i] to the inner product of q and row i of rows, which lie one behind the
// other and are as long as q: a multiple of ByteLanes. The sums are exact as long as the sizes
// of q's values add up to less than 1<<24.
func DotBytes(q []int16, rows []int8, out []int32) {
	if len(q)%ByteLanes != 0 || len(q) == 0 || len(rows) < len(q)*len(out) {
		panic("kernel: DotBytes: lengths do not fit")
	}
	if len(out) == 0 {
		return
	}
	dotBytes(q, rows, out)
}

// Signs packs which values of v are greater than those of mean: bit i%64 of dst[i/64]. Bits
// past the end of v are 0.
func Signs(dst []uint64, v, mean []float32) {
	if len(v) == 0 {
		return
	}
	signs(dst[:(len(v)+63)/64], v, mean[:len(v)])
}

// Level names the instructions that this process uses: avx512, avx2, neon or go.
func Level() string { return level() }
