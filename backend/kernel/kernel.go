// Package kernel contains the inner loops of vector search and of the sentence encoder: dot
// products, Hamming distances and matrix products over float32 and bits. Each is implemented in
// pure Go and, if the processor has the instructions, in assembly; the implementation is selected
// once. The build tag purego excludes the assembly.
//
// All functions are safe for concurrent use, allocate nothing and never access memory
// outside the given slices.
package kernel

// Lanes is the number of binary codes that are interleaved in one block: word w of code c is
// element (c/Lanes*words+w)*Lanes + c%Lanes of the codes that Scan reads. So one vector register
// holds the same word of several codes, and their counts are added without crossing lanes.
const Lanes = 8

// Group is the number of codes whose results fit in one word of near in Scan.
const Group = 64

// ByteLanes divides the length of every vector for DotBytes.
const ByteLanes = 32

// Dot returns the inner product of a and b, which must have the same length.
func Dot(a, b []float32) float32 {
	if len(a) == 0 {
		return 0
	}
	return dot(a, b[:len(a)])
}

// DotRows sets out[i] to the inner product of q and the len(q) values of rows from i*stride on. The
// result is bit-for-bit that of Dot for each row.
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

// Scan computes the Hamming distances of q to len(dist) codes stored in blocks of Lanes. It sets
// dist[i] for each, and bit i%Group of near[i/Group] if it is at most limit. The number of codes
// must be a multiple of Group; q may have at most 1,000 words.
func Scan(q, codes []uint64, limit int, dist []uint16, near []uint64) {
	if len(dist)%Group != 0 || len(near) < len(dist)/Group || len(codes) < len(q)*len(dist) || len(q) == 0 || len(q) > 1000 {
		panic("kernel: Scan: lengths do not fit")
	}
	if len(dist) == 0 {
		return
	}
	scan(q, codes, limit, dist, near)
}

// Weigh returns the sum of the values of q at the set bits of one code. The words of the code are
// Lanes apart in codes. len(q) must be a multiple of 64.
func Weigh(q []float32, codes []uint64) float32 {
	if len(q)%64 != 0 || len(q) == 0 || len(codes) < (len(q)/64-1)*Lanes+1 {
		panic("kernel: Weigh: lengths do not fit")
	}
	return weigh(q, codes)
}

// DotBytes sets out[i] to the inner product of q and row i of rows. Rows are contiguous and have
// the same length as q, a multiple of ByteLanes. The sums are exact as long as the absolute values
// of q add up to less than 1<<24.
func DotBytes(q []int16, rows []int8, out []int32) {
	if len(q)%ByteLanes != 0 || len(q) == 0 || len(rows) < len(q)*len(out) {
		panic("kernel: DotBytes: lengths do not fit")
	}
	if len(out) == 0 {
		return
	}
	dotBytes(q, rows, out)
}

// Signs sets bit i%64 of dst[i/64] if v[i] is greater than mean[i]. Bits beyond the end of v are 0.
func Signs(dst []uint64, v, mean []float32) {
	if len(v) == 0 {
		return
	}
	signs(dst[:(len(v)+63)/64], v, mean[:len(v)])
}

// Level returns the instruction set that this process uses: avx512, avx2, neon or go.
func Level() string { return level() }
