package audio

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// byFFmpeg decodes a file without mixing its channels.
func byFFmpeg(t *testing.T, path string) []float32 {
	t.Helper()
	raw, err := exec.Command("ffmpeg", "-v", "error", "-i", path, "-f", "f32le", "-").Output()
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float32, len(raw)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return x
}

// TestMP3At24kHzIsCloseToItsSource does not compare with ffmpeg, which has other scale factor bands for this
// rate than encoders do and is 19 dB further from the source.
func TestMP3At24kHzIsCloseToItsSource(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	wav, path := filepath.Join(dir, "x.wav"), filepath.Join(dir, "x.mp3")
	run(t, "sox", "-R", "-n", "-r", "24000", "-c", "1", "-b", "16", wav, "synth", "3", "whitenoise", "gain", "-9", "sinc", "-11000")
	run(t, "ffmpeg", "-v", "error", "-i", wav, "-c:a", "libmp3lame", "-b:a", "160k", "-cutoff", "11900", path)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	got, err := readAll(s)
	if err != nil {
		t.Fatal(err)
	}
	if snr := signalToNoise(byFFmpeg(t, wav), got); snr < 30 {
		t.Errorf("%.1f dB", snr)
	}
}

// TestMP3AgreesWithFFmpeg decodes sound with attacks, which need short blocks, and different channels, at
// each rate, and compares each channel with the output of ffmpeg.
func TestMP3AgreesWithFFmpeg(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, rate := range []int{8000, 11025, 12000, 16000, 22050, 32000, 44100, 48000} {
		for _, channels := range []int{1, 2} {
			wav := filepath.Join(dir, fmt.Sprintf("%d-%d.wav", rate, channels))
			run(t, "sox", "-R", "-n", "-r", fmt.Sprint(rate), "-c", fmt.Sprint(channels), "-b", "16", wav, "synth", "1", "whitenoise", "synth", "1", "sine", "mix", "300-1500", "synth", "1", "square", "amod", "5", "gain", "-9",
				"remix", "1", "1v0.3")
			if channels == 1 {
				run(t, "sox", wav, filepath.Join(dir, "mono.wav"), "remix", "1")
				wav = filepath.Join(dir, "mono.wav")
			}
			for _, how := range map[int][][]string{1: {{"-q:a", "2"}}, 2: {{"-b:a", "32k"}, {"-b:a", "64k", "-joint_stereo", "0"}}}[channels] {
				name := fmt.Sprintf("%d Hz, %d channels, %v", rate, channels, how)
				path := filepath.Join(dir, "x.mp3")
				run(t, "ffmpeg", append(append([]string{"-v", "error", "-y", "-i", wav, "-c:a", "libmp3lame"}, how...), path)...)
				b, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				d, err := openMP3(bufio.NewReaderSize(bytes.NewReader(b), 64<<10))
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				var got []float32
				for err == nil {
					var x []float32
					x, err = d.next()
					got = append(got, x...)
				}
				if i := d.info(); !errors.Is(err, io.EOF) || i.SampleRate != rate || i.Channels != channels {
					t.Fatalf("%s: %+v, %v", name, i, err)
				}
				want := byFFmpeg(t, path)
				if n := len(got) - len(want); n != 0 {
					t.Errorf("%s: %d samples, ffmpeg has %d", name, len(got), len(want))
				}
				if snr := signalToNoise(want, got); snr < 100 {
					t.Errorf("%s: %.1f dB", name, snr)
				}
			}
		}
	}
}

func TestCodesOfMP3AreComplete(t *testing.T) {
	t.Parallel()
	for table, text := range huffmanTrees {
		c := &codeTable{}
		if _, rest := c.parseTree(text); rest != "" {
			t.Errorf("table %d: %q is left", table, rest)
		}
		seen := map[uint16]bool{}
		for _, n := range c.tree {
			for _, v := range n {
				if v&leafBit != 0 && seen[v] {
					t.Errorf("table %d has %x twice", table, v)
				}
				seen[v] = true
			}
		}
	}
}

// TestIntensityDividesLinesBetweenTheChannels tests what no encoder at hand writes.
func TestIntensityDividesLinesBetweenTheChannels(t *testing.T) {
	t.Parallel()
	d := &layer3{}
	l, r := &d.granules[0][0], &d.granules[0][1]
	for _, g := range []*mp3Granule{l, r} {
		g.layout(&longBands[0], &shortBands[0])
		for i := range g.limits {
			g.limits[i] = 7
		}
	}
	// Lines 4 to 7 are of both channels; from band 2 on, there is one channel with a position for each band.
	for i := range 40 {
		d.lines[0][i] = 1
	}
	copy(d.lines[1][4:], []float32{0.5, 0.5, 0.5, 0.5})
	l.lines, r.lines = 40, 8
	r.factors = [40]int{2: 0, 3: 3, 4: 6, 5: 7, 6: 1}
	d.intensity(mp3Header{intensity: true, middle: true}, 0)
	for at, want := range map[int][2]float64{0: {0.7071, 0.7071}, 4: {1.0607, 0.3536}, 8: {0, 1}, 12: {0.5, 0.5}, 16: {1, 0}, 20: {0.7071, 0.7071}, 24: {0.2113, 0.7887}, 40: {0, 0}} {
		if x, y := float64(d.lines[0][at]), float64(d.lines[1][at]); math.Abs(x-want[0]) > 1e-4 || math.Abs(y-want[1]) > 1e-4 {
			t.Errorf("line %d: %.4f and %.4f, want %v", at, x, y, want)
		}
	}
	if l.lines != 40 || r.lines != 40 {
		t.Errorf("%d and %d lines", l.lines, r.lines)
	}
	// MPEG-2: odd positions weaken the left channel, even ones the right.
	clear(d.lines[1][:])
	for i := range 40 {
		d.lines[0][i] = 1
	}
	r.factors, r.compress = [40]int{0: 0, 1: 1, 2: 2, 3: 3}, 1
	d.intensity(mp3Header{intensity: true, low: true}, 0)
	for at, want := range map[int][2]float64{0: {1, 1}, 4: {0.7071, 1}, 8: {1, 0.7071}, 12: {0.5, 1}} {
		if x, y := float64(d.lines[0][at]), float64(d.lines[1][at]); math.Abs(x-want[0]) > 1e-4 || math.Abs(y-want[1]) > 1e-4 {
			t.Errorf("MPEG-2, line %d: %.4f and %.4f, want %v", at, x, y, want)
		}
	}
}
