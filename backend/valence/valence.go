// Package valence estimates how pleasant and how arousing a text is for its reader. It combines the
// scores of the VADER lexicon (Hutto and Gilbert 2014) with the vector of the text from
// backend/embed in a kernel ridge regression over landmarks (the Nyström method), trained on
// EmoBank (Buechel and Hahn 2017) by build/models/valence.
//
// The result depends only on the text and the vector; no state is kept between calls.
package valence

import (
	_ "embed"
	"math"

	"helix/backend/kernel"
)

//go:embed valence.bin
var file []byte

const (
	// VectorDims is the length of the vectors that the model was trained with.
	VectorDims = 512
	// Components is the number of principal components of a vector that the model uses.
	Components = 88
	// PointDims is the length of a landmark: the components, the features of the lexicon, and padding.
	PointDims = 3 * kernel.ByteLanes

	neutral = 3.0 // the middle of EmoBank's scale from 1 to 5
	steps   = 1e4 // scores are multiples of 1/steps
)

// Score is the emotion of a text.
type Score struct {
	Valence     float64 // -1 unpleasant to 1 pleasant; beyond ±0.3 it is clearly emotional
	Arousal     float64 // 0 calm to 1 excited
	Intensity   float64 // 0 to 1: the length of valence and arousal together
	LexiconOnly bool    // there was no usable vector, so only the lexicon was used
}

// Model scores texts. It is safe for concurrent use.
type Model struct {
	p       Parameters
	words   *lexicon
	lengths []float64 // squared length of each landmark
	decay   *decay
}

// Open returns the model embedded in the binary.
func Open() (*Model, error) { return Decode(file) }

// Score estimates text. vector is its embedding. If it is missing, not finite, zero or not of
// length VectorDims, only the lexicon is used and LexiconOnly is set.
func (m *Model) Score(text string, vector []float32) Score {
	v, a, lexiconOnly := m.Predict(text, vector)
	slopes := m.p.Slopes
	if lexiconOnly {
		slopes = m.p.LexiconSlopes
	}
	s := Score{
		Valence:     quantize((v-neutral)*slopes[0], -1),
		Arousal:     quantize((a-neutral)*slopes[1], 0),
		LexiconOnly: lexiconOnly,
	}
	s.Intensity = quantize(math.Hypot(s.Valence, s.Arousal), 0)
	return s
}

// quantize limits x to least..1 and rounds it, so that differences in the last bits of a vector,
// which depend on the processor, rarely affect the result.
func quantize(x, least float64) float64 {
	return math.Round(min(max(x, least), 1)*steps)/steps + 0 // +0 turns a negative zero into zero
}

// Predict estimates valence and arousal on EmoBank's scale, where 3 is neutral.
func (m *Model) Predict(text string, vector []float32) (valence, arousal float64, lexiconOnly bool) {
	features := m.words.features(text)
	unit, ok := normalize(vector)
	if !ok {
		y := m.p.LexiconMean
		for i, x := range lexiconTerms(features) {
			y[0] += x * float64(m.p.LexiconWeights[0][i])
			y[1] += x * float64(m.p.LexiconWeights[1][i])
		}
		return y[0], y[1], true
	}
	near := make([]float64, len(m.lengths))
	m.similarities(m.point(features, unit), near)
	y := m.p.Mean
	for i, k := range near {
		y[0] += k * float64(m.p.Weights[0][i])
		y[1] += k * float64(m.p.Weights[1][i])
	}
	return y[0], y[1], false
}

// Point returns the point of a text in the space of the landmarks. Point and Similarities are for
// training; the vector must be usable.
func (m *Model) Point(text string, vector []float32) []float64 {
	unit, _ := normalize(vector)
	p := m.point(m.words.features(text), unit)
	return p[:]
}

// Similarities returns the values of the kernel between a text and each landmark.
func (m *Model) Similarities(text string, vector []float32) []float64 {
	unit, _ := normalize(vector)
	near := make([]float64, len(m.lengths))
	m.similarities(m.point(m.words.features(text), unit), near)
	return near
}

// LexiconTerms returns the terms of the lexicon-only calibration.
func (m *Model) LexiconTerms(text string) []float64 {
	terms := lexiconTerms(m.words.features(text))
	return terms[:]
}

// whole is the value of the largest component of a quantized vector. A sum of PointDims or, for a
// unit vector, VectorDims products of such values is within the range of kernel.DotBytes.
const whole = math.MaxInt16

// point projects a unit vector onto the principal components and appends the features.
func (m *Model) point(features [Features]float64, unit []float32) (z [PointDims]float64) {
	var q [VectorDims]int16
	for i, x := range unit {
		q[i] = int16(math.RoundToEven(float64(x) * whole))
	}
	var sums [Components]int32
	kernel.DotBytes(q[:], m.p.Projection, sums[:])
	for i, s := range sums {
		z[i] = float64(s) / whole * float64(m.p.ProjectionScale[i])
	}
	for i, x := range features {
		z[Components+i] = (x - float64(m.p.FeatureMean[i])) * float64(m.p.FeatureScale[i])
	}
	return z
}

// similarities sets near to exp(-gamma·d²) for the distance d of z from each landmark.
func (m *Model) similarities(z [PointDims]float64, near []float64) {
	var scaled [PointDims]float64
	length, largest := 0.0, math.SmallestNonzeroFloat32
	for i, x := range z {
		length += x * x
		scaled[i] = x * float64(m.p.LandmarkScale[i])
		largest = max(largest, math.Abs(scaled[i]))
	}
	var q [PointDims]int16
	for i, x := range scaled {
		q[i] = int16(math.RoundToEven(x / largest * whole))
	}
	sums := make([]int32, len(near))
	kernel.DotBytes(q[:], m.p.Landmarks, sums)
	unit := largest / whole
	for i, s := range sums {
		near[i] = m.decay.at(m.p.Gamma * max(0, length+m.lengths[i]-2*float64(s)*unit))
	}
}

// decay tabulates exp(-x) in steps of 1/decayStep. Calling math.Exp would take half of the
// time of a score.
type decay [16*decayStep + 1]float64

const decayStep = 64

func newDecay() *decay {
	d := new(decay)
	for i := range d {
		d[i] = math.Exp(-float64(i) / decayStep)
	}
	return d
}

// at returns exp(-x) with an error below 1e-8, for x ≥ 0.
func (d *decay) at(x float64) float64 {
	if x >= 16 {
		return 0
	}
	i := int(x * decayStep)
	rest := x - float64(i)/decayStep
	return d[i] * (1 - rest*(1-rest*(1./2-rest*(1./6))))
}

// normalize returns a vector scaled to length one. ok is false if that is not possible.
func normalize(v []float32) ([]float32, bool) {
	if len(v) != VectorDims {
		return nil, false
	}
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if !(sum > 0) || math.IsInf(sum, 0) {
		return nil, false
	}
	r := 1 / math.Sqrt(sum)
	unit := make([]float32, len(v))
	for i, x := range v {
		unit[i] = float32(float64(x) * r)
	}
	return unit, true
}
