package kernel

import "iter"

// PanelWidth is the number of columns that lie together in a packed matrix.
const PanelWidth = 32

// PackedLen is how many floats PackPanels writes for a matrix of k rows and n columns.
func PackedLen(k, n int) int { return k * roundUp(n) }

// PackPanels writes the row-major k×n matrix src, whose rows are ld floats apart, in the form
// that MatMul reads: panels of PanelWidth columns, in each panel row after row, the last one
// filled up with zeros. dst holds PackedLen(k, n) floats.
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

// MatMul adds the product of a and b to c: c is m rows of n floats, n rounded up to a multiple
// of PanelWidth, ldc apart; a is m rows of k floats, lda apart; b is a k×n matrix in the form
// of PackPanels. With relu, what is below zero becomes zero afterwards. Each element is summed
// over k in order, from what c held: it does not depend on m, so a row gives the same bits
// alone and among others.
//
// It does not allocate, and it panics when a slice is too short.
func MatMul(c []float32, ldc int, a []float32, lda int, b []float32, m, k, n int, relu bool) {
	if m == 0 || k == 0 || n == 0 {
		return
	}
	n = roundUp(n)
	_, _, _ = a[(m-1)*lda+k-1], c[(m-1)*ldc+n-1], b[k*n-1] // the kernels do not check
	product(c, ldc, a, lda, b, m, k, n, relu)
}

func roundUp(n int) int { return (n + PanelWidth - 1) / PanelWidth * PanelWidth }

// tiles cuts m rows into as few tiles of at most limit rows as there can be, of nearly the
// same size, and gives the first row and the number of rows of each.
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
