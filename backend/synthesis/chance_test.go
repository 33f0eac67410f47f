package synthesis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// A group is rejected if its texts share no more words than random texts do. It is kept if they
// share more, or express the same without common words.
func TestGroupsByChance(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 7))
	var texts []Text
	for i := range 400 {
		var words []string
		for range 8 {
			words = append(words, fmt.Sprintf("%c%cword", 'a'+r.IntN(20), 'a'+r.IntN(10)))
		}
		texts = append(texts, Text{ID: fmt.Sprint(i), Body: strings.Join(words, " ")})
	}
	for i := range 6 { // six texts that share three rare words
		texts[i].Body += " adoption agency visit"
	}
	for i := range 4 { // four texts without common words
		texts[10+i].Body = strings.Repeat(string(rune('q'+i)), 5) + " " + strings.Repeat(string(rune('k'+i)), 4)
	}
	v := newVocabulary(texts)
	if v.byChance([]int{0, 1, 2, 3, 4, 5}) {
		t.Error("six texts with three words of their own are no topic")
	}
	// The pair of words that most texts share by chance.
	var best []int
	pairs := map[[2]string][]int{}
	for i := 20; i < len(texts); i++ {
		words := strings.Fields(texts[i].Body)
		slices.Sort(words)
		words = slices.Compact(words)
		for k, a := range words {
			for _, b := range words[k+1:] {
				if pairs[[2]string{a, b}] = append(pairs[[2]string{a, b}], i); len(pairs[[2]string{a, b}]) > len(best) {
					best = pairs[[2]string{a, b}]
				}
			}
		}
	}
	if len(best) < 3 || !v.byChance(best) {
		t.Errorf("%d texts that share two words by chance are a topic", len(best))
	}
	if v.byChance([]int{10, 11, 12, 13}) {
		t.Error("texts that share no word were dropped")
	}
}

// Compares the tail of the hypergeometric distribution with its definition.
func TestHypergeometricTail(t *testing.T) {
	t.Parallel()
	for _, c := range [][4]int{{50, 5, 10, 4}, {50, 5, 10, 0}, {10, 10, 3, 3}, {20, 3, 4, 1}} {
		n, df, m, k := c[0], c[1], c[2], c[3]
		want := 0.0
		for x := k; x <= min(m, df); x++ {
			want += binomial(df, x) * binomial(n-df, m-x) / binomial(n, m)
		}
		if got := math.Exp(logTail(n, df, m, k)); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v: %v, want %v", c, got, want)
		}
	}
}

func binomial(n, k int) float64 {
	if k > n {
		return 0
	}
	out := 1.0
	for i := range k {
		out *= float64(n-i) / float64(i+1)
	}
	return out
}

// A person who requests a number of topics gets that many, whatever the density of the texts.
func TestThemesAskedFor(t *testing.T) {
	t.Parallel()
	var texts []Text
	for i := range 60 {
		v := make([]float32, 16)
		v[i%3], v[3+i%13] = 1, 0.6
		texts = append(texts, Text{ID: fmt.Sprintf("t%02d", i), Kind: "memory", Body: []string{"the marathon training schedule", "the vegetable garden fence", "a quarterly budget forecast"}[i%3], At: monday.AddDate(0, 0, i), Vector: v})
	}
	for _, k := range []int{2, 3} {
		a := analyze(t, Input{Texts: texts, Themes: k})
		if got := ofType(a.Patterns, "semantic_cluster"); len(got) != k {
			t.Errorf("%d themes, want %d", len(got), k)
		}
	}
	bad := SynthesizeParams{SynthesisType: Full, Themes: 1}
	if err := bad.check(); err == nil {
		t.Error("one theme is accepted")
	}
}
