package locomo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"text/tabwriter"

	"helix/backend/memory"
	"helix/backend/memory/search"
)

// Options configure Run. The zero value measures keyword search only.
type Options struct {
	Embedder memory.Embedder
	Weights  search.Weights
	TempDir  string // where the stores are created; "" is the system default
	Tune     bool   // also tune settings by leave-one-conversation-out cross-validation
	Logger   *slog.Logger
}

// Report is the result of Run, in percent.
type Report struct {
	Conversations int           `json:"conversations"`
	Questions     int           `json:"questions"`
	Scores        []Score       `json:"scores"`
	Tuned         []TunedConfig `json:"tuned,omitempty"`
}

// Score is the mean evidence recall@10 of one mode over all questions.
type Score struct {
	Store      string     `json:"store"` // each: one store per conversation; pooled: all in one
	Mode       string     `json:"mode"`
	Overall    float64    `json:"overall"`
	Low        float64    `json:"low"` // lower bound of the 95 % confidence interval, bootstrapped over questions
	High       float64    `json:"high"`
	Categories [4]float64 `json:"categories"` // by question category: multi-hop, temporal, inference, single-hop
	OverBM25   float64    `json:"overBm25"`   // percentage points above mode bm25
	OverLow    float64    `json:"overLow"`    // lower bound of its paired confidence interval
	OverHigh   float64    `json:"overHigh"`

	perQuestion []float64
}

// Run measures which fraction of the evidence for the questions of a LoCoMo folder is among the
// first ten hits, using the real import and search: first with one store per conversation, then
// with one store for all. It writes a table to w.
func Run(ctx context.Context, dir string, o Options, w io.Writer) (_ *Report, err error) {
	files, err := readFiles(dir)
	if err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp(o.TempDir, "helix-locomo-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	so := memory.Options{Logger: o.Logger, Weights: o.Weights}
	if so.Logger == nil {
		so.Logger = slog.New(slog.DiscardHandler)
	}
	modes := []string{"bm25", "bm25-stop", search.ModeKeyword, search.ModeVector, search.ModeHybrid}
	if o.Embedder != nil {
		so.Embedder = &rememberingEmbedder{Embedder: o.Embedder, vecs: map[string][]float32{}}
	} else {
		modes = modes[:3]
	}
	report := &Report{Conversations: len(files)}
	for _, f := range files {
		report.Questions += len(f.questions)
	}
	fmt.Fprintf(w, "%d conversations, %d questions, evidence recall@10 in percent\n\n", report.Conversations, report.Questions)
	var stores []*store
	defer func() {
		for _, st := range stores {
			err = errors.Join(err, st.close())
		}
	}()
	for i, f := range files {
		st, err := openStore(ctx, filepath.Join(temp, fmt.Sprint(i)), files[i:i+1], so)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", filepath.Base(f.path), err)
		}
		stores = append(stores, st)
	}
	pooled, err := openStore(ctx, filepath.Join(temp, "pooled"), files, so)
	if err != nil {
		return nil, fmt.Errorf("open all: %w", err)
	}
	stores = append(stores, pooled)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "store\tmode\toverall\t95 % interval\tseveral\ttime\tinference\tone\tover bm25\t95 % interval\t")
	for _, store := range []string{"each", "pooled"} {
		var base []float64
		for _, mode := range modes {
			sc := Score{Store: store, Mode: mode}
			for i, f := range files {
				st, place := stores[i], 0
				if store == "pooled" {
					st, place = pooled, i
				}
				for _, q := range f.questions {
					hits, err := st.ask(mode, q.text)
					if err != nil {
						return nil, fmt.Errorf("%s %q: %w", mode, q.text, err)
					}
					sc.perQuestion = append(sc.perQuestion, q.recall(place, hits))
				}
			}
			if base == nil {
				base = sc.perQuestion
			}
			sc.summarize(files, base)
			report.Scores = append(report.Scores, sc)
			fmt.Fprintf(tw, "%s\t%s\t%.1f\t%.1f–%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%+.1f\t%+.1f–%+.1f\t\n", store, mode, sc.Overall, sc.Low, sc.High,
				sc.Categories[0], sc.Categories[1], sc.Categories[2], sc.Categories[3], sc.OverBM25, sc.OverLow, sc.OverHigh)
		}
	}
	if err := tw.Flush(); err != nil {
		return nil, err
	}
	if o.Tune && o.Embedder != nil {
		if report.Tuned, err = tune(ctx, files, stores[:len(files)], w); err != nil {
			return nil, err
		}
	}
	return report, nil
}

// summarize computes the means and, from 2,000 bootstrap samples with a fixed seed, their intervals.
func (sc *Score) summarize(files []*file, base []float64) {
	sc.Overall = percent(mean(sc.perQuestion))
	var sums, counts [4]float64
	i := 0
	for _, f := range files {
		for _, q := range f.questions {
			sums[q.category-1] += sc.perQuestion[i]
			counts[q.category-1]++
			i++
		}
	}
	for k := range sums {
		sc.Categories[k] = percent(sums[k] / max(counts[k], 1))
	}
	over := make([]float64, len(base))
	for i := range over {
		over[i] = sc.perQuestion[i] - base[i]
	}
	sc.OverBM25 = percent(mean(over))
	sc.Low, sc.High = bootstrap(sc.perQuestion)
	sc.OverLow, sc.OverHigh = bootstrap(over)
}

func mean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(max(len(xs), 1))
}

func percent(share float64) float64 { return math.Round(100*share*1e6) / 1e6 }

// bootstrap returns the 95 % percentile interval of the mean (Efron, Bootstrap methods, 1979).
func bootstrap(xs []float64) (low, high float64) {
	const samples = 2000
	if len(xs) == 0 {
		return 0, 0
	}
	rng := rand.New(rand.NewPCG(5, 8))
	means := make([]float64, samples)
	for i := range means {
		sum := 0.0
		for range xs {
			sum += xs[rng.IntN(len(xs))]
		}
		means[i] = sum / float64(len(xs))
	}
	slices.Sort(means)
	return percent(means[samples*25/1000]), percent(means[samples*975/1000])
}

// rememberingEmbedder caches the vector of each text, because every turn is in two stores.
type rememberingEmbedder struct {
	memory.Embedder
	mu   sync.Mutex
	vecs map[string][]float32
}

func (e *rememberingEmbedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	var missing []string
	e.mu.Lock()
	for i, t := range texts {
		if out[i] = e.vecs[t]; out[i] == nil {
			missing = append(missing, t)
		}
	}
	e.mu.Unlock()
	if len(missing) > 0 {
		vecs, err := e.Embedder.Embed(ctx, missing)
		if err != nil {
			return nil, err
		}
		e.mu.Lock()
		for i, t := range missing {
			e.vecs[t] = vecs[i]
		}
		for i, t := range texts {
			out[i] = e.vecs[t]
		}
		e.mu.Unlock()
	}
	for i := range out {
		out[i] = slices.Clone(out[i])
	}
	return out, nil
}
