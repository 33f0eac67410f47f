package synthesis

import (
	"math"
	"math/rand/v2"
	"slices"
)

// mean returns the mean of x, or 0 if x is empty.
func mean(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// variance returns the unbiased variance of x, or 0 for fewer than two values.
func variance(x []float64) float64 {
	if len(x) < 2 {
		return 0
	}
	m, sum := mean(x), 0.0
	for _, v := range x {
		sum += (v - m) * (v - m)
	}
	return sum / float64(len(x)-1)
}

// quantile returns the q-quantile of x by linear interpolation, or 0 if x is empty.
func quantile(x []float64, q float64) float64 {
	if len(x) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(x))
	pos := q * float64(len(s)-1)
	i := int(pos)
	if i+1 >= len(s) {
		return s[len(s)-1]
	}
	return s[i] + (pos-float64(i))*(s[i+1]-s[i])
}

// welch compares the means of two samples. It returns Cohen's d with the pooled deviation, and the
// two-sided p-value of Welch's t-test (Welch 1947). p is 1 for samples without variance or with
// fewer than two values.
func welch(a, b []float64) (d, p float64) {
	if len(a) < 2 || len(b) < 2 {
		return 0, 1
	}
	na, nb := float64(len(a)), float64(len(b))
	va, vb := variance(a), variance(b)
	diff := mean(a) - mean(b)
	pooled := math.Sqrt(((na-1)*va + (nb-1)*vb) / (na + nb - 2))
	if pooled == 0 {
		return 0, 1
	}
	sa, sb := va/na, vb/nb
	t := diff / math.Sqrt(sa+sb)
	df := (sa + sb) * (sa + sb) / (sa*sa/(na-1) + sb*sb/(nb-1))
	return diff / pooled, studentTail(t, df)
}

// studentTail returns the two-sided tail of Student's t-distribution with df degrees of freedom.
func studentTail(t, df float64) float64 {
	if math.IsNaN(t) || math.IsNaN(df) || df <= 0 {
		return 1
	}
	return incompleteBeta(df/2, 0.5, df/(df+t*t))
}

// incompleteBeta returns the regularized incomplete beta function, computed by the continued
// fraction of Numerical Recipes 6.4 with Lentz's method.
func incompleteBeta(a, b, x float64) float64 {
	if x <= 0 {
		return 0
	}
	if x >= 1 {
		return 1
	}
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	front := math.Exp(lab - la - lb + a*math.Log(x) + b*math.Log1p(-x))
	if x > (a+1)/(a+b+2) {
		return 1 - front*betaFraction(b, a, 1-x)/b
	}
	return front * betaFraction(a, b, x) / a
}

func betaFraction(a, b, x float64) float64 {
	const tiny = 1e-300
	c, d := 1.0, 1-(a+b)*x/(a+1)
	if math.Abs(d) < tiny {
		d = tiny
	}
	d = 1 / d
	h := d
	for i := 1; i <= 300; i++ {
		m := float64(i)
		for _, num := range [2]float64{m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m)), -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))} {
			if d = 1 + num*d; math.Abs(d) < tiny {
				d = tiny
			}
			if c = 1 + num/c; math.Abs(c) < tiny {
				c = tiny
			}
			d = 1 / d
			h *= d * c
			if num < 0 && math.Abs(d*c-1) < 1e-14 {
				return h
			}
		}
	}
	return h
}

// holm returns the p-values after Holm's correction for multiple tests (Holm 1979).
func holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case p[a] < p[b]:
			return -1
		case p[a] > p[b]:
			return 1
		}
		return 0
	})
	out, most := make([]float64, len(p)), 0.0
	for rank, i := range order {
		most = max(most, min(1, p[i]*float64(len(p)-rank)))
		out[i] = most
	}
	return out
}

// trend returns the slope of y over x by Theil and Sen (Sen 1968), and the two-sided p-value of
// Kendall's rank test with ties in both. Of more than 400 values it uses every k-th.
func trend(x, y []float64) (slope, p float64) {
	if step := (len(x) + 399) / 400; step > 1 {
		var tx, ty []float64
		for i := 0; i < len(x); i += step {
			tx, ty = append(tx, x[i]), append(ty, y[i])
		}
		x, y = tx, ty
	}
	n := len(x)
	if n < 4 {
		return 0, 1
	}
	var slopes []float64
	s := 0.0
	for i := range n {
		for j := i + 1; j < n; j++ {
			dx, dy := x[j]-x[i], y[j]-y[i]
			if dx == 0 {
				continue
			}
			slopes = append(slopes, dy/dx)
			switch {
			case dy*dx > 0:
				s++
			case dy*dx < 0:
				s--
			}
		}
	}
	if len(slopes) == 0 {
		return 0, 1
	}
	// Groups of ties reduce the variance, see Kendall 1975.
	v0, tx1, tx2, tx3 := float64(n*(n-1)*(2*n+5)), 0.0, 0.0, 0.0
	ty1, ty2, ty3 := 0.0, 0.0, 0.0
	for _, t := range ties(x) {
		tx1, tx2, tx3 = tx1+t*(t-1)*(2*t+5), tx2+t*(t-1), tx3+t*(t-1)*(t-2)
	}
	for _, t := range ties(y) {
		ty1, ty2, ty3 = ty1+t*(t-1)*(2*t+5), ty2+t*(t-1), ty3+t*(t-1)*(t-2)
	}
	nf := float64(n)
	sigma := math.Sqrt((v0-tx1-ty1)/18 + tx2*ty2/(2*nf*(nf-1)) + tx3*ty3/(9*nf*(nf-1)*(nf-2)))
	if sigma == 0 || s == 0 {
		return quantile(slopes, 0.5), 1
	}
	z := (math.Abs(s) - 1) / sigma
	return quantile(slopes, 0.5), math.Erfc(z / math.Sqrt2)
}

// ties returns the sizes of the groups of equal values in x that have more than one member.
func ties(x []float64) (sizes []float64) {
	s := slices.Sorted(slices.Values(x))
	for i := 0; i < len(s); {
		j := i
		for j < len(s) && s[j] == s[i] {
			j++
		}
		if j-i > 1 {
			sizes = append(sizes, float64(j-i))
		}
		i = j
	}
	return sizes
}

// rhythm finds the window of width adjacent bins of a cycle with the most counts. It returns its
// first bin, its share of all counts, and the p-value of a permutation test: how often the fullest
// window of a random draw has at least as many, in 999 seeded draws.
func rhythm(counts []int, width int, seed uint64) (at int, share, p float64) {
	total := 0
	for _, c := range counts {
		total += c
	}
	if total == 0 {
		return 0, 0, 1
	}
	at, most := fullest(counts, width)
	const draws = 999
	rng := rand.New(rand.NewPCG(seed, uint64(len(counts)))) //nolint:gosec // a seeded permutation test, not a secret
	hits, draw := 0, make([]int, len(counts))
	for range draws {
		clear(draw)
		for range total {
			draw[rng.IntN(len(draw))]++
		}
		if _, m := fullest(draw, width); m >= most {
			hits++
		}
	}
	return at, float64(most) / float64(total), float64(hits+1) / (draws + 1)
}

func fullest(counts []int, width int) (at, most int) {
	for i := range counts {
		sum := 0
		for k := range width {
			sum += counts[(i+k)%len(counts)]
		}
		if sum > most {
			at, most = i, sum
		}
	}
	return at, most
}

// turningPoints returns the indexes at which the mean of x changes, by PELT (Killick et al. 2012) with
// squared deviations over the variance of x and the penalty 3·ln n. Segments have at least five values.
func turningPoints(x []float64) []int {
	const least = 5
	n := len(x)
	scale := variance(x)
	if n < 2*least || scale == 0 {
		return nil
	}
	sum, sq := make([]float64, n+1), make([]float64, n+1)
	for i, v := range x {
		sum[i+1], sq[i+1] = sum[i]+v, sq[i]+v*v
	}
	cost := func(a, b int) float64 {
		d := sum[b] - sum[a]
		return (sq[b] - sq[a] - d*d/float64(b-a)) / scale
	}
	penalty := 3 * math.Log(float64(n))
	best, from := make([]float64, n+1), make([]int, n+1)
	best[0] = -penalty
	for b := 1; b < least; b++ {
		best[b] = math.Inf(1)
	}
	open := []int{0}
	for b := least; b <= n; b++ {
		best[b] = math.Inf(1)
		for _, a := range open {
			if b-a < least {
				continue
			}
			if c := best[a] + cost(a, b) + penalty; c < best[b] {
				best[b], from[b] = c, a
			}
		}
		kept := open[:0]
		for _, a := range open {
			if b-a < least || best[a]+cost(a, b) <= best[b] {
				kept = append(kept, a)
			}
		}
		open = kept
		if b+1-least >= least { // a segment may begin where another of full length ends
			open = append(open, b+1-least)
		}
	}
	var at []int
	for b := n; from[b] > 0; b = from[b] {
		at = append(at, from[b])
	}
	slices.Reverse(at)
	return at
}

// poissonTail returns the probability of n or more events at the given rate.
func poissonTail(n int, rate float64) float64 {
	p, sum := math.Exp(-rate), 0.0
	for k := range n {
		sum += p
		p *= rate / float64(k+1)
	}
	return max(0, 1-sum)
}
