package kernel

import "math/bits"

// These are the implementations in pure Go, which are used without assembly and to test the
// assembly. dotGo uses four accumulators so that the additions are independent.

func dotGo(a, b []float32) float32 {
	var s0, s1, s2, s3 float32
	b = b[:len(a)]
	i := 0
	for ; i+4 <= len(a); i += 4 {
		x, y := a[i:i+4:i+4], b[i:i+4:i+4]
		s0 += x[0] * y[0]
		s1 += x[1] * y[1]
		s2 += x[2] * y[2]
		s3 += x[3] * y[3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return (s0 + s1) + (s2 + s3)
}

func scanGo(q, codes []uint64, limit int, dist []uint16, near []uint64) {
	words := len(q)
	var m uint64
	for base := 0; base < len(dist); base += Lanes {
		block := codes[base*words : (base+Lanes)*words]
		var d [Lanes]int
		for w, x := range q {
			row := block[w*Lanes : w*Lanes+Lanes : w*Lanes+Lanes]
			for l := range d {
				d[l] += bits.OnesCount64(x ^ row[l])
			}
		}
		out := dist[base : base+Lanes : base+Lanes]
		for l, n := range d {
			out[l] = uint16(n)
			if n <= limit {
				m |= 1 << ((base + l) % Group)
			}
		}
		if (base+Lanes)%Group == 0 {
			near[base/Group], m = m, 0
		}
	}
}

func signsGo(dst []uint64, v, mean []float32) {
	mean = mean[:len(v)]
	for w := range dst {
		var m uint64
		end := min(len(v), w*64+64)
		for i := w * 64; i < end; i++ {
			if v[i] > mean[i] {
				m |= 1 << (i % 64)
			}
		}
		dst[w] = m
	}
}

// weighGo uses two accumulators, one for each half of a word.
func weighGo(q []float32, codes []uint64) float32 {
	var lo, hi float32
	for w := range len(q) / 64 {
		part := q[w*64 : w*64+64 : w*64+64]
		m := codes[w*Lanes]
		for a := uint32(m); a != 0; a &= a - 1 {
			lo += part[bits.TrailingZeros32(a)]
		}
		for b := uint32(m >> 32); b != 0; b &= b - 1 {
			hi += part[32+bits.TrailingZeros32(b)]
		}
	}
	return lo + hi
}

func dotBytesGo(q []int16, rows []int8, out []int32) {
	for i := range out {
		row := rows[i*len(q) : (i+1)*len(q)]
		var s0, s1, s2, s3 int32
		for j := 0; j+4 <= len(q) && j+4 <= len(row); j += 4 {
			x, y := q[j:j+4:j+4], row[j:j+4:j+4]
			s0 += int32(x[0]) * int32(y[0])
			s1 += int32(x[1]) * int32(y[1])
			s2 += int32(x[2]) * int32(y[2])
			s3 += int32(x[3]) * int32(y[3])
		}
		out[i] = s0 + s1 + s2 + s3
	}
}
