package audio

import (
	"bufio"
	"io"
	"math"
	"strconv"
	"sync"
)

// layer3 decodes the frames of MPEG-1, MPEG-2 and MPEG-2.5 audio layer III (ISO 11172-3, ISO 13818-3).
type layer3 struct {
	r        *bufio.Reader
	channels int
	rate     int
	synced   bool // the reader is at the end of a frame

	borrowed []byte // the last bytes of audio data, which later frames may use
	data     []byte
	granules [2][2]mp3Granule
	shared   [2][4]bool // the second granule shares scale factors of the first
	lines    [2][granuleLines]float32
	reorder  [granuleLines]float32
	filters  [2]hybrid
	out      []float32
}

// openLayer3 finds the first frame.
func openLayer3(r *bufio.Reader) (*layer3, error) {
	d := &layer3{r: r, out: make([]float32, 0, 2*2*granuleLines)}
	h, err := d.find()
	if err != nil {
		return nil, err
	}
	d.channels, d.rate = h.channels, h.rate
	return d, nil
}

// find skips to the next frame. Where one is not expected, the header of the frame behind it must fit too.
func (d *layer3) find() (mp3Header, error) {
	for {
		b, _ := d.r.Peek(4)
		if len(b) < 4 {
			return mp3Header{}, io.EOF
		}
		h, ok := parseMP3Header(b)
		if ok && d.rate != 0 && h.rate != d.rate {
			ok = false
		}
		if ok && !d.synced {
			next, _ := d.r.Peek(h.size + 4)
			if len(next) >= h.size+4 {
				after, fits := parseMP3Header(next[h.size:])
				ok = fits && after.rate == h.rate
			}
		}
		if ok {
			return h, nil
		}
		d.synced = false
		if _, err := d.r.Discard(1); err != nil {
			return mp3Header{}, err
		}
	}
}

// next returns the interleaved samples of a frame, which are valid until the next call.
func (d *layer3) next() ([]float32, error) {
	h, err := d.find()
	if err != nil {
		return nil, err
	}
	frame, err := d.r.Peek(h.size)
	if err != nil {
		return nil, io.EOF // the frame is cut off
	}
	side := 4
	if h.checksum {
		side += 2
	}
	d.out = d.out[:h.samples*d.channels]
	clear(d.out)
	if side+h.sideInfo <= h.size {
		d.frame(h, frame[side:side+h.sideInfo], frame[side+h.sideInfo:])
	}
	d.synced = true
	_, err = d.r.Discard(h.size)
	return d.out, err
}

// frame decodes a frame. One that uses bytes of a missing frame is silent.
func (d *layer3) frame(h mp3Header, side, data []byte) {
	d.data = append(append(d.data[:0], side...), make([]byte, bitPadding)...)
	begin := d.readSideInfo(h, &bitReader{data: d.data})
	missing := begin > len(d.borrowed)
	d.data = append(append(append(d.data[:0], d.borrowed[max(0, len(d.borrowed)-begin):]...), data...), make([]byte, bitPadding)...)
	d.borrowed = append(d.borrowed, data...)
	if n := len(d.borrowed); n > mostBorrow {
		d.borrowed = append(d.borrowed[:0], d.borrowed[n-mostBorrow:]...)
	}
	b := bitReader{data: d.data}
	for n := range h.samples / granuleLines {
		for c := range h.channels {
			g := &d.granules[n][c]
			if missing {
				g.lines = 0
				clear(d.lines[c][:])
				continue
			}
			end := min(b.at+g.bits, 8*(len(d.data)-bitPadding))
			d.readFactors(h, n, c, &b)
			g.readLines(&b, end, &d.lines[c])
		}
		if h.channels == 2 && !missing {
			l, r := &d.granules[n][0], &d.granules[n][1]
			switch {
			case h.intensity:
				d.intensity(h, n)
			case h.middle:
				l.lines = max(l.lines, r.lines)
				r.lines = l.lines
				toLeftRight(d.lines[0][:l.lines], d.lines[1][:l.lines])
			}
		}
		for c := range h.channels {
			d.channel(&d.granules[n][c], c)
			out := d.out[n*granuleLines*d.channels:]
			switch {
			case h.channels == d.channels:
				d.filters[c].synthesize(&d.lines[c], out[c:], d.channels)
			case d.channels == 2: // a frame with one channel in a stream of two
				d.filters[0].synthesize(&d.lines[0], out, 2)
				for i := 0; i < 2*granuleLines; i += 2 {
					out[i+1] = out[i]
				}
			case c == 0:
				d.filters[0].synthesize(&d.lines[0], out, 1)
			}
		}
	}
}

// channel turns the lines of a channel into the samples of 32 subbands.
func (d *layer3) channel(g *mp3Granule, c int) {
	x := &d.lines[c]
	long := 32 // subbands with long blocks
	if g.short() {
		if long = 0; g.mixed {
			long = 2
		}
		d.interleave(g, x)
		g.lines = granuleLines
	}
	// Butterflies between subbands reduce their aliases.
	t := layer3Tables()
	for s := 1; s < min(long, (g.lines+17)/18+1); s++ {
		for i := range 8 {
			a, b := x[18*s-1-i], x[18*s+i]
			x[18*s-1-i], x[18*s+i] = a*t.cs[i]-b*t.ca[i], b*t.cs[i]+a*t.ca[i]
		}
	}
	used := min(32, (g.lines+17)/18+1) // the butterflies reach one subband further
	for s := range 32 {
		block := g.block
		if s < long && g.short() || !g.switched {
			block = 0
		}
		d.filters[c].transform(x[18*s:18*s+18], s, block, s >= used)
	}
}

// interleave orders the lines of short blocks by frequency instead of by window.
func (d *layer3) interleave(g *mp3Granule, x *[granuleLines]float32) {
	at := 0
	for i := 0; i < len(g.bands); i++ {
		w := g.bands[i]
		if i < g.long {
			at += w
			continue
		}
		in, out := x[at:at+3*w], d.reorder[:3*w]
		for k := range w {
			out[3*k], out[3*k+1], out[3*k+2] = in[k], in[w+k], in[2*w+k]
		}
		copy(in, out)
		at += 3 * w
		i += 2
	}
}

// codeTable decodes a Huffman code, eight bits at a time where that suffices.
type codeTable struct {
	fast [256]uint16 // of the next eight bits: a value and the number of its bits, or a node with longBit
	tree [][2]uint16 // of each node: what follows 0 and 1
}

const (
	leafBit = 0x8000 // of an entry of the tree: a value
	longBit = 0x8000 // of an entry of fast: a node
)

// parseTree reads a tree in the notation of huffmanTrees and returns its entry and the rest of the text.
func (c *codeTable) parseTree(text string) (uint16, string) {
	if text[0] != '.' {
		v, err := strconv.ParseUint(text[:2], 16, 8)
		if err != nil {
			panic("audio: " + err.Error())
		}
		return leafBit | uint16(v), text[2:]
	}
	n := len(c.tree)
	c.tree = append(c.tree, [2]uint16{})
	left, rest := c.parseTree(text[1:])
	right, rest := c.parseTree(rest)
	c.tree[n] = [2]uint16{left, right}
	return uint16(n), rest
}

func newCodeTable(text string) *codeTable {
	c := &codeTable{}
	c.parseTree(text)
	for i := range c.fast {
		node, n := uint16(0), 0
		for ; n < 8 && node&leafBit == 0; n++ {
			node = c.tree[node][i>>(7-n)&1]
		}
		if node&leafBit != 0 {
			c.fast[i] = uint16(n)<<8 | node&0xFF
		} else {
			c.fast[i] = longBit | node
		}
	}
	return c
}

func (c *codeTable) read(b *bitReader) int {
	bits := b.peek()
	v := c.fast[bits>>24]
	if v&longBit == 0 {
		b.at += int(v >> 8)
		return int(v & 0xFF)
	}
	node, n := v&^longBit, 8
	for ; node&leafBit == 0; n++ {
		node = c.tree[node][bits>>(31-n)&1]
	}
	b.at += n
	return int(node & 0xFF)
}

// tables are computed once.
type tables struct {
	codes  [34]*codeTable
	extra  [34]int            // bits that are added to a value of 15
	powers [8192 + 16]float32 // n to the power of 4/3
	cs, ca [8]float32         // of the butterflies
	window [4][36]float32     // of the inverse transform, by block type
	dct18  [18][18]float32
	dct6   [6][6]float32
	synth  [512]float32
}

var layer3Tables = sync.OnceValue(func() *tables {
	t := &tables{}
	for i, text := range huffmanTrees {
		t.codes[i] = newCodeTable(text)
	}
	for i, bits := range []int{1, 2, 3, 4, 6, 8, 10, 13} {
		t.codes[16+i], t.extra[16+i] = t.codes[16], bits
	}
	for i, bits := range []int{4, 5, 6, 7, 8, 9, 11, 13} {
		t.codes[24+i], t.extra[24+i] = t.codes[24], bits
	}
	for i := range t.powers {
		t.powers[i] = float32(math.Pow(float64(i), 4.0/3))
	}
	for i, c := range []float64{-0.6, -0.535, -0.33, -0.185, -0.095, -0.041, -0.0142, -0.0037} {
		t.cs[i], t.ca[i] = float32(1/math.Sqrt(1+c*c)), float32(c/math.Sqrt(1+c*c))
	}
	sine := func(i, n int) float32 { return float32(math.Sin(math.Pi * (float64(i) + 0.5) / float64(n))) }
	for i := range 36 {
		t.window[0][i] = sine(i, 36)
		if i < 12 {
			t.window[shortBlock][i] = sine(i, 12)
		}
		switch {
		case i < 18:
			t.window[1][i] = sine(i, 36)
		case i < 24:
			t.window[1][i] = 1
		case i < 30:
			t.window[1][i] = sine(i-18, 12)
		}
		t.window[3][35-i] = t.window[1][i] // a long block after short ones is the mirror image
	}
	for n := range 18 {
		for k := range 18 {
			t.dct18[n][k] = float32(math.Cos(math.Pi / 72 * float64((2*n+1)*(2*k+1))))
		}
	}
	for n := range 6 {
		for k := range 6 {
			t.dct6[n][k] = float32(math.Cos(math.Pi / 24 * float64((2*n+1)*(2*k+1))))
		}
	}
	for i := range t.synth {
		v := synthesisWindow[min(i, 512-i)]
		if i > 256 && i%64 != 0 {
			v = -v
		}
		t.synth[i] = float32(v) / (1 << 16)
	}
	return t
})

// value reads the rest of a value and its sign.
func (t *tables) value(b *bitReader, v, extra int) float32 {
	if v == 0 {
		return 0
	}
	if v == 15 && extra > 0 {
		v += b.read(extra)
	}
	if b.flag() {
		return -t.powers[v]
	}
	return t.powers[v]
}
