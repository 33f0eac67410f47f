package audio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/mewkiz/flac"
	"github.com/mewkiz/flac/frame"
	"github.com/mewkiz/flac/meta"
)

const minBlockAt = 8 // offset of the smallest and the largest block size in a file

// EncodeFLAC writes a recording of one channel and 16 bits per sample as FLAC. It returns an error if
// the samples don't fit exactly.
func EncodeFLAC(w io.WriteSeeker, r io.Reader) error {
	s, err := Open(r)
	if err != nil {
		return err
	}
	defer s.Close()
	if s.Channels != 1 {
		return fmt.Errorf("encode FLAC: %d channels", s.Channels)
	}
	e, err := flac.NewEncoder(struct{ io.WriteSeeker }{w}, &meta.StreamInfo{BlockSizeMin: block, BlockSizeMax: block, SampleRate: uint32(s.SampleRate), NChannels: 1, BitsPerSample: 16})
	if err != nil {
		return fmt.Errorf("encode FLAC: %w", err)
	}
	x, samples := make([]float32, block), make([]int32, block)
	for end := false; !end; {
		n := 0
		for n < block && !end {
			k, err := s.Read(x[n:])
			if end = errors.Is(err, io.EOF); err != nil && !end {
				return err
			}
			n += k
		}
		if n == 0 {
			break
		}
		for i, v := range x[:n] {
			samples[i] = int32(v * (1 << 15))
			if float32(samples[i]) != v*(1<<15) {
				return errors.New("encode FLAC: the samples have more than 16 bits")
			}
		}
		if err := e.WriteFrame(&frame.Frame{
			Header:    frame.Header{HasFixedBlockSize: true, BlockSize: uint16(n), SampleRate: uint32(s.SampleRate), Channels: frame.ChannelsMono, BitsPerSample: 16},
			Subframes: []*frame.Subframe{{SubHeader: frame.SubHeader{Pred: frame.PredVerbatim}, NSamples: n, Samples: samples[:n]}}, // the encoder chooses the best predictor
		}); err != nil {
			return fmt.Errorf("encode FLAC: %w", err)
		}
	}
	if s.Damage() != nil || s.Lost() > 0 {
		return errors.New("encode FLAC: the recording is damaged")
	}
	if err := e.Close(); err != nil {
		return fmt.Errorf("encode FLAC: %w", err)
	}
	// Close counts the last block, which may be shorter than the format allows for the others.
	if _, err := w.Seek(minBlockAt, io.SeekStart); err != nil {
		return fmt.Errorf("encode FLAC: %w", err)
	}
	if _, err := w.Write(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, block), block)); err != nil {
		return fmt.Errorf("encode FLAC: %w", err)
	}
	return nil
}

// SameSamples reports whether two recordings decode to exactly the same samples at the same rate.
func SameSamples(a, b io.Reader) (bool, error) {
	sa, err := Open(a)
	if err != nil {
		return false, err
	}
	defer sa.Close()
	sb, err := Open(b)
	if err != nil {
		return false, err
	}
	defer sb.Close()
	if sa.SampleRate != sb.SampleRate || sa.Channels != sb.Channels {
		return false, nil
	}
	x, y := make([]float32, block), make([]float32, block)
	for {
		n, err := sa.Read(x)
		if err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		for at := 0; at < n; {
			k, errB := sb.Read(y[:n-at])
			if errB != nil {
				return false, ignoreEOF(errB)
			}
			for i, v := range y[:k] {
				if v != x[at+i] {
					return false, nil
				}
			}
			at += k
		}
		if errors.Is(err, io.EOF) {
			_, errB := sb.Read(y[:1])
			return errors.Is(errB, io.EOF) && sa.Lost() == 0 && sb.Lost() == 0, ignoreEOF(errB)
		}
	}
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
