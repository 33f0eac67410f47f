package audio

import (
	"bytes"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// samples is a source that returns its samples in parts of random length.
type samples struct {
	x []float32
	r *rand.Rand
}

func (s *samples) Read(p []float32) (int, error) {
	if len(s.x) == 0 {
		return 0, io.EOF
	}
	n := len(p)
	if s.r != nil {
		n = s.r.IntN(len(p) + 1)
	}
	n = copy(p[:n], s.x)
	s.x = s.x[n:]
	return n, nil
}

func resampled(t testing.TB, x []float32, from, to int) []float32 {
	t.Helper()
	src, err := Resample(&samples{x: x}, from, to)
	if err != nil {
		t.Fatal(err)
	}
	out, err := readAll(src)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestResamplerKeepsTonesAndRemovesAliases measures the pass band and the aliases at the usual
// rates, and at one whose ratio is interpolated.
func TestResamplerKeepsTonesAndRemovesAliases(t *testing.T) {
	t.Parallel()
	const level = 0.891 // -1 dB
	for _, rate := range []int{22050, 44100, 48000, 96000, 44101} {
		sine := func(f float64) []float32 {
			x := make([]float32, rate/2)
			for i := range x {
				fade := min(1, float64(min(i, len(x)-1-i))/(float64(rate)/50))
				fade *= fade * (3 - 2*fade) // a hard edge would contain every frequency
				x[i] = float32(level * fade * math.Sin(2*math.Pi*f*float64(i)/float64(rate)))
			}
			return x
		}
		worst, ripple := math.Inf(-1), 0.0
		for _, f := range []float64{50, 200, 997, 3000, 5000, 6500, 7000} {
			y := resampled(t, sine(f), rate, Rate)
			a, _, residue := fit(y[len(y)/4:len(y)*3/4], f, Rate)
			ripple = max(ripple, math.Abs(20*math.Log10(a/level)))
			if f == 997 {
				if thd := 20 * math.Log10(residue*math.Sqrt2/a); thd > -120 {
					t.Errorf("%d Hz: THD+N %.1f dB", rate, thd)
				} else {
					t.Logf("%d Hz: THD+N %.1f dB", rate, thd)
				}
			}
		}
		for _, f := range []float64{8050, 8100, 8300, 9000, 10000, 10900, 13000, 15900, 19000, 21500, 30000, 47000} {
			if f > float64(rate)/2-100 {
				continue
			}
			y := resampled(t, sine(f), rate, Rate)
			var sum float64
			mid := y[len(y)/4 : len(y)*3/4]
			for _, v := range mid {
				sum += float64(v) * float64(v)
			}
			worst = max(worst, 10*math.Log10(2*sum/float64(len(mid))+1e-30)-20*math.Log10(level))
		}
		t.Logf("%d Hz: alias %.1f dB, ripple %.4f dB", rate, worst, ripple)
		if worst > -110 || ripple > 0.01 {
			t.Errorf("%d Hz: alias %.1f dB, ripple %.4f dB", rate, worst, ripple)
		}
	}
}

func TestResamplingDoesNotDependOnHowItIsRead(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for _, rate := range []int{8000, 11025, 44100, 48000, 44101, 192000} {
		x := make([]float32, 30_000+r.IntN(1000))
		for i := range x {
			x[i] = r.Float32()*2 - 1
		}
		want := resampled(t, x, rate, Rate)
		if n := (len(x)*Rate + rate - 1) / rate; len(want) != n {
			t.Errorf("%d Hz: %d samples from %d, want %d", rate, len(want), len(x), n)
		}
		for range 3 {
			src, err := Resample(&samples{slices.Clone(x), r}, rate, Rate)
			if err != nil {
				t.Fatal(err)
			}
			var got []float32
			for {
				p := make([]float32, 1+r.IntN(5000))
				n, err := src.Read(p)
				got = append(got, p[:n]...)
				if err != nil {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d Hz: another result when read in other parts", rate)
			}
		}
	}
}

// TestWAVKeepsSamples writes samples and reads them back. They may differ by one bit.
func TestWAVKeepsSamples(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	x := []float32{0, 1, -1, 2, -2, 0.5, 1.0 / 32767}
	for range 10_000 {
		x = append(x, r.Float32()*2-1)
	}
	var f file
	n, err := WriteWAV(&f, 48000, &samples{x: slices.Clone(x)})
	if err != nil || n != int64(len(x)) {
		t.Fatal(n, err)
	}
	s, err := Open(bytes.NewReader(f.b))
	if err != nil || s.SampleRate != 48000 || s.Channels != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	got, err := readAll(s)
	if err != nil || len(got) != len(x) {
		t.Fatal(len(got), err)
	}
	for i, v := range got {
		if want := max(-1, min(1, x[i])); math.Abs(float64(v-want)) > 1.5/32768 { // half a step of rounding, and the different scale
			t.Fatalf("sample %d: %v, want %v", i, v, want)
		}
	}
	for k := math.MinInt16; k <= math.MaxInt16; k++ {
		if d := int(PCM16(float32(k)/32768)) - k; d < -1 || d > 1 {
			t.Fatalf("%d becomes %d", k, k+d)
		}
	}
}

// file is an io.WriteSeeker in memory.
type file struct {
	b  []byte
	at int
}

func (f *file) Write(p []byte) (int, error) {
	f.b = append(f.b, make([]byte, max(0, f.at+len(p)-len(f.b)))...)
	f.at += copy(f.b[f.at:], p)
	return len(p), nil
}

func (f *file) Seek(to int64, _ int) (int64, error) { f.at = int(to); return to, nil }

func TestPeaksAreDrawnAndStored(t *testing.T) {
	t.Parallel()
	p := &Peaks{}
	x := make([]float32, Rate)
	for i := range x {
		x[i] = float32(math.Sin(2*math.Pi*100*float64(i)/Rate)) * float32(i/(Rate/2)) // silence, then full scale
	}
	p.Write(x[:777])
	p.Write(x[777:])
	q, speech, err := DecodePeaks(p.Encode([]Span{{500, 1000}}))
	if err != nil || !slices.Equal(speech, []Span{{500, 1000}}) || q.Len() != 100 {
		t.Fatal(q, speech, err)
	}
	lo, hi, rms := q.Draw(0, 100, 4)
	for i, loud := range []bool{false, false, true, true} {
		want := [3]int{0, 0, 0}
		if loud {
			want = [3]int{-127, 127, 180}
		}
		if int(int8(lo[i])) != want[0] || int(int8(hi[i])) != want[1] || int(rms[i]) != want[2] {
			t.Errorf("bucket %d: %d %d %d, want %v", i, int8(lo[i]), int8(hi[i]), rms[i], want)
		}
	}
	if lo, _, _ := q.Draw(10, 15, 1000); len(lo) != 5 {
		t.Errorf("%d buckets of five peaks", len(lo))
	}
	for _, bad := range [][]byte{nil, []byte("HXPK1"), append([]byte(peaksMagic), 255, 255, 255, 255), p.Encode(nil)[:len(p.Encode(nil))-1]} {
		if _, _, err := DecodePeaks(bad); err == nil {
			t.Errorf("%d bytes were read", len(bad))
		}
	}
}
