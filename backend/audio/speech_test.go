package audio

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"
)

// spoken returns sentences with pauses, spoken by flite, at Rate.
func spoken(t testing.TB, dir string) []float32 {
	t.Helper()
	var all []float32
	for i, text := range []string{"Remind me to call the dentist tomorrow at nine in the morning.", "Search my memories for the budget meeting in March.", "My grandmother used to bake apple pie every Sunday."} {
		for _, voice := range []string{"rms", "slt"} {
			path := filepath.Join(dir, fmt.Sprintf("%s-%d.wav", voice, i))
			run(t, "flite", "-voice", voice, "-t", text, "-o", path)
			_, x := decodeFile(t, path)
			all = append(append(all, x...), make([]float32, Rate)...)
		}
	}
	return all
}

// noise returns noise made by sox, scaled so that speech has the given signal-to-noise ratio.
func noise(t testing.TB, dir, kind string, speech []float32, snr float64) []float32 {
	t.Helper()
	path := filepath.Join(dir, kind+".wav")
	run(t, "sox", "-R", "-n", "-r", fmt.Sprint(Rate), "-c", "1", path, "synth", fmt.Sprint(len(speech)/Rate+1), kind+"noise", "gain", "-12")
	_, x := decodeFile(t, path)
	energy := func(x []float32) (e float64) {
		for _, v := range x {
			e += float64(v) * float64(v)
		}
		return e
	}
	scale := math.Sqrt(energy(speech) / energy(x[:len(speech)]) / math.Pow(10, snr/10))
	out := make([]float32, len(speech))
	for i := range out {
		out[i] = speech[i] + float32(scale)*x[i]
	}
	return out
}

// TestSpeechIsFoundInNoise counts frames. Those with speech are known from their energy without
// noise.
func TestSpeechIsFoundInNoise(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	clean := spoken(t, dir)
	var peak float64
	energy := make([]float64, len(clean)/hop)
	for i := range energy {
		for _, v := range clean[i*hop : (i+1)*hop] {
			energy[i] += float64(v) * float64(v)
		}
		peak = max(peak, energy[i])
	}
	for _, c := range []struct {
		kind string
		snr  float64
	}{{"", 0}, {"white", 0}, {"pink", 5}, {"brown", 5}} {
		x := clean
		if c.kind != "" {
			x = noise(t, dir, c.kind, clean, c.snr)
		}
		d := NewDetector()
		d.Write(x)
		d.Speech()
		var hit, miss, wrong, right int
		for i, v := range d.frames()[:len(energy)] {
			switch speech := energy[i] > peak*1e-4; {
			case speech && v:
				hit++
			case speech:
				miss++
			case v:
				wrong++
			default:
				right++
			}
		}
		recall, falsePositives := float64(hit)/float64(hit+miss), float64(wrong)/float64(wrong+right)
		t.Logf("%s %.0f dB: recall %.3f, false positives %.3f", c.kind, c.snr, recall, falsePositives)
		if recall < 0.85 || falsePositives > 0.16 {
			t.Errorf("%s %.0f dB: recall %.3f, false positives %.3f", c.kind, c.snr, recall, falsePositives)
		}
	}
}
