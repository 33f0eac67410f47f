package cluster

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"helix/backend/kernel"
)

// Members returns the points of each cluster.
func Members(labels []int) (list [][]int) {
	for i, l := range labels {
		if l == Noise {
			continue
		}
		for len(list) <= l {
			list = append(list, nil)
		}
		list[l] = append(list[l], i)
	}
	return list
}

// Quality is the quality of one cluster.
type Quality struct {
	Silhouette float64 // mean over its points, −1 to 1 (Rousseeuw 1987)
	Cohesion   float64 // mean cosine to the centroid, at most 1
}

// Measure returns the quality of each cluster. If there is only one cluster its silhouette equals
// its cohesion; the silhouette of a single point is 0. Mean distances to a cluster are computed
// from its sum, so the time is proportional to points times clusters.
func (p *Points) Measure(labels []int) []Quality {
	groups := Members(labels)
	means := make([]float32, len(groups)*p.dim) // not normalized
	norms := make([]float64, len(groups))
	for g, members := range groups {
		mean, norm := p.mean(members)
		copy(means[g*p.dim:], mean)
		norms[g] = norm
	}
	out, cos := make([]Quality, len(groups)), make([]float32, len(groups))
	for g, members := range groups {
		n := float64(len(members))
		for _, i := range members {
			kernel.DotRows(p.row(i), means, p.dim, cos)
			own := float64(cos[g])
			if norms[g] > 0 {
				out[g].Cohesion += own / norms[g] / n
			}
			if len(members) < 2 {
				continue
			}
			a := 1 - (own*n-1)/(n-1) // excluding the point itself
			b := math.Inf(1)
			for h, c := range cos {
				if h != g {
					b = min(b, 1-float64(c))
				}
			}
			if m := max(a, b); m > 0 && !math.IsInf(b, 1) {
				out[g].Silhouette += (b - a) / m / n
			}
		}
		if len(groups) == 1 {
			out[g].Silhouette = out[g].Cohesion
		}
	}
	return out
}

// mean returns the mean of points, and its length.
func (p *Points) mean(members []int) (mean []float32, norm float64) {
	sum := make([]float64, p.dim)
	for _, i := range members {
		for k, f := range p.row(i) {
			sum[k] += float64(f)
		}
	}
	mean = make([]float32, p.dim)
	for k, f := range sum {
		f /= float64(len(members))
		mean[k] = float32(f)
		norm += f * f
	}
	return mean, math.Sqrt(norm)
}

// Baseline returns the mean cosine of 2,000 random pairs of different points.
func (p *Points) Baseline(seed uint64) float64 {
	var list []int
	for i, ok := range p.valid {
		if ok {
			list = append(list, i)
		}
	}
	if len(list) < 2 {
		return 0
	}
	rng := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a seeded sample, not a secret
	sum := 0.0
	const pairs = 2000
	for range pairs {
		i, j := rng.IntN(len(list)), rng.IntN(len(list)-1)
		if j >= i {
			j++
		}
		sum += p.Cosine(list[i], list[j])
	}
	return sum / pairs
}

// Stability returns for each cluster the mean Jaccard index with its best match in five seeded
// subsamples of 80 %, which again clusters (Hennig 2007).
func Stability(ctx context.Context, labels []int, seed uint64, again func(in []bool) []int) ([]float64, error) {
	groups := Members(labels)
	out := make([]float64, len(groups))
	const samples, share = 5, 0.8
	for s := range samples {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		rng := rand.New(rand.NewPCG(seed, uint64(s)+2)) //nolint:gosec // a seeded sample, not a secret
		in := make([]bool, len(labels))
		for i := range in {
			in[i] = rng.Float64() < share
		}
		sub := again(in)
		sizes := map[int]int{}
		for _, l := range sub {
			sizes[l]++
		}
		for c, members := range groups {
			hits, size := map[int]int{}, 0
			for _, i := range members {
				if in[i] {
					size++
					if sub[i] != Noise {
						hits[sub[i]]++
					}
				}
			}
			best := 0.0
			for l, n := range hits {
				best = max(best, float64(n)/float64(size+sizes[l]-n))
			}
			out[c] += best / samples
		}
	}
	return out, nil
}

// sampled copies at most n of the points, evenly spaced, and returns their indexes.
func (p *Points) sampled(from []int, n int) (s *Points, of []int) {
	step := max(1, (len(from)+n-1)/n)
	s = &Points{dim: p.dim}
	for i := 0; i < len(from); i += step {
		of = append(of, from[i])
		s.x = append(s.x, p.row(from[i])...)
	}
	s.n = len(of)
	return s, of
}

// KDistance returns the distances of at most sample points, evenly spaced, to their k-th nearest
// neighbor, in ascending order.
func (p *Points) KDistance(ctx context.Context, k, sample int) ([]float64, error) {
	var list []int
	for i, ok := range p.valid {
		if ok {
			list = append(list, i)
		}
	}
	if len(list) <= k {
		return nil, nil
	}
	some, of := p.sampled(list, sample)
	near := make([][]float32, some.n) // descending cosines of the nearest points
	if err := some.against(ctx, p, false, func(_, i, rows, j, cols int, cos []float32, ld int) {
		for r := range rows {
			best := near[i+r]
			for c, v := range cos[r*ld : r*ld+cols] {
				if len(best) == k && v <= best[k-1] || j+c == of[i+r] || !p.valid[j+c] {
					continue
				}
				at, _ := slices.BinarySearchFunc(best, v, func(a, b float32) int { return cmp.Compare(b, a) })
				best = slices.Insert(best, at, v)
				best = best[:min(k, len(best))]
			}
			near[i+r] = best
		}
	}); err != nil {
		return nil, err
	}
	out := make([]float64, some.n)
	for i, best := range near {
		out[i] = 1 - float64(best[k-1])
	}
	slices.Sort(out)
	return out, nil
}

// Knee returns the value at the bend of an ascending curve: the one farthest below the line between
// its ends (Satopää et al. 2011).
func Knee(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	first, last, best, at := x[0], x[len(x)-1], -1.0, 0
	for i, v := range x {
		line := first + (last-first)*float64(i)/float64(max(1, len(x)-1))
		if d := line - v; d > best {
			best, at = d, i
		}
	}
	return x[at]
}

// Weights returns the cosines of points to their centroid, at least 0.
func (p *Points) Weights(members []int) []float64 {
	mean, norm := p.mean(members)
	out := make([]float64, len(members))
	for k, i := range members {
		if norm > 0 {
			out[k] = max(0, float64(kernel.Dot(p.row(i), mean))/norm)
		}
	}
	return out
}

// Density returns, for at most sample points, evenly spaced, the number of other points within eps.
func (p *Points) Density(ctx context.Context, eps float64, sample int) ([]float64, error) {
	var list []int
	for i := 0; i < p.n; i += max(1, (p.n+sample-1)/sample) {
		if p.valid[i] {
			list = append(list, i)
		}
	}
	some, of := p.sampled(list, len(list))
	out := make([]float64, some.n)
	if err := some.against(ctx, p, false, func(_, i, rows, j, cols int, cos []float32, ld int) {
		for r := range rows {
			for c, v := range cos[r*ld : r*ld+cols] {
				if float64(v) >= 1-eps && j+c != of[i+r] && p.valid[j+c] {
					out[i+r]++
				}
			}
		}
	}); err != nil {
		return nil, err
	}
	slices.Sort(out)
	return out, nil
}
