package audio

import (
	"bufio"
	"io"
)

const (
	flatRate   = 22050
	flatIndex  = 14  // 160 kbit/s, the highest bit rate of MPEG-2
	flatSize   = 522 // bytes of such a frame without padding
	mostBorrow = 255 // bytes of earlier frames that a frame may use
)

// mp3Frames rewrites an MPEG-2 stream at 22.05 kHz so that no frame has padding or uses bytes of
// earlier frames (the bit reservoir). It works around a bug of the decoder, which assumes that
// padded frames of such streams are one byte shorter than they are and then reads the reservoir at
// the wrong offset.
type mp3Frames struct {
	r        *bufio.Reader
	borrowed []byte // the last bytes of audio data, which later frames may use
	out      []byte
	frame    [flatSize]byte
}

func (m *mp3Frames) Read(p []byte) (int, error) {
	for len(m.out) == 0 {
		if err := m.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, m.out)
	m.out = m.out[n:]
	return n, nil
}

func (m *mp3Frames) next() error {
	b, _ := m.r.Peek(4)
	if len(b) < 4 {
		return io.EOF
	}
	h, ok := parseMP3Header(b)
	side := 4
	if b[1]&1 == 0 {
		side += 2 // checksum
	}
	if !ok || h.rate != flatRate || h.samples != 576 || h.size < side+h.sideInfo {
		_, err := m.r.Discard(1)
		return err
	}
	if b, _ = m.r.Peek(h.size); len(b) < h.size {
		return io.EOF
	}
	info, data := b[side:side+h.sideInfo], b[side+h.sideInfo:]
	out := append(m.frame[:0], b[0], b[1]|1, flatIndex<<4|b[2]&0x0C, b[3])
	if begin := int(info[0]); begin <= len(m.borrowed) {
		out = append(append(out, 0), info[1:]...)
		out = append(out, m.borrowed[len(m.borrowed)-begin:]...)
		out = append(out, data[:min(len(data), flatSize-len(out))]...)
	}
	clear(m.frame[len(out):]) // also a frame whose reservoir bytes are missing: it becomes silence
	m.out = m.frame[:]
	m.borrowed = append(m.borrowed, data...)
	if n := len(m.borrowed); n > mostBorrow {
		m.borrowed = append(m.borrowed[:0], m.borrowed[n-mostBorrow:]...)
	}
	_, err := m.r.Discard(h.size)
	return err
}
