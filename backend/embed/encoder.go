package embed

import (
	"math"
	"slices"

	"helix/backend/kernel"
)

// scratch is the memory of one call, reused by the next.
type scratch struct {
	lattice lattice
	pieces  []int32 // of the current text
	rows    int     // pieces waiting for the encoder
	windows []span

	x, y, wide, widened, scores, packed []float32
}

// span is a window in the rows of a scratch.
type span struct {
	from, to int
	out      []float32 // the window's vector is added here
	weight   float32   // multiplied by this
}

func (s *scratch) begin() { s.rows, s.windows = 0, s.windows[:0] }

// sized returns a slice of the first n floats of b, which it reallocates if necessary.
func sized(b *[]float32, n int) []float32 {
	*b = slices.Grow((*b)[:0], n)[:n]
	return *b
}

// add adds a window to the input of the first layer: twice the vector of each piece plus the signal
// of its position. Its vector will be added to out, weighted by its fraction of total, the number
// of pieces of the text.
func (s *scratch) add(w *weights, pieces []int32, out []float32, total int) {
	if len(pieces) == 0 {
		copy(out, w.empty[:])
		return
	}
	s.x = slices.Grow(s.x[:s.rows*inner], len(pieces)*inner)[:(s.rows+len(pieces))*inner]
	for i, p := range pieces {
		row := s.x[(s.rows+i)*inner:][:inner]
		e, t := w.embeddings[int(p)*inner:][:inner], w.timing[i*inner:][:inner]
		for j := range row {
			row[j] = e[j] + t[j]
		}
	}
	s.windows = append(s.windows, span{s.rows, s.rows + len(pieces), out, float32(len(pieces)) / float32(total)})
	s.rows += len(pieces)
}

// encode runs the rows of s through the layers and adds each window's vector to that of its text.
func (w *weights) encode(s *scratch) {
	if s.rows == 0 {
		return
	}
	first, last := &w.layers[0], &w.layers[1]
	first.down.add(s.x, first.half(s), s.rows)
	wide := last.half(s)

	// Only the mean over a window's pieces is needed, and the mean of products with a matrix equals the
	// product of the mean. So the last product is computed once per window rather than once per piece.
	n := len(s.windows)
	x, f := sized(&s.y, n*dims), sized(&s.packed, n*last.down.in)
	for i, win := range s.windows {
		mean(x[i*dims:][:dims], s.x, win)
		mean(f[i*last.down.in:][:last.down.in], wide, win)
	}
	last.down.add(x, f, n)
	out := sized(&s.x, n*dims)
	w.hidden.apply(out, x, n, false)
	for i, win := range s.windows {
		row := out[i*dims:][:dims]
		for j, v := range row {
			row[j] = float32(math.Tanh(float64(v)))
		}
		normalize(row)
		for j, v := range row {
			win.out[j] += v * win.weight
		}
	}
	s.begin()
}

// mean sets dst to the mean of the rows of x in win.
func mean(dst, x []float32, win span) {
	clear(dst)
	n := len(dst)
	for r := win.from; r < win.to; r++ {
		for j, v := range x[r*n:][:n] {
			dst[j] += v
		}
	}
	count := float32(win.to - win.from)
	for j := range dst {
		dst[j] /= count
	}
}

// apply sets y to x·w + bias for rows rows.
func (l *linear) apply(y, x []float32, rows int, relu bool) {
	for r := range rows {
		copy(y[r*l.out:], l.bias)
	}
	kernel.MatMul(y, l.out, x, l.in, l.w, rows, l.in, l.out, relu)
}

// add adds x·w + bias to y.
func (l *linear) add(y, x []float32, rows int) {
	for r := range rows {
		row := y[r*l.out:][:len(l.bias)]
		for j, b := range l.bias {
			row[j] += b
		}
	}
	kernel.MatMul(y, l.out, x, l.in, l.w, rows, l.in, l.out, false)
}

// half computes a layer of the transformer (Vaswani et al. 2017), with the norms before each part, except
// its last product: it returns the factor of that product and leaves the other summand in s.x.
func (l *layer) half(s *scratch) []float32 {
	rows := s.rows
	y := sized(&s.y, rows*dims)
	l.norm.apply(y, s.x, rows)
	qkv := sized(&s.wide, rows*l.qkv.out)
	l.qkv.apply(qkv, y, rows, false)
	width := l.out.in
	for _, win := range s.windows {
		attend(s, qkv[win.from*l.qkv.out:win.to*l.qkv.out], y[win.from*width:win.to*width], win.to-win.from, width)
	}
	if l.widen.w != nil {
		l.widen.apply(sized(&s.widened, rows*dims), s.x, rows, false)
		s.x, s.widened = s.widened, s.x
	}
	l.out.add(s.x, y, rows)
	l.ffnNorm.apply(y[:rows*dims], s.x, rows)
	wide := sized(&s.wide, rows*l.up.out)
	l.up.apply(wide, y, rows, true)
	return wide
}

// apply sets y to the rows of x, normalized to mean 0 and variance 1, then scaled and shifted.
func (l layerNorm) apply(y, x []float32, rows int) {
	n := len(l.scale)
	for r := range rows {
		in, out := x[r*n:][:n], y[r*n:][:n]
		mean := sum(in, 0, false) / float32(n)
		variance := sum(in, mean, true) / float32(n)
		f := float32(1 / math.Sqrt(float64(variance)+1e-6))
		scale, shift := l.scale[:n], l.shift[:n]
		for j, v := range in {
			out[j] = (v-mean)*f*scale[j] + shift[j]
		}
	}
}

// sum returns the sum of v or, with square, of the squared distances to mean. It uses four
// independent accumulators. The length must be a multiple of four.
func sum(v []float32, mean float32, square bool) float32 {
	var s0, s1, s2, s3 float32
	if !square {
		for ; len(v) >= 4; v = v[4:] {
			s0 += v[0]
			s1 += v[1]
			s2 += v[2]
			s3 += v[3]
		}
		return s0 + s1 + (s2 + s3)
	}
	for ; len(v) >= 4; v = v[4:] {
		d0, d1, d2, d3 := v[0]-mean, v[1]-mean, v[2]-mean, v[3]-mean
		s0 += d0 * d0
		s1 += d1 * d1
		s2 += d2 * d2
		s3 += d3 * d3
	}
	return s0 + s1 + (s2 + s3)
}
