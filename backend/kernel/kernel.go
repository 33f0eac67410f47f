// Package kernel holds the inner loops of vector search and of the sentence encoder: dot
// products, Hamming distances and matrix products over float32 and bits. Each has a form in
// pure Go and, where the processor has the instructions, one in assembly; the choice is made
// once. The build tag purego leaves the assembly out.
package kernel

import "math/bits"

// Dot is the inner product of a and b, which have the same length.
func Dot(a, b []float32) float32 { return dot(a, b) }

// Hamming counts the bits in which a and b differ; they have the same length.
func Hamming(a, b []uint64) int {
	n := 0
	b = b[:len(a)]
	for i := range a {
		n += bits.OnesCount64(a[i] ^ b[i])
	}
	return n
}

func dot(a, b []float32) float32 {
	var s0, s1, s2, s3 float32
	b = b[:len(a)]
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += a[i] * b[i]
		s1 += a[i+1] * b[i+1]
		s2 += a[i+2] * b[i+2]
		s3 += a[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return s0 + s1 + (s2 + s3)
}
