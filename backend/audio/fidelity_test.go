package audio

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestDecodersAgreeWithFFmpeg decodes speech and compares each sample with the output of ffmpeg for
// the same file, using libopus for Opus.
func TestDecodersAgreeWithFFmpeg(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	said := filepath.Join(dir, "said.wav")
	run(t, "flite", "-voice", "slt", "-t", "Schedule a meeting with the design team on Friday afternoon.", "-o", said)
	cases := []struct {
		name  string
		least float64 // in dB
		args  []string
	}{
		{"24.wav", 140, []string{"-ar", "44100", "-c:a", "pcm_s24le"}},
		{"16.flac", 140, []string{"-ar", "44100", "-c:a", "flac"}},
		{"vorbis.ogg", 120, []string{"-ar", "44100", "-c:a", "libvorbis"}},
		{"44.mp3", 110, []string{"-ar", "44100", "-c:a", "libmp3lame", "-b:a", "96k"}},
		{"22.mp3", 110, []string{"-ar", "22050", "-c:a", "libmp3lame", "-b:a", "32k"}},
		{"celt.ogg", 75, []string{"-ar", "48000", "-c:a", "libopus", "-b:a", "96k", "-application", "audio"}},
		{"silk.ogg", 48, []string{"-ar", "16000", "-c:a", "libopus", "-b:a", "16k", "-application", "voip"}},
		{"celt.webm", 75, []string{"-ar", "48000", "-c:a", "libopus", "-b:a", "96k", "-application", "audio"}},
	}
	args := []string{"-v", "error", "-i", said}
	for _, c := range cases {
		args = append(append(args, c.args...), filepath.Join(dir, c.name))
	}
	run(t, "ffmpeg", args...)
	for _, c := range cases {
		path := filepath.Join(dir, c.name)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Open(bytes.NewReader(b))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		got, err := readAll(s)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		how := []string{"-v", "error"}
		if s.Codec == "opus" {
			how = append(how, "-c:a", "libopus")
		}
		raw, err := exec.Command("ffmpeg", append(how, "-i", path, "-f", "f32le", "-ac", "1", "-")...).Output()
		if err != nil {
			t.Fatal(err)
		}
		want := make([]float32, len(raw)/4)
		for i := range want {
			want[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
		if d := len(got) - len(want); d < -s.SampleRate/1000 || d > s.SampleRate/1000 {
			t.Errorf("%s: %d samples, ffmpeg has %d", c.name, len(got), len(want))
		}
		if snr := signalToNoise(want, got); snr < c.least {
			t.Errorf("%s: %.1f dB, want %.0f", c.name, snr, c.least)
		} else {
			t.Logf("%s: %.1f dB", c.name, snr)
		}
	}
}

// signalToNoise compares x with a reference, after matching the levels.
func signalToNoise(ref, x []float32) float64 {
	n := min(len(ref), len(x))
	var xx, xr, noise, signal float64
	for i := range n {
		xx += float64(x[i]) * float64(x[i])
		xr += float64(x[i]) * float64(ref[i])
	}
	for i := range n {
		d := float64(ref[i]) - xr/xx*float64(x[i])
		signal, noise = signal+float64(ref[i])*float64(ref[i]), noise+d*d
	}
	return 10 * math.Log10(signal/(noise+1e-20))
}
