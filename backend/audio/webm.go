package audio

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math"
)

// Ids of the Matroska elements that are needed for audio (RFC 9559).
const (
	ebmlSegment        = 0x18538067
	ebmlTracks         = 0x1654AE6B
	ebmlTrackEntry     = 0xAE
	ebmlTrackNumber    = 0xD7
	ebmlCodecID        = 0x86
	ebmlCodecPrivate   = 0x63A2
	ebmlCluster        = 0x1F43B675
	ebmlBlockGroup     = 0xA0
	ebmlBlock          = 0xA1
	ebmlSimpleBlock    = 0xA3
	ebmlDiscardPadding = 0x75A2
	ebmlUnknown        = math.MaxUint64
)

// webm reads the packets of the first Opus track in a WebM file. It walks through the elements in
// order and descends into containers, so it does not need their sizes, which are unknown in the
// streams that browsers record.
type webm struct {
	r       *bufio.Reader
	track   uint64
	waiting [][]byte // packets read but not returned yet
	frames  int64    // total frames of the packets read
	trimmed bool     // the end of the recording is known
	end     int64
}

func openWebM(r *bufio.Reader) (decoder, error) {
	w := &webm{r: r}
	head, err := w.tracks()
	if err != nil {
		return nil, err
	}
	return newOpus("webm", head, w)
}

// element reads the header of an element.
func (w *webm) element() (id, size uint64, err error) {
	if id, err = w.number(true); err != nil {
		return 0, 0, err
	}
	size, err = w.number(false)
	return id, size, err
}

// number reads a variable-length integer. If keep is set, the length marker remains part of the
// value, as in element ids.
func (w *webm) number(keep bool) (uint64, error) {
	first, err := w.r.ReadByte()
	if err != nil {
		return 0, io.EOF
	}
	if first == 0 {
		return 0, errors.New("invalid element")
	}
	n, mark := 1, byte(0x80)
	for first&mark == 0 {
		n, mark = n+1, mark>>1
	}
	v := uint64(first)
	if !keep {
		v &= uint64(mark - 1)
	}
	ones := v == uint64(mark-1)
	for range n - 1 {
		b, err := w.r.ReadByte()
		if err != nil {
			return 0, io.EOF
		}
		v = v<<8 | uint64(b)
		ones = ones && b == 0xFF
	}
	if !keep && ones {
		return ebmlUnknown, nil
	}
	return v, nil
}

func (w *webm) body(size uint64) ([]byte, error) {
	if size > maxPacket {
		return nil, errors.New("element is too large")
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(w.r, b); err != nil {
		return nil, io.EOF
	}
	return b, nil
}

func (w *webm) skip(size uint64) error {
	if size > math.MaxInt64 {
		return errors.New("element of unknown size")
	}
	if _, err := io.CopyN(io.Discard, w.r, int64(size)); err != nil {
		return io.EOF
	}
	return nil
}

func number(b []byte) (v uint64) {
	for _, x := range b[:min(len(b), 8)] {
		v = v<<8 | uint64(x)
	}
	return v
}

// tracks reads up to the first cluster after the first Opus track and returns the track's header.
func (w *webm) tracks() (head []byte, err error) {
	var track uint64
	var codec string
	var private []byte
	for {
		id, size, err := w.element()
		if err != nil {
			return nil, errors.New("no Opus track")
		}
		if codec == "A_OPUS" && (id == ebmlTrackEntry || id == ebmlCluster) {
			w.track = track
			if id != ebmlCluster { // more tracks follow
				if err := w.skip(size); err != nil {
					return nil, err
				}
			}
			return private, nil
		}
		switch id {
		case ebmlSegment, ebmlTracks, ebmlCluster:
		case ebmlTrackEntry:
			track, codec, private = 0, "", nil
		case ebmlTrackNumber, ebmlCodecID, ebmlCodecPrivate:
			b, err := w.body(size)
			if err != nil {
				return nil, err
			}
			switch id {
			case ebmlTrackNumber:
				track = number(b)
			case ebmlCodecID:
				codec = string(bytes.TrimRight(b, "\x00"))
			default:
				private = b
			}
		default:
			if err := w.skip(size); err != nil {
				return nil, err
			}
		}
	}
}

func (w *webm) next() (packet []byte, end int64, err error) {
	for len(w.waiting) < 2 { // the padding of a packet follows it
		if err := w.read(); err != nil {
			if len(w.waiting) > 0 {
				break
			}
			return nil, 0, err
		}
	}
	if len(w.waiting) == 0 {
		return nil, 0, io.EOF
	}
	packet = w.waiting[0]
	w.waiting = w.waiting[1:]
	if w.trimmed {
		return packet, w.end, nil
	}
	return packet, -1, nil
}

// read reads one element.
func (w *webm) read() error {
	id, size, err := w.element()
	if err != nil {
		return err
	}
	switch id {
	case ebmlSegment, ebmlCluster, ebmlBlockGroup:
		return nil
	case ebmlSimpleBlock, ebmlBlock:
		b, err := w.body(size)
		if err != nil {
			return err
		}
		return w.block(b)
	case ebmlDiscardPadding:
		b, err := w.body(size)
		if err != nil {
			return err
		}
		if n := number(b); len(w.waiting) > 0 && len(b) > 0 && b[0] < 0x80 && n > 0 && n < 1e9 {
			w.trimmed, w.end = true, w.frames-int64(math.Round(float64(n)*opusRate/1e9))
		}
		return nil
	}
	return w.skip(size)
}

// block reads the packets in a block, if it belongs to our track.
func (w *webm) block(b []byte) error {
	r := webm{r: bufio.NewReaderSize(bytes.NewReader(b), 16)}
	track, err := r.number(false)
	rest, _ := io.ReadAll(r.r) // cannot fail: from memory
	if err != nil || track != w.track || len(rest) < 3 {
		return nil //nolint:nilerr // a block of another track, or an empty one
	}
	lacing, rest := rest[2]>>1&3, rest[3:]
	list := [][]byte{rest}
	if lacing != 0 {
		list = unlace(lacing, rest)
	}
	w.trimmed = false // what follows padding is sound: two files were joined
	for _, p := range list {
		w.waiting = append(w.waiting, p)
		w.frames += int64(packetFrames(p))
	}
	return nil
}

// unlace splits the packets that share a block. Incomplete packets are dropped.
func unlace(kind byte, b []byte) (out [][]byte) {
	if len(b) == 0 {
		return nil
	}
	count := int(b[0]) + 1
	b = b[1:]
	sizes := make([]int, count)
	switch kind {
	case 1: // Xiph lacing, as in Ogg
		for i := range sizes[:count-1] {
			for {
				if len(b) == 0 {
					return nil
				}
				v := b[0]
				b = b[1:]
				sizes[i] += int(v)
				if v != 255 {
					break
				}
			}
		}
	case 3: // EBML lacing: the first size, then differences
		r := webm{r: bufio.NewReaderSize(bytes.NewReader(b), 16)}
		for i := range sizes[:count-1] {
			first, err := r.r.Peek(1)
			if err != nil || first[0] == 0 {
				return nil
			}
			bits := 7
			for m := byte(0x80); first[0]&m == 0; m >>= 1 {
				bits += 7
			}
			v, err := r.number(false)
			if err != nil || v > maxPacket<<8 {
				return nil
			}
			sizes[i] = int(v)
			if i > 0 {
				sizes[i] = sizes[i-1] + int(v) - (1<<(bits-1) - 1)
			}
			if sizes[i] < 0 || sizes[i] > maxPacket {
				return nil
			}
		}
		b, _ = io.ReadAll(r.r) // cannot fail: from memory
	default: // fixed-size lacing
		for i := range sizes {
			sizes[i] = len(b) / count
		}
	}
	for i, n := range sizes {
		if i == count-1 {
			n = len(b)
		}
		if n > len(b) {
			return out
		}
		out = append(out, b[:n])
		b = b[n:]
	}
	return out
}
