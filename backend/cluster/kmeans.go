package cluster

import (
	"context"
	"helix/backend/kernel"
	"math"
	"math/rand/v2"
)

// maxRounds is the maximum number of rounds of KMeans after each start.
const maxRounds = 100

// KMeans divides the points into k clusters so as to minimize the sum of squared distances to the
// means (Lloyd 1982). It starts restarts times from centers chosen by greedy k-means++ (Arthur and
// Vassilvitskii 2007) and returns the best result. If in is not nil, points that it does not mark
// are ignored. If there are fewer than k points, each is a cluster.
func (p *Points) KMeans(ctx context.Context, k, restarts int, seed uint64, in []bool) ([]int, error) {
	r := rand.New(rand.NewPCG(seed, uint64(k)))
	out, least := make([]int, p.n), math.Inf(1)
	var alive []int
	for i := range p.n {
		out[i] = Noise
		if p.valid[i] && (in == nil || in[i]) {
			alive = append(alive, i)
		}
	}
	k = min(k, len(alive))
	for range max(1, restarts) {
		if k < 1 {
			break
		}
		centers, err := p.chooseCenters(ctx, r, k, alive)
		if err != nil {
			return out, err
		}
		labels, sum, err := p.lloyd(ctx, centers, alive)
		if err != nil {
			return out, err
		}
		if sum < least {
			least = sum
			for a, i := range alive {
				out[i] = labels[a]
			}
		}
	}
	return Number(out), nil
}

// subset returns a copy of some of the points.
func (p *Points) subset(ids []int) *Points {
	q := &Points{n: len(ids), dim: p.dim, x: make([]float32, len(ids)*p.dim)}
	for a, i := range ids {
		copy(q.row(a), p.row(i))
	}
	return q
}

// chooseCenters chooses k points far apart: each next one is the best of 4 + 2 ln k candidates,
// drawn with probabilities that increase with the distance to the nearest center.
func (p *Points) chooseCenters(ctx context.Context, r *rand.Rand, k int, alive []int) (*Points, error) {
	tries := 4 + 2*int(math.Log(float64(k)))
	far := make([]float64, p.n) // distance of each point to its nearest center
	for i := range far {
		far[i] = 2
	}
	dist := make([]float32, p.n*tries)
	var chosen []int
	for len(chosen) < k {
		var total float64
		for _, i := range alive {
			total += far[i]
		}
		drawn := make([]int, tries)
		for c := range drawn {
			drawn[c] = alive[r.IntN(len(alive))]
			if len(chosen) == 0 || total <= 0 {
				continue
			}
			at := r.Float64() * total
			for _, i := range alive {
				if at -= far[i]; at < 0 {
					drawn[c] = i
					break
				}
			}
		}
		err := p.against(ctx, p.subset(drawn), false, func(_, i, rows, j, cols int, cos []float32, ld int) {
			for a := range rows {
				for b := range cols {
					dist[(i+a)*tries+j+b] = max(0, 1-cos[a*ld+b])
				}
			}
		})
		if err != nil {
			return nil, err
		}
		best, least := 0, math.Inf(1)
		for c := range drawn {
			sum := 0.0
			for _, i := range alive {
				sum += min(far[i], float64(dist[i*tries+c]))
			}
			if sum < least {
				best, least = c, sum
			}
		}
		chosen = append(chosen, drawn[best])
		for _, i := range alive {
			far[i] = min(far[i], float64(dist[i*tries+best]))
		}
	}
	return p.subset(chosen), nil
}

// lloyd moves centers to the means of their points until no point changes its center. It returns
// the center of each point in alive and the sum of the squared distances.
func (p *Points) lloyd(ctx context.Context, centers *Points, alive []int) (labels []int, sum float64, err error) {
	k := centers.n
	near, far := make([]int32, p.n), make([]float32, p.n) // nearest center and squared distance to it
	square := make([]float32, k)                          // squared length of each center
	labels = make([]int, len(alive))
	for a := range labels {
		labels[a] = -1
	}
	for range maxRounds {
		centers.packed = nil
		for i := range far {
			far[i] = float32(math.Inf(1))
		}
		for c := range k {
			square[c] = kernel.Dot(centers.row(c), centers.row(c))
		}
		if err := p.against(ctx, centers, false, func(_, i, rows, j, cols int, cos []float32, ld int) {
			for a := range rows {
				for b, c := range cos[a*ld : a*ld+cols] {
					if d := 1 - 2*c + square[j+b]; d < far[i+a] {
						far[i+a], near[i+a] = d, int32(j+b)
					}
				}
			}
		}); err != nil {
			return nil, 0, err
		}
		changed := false
		sum = 0
		sums, counts := make([]float64, k*p.dim), make([]int, k)
		for a, i := range alive {
			c := int(near[i])
			if labels[a] != c {
				labels[a], changed = c, true
			}
			sum += float64(far[i])
			counts[c]++
			into := sums[c*p.dim : (c+1)*p.dim]
			for d, f := range p.row(i) {
				into[d] += float64(f)
			}
		}
		if !changed {
			break
		}
		for c := range k {
			if counts[c] == 0 { // empty: take the point farthest from its center
				worst := alive[0]
				for _, i := range alive {
					if far[i] > far[worst] {
						worst = i
					}
				}
				far[worst] = 0
				copy(centers.row(c), p.row(worst))
				continue
			}
			for d, f := range sums[c*p.dim : (c+1)*p.dim] {
				centers.row(c)[d] = float32(f / float64(counts[c]))
			}
		}
	}
	return labels, sum, nil
}
