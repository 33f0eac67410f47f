package memory

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
)

// TunedConfig is a setting of hybrid search and what it reached.
type TunedConfig struct {
	Held    string  `json:"held"`   // the conversation that did not take part in the choice; "" is none
	Config  string  `json:"config"` // the best on the others
	Others  float64 `json:"others"` // recall there
	Recall  float64 `json:"recall"` // recall on the one held out
	Default float64 `json:"default"`
}

// tuningGrid are the settings among which tuneLocomo chooses. The first is the default.
func tuningGrid(def tuning) []tuning {
	grid := []tuning{def}
	for _, k1 := range []float64{0.4, 0.6, 0.9} {
		for _, window := range [][]float64{{0.5}, {0.3, 0.1}, {0.4, 0.2}, {0.4, 0.2, 0.1}, {0.5, 0.3, 0.1}} {
			for _, vector := range []float64{0.2, 0.4, 0.6} {
				for _, rrf := range []float64{20, 60} {
					t := def
					t.window.k1, t.window.window = k1, window
					t.weights.Vector, t.rrf = vector, rrf
					grid = append(grid, t)
				}
			}
		}
	}
	return grid
}

func (t *tuning) String() string {
	return fmt.Sprintf("k1=%g b=%g window=%v vector=%g k=%g", t.window.k1, t.window.b, t.window.window, t.weights.Vector, t.rrf)
}

// tuneLocomo chooses the settings of hybrid search by leaving each conversation out in turn:
// what it reports for one was chosen on the others only.
func tuneLocomo(ctx context.Context, files []*locomoFile, stores []*locomoStore, w io.Writer) ([]TunedConfig, error) {
	grid := tuningGrid(stores[0].search.tuning)
	sums := make([][]float64, len(grid)) // by setting and file
	for g, t := range grid {
		sums[g] = make([]float64, len(files))
		for i, f := range files {
			stores[i].search.tuning = t
			for _, q := range f.questions {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				hits, err := stores[i].ask(modeHybrid, q.text)
				if err != nil {
					return nil, err
				}
				sums[g][i] += q.recall(0, hits)
			}
			stores[i].search.tuning = grid[0]
		}
	}
	recall := func(g int, in func(i int) bool) float64 {
		sum, n := 0.0, 0
		for i, f := range files {
			if in(i) {
				sum += sums[g][i]
				n += len(f.questions)
			}
		}
		return percent(sum / float64(max(n, 1)))
	}
	choose := func(in func(i int) bool) int {
		best := 0
		for g := range grid {
			if recall(g, in) > recall(best, in) {
				best = g
			}
		}
		return best
	}
	fmt.Fprintf(w, "\nhybrid, settings chosen among %d with one conversation left out\n", len(grid))
	var out []TunedConfig
	var total, def, n float64
	for held, f := range files {
		others := func(i int) bool { return i != held || len(files) == 1 }
		only := func(i int) bool { return i == held }
		g := choose(others)
		c := TunedConfig{Held: filepath.Base(f.path), Config: grid[g].String(), Others: recall(g, others), Recall: recall(g, only), Default: recall(0, only)}
		out = append(out, c)
		fmt.Fprintf(w, "%s  %.1f (default %.1f) with %s, %.1f on the others\n", c.Held, c.Recall, c.Default, c.Config, c.Others)
		q := float64(len(f.questions))
		total, def, n = total+c.Recall*q, def+c.Default*q, n+q
	}
	all := func(int) bool { return true }
	g := choose(all)
	c := TunedConfig{Config: grid[g].String(), Others: recall(g, all), Recall: rounded(total / n), Default: rounded(def / n)}
	fmt.Fprintf(w, "left out: %.1f, default %.1f; best of all %.1f with %s\n", c.Recall, c.Default, c.Others, c.Config)
	return append(out, c), nil
}
