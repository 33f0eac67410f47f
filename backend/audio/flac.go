package audio

import (
	"bufio"
	"errors"
	"io"

	"github.com/mewkiz/flac"
)

// flacDecoder decodes FLAC. It skips damaged frames and inserts silence for them, so that times
// stay correct.
type flacDecoder struct {
	s      *flac.Stream
	out    []float32
	at     int64 // frames decoded so far
	gap    int64 // frames of silence still to return
	held   []float32
	missed int64
}

func openFLAC(r *bufio.Reader) (decoder, error) {
	s, err := flac.New(r)
	if err != nil {
		return nil, err
	}
	return &flacDecoder{s: s}, nil
}

func (d *flacDecoder) info() Info {
	return Info{Format: "flac", Codec: "flac", SampleRate: int(d.s.Info.SampleRate), Channels: int(d.s.Info.NChannels)}
}

func (d *flacDecoder) lost() int64 { return d.missed }

func (d *flacDecoder) next() ([]float32, error) {
	channels := int(d.s.Info.NChannels)
	if d.gap > 0 {
		n := min(d.gap, block)
		d.gap -= n
		return make([]float32, int(n)*channels), nil
	}
	if out := d.held; out != nil {
		d.held = nil
		return out, nil
	}
	var failed error
	for {
		f, err := d.s.ParseNext()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			if total := int64(d.s.Info.NSamples); total > d.at {
				d.missed += total - d.at
			}
			if d.at == 0 && failed != nil {
				return nil, failed
			}
			return nil, io.EOF
		}
		if err != nil {
			failed = err // the reader always advances, so this terminates
			continue
		}
		if len(f.Subframes) != channels {
			continue
		}
		n := len(f.Subframes[0].Samples)
		bits := f.BitsPerSample
		if bits == 0 {
			bits = d.s.Info.BitsPerSample
		}
		scale := 1 / float32(int64(1)<<(bits-1))
		if cap(d.out) < n*channels {
			d.out = make([]float32, n*channels)
		}
		out := d.out[:n*channels]
		for c, sub := range f.Subframes {
			for i, v := range sub.Samples[:n] {
				out[i*channels+c] = float32(v) * scale
			}
		}
		if failed != nil {
			if from := int64(f.SampleNumber()); from > d.at && from-d.at <= int64(d.s.Info.SampleRate)*int64(MaxDuration.Seconds()) {
				d.gap = from - d.at
				d.missed += d.gap
				d.at = from
			}
		}
		d.at += int64(n)
		if d.gap > 0 {
			d.held = out
			return nil, nil
		}
		return out, nil
	}
}
