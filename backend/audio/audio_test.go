package audio

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"helix/backend/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Run(m)) }

// run runs a program of the system, such as ffmpeg, to create test files.
func run(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// tone creates two seconds of a 1 kHz tone at half of full scale, on all channels or only on the
// left one.
func tone(t testing.TB, dir string, rate, channels int, left bool) string {
	t.Helper()
	path := filepath.Join(dir, fmt.Sprintf("tone-%d-%d-%v.wav", rate, channels, left))
	args := []string{"-n", "-r", fmt.Sprint(rate), "-c", fmt.Sprint(channels), "-b", "24", path, "synth", "2", "sine", "1000", "gain", "-6"}
	if left {
		args = append(args, "remix", "1", "0")
	}
	run(t, "sox", args...)
	return path
}

// readAll reads a source until its end.
func readAll(src Source) (out []float32, err error) {
	buf := make([]float32, 1000)
	for {
		n, err := src.Read(buf)
		out = append(out, buf[:n]...)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
	}
}

func decodeFile(t testing.TB, path string) (*Stream, []float32) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s, src, err := Speech(bytes.NewReader(b))
	if err != nil {
		t.Fatalf("%s: %v", filepath.Base(path), err)
	}
	out, err := readAll(src)
	if err != nil {
		t.Fatalf("%s: %v", filepath.Base(path), err)
	}
	return s, out
}

// fit fits a sine of f hertz to x.
func fit(x []float32, f, rate float64) (amplitude, phase, residue float64) {
	var ss, sc, cc, ys, yc float64
	for i, v := range x {
		s, c := math.Sincos(2 * math.Pi * f * float64(i) / rate)
		y := float64(v)
		ss, cc, sc, ys, yc = ss+s*s, cc+c*c, sc+s*c, ys+y*s, yc+y*c
	}
	det := ss*cc - sc*sc
	a, b := (ys*cc-yc*sc)/det, (yc*ss-ys*sc)/det
	var e float64
	for i, v := range x {
		s, c := math.Sincos(2 * math.Pi * f * float64(i) / rate)
		d := float64(v) - a*s - b*c
		e += d * d
	}
	return math.Hypot(a, b), math.Atan2(b, a), math.Sqrt(e / float64(len(x)))
}

// frequency measures the frequency of the tone in x from its phase drift against 1 kHz.
func frequency(x []float32, rate float64) float64 {
	n := len(x) / 2
	_, p1, _ := fit(x[:n], 1000, rate)
	_, p2, _ := fit(x[n:2*n], 1000, rate)
	d := math.Remainder(p2-p1-2*math.Pi*1000*float64(n)/rate+2*math.Pi*math.Round(1000*float64(n)/rate), 2*math.Pi)
	return 1000 + d*rate/(2*math.Pi*float64(n))
}

// encoding is a format in which to store the tone.
type encoding struct {
	ext, codec string
	args       []string
	rates      []int
}

var encodings = []encoding{
	{"wav", "pcm", []string{"-c:a", "pcm_u8"}, []int{8000, 16000, 44100}},
	{"wav", "pcm", []string{"-c:a", "pcm_s16le"}, []int{8000, 16000, 22050, 44100, 48000, 96000}},
	{"wav", "pcm", []string{"-c:a", "pcm_s24le"}, []int{48000}},
	{"wav", "pcm", []string{"-c:a", "pcm_s32le"}, []int{44100}},
	{"wav", "float", []string{"-c:a", "pcm_f32le"}, []int{44100}},
	{"wav", "float", []string{"-c:a", "pcm_f64le"}, []int{48000}},
	{"wav", "pcm", []string{"-c:a", "pcm_s16le", "-rf64", "always"}, []int{48000}},
	{"flac", "flac", []string{"-c:a", "flac"}, []int{8000, 22050, 44100, 48000, 96000}},
	{"flac", "flac", []string{"-c:a", "flac", "-sample_fmt", "s16"}, []int{44100}},
	{"mp3", "mp3", []string{"-c:a", "libmp3lame", "-b:a", "96k"}, []int{16000, 22050, 44100, 48000}},
	{"mp3", "mp3", []string{"-c:a", "libmp3lame", "-b:a", "32k"}, []int{22050}},
	{"mp3", "mp3", []string{"-c:a", "libmp3lame", "-q:a", "4", "-metadata", "title=A title", "-write_id3v1", "1"}, []int{44100}},
	{"ogg", "vorbis", []string{"-c:a", "libvorbis", "-q:a", "5"}, []int{8000, 44100, 48000}},
	{"ogg", "opus", []string{"-c:a", "libopus", "-b:a", "64k"}, []int{8000, 16000, 48000}},
	{"ogg", "opus", []string{"-c:a", "libopus", "-b:a", "12k", "-application", "voip"}, []int{16000}},
	{"ogg", "opus", []string{"-c:a", "libopus", "-b:a", "64k", "-frame_duration", "2.5"}, []int{48000}},
	{"ogg", "opus", []string{"-c:a", "libopus", "-b:a", "64k", "-frame_duration", "60"}, []int{48000}},
	{"webm", "opus", []string{"-c:a", "libopus", "-b:a", "64k"}, []int{16000, 48000}},
	{"webm", "opus", []string{"-c:a", "libopus", "-b:a", "64k", "-live", "1"}, []int{48000}},
}

// TestToneSurvivesEveryFormat decodes a 1 kHz tone from every format and rate. Frequency, length
// and level must be unchanged, even if one channel is silent.
func TestToneSurvivesEveryFormat(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, rate := range []int{8000, 16000, 22050, 44100, 48000, 96000} {
		for _, input := range []struct {
			channels int
			left     bool
		}{{1, false}, {2, false}, {2, true}} {
			args := []string{"-v", "error", "-i", tone(t, dir, rate, input.channels, input.left)}
			var files []string
			var used []encoding
			for _, e := range encodings {
				if slices.Contains(e.rates, rate) {
					out := filepath.Join(dir, fmt.Sprintf("%d-%d-%v-%d.%s", rate, input.channels, input.left, len(files), e.ext))
					files, used = append(files, out), append(used, e)
					args = append(append(args, e.args...), out)
				}
			}
			run(t, "ffmpeg", args...)
			for i, e := range used {
				checkTone(t, fmt.Sprintf("%v %d Hz, %d channels, left only %v", e.args, rate, input.channels, input.left), files[i], e, input.left)
			}
		}
	}
}

func checkTone(t *testing.T, name, path string, e encoding, left bool) {
	t.Helper()
	s, x := decodeFile(t, path)
	if s.Codec != e.codec || s.Damage() != nil || s.Lost() != 0 {
		t.Errorf("%s: codec %s, damage %v, lost %v", name, s.Codec, s.Damage(), s.Lost())
	}
	most := 16 // in samples: 1 ms
	if slices.Contains(e.args, "-live") {
		most = 320 // a stream does not contain the position in its last packet at which it ends
	}
	if d := len(x) - 2*Rate; d > most || d < -most {
		t.Fatalf("%s: %d samples, want %d", name, len(x), 2*Rate)
	}
	mid := x[Rate/2 : 3*Rate/2]
	if f := frequency(mid, Rate); math.Abs(f-1000) > 1 {
		t.Errorf("%s: %.2f Hz", name, f)
	}
	want := math.Pow(10, -6/20.0)
	if left {
		want /= 2
	}
	a, phase, _ := fit(mid, 1000, Rate)
	if math.Abs(a/want-1) > 0.1 {
		t.Errorf("%s: amplitude %.3f, want %.3f", name, a, want)
	}
	if late := phase / (2 * math.Pi); math.Abs(late) > 0.25 && e.codec != "opus" { // Opus shifts phases at low rates
		t.Errorf("%s: the tone is moved by %.2f ms", name, late)
	}
}
