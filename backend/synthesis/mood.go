package synthesis

import (
	"math"
	"sync"

	"github.com/jonreiter/govader"
)

var lexicon = sync.OnceValue(govader.NewSentimentIntensityAnalyzer)

// mood is the valence of a text, -1 to 1, and how strong its feeling is, 0 to 1.
func mood(body string, _ []float32) (valence, arousal float64) {
	s := lexicon().PolarityScores(body)
	return s.Compound, math.Abs(s.Compound)
}
