package voice

import (
	"context"
	"os"
	"path/filepath"

	"helix/backend/audio"
	"helix/backend/fault"
	"helix/backend/storage"
)

const maxBuckets = 4000

func (s *Service) peaksFile(ref storage.Ref) string {
	return filepath.Join(s.o.Dir, "peaks", ref.String())
}

// keepPeaks caches the waveform of a recording.
func (s *Service) keepPeaks(ref storage.Ref, d decoded) {
	path := s.peaksFile(ref)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		tmp := path + ".tmp"
		if err = os.WriteFile(tmp, d.peaks.Encode(d.Speech), 0o600); err == nil {
			err = os.Rename(tmp, path)
		}
	}
	if err != nil {
		s.o.Logger.Warn("keep the waveform", "err", err)
	}
}

// readPeaks returns the cached waveform of a recording, or computes it.
func (s *Service) readPeaks(ctx context.Context, ref storage.Ref) (*audio.Peaks, []audio.Span, error) {
	if b, err := os.ReadFile(s.peaksFile(ref)); err == nil {
		if p, speech, err := audio.DecodePeaks(b); err == nil {
			return p, speech, nil
		}
	}
	f, err := s.db.Blobs().Open(ref)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	d, err := s.decode(ctx, f, false)
	if err != nil {
		return nil, nil, err
	}
	defer os.Remove(d.Path)
	s.keepPeaks(ref, d)
	return d.peaks, d.Speech, nil
}

// Waveform returns the waveform of a recording or a part of it.
func (s *Service) Waveform(ctx context.Context, p WaveformParams) (out Waveform, err error) {
	if p.Buckets == 0 {
		p.Buckets = 1000
	}
	if p.Buckets < 1 || p.Buckets > maxBuckets {
		return out, fault.InvalidField("buckets", fault.CodeRange, "buckets is %d; it must be 1 to %d.", p.Buckets, maxBuckets)
	}
	ref, err := s.sound(ctx, p.RecordingID)
	if err != nil {
		return out, err
	}
	peaks, speech, err := s.readPeaks(ctx, ref)
	if err != nil {
		return out, err
	}
	out.DurationMs = int64(peaks.Len()) * audio.PeakMs
	if p.ToMs == 0 {
		p.ToMs = out.DurationMs
	}
	if p.FromMs < 0 || p.FromMs >= max(1, p.ToMs) {
		return out, fault.InvalidField("fromMs", fault.CodeRange, "fromMs must be before toMs.")
	}
	out.Min, out.Max, out.RMS = peaks.Draw(int(p.FromMs/audio.PeakMs), int((min(p.ToMs, out.DurationMs)+audio.PeakMs-1)/audio.PeakMs), p.Buckets)
	out.Buckets, out.Silences = len(out.Min), [][2]int64{}
	last := int64(0)
	for _, sp := range append(speech, audio.Span{StartMs: out.DurationMs, EndMs: out.DurationMs}) {
		if from, to := max(last, p.FromMs), min(sp.StartMs, p.ToMs); from < to {
			out.Silences = append(out.Silences, [2]int64{from, to})
		}
		last = sp.EndMs
	}
	return out, nil
}
