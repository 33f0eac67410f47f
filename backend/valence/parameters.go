package valence

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// Parameters are the result of training. Arrays contain valence first, then arousal.
type Parameters struct {
	Header
	Projection      []int8                   // Components rows of VectorDims
	ProjectionScale [Components]float32      // of the rows
	FeatureMean     [Features]float32        // of the training rows
	FeatureScale    [Features]float32        // weight of each feature in a distance
	LandmarkScale   [PointDims]float32       // of the columns of Landmarks
	Landmarks       []int8                   // rows of PointDims
	Weights         [2][]float32             // of the landmarks
	LexiconWeights  [2][LexiconTerms]float32 // for the calibration without a vector
}

// Header is the human-readable part of the file.
type Header struct {
	Data          string             `json:"data"`   // training data and its license
	SHA256        string             `json:"sha256"` // of the file of training data
	Encoder       string             `json:"encoder"`
	Rows          int                `json:"rows"`
	Count         int                `json:"landmarks"`
	Gamma         float64            `json:"gamma"` // of the kernel exp(-gamma·d²)
	Mean          [2]float64         `json:"mean"`
	LexiconMean   [2]float64         `json:"lexiconMean"`
	Slopes        [2]float64         `json:"slopes"` // from EmoBank's scale to that of Score
	LexiconSlopes [2]float64         `json:"lexiconSlopes"`
	Metrics       map[string]float64 `json:"metrics"` // from cross-validation within the training rows
}

const magic = "helix valence 1\n"

// New validates parameters and returns a model.
func New(p Parameters) (*Model, error) {
	if len(p.Projection) != Components*VectorDims || len(p.Landmarks) != p.Count*PointDims || len(p.Weights[0]) != p.Count || len(p.Weights[1]) != p.Count {
		return nil, errors.New("valence: sizes do not fit")
	}
	m := &Model{p: p, words: newLexicon(), lengths: make([]float64, p.Count), decay: newDecay()}
	for i := range m.lengths {
		for j, q := range p.Landmarks[i*PointDims : (i+1)*PointDims] {
			x := float64(q) * float64(p.LandmarkScale[j])
			m.lengths[i] += x * x
		}
	}
	return m, nil
}

// Encode writes the parameters in the format of Decode: a line that names the format, the length of the
// header (32 bits), the header as JSON, and the arrays in the order of Parameters, all little endian.
func (p *Parameters) Encode() ([]byte, error) {
	head, err := json.Marshal(p.Header)
	if err != nil {
		return nil, err
	}
	out := binary.LittleEndian.AppendUint32([]byte(magic), uint32(len(head)))
	out = append(out, head...)
	for _, a := range p.arrays() {
		if out, err = binary.Append(out, binary.LittleEndian, a); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Decode decodes a model.
func Decode(b []byte) (*Model, error) {
	b, ok := bytes.CutPrefix(b, []byte(magic))
	if !ok || len(b) < 4 {
		return nil, errors.New("valence: not a model")
	}
	n := int(binary.LittleEndian.Uint32(b))
	if b = b[4:]; n > len(b) {
		return nil, errors.New("valence: the model is cut off")
	}
	var p Parameters
	if err := json.Unmarshal(b[:n], &p.Header); err != nil {
		return nil, fmt.Errorf("valence: header: %w", err)
	}
	b = b[n:]
	if p.Count < 0 || p.Count > len(b)/PointDims {
		return nil, errors.New("valence: the model is cut off")
	}
	p.Projection = make([]int8, Components*VectorDims)
	p.Landmarks = make([]int8, p.Count*PointDims)
	p.Weights = [2][]float32{make([]float32, p.Count), make([]float32, p.Count)}
	for _, a := range p.arrays() {
		n := binary.Size(a)
		if n > len(b) {
			return nil, errors.New("valence: the model is cut off")
		}
		// binary.Decode reads as many bytes as the slice holds.
		if _, err := binary.Decode(b[:n], binary.LittleEndian, a); err != nil {
			return nil, fmt.Errorf("valence: %w", err)
		}
		b = b[n:]
	}
	if len(b) > 0 {
		return nil, errors.New("valence: the model is too long")
	}
	return New(p)
}

func (p *Parameters) arrays() []any {
	return []any{
		p.Projection, &p.ProjectionScale, &p.FeatureMean, &p.FeatureScale,
		&p.LandmarkScale, p.Landmarks, p.Weights[0], p.Weights[1], &p.LexiconWeights,
	}
}
