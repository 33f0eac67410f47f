package memory

import (
	"helix/backend/kernel"
	"helix/backend/vector"
)

// mmrDepth is how many of the first are put in another order.
const mmrDepth = 50

// diversify orders the first candidates by maximal marginal relevance (Carbonell and
// Goldstein, The use of MMR, 1998): each next one is the best of lambda·relevance −
// (1−lambda)·the greatest cosine with those before. Relevance is the score in proportion to
// the best score. The first stays the first.
func diversify(cs []candidate, lambda float64, index *vector.Index) []candidate {
	n := min(mmrDepth, len(cs))
	if n < 3 || cs[0].score <= 0 {
		return cs
	}
	vecs := make([][]float32, n)
	for i := range vecs {
		if v, ok := index.Vector(cs[i].item, nil); ok {
			vecs[i] = v
		}
	}
	left := make([]int, 0, n)
	near := make([]float64, n) // the greatest cosine with what was chosen
	for i := 1; i < n; i++ {
		left = append(left, i)
	}
	order := make([]candidate, 0, len(cs))
	order = append(order, cs[0])
	last := 0
	for len(left) > 0 {
		best, bestAt := 0.0, -1
		for at, i := range left {
			if vecs[i] != nil && vecs[last] != nil {
				near[i] = max(near[i], float64(kernel.Dot(vecs[i], vecs[last])))
			}
			if v := lambda*cs[i].score/cs[0].score - (1-lambda)*near[i]; bestAt < 0 || v > best {
				best, bestAt = v, at
			}
		}
		last = left[bestAt]
		order = append(order, cs[last])
		left = append(left[:bestAt], left[bestAt+1:]...)
	}
	return append(order, cs[n:]...)
}
