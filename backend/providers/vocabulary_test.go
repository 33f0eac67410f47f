package providers

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"helix/backend/providers/recordings"
)

// The counts are those of gpt-tokenizer; go run ./providers goldens in build/bench makes them. Byte order marks
// are not among the texts: they are a token of the published vocabulary, and gpt-tokenizer loses it.
func TestTokensAreCountedAsGPTTokenizerCountsThem(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/tokens.json")
	must(t, err)
	var want [][2]int64
	must(t, json.Unmarshal(text, &want))
	texts := recordings.Texts()
	if len(texts) != len(want) || len(want) != 1000 {
		t.Fatalf("%d texts and %d counts", len(texts), len(want))
	}
	s := Service{Router: &Router{}}
	for i, text := range texts {
		for at, model := range []ModelRef{"openai/gpt-5", "any/vendor/gpt-4-turbo"} {
			r, err := s.CountTokens(t.Context(), CountParams{Model: model, Text: text})
			must(t, err)
			if r.Tokens != want[i][at] || r.Method != "exact" {
				t.Errorf("text %d with %s: %d tokens (%s), want %d: %.80q", i, model, r.Tokens, r.Method, want[i][at], text)
			}
		}
	}
}

func TestOnlyWhatAVocabularyCountsWholeIsExact(t *testing.T) {
	t.Parallel()
	hello := []Message{{Role: User, Parts: []Part{TextPart("Hello")}}}
	picture := []Message{{Role: User, Parts: []Part{{Kind: PartImage, Data: []byte("x")}}}}
	for name, c := range map[string]struct {
		p      CountParams
		tokens int64
		method string
	}{
		"a text":                         {CountParams{Model: "openai/o3-mini", Text: "Hello"}, 1, "exact"},
		"a byte order mark":              {CountParams{Model: "openai/o3-mini", Text: "\ufeff"}, 1, "exact"},
		"what is not UTF-8":              {CountParams{Model: "openai/o3-mini", Text: "a\xffb"}, 3, "exact"},
		"nothing":                        {CountParams{Model: "openai/o3-mini"}, 0, "exact"},
		"messages":                       {CountParams{Model: "openai/gpt-4o", Messages: hello}, 3 + 1 + 1 + 3, "exact"},
		"tools":                          {CountParams{Model: "openai/gpt-4o", Tools: []ToolDecl{{Name: "boat"}}}, 1, "estimate"},
		"a picture":                      {CountParams{Model: "openai/gpt-4o", Messages: picture}, 3 + 1 + imageTokens + 3, "estimate"},
		"a model of another family":      {CountParams{Model: "anthropic/one", Text: "Hello"}, 2, "estimate"},
		"a name that only looks like it": {CountParams{Model: "local/o1b", Text: "Hello"}, 2, "estimate"},
		"no model":                       {CountParams{Text: "Hello"}, 2, "estimate"},
	} {
		s := Service{Router: &Router{}}
		if r, err := s.CountTokens(t.Context(), c.p); err != nil || r.Tokens != c.tokens || r.Method != c.method {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

func TestVocabulariesAreLetGoWhenNobodyCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := Service{Router: &Router{}}
		kept := func() *vocabulary {
			k := &s.vocabularies.newer
			k.mu.Lock()
			defer k.mu.Unlock()
			return k.v
		}
		count := func() *vocabulary {
			_, err := s.CountTokens(t.Context(), CountParams{Model: "openai/o3-mini", Text: "Hello"})
			must(t, err)
			return kept()
		}
		first := count()
		time.Sleep(keepVocabulary - time.Second)
		if count() != first {
			t.Error("a vocabulary in use was let go")
		}
		time.Sleep(keepVocabulary + time.Second)
		if kept() != nil {
			t.Error("a vocabulary is kept that nobody uses")
		}
		if count() == nil {
			t.Error("it did not come back")
		}
		time.Sleep(keepVocabulary + time.Second) // its timer is no more
	})
}

func FuzzSplit(f *testing.F) {
	f.Add("don't WE'LL  \r\n\u00a0 x1234 日本語\u200d👩‍👧 ǅ\xff")
	f.Fuzz(func(t *testing.T, text string) {
		for _, split := range []func(string) int{splitO200k, splitCl100k} {
			for rest := text; rest != ""; {
				n := split(rest)
				if n <= 0 || n > len(rest) {
					t.Fatalf("%d bytes of %q", n, rest)
				}
				rest = rest[n:]
			}
		}
	})
}

// Prompts of a model whose tokens have 4.7 bytes on average, and now and then others.
func TestTheLearnedRatioIsWithinATenthAfterTwentyCalls(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 5))
	for _, truth := range []float64{2.4, 3.6, 4.7, 5.8} {
		var learned ratios
		for i := range 20 {
			text := strings.Repeat("x", 500+r.IntN(20_000))
			at := truth * (0.85 + 0.3*r.Float64())
			if i%5 == 4 {
				at *= 2 // a prompt of pictures or another language
			}
			learned.learn("p/m", Request{System: []Part{TextPart(text)}}, Usage{Input: int64(float64(len(text)) / at)})
		}
		got, known := learned.of("p/m")
		if !known || math.Abs(got/truth-1) > 0.1 {
			t.Errorf("a ratio of %.1f was learned as %.2f", truth, got)
		}
	}
}
