package kernel

import "unsafe"

type panelRow = [PanelWidth]float32

// productGo is the matrix product in pure Go. Its innermost loop runs over the columns of a panel,
// with the elements of two rows and four steps of k. That is as much as fits in the registers, and
// the sums of adjacent columns are independent.
func productGo(c []float32, ldc int, a []float32, lda int, b []float32, m, k, n int, relu bool) {
	if mostlyZero(a, lda, m, k) {
		sparseGo(c, ldc, a, lda, b, m, k, n)
	} else {
		for j := 0; j < n; j += PanelWidth {
			rows := unsafe.Slice((*panelRow)(unsafe.Pointer(&b[j*k])), k)
			i := 0
			for ; i+2 <= m; i += 2 {
				twoRows((*panelRow)(c[i*ldc+j:]), (*panelRow)(c[(i+1)*ldc+j:]), a[i*lda:][:k], a[(i+1)*lda:][:k], rows)
			}
			if i < m {
				oneRow((*panelRow)(c[i*ldc+j:]), a[i*lda:][:k], rows)
			}
		}
	}
	if relu {
		reluGo(c, ldc, m, n)
	}
}

func twoRows(c0, c1 *panelRow, a0, a1 []float32, rows []panelRow) {
	for len(rows) >= 4 && len(a0) >= 4 && len(a1) >= 4 {
		x, y, q := (*[4]float32)(a0), (*[4]float32)(a1), (*[4]panelRow)(rows)
		x0, x1, x2, x3 := x[0], x[1], x[2], x[3]
		y0, y1, y2, y3 := y[0], y[1], y[2], y[3]
		for j := range c0 {
			s, t := c0[j], c1[j]
			v := q[0][j]
			s += x0 * v
			t += y0 * v
			v = q[1][j]
			s += x1 * v
			t += y1 * v
			v = q[2][j]
			s += x2 * v
			t += y2 * v
			v = q[3][j]
			s += x3 * v
			t += y3 * v
			c0[j], c1[j] = s, t
		}
		a0, a1, rows = a0[4:], a1[4:], rows[4:]
	}
	oneRow(c0, a0, rows)
	oneRow(c1, a1, rows)
}

func oneRow(c *panelRow, a []float32, rows []panelRow) {
	for len(rows) >= 4 && len(a) >= 4 {
		x, q := (*[4]float32)(a), (*[4]panelRow)(rows)
		fourSteps(c, x, &q[0], &q[1], &q[2], &q[3])
		a, rows = a[4:], rows[4:]
	}
	for i, x := range a {
		for j, v := range rows[i] {
			c[j] += x * v
		}
	}
}

func fourSteps(c *panelRow, x *[4]float32, q0, q1, q2, q3 *panelRow) {
	x0, x1, x2, x3 := x[0], x[1], x[2], x[3]
	for j := range c {
		s := c[j]
		s += x0 * q0[j]
		s += x1 * q1[j]
		s += x2 * q2[j]
		s += x3 * q3[j]
		c[j] = s
	}
}

// mostlyZero reports whether so much of a is zero that skipping the zeros is faster. This is often
// so after a rectifier: nine of ten values in the sentence encoder.
func mostlyZero(a []float32, lda, m, k int) bool {
	zeros := 0
	for i := range m {
		for _, v := range a[i*lda:][:k] {
			if v == 0 {
				zeros++
			}
		}
	}
	return zeros > m*k*2/3
}

// sparseGo is the product that skips zeros in a. The order of sums is the same.
func sparseGo(c []float32, ldc int, a []float32, lda int, b []float32, m, k, n int) {
	var at [256]int32
	var value [len(at)]float32
	for i := range m {
		row := a[i*lda:][:k]
		for from := 0; from < k; {
			count := 0
			for from < k && count < len(at) {
				if v := row[from]; v != 0 {
					at[count], value[count] = int32(from), v
					count++
				}
				from++
			}
			for j := 0; j < n; j += PanelWidth {
				rows := unsafe.Slice((*panelRow)(unsafe.Pointer(&b[j*k])), k)
				sum := (*panelRow)(c[i*ldc+j:])
				l := 0
				for ; l+4 <= count; l += 4 {
					p := (*[4]int32)(at[l:])
					fourSteps(sum, (*[4]float32)(value[l:]), &rows[p[0]], &rows[p[1]], &rows[p[2]], &rows[p[3]])
				}
				for ; l < count; l++ {
					x := value[l]
					for col, v := range rows[at[l]] {
						sum[col] += x * v
					}
				}
			}
		}
	}
}

// reluGo sets negative values in m rows of n to zero.
func reluGo(c []float32, ldc, m, n int) {
	for i := range m {
		row := c[i*ldc:][:n]
		for j, v := range row {
			if v < 0 {
				row[j] = 0
			}
		}
	}
}
