// Command synthesis measures the search for patterns: how many planted patterns it finds, how many
// of its patterns are right, what it finds in shuffled texts, how well its confidence is
// calibrated, and how long it takes. The texts are generated from a seed; their vectors are those
// of the sentence encoder.
package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"helix/backend/embed"
	"helix/backend/synthesis"
	"helixbench/figures"
)

var (
	sizes = flag.String("n", "500,2000,10000", "numbers of texts")
	show  = flag.Bool("show", false, "print what is found in shuffled texts")
	seed  = flag.Uint64("seed", 1, "of the generated texts")
)

func main() {
	flag.Parse()
	model, err := embed.Open()
	figures.Check(err)
	for _, s := range strings.Split(*sizes, ",") {
		n := 0
		_, err := fmt.Sscan(s, &n)
		figures.Check(err)
		w := plant(rand.New(rand.NewPCG(*seed, uint64(n))), n)
		vectors(model, w.texts)
		quality(n, w)
		shuffled := shuffle(rand.New(rand.NewPCG(*seed, uint64(n)+1)), w.texts)
		vectors(model, shuffled)
		r := analyze(shuffled)
		found, types := 0, map[string]int{}
		for _, p := range r.Patterns {
			if p.Confidence >= 0.7 {
				found++
				types[p.Type]++
				if *show {
					fmt.Printf("# %.2f %s: %s %v\n", p.Confidence, p.Type, p.Description, p.ConfidenceParts)
				}
			}
		}
		fmt.Printf("# in shuffled texts: %v\n", types)
		figures.Print(fmt.Sprintf("synthesis.shuffled.%d", n), 1000*float64(found)/float64(n), "patterns per 1,000 texts", 0, "")
		speed(n, w.texts)
	}
	w := plant(rand.New(rand.NewPCG(*seed, 100)), 100)
	vectors(model, w.texts)
	speed(100, w.texts)
}

func vectors(model interface {
	Embed(context.Context, []string) ([][]float32, error)
}, texts []synthesis.Text) {
	for i := 0; i < len(texts); i += 64 {
		part := texts[i:min(i+64, len(texts))]
		bodies := make([]string, len(part))
		for k := range part {
			bodies[k] = part[k].Body
		}
		v, err := model.Embed(context.Background(), bodies)
		figures.Check(err)
		for k := range part {
			part[k].Vector = v[k]
		}
	}
}

func analyze(texts []synthesis.Text) synthesis.Analysis {
	a, err := synthesis.Local{}.Analyze(context.Background(), synthesis.Input{Type: synthesis.Full, Texts: texts, Zone: time.UTC, Threshold: 0.7}, func(string, float64) {})
	figures.Check(err)
	return a
}

// speed measures the whole local analysis and the additional memory that it uses.
func speed(n int, texts []synthesis.Text) {
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	var peak atomic.Uint64
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				runtime.ReadMemStats(&now)
				peak.Store(max(peak.Load(), now.HeapInuse))
			}
		}
	}()
	var times []float64
	for range 3 {
		begin := time.Now()
		analyze(texts)
		times = append(times, time.Since(begin).Seconds())
	}
	close(stop)
	slices.Sort(times)
	figures.Print(fmt.Sprintf("synthesis.analyze.%d", n), 1000*times[1], "ms", 0, "")
	figures.Print(fmt.Sprintf("synthesis.memory.%d", n), math.Max(0, float64(peak.Load())-float64(before.HeapInuse))/(1<<20), "MiB above base", 0, "")
}
