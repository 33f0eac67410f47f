package valence

import (
	"math"
	"strings"

	"github.com/jonreiter/govader"
)

const (
	// Features is how many values the lexicon gives for a text.
	Features = 7
	// LexiconTerms is how many values the calibration without a vector weighs.
	LexiconTerms = Features + 1

	countLimit = 3 // negations and exclamation marks beyond it add nothing
)

// lexicon computes the features of a text. It only reads its tables.
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

// apostrophes writes quotation marks as the lexicon spells them.
var apostrophes = strings.NewReplacer("’", "'", "‘", "'", "“", `"`, "”", `"`)

// features are compound, positive, negative, neutral and |compound| of VADER, and how often the
// text negates and exclaims.
func (l *lexicon) features(text string) [Features]float64 {
	words := strings.Fields(apostrophes.Replace(text))
	s := l.vader.PolarityScores(strings.Join(words, " ")) // it knows no white space but blanks
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

// lexiconTerms adds to the features what lets a line bend.
func lexiconTerms(f [Features]float64) (t [LexiconTerms]float64) {
	copy(t[:], f[:])
	t[Features] = f[0] * f[4]
	return t
}
