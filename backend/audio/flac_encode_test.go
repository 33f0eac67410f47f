package audio

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

func TestFLACHasTheSameSamplesInLessSpace(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	for name, c := range map[string]struct {
		samples int
		at      func(i int) float64
		smaller bool
	}{
		"a tone with some noise":       {100_001, func(i int) float64 { return 0.3*math.Sin(float64(i)/30) + r.Float64()/1000 }, true},
		"silence":                      {5000, func(int) float64 { return 0 }, true},
		"full scale":                   {3 * block, func(i int) float64 { return float64(1 - i%2*2) }, false},
		"noise":                        {block + 1, func(int) float64 { return 2*r.Float64() - 1 }, false},
		"one sample more than a block": {block + 1, func(i int) float64 { return math.Sin(float64(i) / 100) }, true},
	} {
		x := make([]float32, c.samples)
		for i := range x {
			x[i] = float32(c.at(i))
		}
		dir := t.TempDir()
		wav, packed := filepath.Join(dir, "x.wav"), filepath.Join(dir, "x.flac")
		f, err := os.Create(wav)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := WriteWAV(f, 48000, &samples{x: x}); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		plain, err := os.ReadFile(wav)
		if err != nil {
			t.Fatal(err)
		}
		if f, err = os.Create(packed); err != nil {
			t.Fatal(err)
		}
		if err := EncodeFLAC(f, bytes.NewReader(plain)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		small, err := os.ReadFile(packed)
		if err != nil {
			t.Fatal(err)
		}
		if same, err := SameSamples(bytes.NewReader(plain), bytes.NewReader(small)); !same || err != nil {
			t.Errorf("%s: same %v, %v", name, same, err)
		}
		if len(small) > len(plain) == c.smaller {
			t.Errorf("%s: %d bytes became %d", name, len(plain), len(small))
		}
		changed := bytes.Clone(plain)
		changed[len(changed)-1] ^= 1
		for _, other := range [][]byte{changed, plain[:len(plain)-2]} {
			if same, err := SameSamples(bytes.NewReader(other), bytes.NewReader(small)); same || err != nil {
				t.Errorf("%s: different samples are the same: %v", name, err)
			}
		}
	}
}

func TestFLACRefusesSamplesThatDoNotFit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, args := range [][]string{{"-b", "24", "-c", "1"}, {"-b", "16", "-c", "2"}} {
		wav := filepath.Join(dir, args[1]+".wav")
		run(t, "sox", append(append([]string{"-n", "-r", "48000"}, args...), wav, "synth", "1", "sine", "1000", "gain", "-6")...)
		in, err := os.Open(wav)
		if err != nil {
			t.Fatal(err)
		}
		out, err := os.Create(filepath.Join(dir, "x.flac"))
		if err != nil {
			t.Fatal(err)
		}
		if err := EncodeFLAC(out, in); err == nil {
			t.Errorf("%v was encoded", args)
		}
		if err := out.Close(); err != nil {
			t.Error(err)
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	}
}
