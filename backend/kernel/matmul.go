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

// MatMul adds the product of a and b to c: c is m rows of roundUp(n) floats, ldc apart, a is m
// rows of k floats, lda apart, and b is a k×n matrix in the form of PackPanels. With relu,
// what is below zero becomes zero afterwards. Each element is summed over k in order, from
// what c held: it does not depend on m, so a row gives the same bits alone and among others.
//
// The columns of c between n and the next multiple of PanelWidth are written too.
func MatMul(c []float32, ldc int, a []float32, lda int, b []float32, m, k, n int, relu bool) {
	if m == 0 || k == 0 || n == 0 {
		return
	}
	n = roundUp(n)
	_, _, _ = a[(m-1)*lda+k-1], c[(m-1)*ldc+n-1], b[k*n-1]
	for j := 0; j < n; j += PanelWidth {
		panel(c[j:], ldc, a, lda, b[j*k:(j+PanelWidth)*k], m, k, relu)
	}
}

func roundUp(n int) int { return (n + PanelWidth - 1) / PanelWidth * PanelWidth }

// panelGo is panel in pure Go: two rows by four columns at a time.
func panelGo(c []float32, ldc int, a []float32, lda int, b []float32, m, k int, relu bool) {
	i := 0
	for ; i+2 <= m; i += 2 {
		a0, a1 := a[i*lda:i*lda+k], a[(i+1)*lda:(i+1)*lda+k]
		for j := 0; j < PanelWidth; j += 4 {
			tile2x4(c[i*ldc+j:], c[(i+1)*ldc+j:], a0, a1, b[j:])
		}
	}
	if i < m {
		a0 := a[i*lda : i*lda+k]
		for j := 0; j < PanelWidth; j += 4 {
			tile1x4(c[i*ldc+j:], a0, b[j:])
		}
	}
	if relu {
		reluGo(c, ldc, m)
	}
}

// reluGo makes what is below zero in a panel of m rows zero.
func reluGo(c []float32, ldc, m int) {
	for i := range m {
		row := c[i*ldc : i*ldc+PanelWidth]
		for j, v := range row {
			if v < 0 {
				row[j] = 0
			}
		}
	}
}

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

func tile2x4(c0, c1, a0, a1, b []float32) {
	c0, c1 = c0[:4], c1[:4]
	s00, s01, s02, s03 := c0[0], c0[1], c0[2], c0[3]
	s10, s11, s12, s13 := c1[0], c1[1], c1[2], c1[3]
	a1 = a1[:len(a0)]
	at := 0
	for i, x := range a0 {
		y := a1[i]
		q := b[at : at+4 : at+4]
		at += PanelWidth
		s00 += x * q[0]
		s01 += x * q[1]
		s02 += x * q[2]
		s03 += x * q[3]
		s10 += y * q[0]
		s11 += y * q[1]
		s12 += y * q[2]
		s13 += y * q[3]
	}
	c0[0], c0[1], c0[2], c0[3] = s00, s01, s02, s03
	c1[0], c1[1], c1[2], c1[3] = s10, s11, s12, s13
}

func tile1x4(c0, a0, b []float32) {
	c0 = c0[:4]
	s0, s1, s2, s3 := c0[0], c0[1], c0[2], c0[3]
	at := 0
	for _, x := range a0 {
		q := b[at : at+4 : at+4]
		at += PanelWidth
		s0 += x * q[0]
		s1 += x * q[1]
		s2 += x * q[2]
		s3 += x * q[3]
	}
	c0[0], c0[1], c0[2], c0[3] = s0, s1, s2, s3
}
