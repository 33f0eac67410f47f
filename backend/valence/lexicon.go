package valence

import (
	"math"
	"strings"

	"github.com/jonreiter/govader"
)

const (
	// Features is the number of values that the lexicon computes for a text.
	Features = 7
	// LexiconTerms is the number of terms in the calibration without a vector.
	LexiconTerms = Features + 1

	countLimit = 3 // higher counts of negations and exclamation marks are capped
)

// lexicon computes the features of a text. Its tables are read-only.
type lexicon struct {
	vader   *govader.SentimentIntensityAnalyzer
	negates map[string]bool
}

func newLexicon() *lexicon {
	l := &lexicon{vader: govader.NewSentimentIntensityAnalyzer(), negates: map[string]bool{}}
	for _, w := range l.vader.Constants.NegateList {
		l.negates[w] = true
	}
	return l
}

// apostrophes replaces quotation marks by those used in the lexicon.
var apostrophes = strings.NewReplacer("’", "'", "‘", "'", "“", `"`, "”", `"`)

// features returns compound, positive, negative, neutral and |compound| of VADER, and the numbers
// of negations and exclamation marks.
func (l *lexicon) features(text string) [Features]float64 {
	words := strings.Fields(apostrophes.Replace(text))
	s := l.vader.PolarityScores(strings.Join(words, " ")) // it splits at blanks only
	negations := 0
	for _, w := range words {
		w = strings.ToLower(strings.Trim(w, `.,;:!?"'()[]`))
		if l.negates[w] || strings.HasSuffix(w, "n't") {
			negations++
		}
	}
	return [Features]float64{
		s.Compound, s.Positive, s.Negative, s.Neutral, math.Abs(s.Compound),
		float64(min(negations, countLimit)), float64(min(strings.Count(text, "!"), countLimit)),
	}
}

// lexiconTerms returns the features and additional nonlinear terms.
func lexiconTerms(f [Features]float64) (t [LexiconTerms]float64) {
	copy(t[:], f[:])
	t[Features] = f[0] * f[4]
	return t
}
