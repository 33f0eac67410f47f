package valence

import (
	"bytes"
	"math"
	"os"
	"strings"
	"sync"
	"testing"

	"helix/backend/embed"
)

func openModel(t testing.TB) *Model {
	t.Helper()
	m, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// vectorsOf embeds texts with the encoder of this build.
func vectorsOf(t testing.TB, texts []string) [][]float32 {
	t.Helper()
	e, err := embed.Open()
	if err != nil {
		t.Skip("no encoder in this build: ", err)
	}
	defer e.Release()
	v, err := e.Embed(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func sentences(t *testing.T, name string) []string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

const feeling = 0.3

func TestNeutralSentencesAreNotFeelings(t *testing.T) {
	t.Parallel()
	m, texts := openModel(t), sentences(t, "neutral.txt")
	if len(texts) < 60 {
		t.Fatalf("%d sentences", len(texts))
	}
	for _, text := range texts {
		if s := m.Score(text, nil); math.Abs(s.Valence) > feeling || !s.LexiconOnly {
			t.Errorf("%q without a vector: %+v", text, s)
		}
	}
	vectors := vectorsOf(t, texts)
	for i, text := range texts {
		if s := m.Score(text, vectors[i]); math.Abs(s.Valence) > feeling || s.LexiconOnly {
			t.Errorf("%q: %+v", text, s)
		}
	}
}

func TestFeelingsHaveTheirSign(t *testing.T) {
	t.Parallel()
	m := openModel(t)
	for sign, name := range map[float64]string{1: "pleasant.txt", -1: "unpleasant.txt"} {
		texts := sentences(t, name)
		vectors := vectorsOf(t, texts)
		felt := 0
		for i, text := range texts {
			s := m.Score(text, vectors[i])
			if sign*s.Valence < 0 {
				t.Errorf("%s: %q has the other sign: %+v", name, text, s)
			}
			if sign*s.Valence > feeling {
				felt++
			}
		}
		if felt*3 < len(texts)*2 {
			t.Errorf("%s: only %d of %d are feelings", name, felt, len(texts))
		}
	}
}

func TestScoreDependsOnNothingButItsArguments(t *testing.T) {
	t.Parallel()
	m, texts := openModel(t), sentences(t, "unpleasant.txt")
	vectors := vectorsOf(t, texts)
	want := make([]Score, len(texts))
	for i, text := range texts {
		want[i] = m.Score(text, vectors[i])
	}
	other := openModel(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := len(texts) - 1; i >= 0; i-- {
				if got := m.Score(texts[i], vectors[i]); got != want[i] {
					t.Errorf("%q: %+v, then %+v", texts[i], want[i], got)
				}
			}
		})
	}
	wg.Wait()
	for i, text := range texts {
		scaled := make([]float32, len(vectors[i]))
		for j, x := range vectors[i] {
			scaled[j] = x * 4
		}
		if got := other.Score(text, scaled); got != want[i] {
			t.Errorf("%q: another model and a longer vector give %+v, want %+v", text, got, want[i])
		}
	}
}

func TestUnusableVectorsLeaveTheLexicon(t *testing.T) {
	t.Parallel()
	m := openModel(t)
	nan, inf := make([]float32, VectorDims), make([]float32, VectorDims)
	nan[7], inf[7] = float32(math.NaN()), float32(math.Inf(1))
	want := m.Score("I am so happy!", nil)
	if !want.LexiconOnly || want.Valence <= feeling {
		t.Errorf("without a vector: %+v", want)
	}
	for name, v := range map[string][]float32{"nan": nan, "inf": inf, "zero": make([]float32, VectorDims), "short": make([]float32, 384)} {
		if got := m.Score("I am so happy!", v); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

func TestHeaderNamesDataAndMeetsGoals(t *testing.T) {
	t.Parallel()
	h := openModel(t).p.Header
	if len(file) > 256<<10 {
		t.Errorf("valence.bin has %d bytes", len(file))
	}
	if len(h.SHA256) != 64 || h.Rows != 8062 || !strings.Contains(h.Data, "EmoBank") {
		t.Errorf("header: %+v", h)
	}
	for name, least := range map[string]float64{
		"cv r valence": 0.64, "cv r arousal": 0.5, "cv r lexicon valence": 0.45,
		"valence high precision": 0.6, "valence low precision": 0.6, "arousal high precision": 0.6,
		"lexicon valence high precision": 0.6, "lexicon valence low precision": 0.6,
	} {
		if h.Metrics[name] < least {
			t.Errorf("%s is %v, want at least %v", name, h.Metrics[name], least)
		}
	}
}

func TestEncodeIsTheInverseOfDecode(t *testing.T) {
	t.Parallel()
	m := openModel(t)
	b, err := m.p.Encode()
	if err != nil || !bytes.Equal(b, file) {
		t.Errorf("%d bytes, %v; want the %d of the file", len(b), err, len(file))
	}
	for _, n := range []int{0, 3, len(magic), len(magic) + 4, len(magic) + 40, len(file) / 2, len(file) - 1} {
		if _, err := Decode(file[:n]); err == nil {
			t.Errorf("the first %d bytes are a model", n)
		}
	}
	if _, err := Decode(append(bytes.Clone(file), 0)); err == nil {
		t.Error("a byte too many is accepted")
	}
}

func FuzzScore(f *testing.F) {
	f.Add("I don't like it!!", float32(0.5))
	f.Add("\xff\x00 \n🙂", float32(math.Inf(-1)))
	m := openModel(f)
	f.Fuzz(func(t *testing.T, text string, x float32) {
		v := make([]float32, VectorDims)
		for i := range v {
			v[i] = x * float32(i%7-3)
		}
		for _, v := range [][]float32{nil, v} {
			s := m.Score(text, v)
			if !(s.Valence >= -1 && s.Valence <= 1 && s.Arousal >= 0 && s.Arousal <= 1 && s.Intensity >= 0 && s.Intensity <= 1) {
				t.Errorf("%q: %+v", text, s)
			}
			if again := m.Score(text, v); again != s {
				t.Errorf("%q: %+v, then %+v", text, s, again)
			}
		}
	})
}

func BenchmarkScore(b *testing.B) {
	m, text := openModel(b), "My sister called last night, and we talked about how the garden had changed."
	v := vectorsOf(b, []string{text})[0]
	b.ReportAllocs()
	for b.Loop() {
		m.Score(text, v)
	}
}

func TestDecayIsTheExponential(t *testing.T) {
	t.Parallel()
	d := newDecay()
	for x := 0.0; x < 20; x += 0.0137 {
		if got, want := d.at(x), math.Exp(-x); math.Abs(got-want) > 2e-7 || math.Abs(got-want) > 1e-8 && x < 16 {
			t.Errorf("exp(-%v) is %v, want %v", x, got, want)
		}
	}
}
