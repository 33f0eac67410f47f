package audio

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	vorbisdec "github.com/jfreymuth/vorbis"
)

// oggPage is one page of an Ogg file (RFC 3533).
type oggPage struct {
	flags   byte
	granule int64
	serial  uint32
	seq     uint32
	lacing  []byte
	body    []byte
}

const (
	oggContinued = 1
	oggFirst     = 2
	oggLast      = 4
	maxPacket    = 1 << 20 // bytes; an Opus packet has at most 61,298
)

// oggReader reads the pages of an Ogg file and skips damaged parts.
type oggReader struct {
	r    *bufio.Reader
	page oggPage
	buf  [255 + 255*255]byte
}

// next reads the next complete page.
func (o *oggReader) next() (*oggPage, error) {
	for {
		b, err := o.r.Peek(27)
		if err != nil {
			return nil, io.EOF
		}
		if string(b[:4]) != "OggS" || b[4] != 0 {
			o.resync(b)
			continue
		}
		segments := int(b[26])
		p := &o.page
		p.flags, p.granule = b[5], int64(binary.LittleEndian.Uint64(b[6:]))
		p.serial, p.seq = binary.LittleEndian.Uint32(b[14:]), binary.LittleEndian.Uint32(b[18:])
		sum := binary.LittleEndian.Uint32(b[22:])
		if b, err = o.r.Peek(27 + segments); err != nil {
			return nil, io.EOF
		}
		size := 27 + segments
		for _, l := range b[27:] {
			size += int(l)
		}
		if b, err = o.r.Peek(size); err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			o.r.Discard(1) //nolint:errcheck // was peeked; the last page is cut off, or its size is wrong
			continue
		}
		if err != nil || oggSum(b) != sum {
			o.r.Discard(1) //nolint:errcheck // was peeked
			continue
		}
		n := copy(o.buf[:], b[27:])
		p.lacing, p.body = o.buf[:segments], o.buf[segments:n]
		o.r.Discard(size) //nolint:errcheck // was peeked
		return p, nil
	}
}

// resync skips to the next position at which a page may begin.
func (o *oggReader) resync(b []byte) {
	n := len(b) - 3
	if i := bytes.Index(b[1:], []byte("OggS")); i >= 0 {
		n = i + 1
	}
	o.r.Discard(n) //nolint:errcheck // was peeked
}

// oggSum returns the checksum of a page, computed as if the checksum field were zero.
func oggSum(page []byte) (sum uint32) {
	for i, c := range page {
		if i >= 22 && i < 26 {
			c = 0
		}
		sum = sum<<8 ^ oggTable[byte(sum>>24)^c]
	}
	return sum
}

var oggTable = func() (t [256]uint32) {
	for i := range t {
		r := uint32(i) << 24
		for range 8 {
			if r&(1<<31) != 0 {
				r = r<<1 ^ 0x04c11db7
			} else {
				r <<= 1
			}
		}
		t[i] = r
	}
	return t
}()

// openOgg opens the first audio stream of an Ogg file.
func openOgg(r *bufio.Reader) (decoder, error) {
	o := &oggPackets{o: oggReader{r: bufio.NewReaderSize(r, 128<<10)}, end: -1} // must hold a whole page
	for {
		p, err := o.o.next()
		if err != nil {
			return nil, errors.New("neither Opus nor Vorbis")
		}
		if p.flags&oggFirst == 0 {
			continue
		}
		o.serial, o.seq = p.serial, p.seq
		switch head := bytes.Clone(p.body); {
		case bytes.HasPrefix(head, []byte("OpusHead")):
			o.frames = packetFrames
			if _, err := o.header(); err != nil { // comment header
				return nil, err
			}
			return newOpus("ogg", head, o)
		case bytes.HasPrefix(head, []byte("\x01vorbis")):
			return openVorbis(head, o)
		}
	}
}

// oggPackets reads the packets of one stream in an Ogg file.
type oggPackets struct {
	o       oggReader
	serial  uint32
	seq     uint32
	frames  func(packet []byte) int // length of a packet; nil if the codec's packets do not contain it
	sound   bool                    // the headers have been read
	packets [][]byte                // packets of the pages read so far
	part    []byte                  // beginning of a packet that the next page continues
	dropped bool                    // the beginning of the continued packet is lost
	origin  int64                   // granule position of the first sample
	placed  bool                    // origin is set
	end     int64                   // granule position of the end; -1 if not known yet
	ended   bool
}

// header reads one header packet.
func (o *oggPackets) header() ([]byte, error) {
	for len(o.packets) == 0 {
		if err := o.page(); err != nil {
			return nil, errors.New("the headers are cut off")
		}
	}
	p := o.packets[0]
	o.packets = o.packets[1:]
	return p, nil
}

// page reads the next page of the stream and adds the packets that end on it.
func (o *oggPackets) page() error {
	p, err := o.o.next()
	if err != nil {
		return err
	}
	if p.serial != o.serial {
		return nil
	}
	if p.seq != o.seq+1 {
		o.part, o.dropped = nil, true // pages are missing
	}
	o.seq = p.seq
	if p.flags&oggContinued == 0 {
		o.part, o.dropped = nil, false
	}
	body := p.body
	total, found := int64(0), false
	for _, l := range p.lacing {
		o.part = append(o.part, body[:l]...)
		body = body[l:]
		if len(o.part) > maxPacket {
			o.part, o.dropped = nil, true
		}
		if l == 255 {
			continue
		}
		if !o.dropped && len(o.part) > 0 {
			o.packets, found = append(o.packets, o.part), true
			if o.frames != nil {
				total += int64(o.frames(o.part))
			}
		}
		o.part, o.dropped = nil, false
	}
	if o.sound && found && p.granule >= 0 {
		if !o.placed { // a recording cut from a longer one begins later than 0
			o.placed = true
			if o.frames != nil && p.flags&oggLast == 0 {
				o.origin = max(0, p.granule-total)
			}
		}
		if p.flags&oggLast != 0 {
			o.end = p.granule
		}
	}
	o.ended = o.ended || p.flags&oggLast != 0
	return nil
}

func (o *oggPackets) next() (packet []byte, end int64, err error) {
	o.sound = true
	for len(o.packets) == 0 {
		if o.ended {
			return nil, 0, io.EOF
		}
		if err := o.page(); err != nil {
			return nil, 0, err
		}
	}
	packet = o.packets[0]
	o.packets = o.packets[1:]
	if o.end >= 0 {
		return packet, o.end - o.origin, nil
	}
	return packet, -1, nil
}

// vorbis decodes Ogg Vorbis.
type vorbis struct {
	in     *oggPackets
	d      vorbisdec.Decoder
	buf    []float32
	at     int64
	last   int // frames in the previous packet
	missed int64
}

func openVorbis(head []byte, in *oggPackets) (decoder, error) {
	v := &vorbis{in: in}
	for _, next := range []func() ([]byte, error){func() ([]byte, error) { return head, nil }, in.header, in.header} {
		p, err := next()
		if err != nil {
			return nil, err
		}
		if err := v.d.ReadHeader(p); err != nil {
			return nil, err
		}
	}
	if v.d.Channels() < 1 {
		return nil, errors.New("no channels")
	}
	v.buf = make([]float32, v.d.BufferSize())
	return v, nil
}

func (v *vorbis) info() Info {
	return Info{Format: "ogg", Codec: "vorbis", SampleRate: v.d.SampleRate(), Channels: v.d.Channels()}
}

func (v *vorbis) lost() int64 { return v.missed }

func (v *vorbis) next() ([]float32, error) {
	p, end, err := v.in.next()
	if err != nil {
		return nil, err
	}
	channels := v.d.Channels()
	var out []float32
	if err := guard(func() (err error) {
		out, err = v.d.DecodeInto(p, v.buf)
		return err
	}); err != nil {
		out = v.buf[:v.last*channels] // an estimate, to keep the times about right
		clear(out)
		v.missed += int64(v.last)
	}
	n := len(out) / channels
	v.last = n
	to := n
	if end >= 0 {
		to = max(0, int(min(int64(n), end-v.at)))
	}
	v.at += int64(n)
	return out[:to*channels], nil
}
