package locomo

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"helix/backend/memory/search"
)

// TunedConfig is a configuration of hybrid search and its recall.
type TunedConfig struct {
	Held    string  `json:"held"`   // the conversation held out of the choice; "" if none
	Config  string  `json:"config"` // the best configuration on the other conversations
	Others  float64 `json:"others"` // its recall on those
	Recall  float64 `json:"recall"` // its recall on the one held out
	Default float64 `json:"default"`
}

// variant is a named configuration of hybrid search.
type variant struct {
	name string
	search.Tuning
}

// variants returns two lists: configurations to choose from, which are the default and each of its
// settings one step up and down; and configurations with one feature disabled, which show what the
// feature contributes.
func variants(def search.Tuning) (choice, without []variant) {
	with := func(name string, change func(*search.Tuning)) variant {
		v := variant{name, def}
		change(&v.Tuning)
		return v
	}
	choice = []variant{{"default", def}}
	for _, k1 := range []float64{0.4, 0.9} {
		choice = append(choice, with(fmt.Sprintf("k1=%g", k1), func(t *search.Tuning) { t.Window.K1 = k1 }))
	}
	for _, b := range []float64{0.15, 0.5} {
		choice = append(choice, with(fmt.Sprintf("b=%g", b), func(t *search.Tuning) { t.Window.B = b }))
	}
	for _, w := range [][]float64{{0.5}, {0.4, 0.2}, {0.3, 0.2, 0.1}, {0.5, 0.3, 0.2}} {
		choice = append(choice, with(fmt.Sprintf("window=%g", w), func(t *search.Tuning) { t.Window.Window = w }))
	}
	for _, w := range []float64{0.3, 0.5} {
		choice = append(choice, with(fmt.Sprintf("vector=%g", w), func(t *search.Tuning) { t.Weights.Vector = w }))
	}
	for _, k := range []float64{30, 100} {
		choice = append(choice, with(fmt.Sprintf("rrf=%g", k), func(t *search.Tuning) { t.RRF = k }))
	}
	for _, w := range []float64{0.15, 0.45} {
		choice = append(choice, with(fmt.Sprintf("speaker=%g", w), func(t *search.Tuning) { t.Cues.Speaker = w }))
	}
	for _, w := range []float64{0.3, 1} {
		choice = append(choice, with(fmt.Sprintf("time=%g", w), func(t *search.Tuning) { t.Cues.Time = w }))
	}
	without = []variant{
		with("no vectors", func(t *search.Tuning) { t.Weights.Vector = 0 }),
		with("no neighbors", func(t *search.Tuning) { t.Window.Window = nil }),
		with("neighbors by ranks, no BM25F", func(t *search.Tuning) { t.Weights = search.Weights{Keyword: 1, Vector: 0.4, Window: 0.5} }),
		with("no speaker", func(t *search.Tuning) { t.Cues.Speaker = 0 }),
		with("no time", func(t *search.Tuning) { t.Cues.Time = 0 }),
		with("no speaker, no time", func(t *search.Tuning) { t.Cues = search.CueWeights{} }),
		with("no stop list", func(t *search.Tuning) { t.KeepStopWords = true }),
		with("k1 and b of FTS5", func(t *search.Tuning) { t.Window.K1, t.Window.B = 1.2, 0.75 }),
	}
	return choice, without
}

// tune chooses configurations by leave-one-out cross-validation: the recall reported for a
// conversation is that of the configuration chosen on the others.
func tune(ctx context.Context, files []*file, stores []*store, w io.Writer) ([]TunedConfig, error) {
	grid, without := variants(stores[0].tuning)
	all := append(slices.Clone(grid), without...)
	sums := make([][]float64, len(all)) // by configuration and file
	for g, v := range all {
		sums[g] = make([]float64, len(files))
		for i, f := range files {
			stores[i].tuning = v.Tuning
			for _, q := range f.questions {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				hits, err := stores[i].ask(search.ModeHybrid, q.text)
				if err != nil {
					return nil, err
				}
				sums[g][i] += q.recall(0, hits)
			}
			stores[i].tuning = all[0].Tuning
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
		c := TunedConfig{Held: filepath.Base(f.path), Config: grid[g].name, Others: recall(g, others), Recall: recall(g, only), Default: recall(0, only)}
		out = append(out, c)
		fmt.Fprintf(w, "%s  %.1f (default %.1f) with %s, %.1f on the others\n", c.Held, c.Recall, c.Default, c.Config, c.Others)
		q := float64(len(f.questions))
		total, def, n = total+c.Recall*q, def+c.Default*q, n+q
	}
	any := func(int) bool { return true }
	for v := range all {
		fmt.Fprintf(w, "%+.1f  %s\n", recall(v, any)-recall(0, any), all[v].name)
	}
	g := choose(any)
	c := TunedConfig{Config: grid[g].name, Others: recall(g, any), Recall: percent(total / n / 100), Default: percent(def / n / 100)}
	fmt.Fprintf(w, "left out: %.1f, default %.1f; best of all %.1f with %s\n", c.Recall, c.Default, c.Others, c.Config)
	return append(out, c), nil
}
