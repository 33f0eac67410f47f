// Package cluster groups vectors by cosine distance, which is 1 − cosine. Results are bit-for-bit
// reproducible: they depend neither on the number of threads nor on unseeded randomness.
package cluster

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"helix/backend/kernel"
)

// Noise is the label of points in no cluster.
const Noise = -1

// Points are vectors of unit length.
type Points struct {
	n, dim int
	x      []float32 // row-major
	packed []float32 // the same for kernel.MatMul: one column per point
	valid  []bool
}

// New copies vectors of equal length and normalizes them. Zero vectors and those with a value that
// is not finite are noise in every result.
func New(vectors [][]float32) *Points {
	p := &Points{n: len(vectors), valid: make([]bool, len(vectors))}
	for _, v := range vectors {
		p.dim = max(p.dim, len(v))
	}
	p.x = make([]float32, p.n*p.dim)
	for i, v := range vectors {
		var sum float64
		for _, f := range v {
			sum += float64(f) * float64(f)
		}
		if len(v) != p.dim || sum == 0 || math.IsNaN(sum) || math.IsInf(sum, 0) {
			continue
		}
		p.valid[i] = true
		scale := 1 / math.Sqrt(sum)
		row := p.row(i)
		for k, f := range v {
			row[k] = float32(float64(f) * scale)
		}
	}
	return p
}

func (p *Points) row(i int) []float32 { return p.x[i*p.dim : (i+1)*p.dim] }

// Cosine returns the cosine of two points.
func (p *Points) Cosine(i, j int) float64 { return float64(kernel.Dot(p.row(i), p.row(j))) }

// pack stores the points as columns for the matrix kernel.
func (p *Points) pack() {
	if p.packed != nil {
		return
	}
	const w = kernel.PanelWidth
	p.packed = make([]float32, kernel.PackedLen(p.dim, p.n))
	for j := 0; j < p.n; j += w {
		panel := p.packed[j*p.dim:]
		for c := range min(w, p.n-j) {
			for k, f := range p.row(j + c) {
				panel[k*w+c] = f
			}
		}
	}
}

// Sizes of the tiles in which all pairs are compared, so that a tile of results fits in the cache.
const (
	tileRows = 128
	tileCols = 512
)

// pairs visits the cosines of all pairs of points. If half is set it visits each pair in at least
// one order, else in both.
func (p *Points) pairs(ctx context.Context, half bool, visit func(task, i, rows, j, cols int, cos []float32, ld int)) error {
	return p.against(ctx, p, half, visit)
}

// against calls visit with tiles of cosines: row r of a tile contains the cosines of point i+r with the
// points of q from j on. Tiles of one task, the rows from i on, come in order; tasks run concurrently.
func (p *Points) against(ctx context.Context, q *Points, half bool, visit func(task, i, rows, j, cols int, cos []float32, ld int)) error {
	q.pack()
	tasks := (p.n + tileRows - 1) / tileRows
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), tasks) {
		wg.Go(func() {
			buf := make([]float32, tileRows*tileCols)
			for {
				t := int(next.Add(1)) - 1
				if t >= tasks {
					return
				}
				i := t * tileRows
				rows := min(tileRows, p.n-i)
				from := 0
				if half {
					from = i / tileCols * tileCols
				}
				for j := from; j < q.n; j += tileCols {
					if ctx.Err() != nil {
						return
					}
					cols := min(tileCols, q.n-j)
					clear(buf)
					kernel.MatMul(buf, tileCols, p.x[i*p.dim:], p.dim, q.packed[j*p.dim:], rows, p.dim, cols, false)
					visit(t, i, rows, j, cols, buf, tileCols)
				}
			}
		})
	}
	wg.Wait()
	return ctx.Err()
}
