package denoise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"helix/backend/audio"
	"helix/backend/fault"
)

// samples is a source whose reads return at most step samples.
type samples struct {
	x    []float32
	step int
}

func (s *samples) Read(p []float32) (int, error) {
	if len(s.x) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), s.step)], s.x)
	s.x = s.x[n:]
	return n, nil
}

func suppressor(t testing.TB) *Suppressor {
	t.Helper()
	s := New()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func clean(t testing.TB, s *Suppressor, x []float32, step, read int) (out []float32) {
	t.Helper()
	d, err := s.Source(t.Context(), &samples{x, step})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	p := make([]float32, read)
	for {
		n, err := d.Read(p)
		out = append(out, p[:n]...)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// decoded runs a program that writes a WAV file and decodes that at Rate.
func decoded(t testing.TB, program string, args ...string) (x []float32) {
	t.Helper()
	path := args[len(args)-1]
	if i := slices.Index(args, "OUT"); i >= 0 {
		path = filepath.Join(t.TempDir(), "x.wav")
		args[i] = path
	}
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := audio.Open(f)
	if err != nil {
		t.Fatal(err)
	}
	src, err := audio.Resample(st, st.SampleRate, Rate)
	if err != nil {
		t.Fatal(err)
	}
	p := make([]float32, 4096)
	for {
		n, err := src.Read(p)
		x = append(x, p[:n]...)
		if errors.Is(err, io.EOF) {
			return x
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func energy(x []float32) (e float64) {
	for _, v := range x {
		e += float64(v) * float64(v)
	}
	return e
}

// sisdr returns the scale-invariant signal-to-distortion ratio of x in dB (Le Roux et al. 2019).
func sisdr(ref, x []float32) float64 {
	var xr float64
	for i := range ref {
		xr += float64(x[i]) * float64(ref[i])
	}
	gain := xr / energy(ref)
	var signal, distortion float64
	for i := range ref {
		s := gain * float64(ref[i])
		signal += s * s
		distortion += (float64(x[i]) - s) * (float64(x[i]) - s)
	}
	return 10 * math.Log10(signal/distortion)
}

func TestNoiseIsSuppressed(t *testing.T) {
	t.Parallel()
	s := suppressor(t)
	for _, voice := range []string{"rms", "slt"} {
		var speech []float32
		for _, text := range []string{"Remind me to call the dentist tomorrow at nine in the morning.", "Search my memories for the budget meeting in March.", "My grandmother used to bake apple pie every Sunday."} {
			speech = append(speech, decoded(t, "flite", "-voice", voice, "-t", text, "-o", "OUT")...)
		}
		for _, c := range []struct {
			kind      string
			snr, gain float64
		}{{"white", 0, 9}, {"pink", 5, 4.5}, {"brown", 5, 6}} {
			noise := decoded(t, "sox", "-R", "-n", "-r", fmt.Sprint(Rate), "-c", "1", "OUT", "synth", fmt.Sprint(len(speech)/Rate+1), c.kind+"noise", "gain", "-12")[:len(speech)]
			scale := float32(math.Sqrt(energy(speech) / energy(noise) / math.Pow(10, c.snr/10)))
			noisy := slices.Clone(speech)
			for i := range noisy {
				noisy[i] += scale * noise[i]
			}
			out := clean(t, s, noisy, 4096, 4096)
			if len(out) != len(noisy) {
				t.Fatalf("%d samples became %d", len(noisy), len(out))
			}
			before, after := sisdr(speech, noisy), sisdr(speech, out)
			t.Logf("%s, %s noise at %.0f dB: SI-SDR %.1f dB, denoised %.1f dB, gain %.1f dB", voice, c.kind, c.snr, before, after, after-before)
			if after-before < c.gain {
				t.Errorf("%s, %s noise: gain %.1f dB, want %.1f dB", voice, c.kind, after-before, c.gain)
			}
		}
		// Speech without noise stays almost as it is.
		if after := sisdr(speech, clean(t, s, speech, 4096, 4096)); after < 20 {
			t.Errorf("%s: clean speech keeps %.1f dB", voice, after)
		} else {
			t.Logf("%s: clean speech keeps %.1f dB", voice, after)
		}
	}
}

func TestOutputIsTheSameForAllSizesOfReads(t *testing.T) {
	t.Parallel()
	s := suppressor(t)
	x := make([]float32, 5*frame+123)
	for i := range x {
		x[i] = float32(math.Sin(float64(i)/20)) / 3
	}
	want := clean(t, s, x, len(x), len(x))
	for _, c := range [][2]int{{1, 1}, {7, 481}, {480, 480}, {1000, 3}} {
		if got := clean(t, s, x, c[0], c[1]); !slices.Equal(got, want) {
			t.Errorf("reads of %d and %d: %d samples, want %d", c[0], c[1], len(got), len(want))
		}
	}
	for _, n := range []int{0, 1, frame - 1, frame, frame + 1} {
		if got := clean(t, s, x[:n], 480, 480); len(got) != n {
			t.Errorf("%d samples became %d", n, len(got))
		}
	}
}

type broken struct{}

func (broken) Read([]float32) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestFailuresAreReported(t *testing.T) {
	t.Parallel()
	s := suppressor(t)
	d, err := s.Source(t.Context(), broken{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Read(make([]float32, 10)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a broken source: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	e, err := s.Source(ctx, &samples{make([]float32, 4*frame), 480})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	cancel()
	if _, err := e.Read(make([]float32, 10)); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	for text, files := range map[string]fstest.MapFS{"has no noise suppressor": {}, "is damaged": {module: {Data: []byte("\x00asm")}}} {
		_, err := (&Suppressor{files: files}).Source(t.Context(), broken{})
		if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
	}
	gone := New()
	if err := gone.Close(); err != nil {
		t.Error(err)
	}
	if _, err := gone.Source(t.Context(), broken{}); err == nil {
		t.Error("a closed suppressor made a source")
	}
}
