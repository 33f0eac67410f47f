package audio

import (
	"encoding/binary"
	"errors"
	"io"
	"math"

	"github.com/pion/opus"
)

const (
	opusRate   = 48000
	opusLong   = 5760 // frames in the longest packet, 120 ms
	opusHeader = 19
)

// packets is a source of Opus packets. end is the number of frames from the first packet to the end
// of the recording, at which the decoder stops; -1 if it is not known yet.
type packets interface {
	next() (packet []byte, end int64, err error)
}

// opusDecoder decodes Opus from any container (RFC 7845).
type opusDecoder struct {
	i      Info
	in     packets
	d      opus.Decoder
	gain   float32
	skip   int64
	at     int64 // frames so far, including skipped ones
	missed int64
	out    []float32
}

func newOpus(format string, head []byte, in packets) (decoder, error) {
	if len(head) < opusHeader || string(head[:8]) != "OpusHead" || head[8]>>4 != 0 {
		return nil, errors.New("no Opus header")
	}
	channels := int(head[9])
	if head[18] != 0 || channels < 1 || channels > 2 {
		return nil, errors.New("more than two channels of Opus")
	}
	d, err := opus.NewDecoderWithOutput(opusRate, channels)
	if err != nil {
		return nil, err
	}
	gain := float64(int16(binary.LittleEndian.Uint16(head[16:]))) / 256
	return &opusDecoder{
		i:  Info{Format: format, Codec: "opus", SampleRate: opusRate, Channels: channels},
		in: in, d: d, gain: float32(math.Pow(10, gain/20)), skip: int64(binary.LittleEndian.Uint16(head[10:])),
		out: make([]float32, opusLong*channels),
	}, nil
}

func (o *opusDecoder) info() Info  { return o.i }
func (o *opusDecoder) lost() int64 { return o.missed }

func (o *opusDecoder) next() ([]float32, error) {
	p, end, err := o.in.next()
	if err != nil {
		return nil, err
	}
	frames := packetFrames(p)
	if frames == 0 {
		return nil, nil
	}
	var n int
	if err := guard(func() (err error) {
		n, err = o.d.DecodeToFloat32(p, o.out)
		return err
	}); err != nil || n > frames {
		n = frames // keep the times right
		clear(o.out[:n*o.i.Channels])
		o.missed += int64(n)
	}
	from, to := min(n, int(max(0, o.skip-o.at))), n
	if end >= 0 {
		to = max(from, int(min(int64(n), end-o.at)))
	}
	o.at += int64(n)
	out := o.out[from*o.i.Channels : to*o.i.Channels]
	if o.gain != 1 {
		for i := range out {
			out[i] *= o.gain
		}
	}
	if end >= 0 && o.at >= end && len(out) == 0 {
		return nil, io.EOF
	}
	return out, nil
}

// packetFrames returns the number of frames at 48 kHz that a packet decodes to; 0 if it is invalid
// (RFC 6716, 3.1).
func packetFrames(p []byte) int {
	if len(p) == 0 {
		return 0
	}
	config := p[0] >> 3
	var frame int
	switch {
	case config < 12:
		frame = [4]int{480, 960, 1920, 2880}[config&3]
	case config < 16:
		frame = [2]int{480, 960}[config&1]
	default:
		frame = 120 << (config & 3)
	}
	count := 2
	switch p[0] & 3 {
	case 0:
		count = 1
	case 3:
		if len(p) < 2 {
			return 0
		}
		count = int(p[1] & 0x3F)
	}
	if n := frame * count; n <= opusLong {
		return n
	}
	return 0
}
