package synthesis

import (
	"math"
	"slices"
)

// mostChance is the maximum number of topics as good as a stored one that would be expected if
// words were assigned to texts at random.
const mostChance = 0.05

// byChance reports whether a group may share its words by chance. Even if words are assigned to
// texts at random, some groups share two or three of them, and an encoder places those texts near
// each other. Only a group in which most pairs share a word is tested. It is rejected if the
// expected number of groups of its size that share as much exceeds mostChance. That number is
//
//	E = C(N, m) · min over k of C(V, k) · p1 · … · pk
//
// for m of N texts, V words that occur in two or more texts, and the tails p of the hypergeometric
// distribution of each shared word, in ascending order. It is the e-value of sequence search
// (Karlin and Altschul 1990) applied to sets. Groups whose texts express the same in different
// words pass without a test, because chance does not produce those.
func (v *vocabulary) byChance(members []int) bool {
	n, m := len(v.texts), len(members)
	in := map[string]int{}
	words := make([]map[string]bool, m)
	for i, t := range members {
		words[i] = map[string]bool{}
		for _, w := range v.texts[t] {
			words[i][w.stem] = true
		}
		for w := range words[i] {
			in[w]++
		}
	}
	sharing, pairs := 0, 0
	step := 1 + m/64 // sample the pairs of large groups
	for i := 0; i < m; i += step {
		for j := i + 1; j < m; j += step {
			pairs++
			for w := range words[i] {
				if words[j][w] {
					sharing++
					break
				}
			}
		}
	}
	if 2*sharing <= pairs {
		return false
	}
	var tails []float64
	for w, k := range in {
		if k > 1 {
			tails = append(tails, logTail(n, v.df[w], m, k))
		}
	}
	slices.Sort(tails)
	best, sum := 0.0, 0.0
	for k, p := range tails {
		sum += p
		best = min(best, sum+logChoose(v.repeated(), k+1))
	}
	return logChoose(n, m)+best > math.Log(mostChance)
}

// repeated returns the number of single words that occur in two or more texts.
func (v *vocabulary) repeated() int {
	if v.shared == 0 {
		single := map[string]bool{}
		for _, t := range v.texts {
			for _, w := range t {
				single[w.stem] = true
			}
		}
		for w := range single {
			if v.df[w] > 1 {
				v.shared++
			}
		}
	}
	return v.shared
}

func logChoose(n, k int) float64 {
	if k < 0 || k > n {
		return math.Inf(-1)
	}
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}

// logTail returns the logarithm of the probability that at least k of m drawn texts are among the
// df of n texts that contain a word.
func logTail(n, df, m, k int) float64 {
	all, sum := logChoose(n, m), 0.0
	first := logChoose(df, k) + logChoose(n-df, m-k)
	if math.IsInf(first, -1) {
		return 0
	}
	for x := k; x <= min(m, df); x++ {
		p := math.Exp(logChoose(df, x) + logChoose(n-df, m-x) - first)
		sum += p
		if p < sum*1e-12 {
			break
		}
	}
	return min(0, first-all+math.Log(sum))
}
