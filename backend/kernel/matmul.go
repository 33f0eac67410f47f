package kernel

import "iter"

// PanelWidth is the number of adjacent columns in a panel of a packed matrix.
const PanelWidth = 32

// PackedLen returns the number of floats that PackPanels writes for a matrix of k rows and n columns.
func PackedLen(k, n int) int { return k * roundUp(n) }

// PackPanels converts the row-major k×n matrix src, whose rows are ld floats apart, to the form
// that MatMul reads: panels of PanelWidth columns, each row after row, the last one padded with
// zeros. dst must have room for PackedLen(k, n) floats.
func PackPanels(dst, src []float32, k, n, ld int) {
	for j := 0; j < n; j += PanelWidth {
		w := min(PanelWidth, n-j)
		for i := range k {
			row := dst[:PanelWidth]
			dst = dst[PanelWidth:]
			clear(row[copy(row, src[i*ld+j:i*ld+j+w]):])
		}
	}
}

// MatMul adds the product of a and b to c: c has m rows of n floats, n rounded up to a multiple of
// PanelWidth, ldc apart; a has m rows of k floats, lda apart; b is a k×n matrix in the form of
// PackPanels. With relu, negative results are then set to zero. Each element is summed over k in
// order, starting with its value in c. This does not depend on m, so the result for a row is
// bit-for-bit the same alone and among others.
//
// It does not allocate, and it panics if a slice is too short.
func MatMul(c []float32, ldc int, a []float32, lda int, b []float32, m, k, n int, relu bool) {
	if m == 0 || k == 0 || n == 0 {
		return
	}
	n = roundUp(n)
	_, _, _ = a[(m-1)*lda+k-1], c[(m-1)*ldc+n-1], b[k*n-1] // bounds checks, because the kernels do none
	product(c, ldc, a, lda, b, m, k, n, relu)
}

func roundUp(n int) int { return (n + PanelWidth - 1) / PanelWidth * PanelWidth }

// tiles divides m rows into as few tiles of at most limit rows as possible, of nearly equal size,
// and yields the first row and the number of rows of each.
func tiles(m, limit int) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		n := (m + limit - 1) / limit
		for t := range n {
			if from, to := t*m/n, (t+1)*m/n; !yield(from, to-from) {
				return
			}
		}
	}
}
