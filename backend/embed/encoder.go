package embed

import (
	"math"
	"slices"

	"helix/backend/kernel"
)

const (
	heads   = 4
	epsilon = 1e-6 // keeps a layer norm from dividing by zero
)

// scratch is the memory of one call, kept for the next.
type scratch struct {
	pieces  []int32 // of the text that is being read
	rows    int     // pieces that wait for the encoder
	windows []span

	x, y, wide, scores, keys []float32
}

// span is a window among the rows of a scratch.
type span struct {
	from, to int
	out      []float32 // takes the window's vector
	weight   float32   // times this
}

func (s *scratch) begin() { s.rows, s.windows = 0, s.windows[:0] }

func sized(b *[]float32, n int) []float32 {
	if cap(*b) < n {
		*b = make([]float32, n)
	}
	*b = (*b)[:n]
	return *b
}

// add puts a window into the first layer's input: twice the vector of each piece plus the
// signal of its place. Its vector goes to out, by its share of the text's total pieces.
func (s *scratch) add(w *weights, pieces []int32, out []float32, total int) {
	if len(pieces) == 0 {
		copy(out, w.empty[:])
		return
	}
	const inner = 256
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

// encode runs the rows of s through the layers and adds each window's vector to its text's.
func (w *weights) encode(s *scratch) {
	if s.rows == 0 {
		return
	}
	for i := range w.layers {
		w.layers[i].run(s)
	}
	y, mean := sized(&s.y, dims), sized(&s.wide, dims)
	for _, win := range s.windows {
		clear(mean)
		for r := win.from; r < win.to; r++ {
			for j, v := range s.x[r*dims:][:dims] {
				mean[j] += v
			}
		}
		for j := range mean {
			mean[j] /= float32(win.to - win.from)
		}
		w.hidden.apply(y, mean, 1, false)
		var sum float64
		for j, v := range y {
			t := float32(math.Tanh(float64(v)))
			y[j] = t
			sum += float64(t) * float64(t)
		}
		scale := float64(win.weight) / math.Sqrt(max(sum, 1e-12))
		for j, v := range y {
			win.out[j] += float32(float64(v) * scale)
		}
	}
	s.begin()
}

// apply sets y to x·w + bias for rows rows.
func (l linear) apply(y, x []float32, rows int, relu bool) {
	for r := range rows {
		copy(y[r*l.out:], l.bias)
	}
	kernel.MatMul(y, l.out, x, l.in, l.w, rows, l.in, l.out, relu)
}

// add adds x·w + bias to y.
func (l linear) add(y, x []float32, rows int) {
	for r := range rows {
		for j, b := range l.bias {
			y[r*l.out+j] += b
		}
	}
	kernel.MatMul(y, l.out, x, l.in, l.w, rows, l.in, l.out, false)
}

// run is one layer of the transformer (Vaswani et al. 2017), with the norms before each part.
func (l *layer) run(s *scratch) {
	rows, in := s.rows, l.qkv.in
	y := sized(&s.y, rows*dims)
	l.norm.apply(y, s.x, rows)
	qkv := sized(&s.wide, rows*l.qkv.out)
	l.qkv.apply(qkv, y, rows, false)
	for _, win := range s.windows {
		attend(s, qkv[win.from*l.qkv.out:win.to*l.qkv.out], y[win.from*in:], win.to-win.from, in)
	}
	if l.widen.w != nil {
		widened := sized(&s.keys, rows*dims)
		l.widen.apply(widened, s.x, rows, false)
		s.x, s.keys = widened, s.x
	}
	l.out.add(s.x, y, rows)
	y = sized(&s.y, rows*dims)
	l.ffnNorm.apply(y, s.x, rows)
	wide := sized(&s.wide, rows*l.up.out)
	l.up.apply(wide, y, rows, true)
	l.down.add(s.x, wide, rows)
}

// attend is the attention of one window: qkv holds queries, keys and values of n pieces, each
// width floats; y takes the result.
func attend(s *scratch, qkv, y []float32, n, width int) {
	size := width / heads
	scale := float32(1 / math.Sqrt(float64(size)))
	scores := sized(&s.scores, n)
	for h := range heads {
		for i := range n {
			q := qkv[i*3*width+h*size:][:size]
			top := float32(math.Inf(-1))
			for j := range scores {
				scores[j] = scale * kernel.Dot(q, qkv[j*3*width+width+h*size:][:size])
				top = max(top, scores[j])
			}
			var sum float32
			for j, v := range scores {
				scores[j] = float32(math.Exp(float64(v - top)))
				sum += scores[j]
			}
			out := y[i*width+h*size:][:size]
			clear(out)
			for j, p := range scores {
				p /= sum
				for k, v := range qkv[j*3*width+2*width+h*size:][:size] {
					out[k] += p * v
				}
			}
		}
	}
}

// apply sets y to the rows of x with mean 0 and variance 1, scaled and shifted.
func (l layerNorm) apply(y, x []float32, rows int) {
	n := len(l.scale)
	for r := range rows {
		in, out := x[r*n:][:n], y[r*n:][:n]
		var sum, squares float64
		for _, v := range in {
			sum += float64(v)
		}
		mean := sum / float64(n)
		for _, v := range in {
			d := float64(v) - mean
			squares += d * d
		}
		f := 1 / math.Sqrt(squares/float64(n)+epsilon)
		for j, v := range in {
			out[j] = float32((float64(v)-mean)*f)*l.scale[j] + l.shift[j]
		}
	}
}
