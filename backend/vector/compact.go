package vector

import (
	"math"
	"slices"
	"sync"
	"time"

	"helix/backend/kernel"
)

const (
	narrowFrom  = 256        // candidates from which compact rows are worth asking
	mostCompact = exactBelow // rows that are kept in compact form, at most: 10 MB at 512 values
)

// compact holds some rows of a chunk as one byte a value. A product with such a row is known
// to lie within a bound of the exact one, so it tells which rows need not be read: what is
// found is the same. The rows are those that lately were scored exactly; another compact takes
// the place of one that lacks some.
type compact struct {
	have   [chunkRows / 64]uint64 // rows that are here and in the file the same; under mu
	rows   []uint16               // in order
	values []int8                 // byteStride of each
	scale  []float32              // a value times this is near that of the row
	slack  []float32              // length of what is left of the row
}

// compacts is what an Index keeps about them. Its lock is only tried: who does not get it
// reads the file.
type compacts struct {
	mu   sync.Mutex
	rows int       // in all chunks
	most int       // and how many there may be
	used time.Time // for the last time
}

// byteStride is the length of a compact row.
func (ix *Index) byteStride() int {
	return (ix.dims + kernel.ByteLanes - 1) / kernel.ByteLanes * kernel.ByteLanes
}

// byteQuery is a query as products with compact rows need it.
type byteQuery struct {
	values []int16
	scale  float64
	length float64 // of the query
	left   float64 // length of what is left of it
	ground float64 // what rounding may add to any score
}

// narrowing is what a scratch keeps for narrow.
type narrowing struct {
	query byteQuery
	sums  []int32
	at    []int     // place of each wanted row in the compact one, below 0: it is not there
	upper []float32 // what each slot scores at most
	lower []float32 // the k greatest of what slots score at least: a heap, the least first
}

// narrow takes slots away that cannot be among the best k. The slots that are left are in order.
// The caller holds searching.
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

// byChunk yields the parts of slots, which are in order, that lie in one chunk.
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

// places sets at[i] to where the compact rows have slots[i], or below 0, and returns how many
// they have. The caller holds mu.
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

// bound appends to n.upper what each slot of one chunk scores at most.
func (ix *Index) bound(n *narrowing, ch *chunk, slots []uint32, k int) {
	n.at = slices.Grow(n.at[:0], len(slots))[:len(slots)]
	ix.mu.RLock()
	p := ch.compact
	found := p.places(slots, n.at)
	ix.mu.RUnlock()
	q := &n.query
	stride := len(q.values)
	whole := p != nil && found*4 >= len(p.rows) // one call for all is less work than one for each
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

// keep puts what a slot scores at least among the k greatest.
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

// set makes words of a query. Their sizes add up to less than what kernel.DotBytes can take.
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
	// Half a unit in the last place of float32 for each step of a sum, twice over.
	b.ground = float64(len(q)+64) * 0x1p-23
}

// slack is how far the exact score of a row may be from the one by bytes. With x = s + e for a
// row and q = t + f for the query, q·x − t·s = q·e + f·s, and by Cauchy and Schwarz the sizes of
// the two are at most |q||e| and |f||s|; |s| ≤ |x| + |e|, and rows have length 1, or nearly.
func (b *byteQuery) slack(row float32) float64 {
	return b.length*float64(row) + b.left*(1.01+float64(row)) + b.ground
}

// squeeze makes bytes of a row and returns what they are to be multiplied with and the length
// of what is left, rounded up.
func squeeze(dst []int8, row []float32) (scale, slack float32) {
	greatest := float32(0)
	for _, x := range row {
		greatest = max(greatest, max(x, -x))
	}
	scale = greatest / 127
	var left float64
	for i, x := range row {
		// Added to this, a float32 has no room for a fraction: it is rounded.
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

// remember makes compact rows of the slots that have none, unless they are few. When there
// would be too many, those that were made before are forgotten.
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

// lacking counts the slots without a compact row.
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

// forget lets all compact rows go. The caller holds compacts.mu.
func (ix *Index) forget(chunks []*chunk) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	for _, ch := range chunks {
		ch.compact = nil
	}
	ix.compacts.rows = 0
}

// squeezeChunk adds slots of one chunk to its compact rows and returns how many more there are
// now. A row that cannot be read is left out.
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
				continue // it will be read, and counted, when it is scored
			}
			scale, slack := squeeze(dst[:stride], rec[recordFloats:])
			put(row, scale, slack)
		}
	}
	next.values = next.values[:len(next.rows)*stride]
	before := 0
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if old != nil { // what was written over meanwhile
		before = len(old.rows)
		for w := range next.have {
			next.have[w] &^= had[w] &^ old.have[w]
		}
	}
	ch.compact = next
	return len(next.rows) - before
}

// Rest lets go of what searches have kept for the next ones, when there was none for so long.
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

// bytes is the memory that the compact rows of a chunk take.
func (p *compact) bytes() int64 {
	if p == nil {
		return 0
	}
	return int64(cap(p.values)+2*cap(p.rows)+4*cap(p.scale)+4*cap(p.slack)) + int64(len(p.have)*8+96)
}
