package vector

import (
	"math"
	"slices"
	"sync"
	"time"

	"helix/backend/kernel"
)

const (
	narrowFrom  = 256        // number of candidates from which on compact rows are used
	mostCompact = exactBelow // maximum number of compact rows: 10 MB with 512 values
)

// compact holds some rows of a chunk with one byte per value. The product with a compact row is
// within a known bound of the exact one, so it shows which rows need not be read; the results of a
// search are the same. The rows are those that were recently scored exactly. To add
// rows, the compact is replaced.
type compact struct {
	have   [chunkRows / 64]uint64 // rows that are here and unchanged in the file; guarded by mu
	rows   []uint16               // sorted
	values []int8                 // byteStride per row
	scale  []float32              // a value times this approximates that of the row
	slack  []float32              // length of the remainder of the row
}

// compacts is the state of all compact rows of an Index. Its lock is only tried: if it is taken,
// the file is read instead.
type compacts struct {
	mu   sync.Mutex
	rows int       // in all chunks
	most int       // maximum of rows
	used time.Time // last use
}

// byteStride returns the length of a compact row.
func (ix *Index) byteStride() int {
	return (ix.dims + kernel.ByteLanes - 1) / kernel.ByteLanes * kernel.ByteLanes
}

// byteQuery is a query in the form for products with compact rows.
type byteQuery struct {
	values []int16
	scale  float64
	length float64 // of the query
	left   float64 // length of the rounding remainder
	ground float64 // bound on the rounding error of any score
}

// narrowing is the working memory of narrow.
type narrowing struct {
	query byteQuery
	sums  []int32
	at    []int     // position of each wanted row in the compact one; below 0: not there
	upper []float32 // upper bound of each slot's score
	lower []float32 // the k greatest lower bounds: a heap, least first
}

// narrow removes slots that cannot be among the best k. The remaining slots are in order. The
// caller holds searching.
func (ix *Index) narrow(s *scratch, slots []uint32, k int) []uint32 {
	if !ix.compacting || len(slots) < max(narrowFrom, 2*k) {
		return slots
	}
	n := &s.narrow
	ix.remember(s, slots)
	n.query.set(s.query, ix.byteStride())
	n.upper, n.lower = slices.Grow(n.upper[:0], len(slots)), n.lower[:0]
	for part, c := range byChunk(slots) {
		ix.bound(n, s.chunks[c], part, k)
	}
	if len(n.lower) < k {
		return slots
	}
	least := n.lower[0]
	kept := slots[:0]
	for i, slot := range slots {
		if n.upper[i] >= least {
			kept = append(kept, slot)
		}
	}
	return kept
}

// byChunk yields the parts of slots, which are sorted, that are in one chunk.
func byChunk(slots []uint32) func(yield func([]uint32, int) bool) {
	return func(yield func([]uint32, int) bool) {
		for len(slots) > 0 {
			c := slots[0] / chunkRows
			n, _ := slices.BinarySearch(slots, (c+1)*chunkRows)
			if !yield(slots[:n], int(c)) {
				return
			}
			slots = slots[n:]
		}
	}
}

// places sets at[i] to the position of slots[i] in the compact rows, or below 0, and returns the
// number found. The caller holds mu.
func (p *compact) places(slots []uint32, at []int) int {
	found, j := 0, 0
	for i, slot := range slots {
		row := slot % chunkRows
		at[i] = -1
		if p == nil || p.have[row/64]>>(row%64)&1 == 0 {
			continue
		}
		for uint32(p.rows[j]) < row {
			j++
		}
		at[i] = j
		found++
	}
	return found
}

// bound appends to n.upper an upper bound of the score of each slot of one chunk.
func (ix *Index) bound(n *narrowing, ch *chunk, slots []uint32, k int) {
	n.at = slices.Grow(n.at[:0], len(slots))[:len(slots)]
	ix.mu.RLock()
	p := ch.compact
	found := p.places(slots, n.at)
	ix.mu.RUnlock()
	q := &n.query
	stride := len(q.values)
	whole := p != nil && found*4 >= len(p.rows) // one call for all rows is faster than one for each
	if whole {
		n.sums = slices.Grow(n.sums[:0], len(p.rows))[:len(p.rows)]
		kernel.DotBytes(q.values, p.values, n.sums)
	} else {
		n.sums = slices.Grow(n.sums[:0], 1)[:1]
	}
	for _, at := range n.at {
		if at < 0 {
			n.upper = append(n.upper, float32(math.Inf(1)))
			continue
		}
		sum := n.sums
		if whole {
			sum = n.sums[at:]
		} else {
			kernel.DotBytes(q.values, p.values[at*stride:(at+1)*stride], sum)
		}
		score, slack := float64(sum[0])*q.scale*float64(p.scale[at]), q.slack(p.slack[at])
		n.upper = append(n.upper, float32(score+slack))
		n.keep(float32(score-slack), k)
	}
}

// keep adds the lower bound of a score to the k greatest.
func (n *narrowing) keep(low float32, k int) {
	h := n.lower
	if len(h) < k {
		h = append(h, low)
		for i := len(h) - 1; i > 0 && h[(i-1)/2] > h[i]; i = (i - 1) / 2 {
			h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
		}
		n.lower = h
		return
	}
	if low <= h[0] {
		return
	}
	i := 0
	for {
		j := 2*i + 1
		if j >= k {
			break
		}
		if j+1 < k && h[j+1] < h[j] {
			j++
		}
		if h[j] >= low {
			break
		}
		h[i] = h[j]
		i = j
	}
	h[i] = low
}

// set converts a query. The sum of its absolute values is less than the limit of kernel.DotBytes.
func (b *byteQuery) set(q []float32, stride int) {
	b.values = slices.Grow(b.values[:0], stride)[:stride]
	clear(b.values[len(q):])
	var greatest, sum, squares, left float64
	for _, x := range q {
		a := math.Abs(float64(x))
		greatest, sum, squares = max(greatest, a), sum+a, squares+a*a
	}
	b.scale = max(greatest/math.MaxInt16, sum/float64(1<<24-1-stride))
	for i, x := range q {
		v := math.RoundToEven(float64(x) / b.scale)
		b.values[i] = int16(v)
		d := float64(x) - v*b.scale
		left += d * d
	}
	b.length, b.left = math.Sqrt(squares), math.Sqrt(left)
	// Half a unit in the last place of float32 for each step of a sum, doubled.
	b.ground = float64(len(q)+64) * 0x1p-23
}

// slack returns the maximum difference between the exact score of a row and the approximate one.
// With x = s + e for a row and q = t + f for the query, q·x − t·s = q·e + f·s, and by Cauchy and
// Schwarz the absolute values of the two are at most |q||e| and |f||s|; |s| ≤ |x| + |e|, and rows
// have length 1, approximately.
func (b *byteQuery) slack(row float32) float64 {
	return b.length*float64(row) + b.left*(1.01+float64(row)) + b.ground
}

// squeeze converts a row to bytes and returns the factor to multiply them with, and the length of
// the remainder, rounded up.
func squeeze(dst []int8, row []float32) (scale, slack float32) {
	greatest := float32(0)
	for _, x := range row {
		greatest = max(greatest, max(x, -x))
	}
	scale = greatest / 127
	var left float64
	for i, x := range row {
		// Adding this to a float32 leaves no bits for a fraction, so it is rounded.
		const round = 3 << 22
		v := x/scale + round
		c := int32(math.Float32bits(v)) - 0x4b400000
		dst[i] = int8(min(127, max(-127, c)))
		d := float64(x) - float64(scale)*float64(dst[i])
		left += d * d
	}
	clear(dst[len(row):])
	return scale, float32(math.Sqrt(left)*(1+1e-6) + 1e-9)
}

// remember creates compact rows for the slots without one, unless there are few. If there would be
// too many, all existing compact rows are dropped.
func (ix *Index) remember(s *scratch, slots []uint32) {
	k := &ix.compacts
	if !k.mu.TryLock() {
		return
	}
	defer k.mu.Unlock()
	k.used = time.Now()
	if len(slots) > k.most {
		return
	}
	missing := ix.lacking(s, slots)
	if missing*64 < len(slots) {
		return
	}
	if k.rows+missing > k.most {
		ix.forget(s.chunks)
	}
	for part, c := range byChunk(slots) {
		k.rows += ix.squeezeChunk(s, s.chunks[c], part)
	}
}

// lacking returns the number of slots without a compact row.
func (ix *Index) lacking(s *scratch, slots []uint32) int {
	n := 0
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	for _, slot := range slots {
		row := slot % chunkRows
		if p := s.chunks[slot/chunkRows].compact; p == nil || p.have[row/64]>>(row%64)&1 == 0 {
			n++
		}
	}
	return n
}

// forget drops all compact rows. The caller holds compacts.mu.
func (ix *Index) forget(chunks []*chunk) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	for _, ch := range chunks {
		ch.compact = nil
	}
	ix.compacts.rows = 0
}

// squeezeChunk adds slots of one chunk to its compact rows and returns by how many rows they have
// grown. It skips rows that cannot be read.
func (ix *Index) squeezeChunk(s *scratch, ch *chunk, slots []uint32) int {
	ix.mu.RLock()
	old := ch.compact
	var had, want [chunkRows / 64]uint64
	if old != nil {
		had = old.have
		for w := range had {
			had[w] &= ch.live[w]
		}
	}
	ix.mu.RUnlock()
	more := 0
	for _, slot := range slots {
		if row := slot % chunkRows; had[row/64]>>(row%64)&1 == 0 {
			want[row/64] |= 1 << (row % 64)
			more++
		}
	}
	if more == 0 || old != nil && more*16 < len(old.rows) {
		return 0
	}
	first, stride := slots[0]/chunkRows*chunkRows, ix.byteStride()
	next := &compact{}
	total := more
	if old != nil {
		total += len(old.rows)
	}
	next.rows = make([]uint16, 0, total)
	next.values = make([]int8, total*stride)
	next.scale, next.slack = make([]float32, 0, total), make([]float32, 0, total)
	put := func(row uint32, scale, slack float32) {
		next.rows, next.scale, next.slack = append(next.rows, uint16(row)), append(next.scale, scale), append(next.slack, slack)
		next.have[row/64] |= 1 << (row % 64)
	}
	j := 0
	for row := range uint32(chunkRows) {
		dst := next.values[len(next.rows)*stride:]
		switch {
		case had[row/64]>>(row%64)&1 != 0:
			for uint32(old.rows[j]) < row {
				j++
			}
			copy(dst, old.values[j*stride:(j+1)*stride])
			put(row, old.scale[j], old.slack[j])
		case want[row/64]>>(row%64)&1 != 0:
			rec, err := ix.file.read(&s.records, first+row, 1)
			if err != nil {
				continue // the error will be counted when the row is scored
			}
			scale, slack := squeeze(dst[:stride], rec[recordFloats:])
			put(row, scale, slack)
		}
	}
	next.values = next.values[:len(next.rows)*stride]
	before := 0
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if old != nil { // skip what was overwritten meanwhile
		before = len(old.rows)
		for w := range next.have {
			next.have[w] &^= had[w] &^ old.have[w]
		}
	}
	ch.compact = next
	return len(next.rows) - before
}

// Rest frees what searches keep for later ones if it has been unused for that long.
func (ix *Index) Rest(unused time.Duration) {
	k := &ix.compacts
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.rows == 0 || time.Since(k.used) < unused {
		return
	}
	ix.mu.RLock()
	chunks := slices.Clone(ix.chunks)
	ix.mu.RUnlock()
	ix.forget(chunks)
}

// bytes returns the memory that the compact rows of a chunk take.
func (p *compact) bytes() int64 {
	if p == nil {
		return 0
	}
	return int64(cap(p.values)+2*cap(p.rows)+4*cap(p.scale)+4*cap(p.slack)) + int64(len(p.have)*8+96)
}
