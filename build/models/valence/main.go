// Command valence trains the model of backend/valence and writes valence.bin. It reads only the
// training rows of EmoBank; settings are selected by cross-validation among them. On one machine
// the output is reproducible. `make models-valence` runs it; see NOTICE for the source of the data.
package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"helix/backend/embed"
	"helix/backend/valence"
)

const (
	landmarks = 1950 // as many as fit into 256 KiB
	folds     = 5
	most      = 256 << 10 // bytes of the file

	feeling   = 0.3 // a score beyond it is a feeling
	precision = 0.6 // minimum precision of feelings
	ridgeWord = 10.0
)

// The grid for cross-validation.
var (
	gammas  = []float64{0.5, 0.75}
	lambdas = []float64{0.5, 1, 2}
	weights = []float64{0.08, 0.12, 0.16} // of a feature's standard deviation in a distance
)

func main() {
	data := flag.String("data", os.Getenv("HELIX_EMOBANK"), "`file` with the columns id, split, V, A, D, text (default $HELIX_EMOBANK)")
	out := flag.String("out", "backend/valence/valence.bin", "`file` to write")
	flag.Parse()
	if err := run(*data, *out); err != nil {
		fmt.Fprintln(os.Stderr, "valence:", err)
		os.Exit(1)
	}
}

// row is a training example.
type row struct {
	id, text string
	vector   []float32
	y        [2]float64 // valence and arousal, 1 to 5
}

func run(data, out string) error {
	if data == "" {
		return errors.New("name the data with -data or HELIX_EMOBANK")
	}
	rows, sum, err := read(data)
	if err != nil {
		return err
	}
	encoder, err := embed.Open()
	if err != nil {
		return err
	}
	texts := make([]string, len(rows))
	for i, r := range rows {
		texts[i] = r.text
	}
	vectors, err := encoder.Embed(context.Background(), texts)
	if err != nil {
		return err
	}
	for i := range rows {
		rows[i].vector = vectors[i]
	}
	p, err := train(rows)
	if err != nil {
		return err
	}
	p.Data, p.SHA256, p.Encoder = "EmoBank (Buechel and Hahn 2017), CC BY-SA 4.0", sum, encoder.ModelID()
	b, err := p.Encode()
	if err != nil {
		return err
	}
	if len(b) > most {
		return fmt.Errorf("the model has %d bytes, and at most %d are allowed", len(b), most)
	}
	for _, name := range slices.Sorted(keys(p.Metrics)) {
		fmt.Printf("%s\t%.4f\n", name, p.Metrics[name])
	}
	return os.WriteFile(out, b, 0o644)
}

func keys(m map[string]float64) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// read returns the training rows of the file and the file's hash.
func read(name string) ([]row, string, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, "", err
	}
	records, err := csv.NewReader(strings.NewReader(string(b))).ReadAll()
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	if len(records) == 0 || !slices.Equal(records[0], []string{"id", "split", "V", "A", "D", "text"}) {
		return nil, "", fmt.Errorf("%s: other columns than id, split, V, A, D, text", name)
	}
	var rows []row
	for _, r := range records[1:] {
		if r[1] != "train" {
			continue
		}
		v, errV := strconv.ParseFloat(r[2], 64)
		a, errA := strconv.ParseFloat(r[3], 64)
		if err := errors.Join(errV, errA); err != nil {
			return nil, "", fmt.Errorf("%s: row %s: %w", name, r[0], err)
		}
		rows = append(rows, row{id: r[0], text: r[5], y: [2]float64{v, a}})
	}
	if len(rows) < 2*landmarks {
		return nil, "", fmt.Errorf("%s: only %d rows for training", name, len(rows))
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.id, b.id) })
	hash := sha256.Sum256(b)
	return rows, hex.EncodeToString(hash[:]), nil
}

// train selects the settings, and fits the model on all rows with them.
func train(rows []row) (*valence.Parameters, error) {
	base, err := project(rows)
	if err != nil {
		return nil, err
	}
	var best struct {
		gamma, lambda, weight, r float64
		predicted                [][2]float64
	}
	for _, gamma := range gammas {
		for _, weight := range weights {
			all, err := crossValidate(rows, base, gamma, weight)
			if err != nil {
				return nil, err
			}
			for i, predicted := range all {
				r := correlation(rows, predicted)
				fmt.Printf("gamma %g, weight %g, lambda %g: r %.4f and %.4f\n", gamma, weight, lambdas[i], r[0], r[1])
				if sum := r[0] + r[1]; sum > best.r {
					best.gamma, best.weight, best.lambda, best.r, best.predicted = gamma, weight, lambdas[i], sum, predicted
				}
			}
		}
	}
	fits, err := fit(rows, base, best.gamma, best.weight, []float64{best.lambda})
	if err != nil {
		return nil, err
	}
	p := fits[0]
	p.Rows = len(rows)
	p.Metrics = map[string]float64{"lambda": best.lambda, "featureWeight": best.weight}
	note := func(name string, y [2]float64) {
		p.Metrics[name+" valence"], p.Metrics[name+" arousal"] = y[0], y[1]
	}
	note("cv r", correlation(rows, best.predicted))
	p.Slopes = slopes(rows, best.predicted, p.Metrics, "")
	words, err := crossValidateLexicon(rows)
	if err != nil {
		return nil, err
	}
	note("cv r lexicon", correlation(rows, words))
	p.LexiconSlopes = slopes(rows, words, p.Metrics, "lexicon ")
	p.LexiconMean, p.LexiconWeights, err = fitLexicon(rows)
	return p, err
}

// project computes the principal components of the vectors and the spread of the features.
func project(rows []row) (*valence.Parameters, error) {
	p := &valence.Parameters{Projection: make([]int8, valence.Components*valence.VectorDims)}
	x := mat.NewDense(len(rows), valence.VectorDims, nil)
	for i, r := range rows {
		for j, v := range r.vector {
			x.Set(i, j, float64(v))
		}
	}
	var cov mat.SymDense
	cov.SymOuterK(1, x.T())
	var eigen mat.EigenSym
	if !eigen.Factorize(&cov, true) {
		return nil, errors.New("the vectors have no principal components")
	}
	var axes mat.Dense
	eigen.VectorsTo(&axes) // by ascending eigenvalue
	for c := range valence.Components {
		axis := mat.Col(nil, valence.VectorDims-1-c, &axes)
		p.ProjectionScale[c] = quantize(p.Projection[c*valence.VectorDims:(c+1)*valence.VectorDims], axis)
	}
	for i := range p.LandmarkScale {
		p.LandmarkScale[i] = 1
	}
	m, err := valence.New(*p)
	if err != nil {
		return nil, err
	}
	for j := range valence.Features {
		column := make([]float64, len(rows))
		for i, r := range rows {
			column[i] = m.LexiconTerms(r.text)[j]
		}
		mean, sd := stat.MeanStdDev(column, nil)
		p.FeatureMean[j], p.FeatureScale[j] = float32(mean), float32(1/sd)
	}
	return p, nil
}

// quantize writes values as bytes, and returns the factor to multiply them with.
func quantize(dst []int8, values []float64) float32 {
	largest := 0.0
	for _, v := range values {
		largest = max(largest, math.Abs(v))
	}
	if largest == 0 {
		return 1
	}
	scale := float32(largest / math.MaxInt8)
	for i, v := range values {
		dst[i] = int8(min(max(math.RoundToEven(v/float64(scale)), -math.MaxInt8), math.MaxInt8))
	}
	return scale
}

// crossValidate predicts each row with models that were fitted without its block, for each lambda.
// Blocks are ranges of ids, so that the sentences of a document stay together.
func crossValidate(rows []row, base *valence.Parameters, gamma, weight float64) ([][][2]float64, error) {
	out := make([][][2]float64, len(lambdas))
	for f := range folds {
		from, to := f*len(rows)/folds, (f+1)*len(rows)/folds
		fits, err := fit(slices.Concat(rows[:from], rows[to:]), base, gamma, weight, lambdas)
		if err != nil {
			return nil, err
		}
		for i, p := range fits {
			m, err := valence.New(*p)
			if err != nil {
				return nil, err
			}
			for _, r := range rows[from:to] {
				v, a, _ := m.Predict(r.text, r.vector)
				out[i] = append(out[i], [2]float64{v, a})
			}
		}
	}
	return out, nil
}

// fit selects landmarks and solves for their weights, for each lambda. Landmarks are quantized
// first, so that the weights match what will be loaded.
func fit(rows []row, base *valence.Parameters, gamma, weight float64, lambdas []float64) ([]*valence.Parameters, error) {
	p := *base
	p.Gamma, p.Count = gamma, landmarks
	for i := range p.FeatureScale {
		p.FeatureScale[i] *= float32(weight)
	}
	chosen := slices.Clone(rows)
	hash := map[string][32]byte{}
	for _, r := range rows {
		hash[r.id] = sha256.Sum256([]byte(r.id))
	}
	slices.SortFunc(chosen, func(a, b row) int {
		x, y := hash[a.id], hash[b.id]
		return cmp.Or(slices.Compare(x[:], y[:]), cmp.Compare(a.id, b.id))
	})
	p.Landmarks = make([]int8, landmarks*valence.PointDims)
	p.Weights = [2][]float32{make([]float32, landmarks), make([]float32, landmarks)}
	m, err := valence.New(p)
	if err != nil {
		return nil, err
	}
	points := mat.NewDense(landmarks, valence.PointDims, nil)
	for i, r := range chosen[:landmarks] {
		points.SetRow(i, m.Point(r.text, r.vector))
	}
	column := make([]int8, landmarks)
	for j := range valence.PointDims {
		clear(column)
		p.LandmarkScale[j] = quantize(column, mat.Col(nil, j, points))
		for i, q := range column {
			p.Landmarks[i*valence.PointDims+j] = q
		}
	}
	if m, err = valence.New(p); err != nil {
		return nil, err
	}

	p.Mean = means(rows)
	near, targets := mat.NewDense(len(rows), landmarks, nil), mat.NewDense(len(rows), 2, nil)
	for i, r := range rows {
		near.SetRow(i, m.Similarities(r.text, r.vector))
		targets.SetRow(i, []float64{r.y[0] - p.Mean[0], r.y[1] - p.Mean[1]})
	}
	var gram mat.SymDense
	gram.SymOuterK(1, near.T())
	var right mat.Dense
	right.Mul(near.T(), targets)
	among := amongLandmarks(&p)
	var out []*valence.Parameters
	for _, lambda := range lambdas {
		system := mat.NewSymDense(landmarks, nil)
		for i := range landmarks {
			for j := i; j < landmarks; j++ {
				x := gram.At(i, j) + lambda*among.At(i, j)
				if i == j {
					x += 1e-6 // two landmarks may be one point
				}
				system.SetSym(i, j, x)
			}
		}
		solved, err := solve(system, &right)
		if err != nil {
			return nil, err
		}
		one := p
		for k := range one.Weights {
			one.Weights[k] = make([]float32, landmarks)
			for i := range landmarks {
				one.Weights[k][i] = float32(solved.At(i, k))
			}
		}
		out = append(out, &one)
	}
	return out, nil
}

// amongLandmarks returns the kernel's values between the landmarks.
func amongLandmarks(p *valence.Parameters) *mat.SymDense {
	x := mat.NewDense(landmarks, valence.PointDims, nil)
	for i := range landmarks {
		for j := range valence.PointDims {
			x.Set(i, j, float64(p.Landmarks[i*valence.PointDims+j])*float64(p.LandmarkScale[j]))
		}
	}
	var inner mat.SymDense
	inner.SymOuterK(1, x)
	k := mat.NewSymDense(landmarks, nil)
	for i := range landmarks {
		for j := i; j < landmarks; j++ {
			k.SetSym(i, j, math.Exp(-p.Gamma*max(0, inner.At(i, i)+inner.At(j, j)-2*inner.At(i, j))))
		}
	}
	return k
}

func solve(system *mat.SymDense, right *mat.Dense) (*mat.Dense, error) {
	var c mat.Cholesky
	if !c.Factorize(system) {
		return nil, errors.New("the equations have no unique solution")
	}
	var x mat.Dense
	err := c.SolveTo(&x, right)
	return &x, err
}

func means(rows []row) (mean [2]float64) {
	for _, r := range rows {
		for k := range mean {
			mean[k] += r.y[k] / float64(len(rows))
		}
	}
	return mean
}

// fitLexicon is a ridge regression on the terms of the lexicon, for texts without a vector. The
// penalty excludes the mean, because the mean is the prediction if all terms are 0.
func fitLexicon(rows []row) (mean [2]float64, weights [2][valence.LexiconTerms]float32, err error) {
	m, err := valence.New(valence.Parameters{Projection: make([]int8, valence.Components*valence.VectorDims)})
	if err != nil {
		return mean, weights, err
	}
	const n = valence.LexiconTerms
	x, y := mat.NewDense(len(rows), n, nil), mat.NewDense(len(rows), 2, nil)
	for i, r := range rows {
		x.SetRow(i, m.LexiconTerms(r.text))
		y.SetRow(i, r.y[:])
	}
	center := make([]float64, n)
	for j := range center {
		center[j] = stat.Mean(mat.Col(nil, j, x), nil)
	}
	mean = means(rows)
	for i := range rows {
		for j, c := range center {
			x.Set(i, j, x.At(i, j)-c)
		}
		for k := range mean {
			y.Set(i, k, y.At(i, k)-mean[k])
		}
	}
	var system mat.SymDense
	system.SymOuterK(1, x.T())
	for j := range n {
		system.SetSym(j, j, system.At(j, j)+ridgeWord)
	}
	var right mat.Dense
	right.Mul(x.T(), y)
	solved, err := solve(&system, &right)
	if err != nil {
		return mean, weights, err
	}
	for k := range mean {
		for j, c := range center {
			weights[k][j] = float32(solved.At(j, k))
			mean[k] -= c * solved.At(j, k)
		}
	}
	return mean, weights, nil
}

func crossValidateLexicon(rows []row) (out [][2]float64, err error) {
	for f := range folds {
		from, to := f*len(rows)/folds, (f+1)*len(rows)/folds
		p := valence.Parameters{Projection: make([]int8, valence.Components*valence.VectorDims)}
		if p.LexiconMean, p.LexiconWeights, err = fitLexicon(slices.Concat(rows[:from], rows[to:])); err != nil {
			return nil, err
		}
		m, err := valence.New(p)
		if err != nil {
			return nil, err
		}
		for _, r := range rows[from:to] {
			v, a, _ := m.Predict(r.text, nil)
			out = append(out, [2]float64{v, a})
		}
	}
	return out, nil
}

func correlation(rows []row, predicted [][2]float64) (r [2]float64) {
	for k := range r {
		x, y := make([]float64, len(rows)), make([]float64, len(rows))
		for i := range rows {
			x[i], y[i] = predicted[i][k], rows[i].y[k]
		}
		r[k] = stat.Correlation(x, y, nil)
	}
	return r
}

// slopes finds the slope from predictions to scores: as steep, and so with as many feelings, as the
// required precision allows. A feeling is V of 3.4 and more, or 2.6 and less; for arousal only the
// former. It records precision and recall in metrics.
func slopes(rows []row, predicted [][2]float64, metrics map[string]float64, prefix string) (s [2]float64) {
	const middle, apart, step = 3.0, 0.4, 0.005
	judge := func(k int, sign, threshold float64) (right, recall float64) {
		var said, hit, all float64
		for i, r := range rows {
			is := sign*(r.y[k]-middle) >= apart-1e-9
			says := sign*(predicted[i][k]-middle) > threshold
			if is {
				all++
			}
			if says {
				said++
			}
			if is && says {
				hit++
			}
		}
		return hit / max(said, 1), hit / max(all, 1)
	}
	for k, name := range []string{"valence", "arousal"} {
		signs := []float64{1, -1}[:2-k]
		threshold := step
		for ; threshold < apart*2; threshold += step {
			good := true
			for _, sign := range signs {
				p, _ := judge(k, sign, threshold)
				good = good && p >= precision
			}
			if good {
				break
			}
		}
		s[k] = feeling / threshold
		for i, sign := range signs {
			p, r := judge(k, sign, threshold)
			side := []string{" high", " low"}[i]
			metrics[prefix+name+side+" precision"], metrics[prefix+name+side+" recall"] = p, r
		}
	}
	return s
}
