package audio

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

const (
	wavPCM        = 1
	wavFloat      = 3
	wavExtensible = 0xFFFE
	wavHeader     = 44             // bytes of the header that WriteWAV writes
	unknownSize   = math.MaxUint32 // marks a WAV file that was written as a stream
)

// wav reads integer and float PCM from RIFF and RF64 files, including those whose size fields were
// never filled in.
type wav struct {
	r      io.Reader
	i      Info
	bytes  int // per sample
	float  bool
	left   int64 // remaining bytes of audio data; -1: until the end of the file
	raw    []byte
	out    []float32
	missed int64
}

func openWAV(r *bufio.Reader) (decoder, error) {
	var head [12]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	w := &wav{r: r}
	var long uint64 // size of the data in a file larger than 4 GiB
	for {
		var c [8]byte
		if _, err := io.ReadFull(r, c[:]); err != nil {
			return nil, fmt.Errorf("no data chunk: %w", err)
		}
		size := int64(binary.LittleEndian.Uint32(c[4:]))
		switch string(c[:4]) {
		case "fmt ":
			body := make([]byte, min(size, 64))
			if _, err := io.ReadFull(r, body); err != nil {
				return nil, err
			}
			if err := w.format(body); err != nil {
				return nil, err
			}
			size -= int64(len(body))
		case "ds64":
			var body [28]byte
			if size < 28 {
				return nil, errors.New("short ds64 chunk")
			}
			if _, err := io.ReadFull(r, body[:]); err != nil {
				return nil, err
			}
			long = binary.LittleEndian.Uint64(body[8:])
			size -= 28
		case "data":
			if w.bytes == 0 {
				return nil, errors.New("no format before the data")
			}
			switch {
			case size == unknownSize && long > 0 && long < math.MaxInt64:
				w.left = int64(long)
			case size == unknownSize || size == 0:
				w.left = -1
			default:
				w.left = size
			}
			frame := w.bytes * w.i.Channels
			w.raw, w.out = make([]byte, max(1, block/w.i.Channels)*frame), make([]float32, max(1, block/w.i.Channels)*w.i.Channels)
			return w, nil
		}
		if _, err := io.CopyN(io.Discard, r, size+size%2); err != nil {
			return nil, err
		}
	}
}

func (w *wav) format(b []byte) error {
	if len(b) < 16 {
		return errors.New("short format chunk")
	}
	tag, bits := binary.LittleEndian.Uint16(b), int(binary.LittleEndian.Uint16(b[14:]))
	if tag == wavExtensible && len(b) >= 26 {
		tag = binary.LittleEndian.Uint16(b[24:]) // the subformat GUID begins with the tag
	}
	w.i = Info{Format: "wav", Codec: "pcm", Channels: int(binary.LittleEndian.Uint16(b[2:])), SampleRate: int(min(binary.LittleEndian.Uint32(b[4:]), math.MaxInt32))}
	if err := w.i.check(); err != nil {
		return err
	}
	w.float = tag == wavFloat
	switch {
	case tag == wavPCM && (bits == 8 || bits == 16 || bits == 24 || bits == 32):
	case w.float && (bits == 32 || bits == 64):
		w.i.Codec = "float"
	default:
		return fmt.Errorf("encoding %d of %d bits", tag, bits)
	}
	w.bytes = bits / 8
	return nil
}

func (w *wav) info() Info  { return w.i }
func (w *wav) lost() int64 { return w.missed }

func (w *wav) next() ([]float32, error) {
	frame := w.bytes * w.i.Channels
	want := len(w.raw)
	if w.left >= 0 {
		want = int(min(int64(want), w.left/int64(frame)*int64(frame)))
	}
	if want == 0 {
		return nil, io.EOF
	}
	n, err := io.ReadFull(w.r, w.raw[:want])
	n -= n % frame
	if w.left >= 0 {
		w.left -= int64(n)
	}
	switch {
	case n > 0 || err == nil:
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		if w.left > 0 {
			w.missed = w.left / int64(frame)
		}
		return nil, io.EOF
	default:
		return nil, err
	}
	out := w.out[:n/w.bytes]
	w.convert(out, w.raw[:n])
	return out, nil
}

func (w *wav) convert(out []float32, b []byte) {
	switch {
	case w.float && w.bytes == 4:
		for i := range out {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
	case w.float:
		for i := range out {
			out[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:])))
		}
	case w.bytes == 1:
		for i := range out {
			out[i] = (float32(b[i]) - 128) / 128
		}
	case w.bytes == 2:
		for i := range out {
			out[i] = float32(int16(binary.LittleEndian.Uint16(b[2*i:]))) / (1 << 15)
		}
	case w.bytes == 3:
		for i := range out {
			v := int32(b[3*i])<<8 | int32(b[3*i+1])<<16 | int32(b[3*i+2])<<24
			out[i] = float32(v>>8) / (1 << 23)
		}
	default:
		for i := range out {
			out[i] = float32(float64(int32(binary.LittleEndian.Uint32(b[4*i:]))) / (1 << 31))
		}
	}
}

// WriteWAV writes src as 16-bit mono PCM and returns the number of samples.
func WriteWAV(w io.WriteSeeker, rate int, src Source) (n int64, err error) {
	if _, err := w.Write(make([]byte, wavHeader)); err != nil {
		return 0, err
	}
	samples, raw := make([]float32, block), make([]byte, 0, 2*block)
	for {
		k, err := src.Read(samples)
		raw = raw[:0]
		for _, v := range samples[:k] {
			raw = binary.LittleEndian.AppendUint16(raw, uint16(PCM16(v)))
		}
		if _, err := w.Write(raw); err != nil {
			return n, err
		}
		n += int64(k)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return n, err
		}
	}
	if 2*n+wavHeader > math.MaxUint32 {
		return n, errors.New("more than 4 GiB of samples")
	}
	if _, err := w.Seek(0, io.SeekStart); err != nil {
		return n, err
	}
	_, err = w.Write(WAVHeader(rate, n))
	return n, err
}

// WAVHeader returns the beginning of a WAV file with n 16-bit mono samples.
func WAVHeader(rate int, n int64) []byte {
	h := append(make([]byte, 0, wavHeader), "RIFF"...)
	h = binary.LittleEndian.AppendUint32(h, uint32(2*n+wavHeader-8))
	h = append(h, "WAVEfmt "...)
	for _, v := range []uint32{16, 1<<16 | wavPCM, uint32(rate), uint32(2 * rate), 16<<16 | 2} {
		h = binary.LittleEndian.AppendUint32(h, v)
	}
	h = append(h, "data"...)
	return binary.LittleEndian.AppendUint32(h, uint32(2*n))
}
