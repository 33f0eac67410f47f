package audio

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/jfreymuth/oggvorbis"
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
	maxPacket    = 1 << 20 // bytes; a packet of Opus has at most 61,298
)

// oggReader finds the pages of an Ogg file. What is damaged is skipped.
type oggReader struct {
	r    *bufio.Reader
	page oggPage
	buf  [255 + 255*255]byte
}

// next reads the next whole page.
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
			o.r.Discard(1) //nolint:errcheck // peeked: the last page is cut off, or its size is wrong
			continue
		}
		if err != nil || oggSum(b) != sum {
			o.r.Discard(1) //nolint:errcheck // peeked
			continue
		}
		n := copy(o.buf[:], b[27:])
		p.lacing, p.body = o.buf[:segments], o.buf[segments:n]
		o.r.Discard(size) //nolint:errcheck // peeked
		return p, nil
	}
}

// resync goes to the next place where a page may begin.
func (o *oggReader) resync(b []byte) {
	n := len(b) - 3
	if i := bytes.Index(b[1:], []byte("OggS")); i >= 0 {
		n = i + 1
	}
	o.r.Discard(n) //nolint:errcheck // peeked
}

// oggSum is the checksum of a page, with zeros in its own place.
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

// openOgg opens the sound of an Ogg file, of which the first page names the codec.
func openOgg(r *bufio.Reader) (decoder, error) {
	b, _ := r.Peek(27 + 255 + 8)
	switch {
	case bytes.Contains(b, []byte("OpusHead")):
		return openOggOpus(bufio.NewReaderSize(r, 128<<10)) // a page has to fit in
	case bytes.Contains(b, []byte("\x01vorbis")):
		return openVorbis(r)
	}
	return nil, errors.New("neither Opus nor Vorbis")
}

// vorbis reads Ogg/Vorbis.
type vorbis struct {
	r   *oggvorbis.Reader
	out []float32
}

func openVorbis(r *bufio.Reader) (decoder, error) {
	d, err := oggvorbis.NewReader(struct{ io.Reader }{r})
	if err != nil {
		return nil, err
	}
	if d.Channels() < 1 {
		return nil, errors.New("no channels")
	}
	return &vorbis{d, make([]float32, max(1, block/d.Channels())*d.Channels())}, nil
}

func (v *vorbis) info() Info {
	return Info{Format: "ogg", Codec: "vorbis", SampleRate: v.r.SampleRate(), Channels: v.r.Channels()}
}

func (v *vorbis) lost() int64 { return 0 }

func (v *vorbis) next() ([]float32, error) {
	n, err := v.r.Read(v.out)
	if n > 0 {
		return v.out[:n], nil
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return nil, err
}

// oggOpus gives the packets of an Ogg/Opus file (RFC 7845).
type oggOpus struct {
	o       oggReader
	serial  uint32
	seq     uint32
	started bool
	packets [][]byte // of the current page
	part    []byte   // of a packet that the next page continues
	dropped bool     // the beginning of the packet that continues is lost
	origin  int64    // granule position of the first sample
	origins bool
	end     int64 // granule position of the end; -1: not known yet
	ended   bool
}

func openOggOpus(r *bufio.Reader) (decoder, error) {
	o := &oggOpus{o: oggReader{r: r}, end: -1}
	head, err := o.header()
	if err != nil {
		return nil, err
	}
	return newOpus("ogg", head, o)
}

// header reads the first packet of the first Opus stream and skips the second, the comments.
func (o *oggOpus) header() ([]byte, error) {
	for {
		p, err := o.o.next()
		if err != nil {
			return nil, errors.New("no Opus header")
		}
		if p.flags&oggFirst != 0 && bytes.HasPrefix(p.body, []byte("OpusHead")) {
			head := bytes.Clone(p.body)
			o.serial, o.seq = p.serial, p.seq
			for len(o.packets) == 0 {
				if err := o.page(); err != nil {
					return head, nil //nolint:nilerr // a file without sound; the decoder finds its end
				}
			}
			o.packets = o.packets[1:]
			return head, nil
		}
	}
}

// page reads the next page of the stream and adds the packets that end on it.
func (o *oggOpus) page() error {
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
	var total int64
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
			o.packets = append(o.packets, o.part)
			total += int64(packetFrames(o.part))
		}
		o.part, o.dropped = nil, false
	}
	if p.granule >= 0 && o.started && len(o.packets) > 0 {
		if !o.origins { // a recording that was cut out of a longer one begins later than 0
			o.origins = true
			if p.flags&oggLast == 0 {
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

func (o *oggOpus) next() (packet []byte, end int64, err error) {
	o.started = true
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
