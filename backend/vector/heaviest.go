package vector

import (
	"cmp"
	"math"
	"slices"
)

const (
	firstRead = 96 // number of candidates read before deciding whether the others matter

	// Number of standard deviations by which a candidate must fall short to be skipped: for few
	// results, and for so many that one more or less at the end is irrelevant.
	sureOfFew, sureOfMany = 4, 3
	few                   = 20
)

// scoreHeaviest reads at most want of the candidates found by the scan, heaviest first, and returns
// the best k. The score is approximately a linear function of the weight, with an error of equal
// size for all. So once some are read, a regression estimates what the others may score, and with
// stop the reading ends when that is too little.
func (ix *Index) scoreHeaviest(s *scratch, want, k int, stop bool) []Hit {
	s.beginHits(k)
	heaviest(s.pick.found, want)
	left := s.pick.found[:min(want, len(s.pick.found))]
	fit := regression{sure: sureOfMany}
	if k <= few {
		fit.sure = sureOfFew
	}
	for n := max(firstRead, k+k/2); len(left) > 0; n = max(firstRead/2, k/4) {
		n = min(n, len(left))
		heaviest(left, n)
		part := left[:n]
		left = left[n:]
		slices.SortFunc(part, func(a, b candidate) int { return cmp.Compare(a.slot, b.slot) })
		s.slots = s.slots[:0]
		for _, c := range part {
			s.slots = append(s.slots, c.slot)
		}
		ix.read(s, s.slots)
		s.keepBest()
		lightest := math.Inf(1)
		for i, c := range part {
			fit.add(float64(c.weight), float64(s.exact[i]))
			lightest = min(lightest, float64(c.weight))
		}
		if stop && len(s.hits) == k && fit.upperBound(lightest) < float64(s.worst.Score) {
			break
		}
	}
	return slices.Clone(best(s.hits, k))
}

// regression is a linear least-squares fit.
type regression struct {
	sure                float64 // standard deviations above the line in the upper bound
	n, x, y, xx, xy, yy float64
}

// add adds a point, unless its y is not a number.
func (r *regression) add(x, y float64) {
	if y == y {
		r.n, r.x, r.y, r.xx, r.xy, r.yy = r.n+1, r.x+x, r.y+y, r.xx+x*x, r.xy+x*y, r.yy+y*y
	}
}

// upperBound returns the regression's upper confidence bound for points of at most x; infinity if there
// are too few points.
func (r *regression) upperBound(x float64) float64 {
	if r.n < firstRead/2 {
		return math.Inf(1)
	}
	xx, xy, yy := r.xx-r.x*r.x/r.n, r.xy-r.x*r.y/r.n, r.yy-r.y*r.y/r.n
	slope := xy / xx
	if !(slope > 0) {
		return math.Inf(1)
	}
	spread := math.Sqrt(max(0, yy-slope*xy) / (r.n - 2))
	return r.y/r.n + slope*(x-r.x/r.n) + r.sure*spread
}
