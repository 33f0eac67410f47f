// Command valence measures backend/valence on the dev rows of EmoBank, which are not used in
// training, and compares it with the compound score of its lexicon in the same run. HELIX_EMOBANK
// is the path of the data.
package main

import (
	"context"
	"encoding/csv"
	"errors"
	"math"
	"os"
	"slices"
	"strconv"
	"syscall"

	"github.com/jonreiter/govader"

	"helix/backend/embed"
	"helix/backend/valence"
	"helixbench/figures"
)

const peer = "govader compound"

func main() {
	name := os.Getenv("HELIX_EMOBANK")
	if name == "" {
		figures.Check(errors.New("HELIX_EMOBANK does not name the file of EmoBank"))
	}
	texts, v, a := dev(name)
	encoder, err := embed.Open()
	figures.Check(err)
	vectors, err := encoder.Embed(context.Background(), texts)
	figures.Check(err)
	m, err := valence.Open()
	figures.Check(err)
	vader := govader.NewSentimentIntensityAnalyzer()

	var compound, ours, arousal, words []float64
	var scores, plain []valence.Score
	for i, text := range texts {
		compound = append(compound, vader.PolarityScores(text).Compound)
		x, y, _ := m.Predict(text, vectors[i])
		ours, arousal = append(ours, x), append(arousal, y)
		x, _, _ = m.Predict(text, nil)
		words = append(words, x)
		scores, plain = append(scores, m.Score(text, vectors[i])), append(plain, m.Score(text, nil))
	}
	base := correlation(compound, v)
	row := func(name string, value float64) { figures.Print(name, value, "r", value/base, peer) }
	row("valence, dev rows", correlation(ours, v))
	row("valence without vectors, dev rows", correlation(words, v))
	figures.Print("govader compound, dev rows", base, "r", 0, "")
	figures.Print("arousal, dev rows", correlation(arousal, a), "r", 0, "")
	for _, of := range []struct {
		name   string
		scores []valence.Score
	}{{"", scores}, {" without vectors", plain}} {
		sides(of.name, of.scores, v)
	}

	speed("score a text that has a vector", len(texts), func(i int) { m.Score(texts[i], vectors[i]) })
	speed("score a text without vector", len(texts), func(i int) { m.Score(texts[i], nil) })
	speed("govader, the same texts", len(texts), func(i int) { vader.PolarityScores(texts[i]) })
}

// dev reads texts, valence and arousal.
func dev(name string) (texts []string, v, a []float64) {
	f, err := os.Open(name)
	figures.Check(err)
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	figures.Check(err)
	for _, r := range records {
		if r[1] != "dev" {
			continue
		}
		x, err := strconv.ParseFloat(r[2], 64)
		figures.Check(err)
		y, err := strconv.ParseFloat(r[3], 64)
		figures.Check(err)
		texts, v, a = append(texts, r[5]), append(v, x), append(a, y)
	}
	return texts, v, a
}

// sides prints how often a score beyond ±0.3 is right: V of 3.4 and more, or of 2.6 and less.
func sides(suffix string, scores []valence.Score, v []float64) {
	for _, sign := range []float64{1, -1} {
		var said, hit, all float64
		for i, s := range scores {
			is, says := sign*(v[i]-3) >= 0.4-1e-9, sign*s.Valence > 0.3
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
		name := map[float64]string{1: "pleasant", -1: "unpleasant"}[sign] + suffix
		figures.Print(name+", precision", hit/max(said, 1), "", 0, "")
		figures.Print(name+", recall", hit/max(all, 1), "", 0, "")
	}
}

// speed prints the CPU time per text: the median of nine rounds over all of them.
func speed(name string, n int, f func(i int)) {
	var all []float64
	for range 9 {
		before := cpu()
		for i := range n {
			f(i)
		}
		all = append(all, (cpu()-before)/float64(n))
	}
	slices.Sort(all)
	figures.Print(name+", processor time", all[len(all)/2], "µs", 0, "")
}

// cpu returns this process's CPU time in microseconds.
func cpu() float64 {
	var u syscall.Rusage
	figures.Check(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e3
}

// correlation returns Pearson's correlation coefficient.
func correlation(x, y []float64) float64 {
	var sx, sy, sxx, syy, sxy float64
	n := float64(len(x))
	for i := range x {
		sx, sy = sx+x[i]/n, sy+y[i]/n
	}
	for i := range x {
		dx, dy := x[i]-sx, y[i]-sy
		sxx, syy, sxy = sxx+dx*dx, syy+dy*dy, sxy+dx*dy
	}
	return sxy / math.Sqrt(sxx*syy)
}
