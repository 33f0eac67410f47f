// Package audio decodes recordings. It detects the format from the content, decodes it as a stream,
// mixes it down to one channel and resamples it to 16 kHz, and it computes peaks and detects
// speech. It keeps no state and owns no tables. Memory use does not depend on the length of a
// recording.
package audio

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"helix/backend/fault"
)

// Rate is the sample rate for speech recognizers, in hertz.
const Rate = 16000

const (
	minRate, maxRate = 8000, 192_000
	maxChannels      = 64
	// MaxDuration is the length after which decoding stops with an error.
	MaxDuration = 4 * time.Hour
	block       = 4096 // approximate number of frames that a decoder returns at a time
)

// Source is a stream of samples of one channel, from -1 to 1. Read may fill only a part of p. At
// the end it returns 0 and io.EOF.
type Source interface {
	Read(p []float32) (int, error)
}

// Info describes the format of a recording.
type Info struct {
	Format     string // wav, flac, mp3, ogg, webm, m4a or caf
	Codec      string // pcm, float, flac, mp3, vorbis, opus, or aac for whatever ffmpeg decodes
	SampleRate int
	Channels   int
}

// decoder returns interleaved frames, which are valid until the next call, and io.EOF at the end.
// An empty block does not mean the end.
type decoder interface {
	info() Info
	next() ([]float32, error)
	// lost returns the number of frames that could not be decoded so far.
	lost() int64
}

// Stream decodes a recording and mixes it down to one channel, at its own sample rate. It is not
// safe for concurrent use.
type Stream struct {
	Info
	dec    decoder
	mono   []float32 // decoded but not read yet
	frames int64
	cut    error // why decoding stopped early
	err    error
}

// Open detects the format of r from its first bytes and starts to decode it. The error is of kind
// Unavailable or Invalid for an unsupported format, and of kind Invalid for a damaged beginning.
func Open(r io.Reader) (*Stream, error) {
	br := bufio.NewReaderSize(r, 64<<10)
	format, err := sniff(br)
	if err != nil {
		return nil, err
	}
	s := &Stream{}
	if err := guard(func() (err error) {
		s.dec, err = open(format, br)
		return err
	}); err != nil {
		return nil, damaged(format, err)
	}
	s.Info = s.dec.info()
	if err := s.Info.check(); err != nil {
		s.Close()
		return s, err
	}
	return s, nil
}

// Close ends the program that decodes the recording, if there is one. A stream that was read to its
// end needs no Close.
func (s *Stream) Close() {
	if x, ok := s.dec.(*ffmpeg); ok {
		x.close()
	}
}

func (i Info) check() error {
	switch {
	case i.SampleRate < minRate || i.SampleRate > maxRate:
		return fault.InvalidField("sampleRate", fault.CodeRange, "The sample rate is %d Hz; it must be %d to %d.", i.SampleRate, minRate, maxRate)
	case i.Channels < 1 || i.Channels > maxChannels:
		return fault.InvalidField("channels", fault.CodeRange, "The recording has %d channels; it must have 1 to %d.", i.Channels, maxChannels)
	}
	return nil
}

func open(format string, r *bufio.Reader) (decoder, error) {
	switch format {
	case "wav":
		return openWAV(r)
	case "flac":
		return openFLAC(r)
	case "mp3":
		return openMP3(r)
	case "webm":
		return openWebM(r)
	case "m4a", "caf":
		return openFFmpeg(r, format, "ffmpeg")
	}
	return openOgg(r)
}

// guard converts a panic in a third-party decoder to an error, so that a damaged file cannot crash
// the program.
func guard(fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("decoder: %v", v)
		}
	}()
	return fn()
}

func damaged(format string, err error) error {
	var f *fault.Error
	if errors.As(err, &f) {
		return err
	}
	return fault.Invalidf("This %s file is damaged: nothing in it could be decoded.", format).WithCause(err)
}

// Read implements Source. If the rest of a recording is damaged, the stream ends early; see Lost
// and Damage.
func (s *Stream) Read(p []float32) (int, error) {
	for len(s.mono) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		s.fill()
	}
	n := copy(p, s.mono)
	s.mono = s.mono[n:]
	return n, nil
}

// fill decodes the next block or sets err.
func (s *Stream) fill() {
	var in []float32
	err := guard(func() (err error) {
		in, err = s.dec.next()
		return err
	})
	switch {
	case errors.Is(err, io.EOF):
		s.err = io.EOF
	case err != nil && s.frames == 0:
		s.err = damaged(s.Format, err)
	case err != nil:
		s.err, s.cut = io.EOF, err
	}
	if s.err != nil {
		return
	}
	n := len(in) / s.Channels
	s.frames += int64(n)
	if s.frames > int64(MaxDuration/time.Second)*int64(s.SampleRate) {
		s.err = fault.Limitf("The recording is longer than %d hours.", int(MaxDuration.Hours()))
		return
	}
	s.mono, s.err = mix(in[:n:n], in, s.Channels)
}

// mix appends the mean of the channels to out.
func mix(out, in []float32, channels int) ([]float32, error) {
	scale := 1 / float32(channels)
	for i := range out {
		sum := in[i*channels]
		for _, v := range in[i*channels+1 : (i+1)*channels] {
			sum += v
		}
		sum *= scale
		if bad := sum - sum; bad != 0 { //nolint:staticcheck // true for NaN and infinity only
			return nil, fault.InvalidField("samples", fault.CodeInvalid, "The recording has samples that are not numbers.")
		}
		out[i] = sum
	}
	return out, nil
}

// Damage returns the error that ended decoding before the end of the recording; nil if there was
// none.
func (s *Stream) Damage() error { return s.cut }

// Lost returns how much of the recording read so far could not be decoded and is silent or missing.
func (s *Stream) Lost() time.Duration { return Duration(s.dec.lost(), s.SampleRate) }

// Duration returns the duration of n samples.
func Duration(n int64, rate int) time.Duration {
	return time.Duration(float64(n) / float64(rate) * float64(time.Second))
}

// Speech opens a recording and resamples it to Rate.
func Speech(r io.Reader) (*Stream, Source, error) {
	s, err := Open(r)
	if err != nil {
		return nil, nil, err
	}
	src, err := Resample(s, s.SampleRate, Rate)
	return s, src, err
}

// PCM16 converts a sample to 16 bits, with clipping at full scale.
func PCM16(x float32) int16 {
	return int16(math.RoundToEven(float64(max(-1, min(1, x))) * math.MaxInt16))
}
