package cluster

import (
	"context"
	"slices"
)

// Graph holds which points are near each other.
type Graph struct {
	points *Points
	eps    float64
	from   []int // the neighbors of point i are to[from[i]:from[i+1]]
	to     []int32
}

// Near finds all pairs of points at a distance of at most eps. It uses memory proportional to the
// number of such pairs.
func (p *Points) Near(ctx context.Context, eps float64) (*Graph, error) {
	least := float32(1 - eps)
	type pair struct{ i, j int32 }
	found := make([][]pair, (p.n+tileRows-1)/tileRows)
	err := p.pairs(ctx, true, func(task, i, rows, j, cols int, cos []float32, ld int) {
		list := found[task]
		for r := range rows {
			if !p.valid[i+r] {
				continue
			}
			for c, v := range cos[r*ld : r*ld+cols] {
				if v >= least && j+c > i+r && p.valid[j+c] {
					list = append(list, pair{int32(i + r), int32(j + c)})
				}
			}
		}
		found[task] = list
	})
	if err != nil {
		return nil, err
	}
	g := &Graph{points: p, eps: eps, from: make([]int, p.n+1)}
	for _, list := range found {
		for _, x := range list {
			g.from[x.i+1]++
			g.from[x.j+1]++
		}
	}
	for i := range p.n {
		g.from[i+1] += g.from[i]
	}
	g.to = make([]int32, g.from[p.n])
	at := slices.Clone(g.from)
	for _, list := range found {
		for _, x := range list {
			g.to[at[x.i]] = x.j
			g.to[at[x.j]] = x.i
			at[x.i]++
			at[x.j]++
		}
	}
	return g, nil
}

func (g *Graph) near(i int) []int32 { return g.to[g.from[i]:g.from[i+1]] }

// DBSCAN clusters the points of a graph (Ester et al. 1996). A point with at least minPts points
// around it, including itself, is a core of a cluster, and cores near each other belong to the same
// cluster. Other points belong to the cluster of their nearest core. If in is not nil, points that
// it does not mark are ignored. Clusters are numbered by their first point; labels[i] is Noise for
// points in no cluster.
func (g *Graph) DBSCAN(minPts int, in []bool) (labels []int) {
	n := g.points.n
	exists := func(i int) bool { return g.points.valid[i] && (in == nil || in[i]) }
	core := make([]bool, n)
	for i := range n {
		if !exists(i) {
			continue
		}
		count := 1
		for _, j := range g.near(i) {
			if exists(int(j)) {
				count++
			}
		}
		core[i] = count >= minPts
	}
	labels = make([]int, n)
	for i := range labels {
		labels[i] = Noise
	}
	next := 0
	var open []int
	for i := range n {
		if !core[i] || labels[i] != Noise {
			continue
		}
		labels[i] = next
		open = append(open[:0], i)
		for len(open) > 0 {
			at := open[len(open)-1]
			open = open[:len(open)-1]
			for _, j := range g.near(at) {
				if core[j] && labels[j] == Noise {
					labels[j] = next
					open = append(open, int(j))
				}
			}
		}
		next++
	}
	for i := range n {
		if core[i] || !exists(i) {
			continue
		}
		best := -2.0
		for _, j := range g.near(i) {
			if core[j] {
				if c := g.points.Cosine(i, int(j)); c > best {
					best, labels[i] = c, labels[j]
				}
			}
		}
	}
	return Number(labels)
}

// Number renumbers clusters in place by their first point.
func Number(labels []int) []int {
	to := map[int]int{}
	for i, l := range labels {
		if l == Noise {
			continue
		}
		if _, ok := to[l]; !ok {
			to[l] = len(to)
		}
		labels[i] = to[l]
	}
	return labels
}
