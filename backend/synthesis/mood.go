package synthesis

import (
	"sync"

	"helix/backend/valence"
)

// openMoods reads the model once; it is a part of the program, so it cannot be missing.
var openMoods = sync.OnceValue(func() *valence.Model {
	m, err := valence.Open()
	if err != nil {
		panic(err)
	}
	return m
})

// mood is the valence of a text, -1 to 1, and how strong its feeling is, 0 to 1.
func mood(body string, vector []float32) (v, arousal float64, lexiconOnly bool) {
	s := openMoods().Score(body, vector)
	return s.Valence, s.Arousal, s.LexiconOnly
}
