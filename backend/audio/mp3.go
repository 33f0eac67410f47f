package audio

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
)

// mp3DecoderDelay is the delay in samples of the filter banks of every MP3 decoder.
const mp3DecoderDelay = 529

// mp3Header holds the needed fields of a layer III frame header.
type mp3Header struct {
	size      int // bytes per frame
	samples   int // samples per channel
	rate      int
	channels  int
	sideInfo  int  // bytes of side information
	low       bool // MPEG-2 or MPEG-2.5
	checksum  bool // two bytes follow the header
	middle    bool // the channels are the middle and the side
	intensity bool // high bands have one channel and its direction
}

func parseMP3Header(b []byte) (h mp3Header, ok bool) {
	if len(b) < 4 || b[0] != 0xFF || b[1]&0xE0 != 0xE0 || b[1]>>1&3 != 1 {
		return h, false
	}
	version, bitrate, rate, mode := b[1]>>3&3, int(b[2]>>4), int(b[2]>>2&3), b[3]>>6
	if version == 1 || bitrate == 0 || bitrate == 15 || rate == 3 {
		return h, false
	}
	kbits := [15]int{0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320}[bitrate]
	h.rate, h.channels, h.checksum = [3]int{44100, 48000, 32000}[rate], 2, b[1]&1 == 0
	h.intensity, h.middle = mode == 1 && b[3]&0x10 != 0, mode == 1 && b[3]&0x20 != 0
	h.samples, h.sideInfo = 1152, 32
	if mode == 3 {
		h.channels, h.sideInfo = 1, 17
	}
	if version != 3 {
		kbits = [15]int{0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160}[bitrate]
		h.low = true
		h.rate >>= 1
		h.samples, h.sideInfo = 576, 17
		if h.channels == 1 {
			h.sideInfo = 9
		}
		if version == 0 {
			h.rate >>= 1
		}
	}
	h.size = h.samples/8*kbits*1000/h.rate + int(b[2]>>1&1)
	return h, true
}

// mp3Decoder decodes MP3 and removes the delay and padding that encoders add, according to the LAME
// tag.
type mp3Decoder struct {
	d    *layer3
	skip int64 // frames still to be dropped
	left int64 // frames still to be returned; -1: until the end of the file
}

func openMP3(r *bufio.Reader) (decoder, error) {
	if err := skipID3(r); err != nil {
		return nil, err
	}
	m := &mp3Decoder{left: -1}
	if err := m.readTag(r); err != nil {
		return nil, err
	}
	var err error
	m.d, err = openLayer3(r)
	return m, err
}

// skipID3 skips ID3v2 tags, which can be large because they may contain pictures.
func skipID3(r *bufio.Reader) error {
	for {
		b, _ := r.Peek(10)
		if len(b) < 10 || string(b[:3]) != "ID3" {
			break
		}
		size := int(b[6]&0x7F)<<21 | int(b[7]&0x7F)<<14 | int(b[8]&0x7F)<<7 | int(b[9]&0x7F) + 10
		if _, err := r.Discard(size); err != nil {
			return err
		}
	}
	for {
		b, err := r.Peek(1)
		if err != nil || b[0] != 0 {
			return err
		}
		r.Discard(1) //nolint:errcheck // was peeked
	}
}

// readTag reads and removes the Xing or Info frame, which contains no audio, and reads the
// encoder's delay and padding from its LAME part.
func (m *mp3Decoder) readTag(r *bufio.Reader) error {
	b, _ := r.Peek(4096)
	h, ok := parseMP3Header(b)
	at := 4 + h.sideInfo
	if !ok || h.size > len(b) || at+8 > h.size {
		return nil
	}
	tag := b[at:h.size]
	if !bytes.HasPrefix(tag, []byte("Xing")) && !bytes.HasPrefix(tag, []byte("Info")) {
		return nil
	}
	flags := binary.BigEndian.Uint32(tag[4:])
	tag = tag[8:]
	var frames int64
	for _, part := range []struct {
		flag uint32
		size int
	}{{1, 4}, {2, 4}, {4, 100}, {8, 4}} {
		if flags&part.flag == 0 {
			continue
		}
		if len(tag) < part.size {
			return nil
		}
		if part.flag == 1 {
			frames = int64(binary.BigEndian.Uint32(tag))
		}
		tag = tag[part.size:]
	}
	if len(tag) >= 24 && tag[0] != 0 {
		delay, padding := int64(tag[21])<<4|int64(tag[22])>>4, int64(tag[22]&0xF)<<8|int64(tag[23])
		m.skip = delay + mp3DecoderDelay
		if total := frames*int64(h.samples) - delay - padding; frames > 0 && total > 0 {
			m.left = total
		}
	}
	_, err := r.Discard(h.size)
	return err
}

func (m *mp3Decoder) info() Info {
	return Info{Format: "mp3", Codec: "mp3", SampleRate: m.d.rate, Channels: m.d.channels}
}

func (m *mp3Decoder) lost() int64 { return max(0, m.left) }

func (m *mp3Decoder) next() ([]float32, error) {
	if m.left == 0 {
		return nil, io.EOF
	}
	out, err := m.d.next()
	n := len(out) / m.d.channels
	from := int(min(m.skip, int64(n)))
	m.skip -= int64(from)
	to := n
	if m.left >= 0 {
		to = int(min(int64(n), int64(from)+m.left))
		m.left -= int64(to - from)
	}
	return out[from*m.d.channels : to*m.d.channels], err
}
