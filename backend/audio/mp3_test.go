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
