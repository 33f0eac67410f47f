package audio

import (
	"encoding/binary"
	"math"
	"slices"
)

const (
	granuleLines = 576
	mostBorrow   = 511 // bytes of earlier frames that a frame may use
	bitPadding   = 8   // bytes behind the data that a bitReader may look at
	shortBlock   = 2
)

// bitReader reads bits, the highest first. Its data ends with bitPadding bytes of zeros. Behind the data it
// reads zeros.
type bitReader struct {
	data []byte
	at   int // in bits
}

// peek returns the next 32 bits.
func (b *bitReader) peek() uint32 {
	i := min(b.at>>3, len(b.data)-bitPadding)
	return uint32(binary.BigEndian.Uint64(b.data[i:]) << (b.at & 7) >> 32)
}

// read returns the next n bits, at most 32.
func (b *bitReader) read(n int) int {
	v := uint64(b.peek()) >> (32 - n)
	b.at += n
	return int(v)
}

func (b *bitReader) flag() bool { return b.read(1) == 1 }

// mp3Granule is the side information of 576 lines of a channel.
type mp3Granule struct {
	bits, pairs, gain, compress int
	switched, mixed             bool
	block                       int
	tables, subGains            [3]int
	regions                     [2]int // lines at which the second and the third table begin
	preflag, coarse             bool
	fours                       int // table of the lines in groups of four

	bands   []int // widths; those of short blocks three times each, for the three windows
	long    int   // how many of them are of long blocks
	factors [40]int
	limits  [40]int // of the factors, which stand for no intensity position
	lines   int     // the last ones are zero
}

func (g *mp3Granule) short() bool { return g.switched && g.block == shortBlock }

// readSideInfo reads the side information of a frame.
func (d *layer3) readSideInfo(h mp3Header, b *bitReader) (begin int) {
	if h.low {
		begin = b.read(8)
		b.read(h.channels) // private
	} else {
		begin = b.read(9)
		b.read([]int{0, 5, 3}[h.channels])
		for c := range h.channels {
			for i := range d.shared[c] {
				d.shared[c][i] = b.flag()
			}
		}
	}
	long, short := &longBands[rateIndex(h.rate)], &shortBands[rateIndex(h.rate)]
	for n := range h.samples / granuleLines {
		for c := range h.channels {
			g := &d.granules[n][c]
			*g = mp3Granule{bits: b.read(12), pairs: min(b.read(9), granuleLines/2), gain: b.read(8), bands: g.bands[:0]}
			if h.low {
				g.compress = b.read(9)
			} else {
				g.compress = b.read(4)
			}
			first, second := 0, 0 // how many bands the first two tables are used for
			if g.switched = b.flag(); g.switched {
				g.block, g.mixed = b.read(2), b.flag()
				g.tables[0], g.tables[1] = b.read(5), b.read(5)
				for i := range g.subGains {
					g.subGains[i] = b.read(3)
				}
				first, second = 8, len(long)
				if g.block == shortBlock && !g.mixed {
					first = 9
				}
			} else {
				for i := range g.tables {
					g.tables[i] = b.read(5)
				}
				first = b.read(4) + 1
				second = first + b.read(3) + 1
			}
			if !h.low {
				g.preflag = b.flag()
			}
			g.coarse = b.flag()
			g.fours = 32 + b.read(1)
			g.layout(long, short)
			table := long[:]
			if g.short() && !g.mixed {
				table = g.bands
				second = len(table)
			}
			for i, w := range table {
				if i < first {
					g.regions[0] += w
				}
				if i < second {
					g.regions[1] += w
				}
			}
		}
	}
	return begin
}

// layout sets the widths of the bands.
func (g *mp3Granule) layout(long *[22]int, short *[13]int) {
	from := 0
	switch {
	case !g.short():
		g.bands, g.long = append(g.bands, long[:]...), len(long)
		return
	case g.mixed: // the two lowest subbands are long
		for lines := 0; lines < 2*18; lines += long[g.long] {
			g.long++
		}
		g.bands = append(g.bands, long[:g.long]...)
		from = 3
	}
	for _, w := range short[from:] {
		g.bands = append(g.bands, w, w, w)
	}
}

// readFactors reads the scale factors of a granule. The second granule may share those of the first.
func (d *layer3) readFactors(h mp3Header, n, c int, b *bitReader) {
	g := &d.granules[n][c]
	var counts [4]int
	var bits [4]int
	switch {
	case !h.low:
		low, high := int(lengths1[g.compress][0]), int(lengths1[g.compress][1])
		bits = [4]int{low, low, high, high}
		switch {
		case !g.short():
			counts = [4]int{6, 5, 5, 5}
		case g.mixed:
			counts = [4]int{17, 0, 18, 0}
		default:
			counts = [4]int{18, 0, 18, 0}
		}
	default:
		v, row := g.compress, 0
		switch intense := h.intensity && c == 1; {
		case !intense && v < 400:
			bits = [4]int{v >> 4 / 5, v >> 4 % 5, v >> 2 & 3, v & 3}
		case !intense && v < 500:
			row, v = 1, v-400
			bits = [4]int{v >> 2 / 5, v >> 2 % 5, v & 3}
		case !intense:
			row, v = 2, v-500
			bits, g.preflag = [4]int{v / 3, v % 3}, true
		case v>>1 < 180:
			row, v = 3, v>>1
			bits = [4]int{v / 36, v % 36 / 6, v % 6}
		case v>>1 < 244:
			row, v = 4, v>>1-180
			bits = [4]int{v >> 4 & 3, v >> 2 & 3, v & 3}
		default:
			row, v = 5, v>>1-244
			bits = [4]int{v / 3, v % 3}
		}
		kind := 0
		if g.short() {
			if kind = 1; g.mixed {
				kind = 2
			}
		}
		counts = counts2[kind][row]
	}
	k := 0
	for part, count := range counts {
		limit := 1<<bits[part] - 1
		if !h.low {
			limit = 7
		}
		for range count {
			if n == 1 && !g.short() && d.shared[c][part] {
				g.factors[k] = d.granules[0][c].factors[k]
			} else {
				g.factors[k] = b.read(bits[part])
			}
			g.limits[k] = limit
			k++
		}
	}
}

// gains returns the factor of each band.
func (g *mp3Granule) gains(out *[40]float32) {
	step := 2
	if g.coarse {
		step = 4
	}
	for i := range g.bands {
		quarters := g.gain - 210 - step*g.factors[i]
		if i >= g.long {
			quarters -= 8 * g.subGains[(i-g.long)%3]
		} else if g.preflag {
			quarters -= step * preEmphasis[i]
		}
		out[i] = float32(math.Exp2(float64(quarters) / 4))
	}
}

// readLines reads and scales the lines of a granule, which end at the given bit.
func (g *mp3Granule) readLines(b *bitReader, end int, x *[granuleLines]float32) {
	t := layer3Tables()
	clear(x[:])
	var gains [40]float32
	g.gains(&gains)
	band, left := 0, g.bands[0]
	scale := func() float32 { // of the next two lines
		for left == 0 && band+1 < len(g.bands) {
			band++
			left = g.bands[band]
		}
		left -= 2
		return gains[band]
	}
	at := 0
	for at < 2*g.pairs && b.at < end {
		table := g.tables[2]
		until := 2 * g.pairs
		if at < g.regions[0] {
			table, until = g.tables[0], min(until, g.regions[0])
		} else if at < g.regions[1] {
			table, until = g.tables[1], min(until, g.regions[1])
		}
		codes, extra := t.codes[table], t.extra[table]
		for ; at < until && b.at < end; at += 2 {
			gain := scale()
			if codes == nil {
				continue
			}
			v := codes.read(b)
			if v == 0 {
				continue
			}
			x[at] = gain * t.value(b, v>>4, extra)
			x[at+1] = gain * t.value(b, v&15, extra)
		}
	}
	for at <= granuleLines-4 && b.at < end {
		v := t.codes[g.fours].read(b)
		var four [4]float32
		for i := range four {
			if v>>(3-i)&1 == 1 {
				four[i] = t.value(b, 1, 0)
			}
		}
		if b.at > end { // it was not complete
			break
		}
		for i := range 2 {
			gain := scale()
			x[at+2*i], x[at+2*i+1] = gain*four[2*i], gain*four[2*i+1]
		}
		at += 4
	}
	g.lines = at
	b.at = end
}

// intensity replaces the bands in which only the left channel has lines by their shares of both.
func (d *layer3) intensity(h mp3Header, n int) {
	l, r := &d.granules[n][0], &d.granules[n][1]
	x, y := &d.lines[0], &d.lines[1]
	step := math.Exp2(-0.25)
	if r.compress&1 == 1 {
		step = math.Exp2(-0.5)
	}
	// The limit is found for each window.
	windows := 1
	if r.short() {
		windows = 3
	}
	starts := make([]int, len(r.bands)+1)
	for i, w := range r.bands {
		starts[i+1] = starts[i] + w
	}
	limit := []int{-1, -1, -1} // the last band in which the right channel has lines
	for i := range r.bands {
		if slices.ContainsFunc(y[starts[i]:starts[i+1]], func(v float32) bool { return v != 0 }) {
			if i < r.long {
				limit = []int{i, i, i}
			} else {
				limit[(i-r.long)%3] = i
			}
		}
	}
	for i := range r.bands {
		w := 0
		if i >= r.long && windows == 3 {
			w = (i - r.long) % 3
		}
		if i <= limit[w] {
			continue
		}
		k := i
		if i >= len(r.bands)-windows { // the last bands have no factors of their own
			k = i - windows
		}
		position := r.factors[k]
		if position == r.limits[k] && (position > 0 || !h.low) {
			if h.middle {
				toLeftRight(x[starts[i]:starts[i+1]], y[starts[i]:starts[i+1]])
			}
			continue
		}
		left, right := 1.0, 1.0
		switch {
		case !h.low:
			s, c := math.Sincos(float64(position) * math.Pi / 12)
			left, right = s/(s+c), c/(s+c)
		case position&1 == 1:
			left = math.Pow(step, float64(position+1)/2)
		default:
			right = math.Pow(step, float64(position)/2)
		}
		for j := starts[i]; j < starts[i+1]; j++ {
			x[j], y[j] = x[j]*float32(left), x[j]*float32(right)
		}
	}
	if h.middle {
		for i := range r.bands {
			w := 0
			if i >= r.long && windows == 3 {
				w = (i - r.long) % 3
			}
			if i <= limit[w] {
				toLeftRight(x[starts[i]:starts[i+1]], y[starts[i]:starts[i+1]])
			}
		}
	}
	l.lines = max(l.lines, r.lines)
	r.lines = l.lines
}

// toLeftRight converts lines of the middle and the side.
func toLeftRight(x, y []float32) {
	for i, m := range x {
		x[i], y[i] = (m+y[i])*(math.Sqrt2/2), (m-y[i])*(math.Sqrt2/2)
	}
}
