package synthesis

import (
	"sync"

	"helix/backend/valence"
)

// openMoods loads the model once. It is embedded in the program, so loading cannot fail.
var openMoods = sync.OnceValue(func() *valence.Model {
	m, err := valence.Open()
	if err != nil {
		panic(err)
	}
	return m
})

// mood returns the valence of a text, -1 to 1, and its arousal, 0 to 1.
func mood(body string, vector []float32) (v, arousal float64, lexiconOnly bool) {
	s := openMoods().Score(body, vector)
	return s.Valence, s.Arousal, s.LexiconOnly
}
