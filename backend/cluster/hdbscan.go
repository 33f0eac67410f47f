package cluster

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// exactUpTo is the number of points up to which HDBSCAN considers all pairs; above it, only the
// nearest neighbors of each point.
const (
	exactUpTo      = 400
	neighborsAbove = 32
)

// Neighbors are the k nearest other points of each point, nearest first.
type Neighbors struct {
	points *Points
	k      int
	id     []int32 // -1: none
	dist   []float32
}

// Nearest finds the nearest neighbors of every point: all other points if there are at most 400, else 32.
func (p *Points) Nearest(ctx context.Context) (*Neighbors, error) {
	k := max(1, p.n-1)
	if k > exactUpTo {
		k = neighborsAbove
	}
	nb := &Neighbors{points: p, k: k, id: make([]int32, p.n*k), dist: make([]float32, p.n*k)}
	for i := range nb.id {
		nb.id[i], nb.dist[i] = -1, float32(math.Inf(1))
	}
	err := p.pairs(ctx, false, func(_, i, rows, j, cols int, cos []float32, ld int) {
		for r := range rows {
			if !p.valid[i+r] {
				continue
			}
			id, dist := nb.id[(i+r)*k:(i+r+1)*k], nb.dist[(i+r)*k:(i+r+1)*k]
			for c, v := range cos[r*ld : r*ld+cols] {
				d := 1 - v
				if d >= dist[k-1] || j+c == i+r || !p.valid[j+c] {
					continue
				}
				at := k - 1
				for at > 0 && dist[at-1] > d {
					id[at], dist[at] = id[at-1], dist[at-1]
					at--
				}
				id[at], dist[at] = int32(j+c), d
			}
		}
	})
	return nb, err
}

// edge connects two points at a distance.
type edge struct {
	dist float64
	i, j int32
}

// HDBSCAN clusters points of different densities (Campello et al. 2013): of the clusters with at
// least minSize points it selects those that persist longest as the density threshold rises. The
// density of a point is that of its minSamples nearest points, including itself. If in is not nil,
// points that it does not mark are ignored. Labels are as in DBSCAN. Above 400 points the spanning
// tree consists only of edges to the nearest neighbors.
func (nb *Neighbors) HDBSCAN(minSize, minSamples int, in []bool) []int {
	labels := make([]int, nb.points.n)
	var list []int32
	for i := range labels {
		labels[i] = Noise
		if nb.points.valid[i] && (in == nil || in[i]) {
			list = append(list, int32(i))
		}
	}
	minSize = max(2, minSize)
	if len(list) < 2*minSize {
		return labels
	}
	t := newTree(len(labels), nb.spanning(list, max(1, minSamples-1), in))
	t.condense(minSize)
	labels = t.choose()
	t.trim(labels)
	return Number(labels)
}

// spanning returns a minimum spanning tree under mutual reachability: the maximum of the distance
// and of both distances to the core-th neighbor.
func (nb *Neighbors) spanning(list []int32, core int, in []bool) []edge {
	reach := make([]float32, nb.points.n)
	for _, i := range list {
		left := core
		for x := int(i) * nb.k; x < int(i+1)*nb.k && left > 0; x++ {
			if j := nb.id[x]; j >= 0 && (in == nil || in[j]) {
				reach[i] = nb.dist[x]
				left--
			}
		}
	}
	var edges []edge
	for _, i := range list {
		for x := int(i) * nb.k; x < int(i+1)*nb.k; x++ {
			j := nb.id[x]
			if j < 0 || in != nil && !in[j] || j < i && slices.Contains(nb.id[int(j)*nb.k:int(j+1)*nb.k], i) {
				continue // the last one: the edge in the other direction
			}
			edges = append(edges, edge{float64(max(nb.dist[x], reach[i], reach[j], 0)), min(i, j), max(i, j)})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.dist, b.dist), cmp.Compare(a.i, b.i), cmp.Compare(a.j, b.j))
	})
	root := make([]int32, nb.points.n)
	for i := range root {
		root[i] = int32(i)
	}
	tree := make([]edge, 0, len(list)-1)
	join := func(e edge) {
		if a, b := find(root, e.i), find(root, e.j); a != b {
			root[b] = a
			tree = append(tree, e)
		}
	}
	for _, e := range edges {
		join(e)
	}
	for _, i := range list[1:] { // unconnected parts are at the maximum distance
		join(edge{2, list[0], i})
	}
	return tree
}

func find(root []int32, i int32) int32 {
	for root[i] != i {
		root[i] = root[root[i]]
		i = root[i]
	}
	return i
}

// linkTree is the single-linkage tree of a spanning tree, with the condensed tree derived from it.
type linkTree struct {
	n          int // number of points; nodes from n on join two nodes
	one, other []int32
	dist       []float64
	size       []int32

	parent    []int // of each cluster; the first cluster is the root
	birth     []float64
	stability []float64
	fell      []int     // cluster that each point left; -1: none
	left      []float64 // the distance at which it left
}

func newTree(n int, edges []edge) *linkTree {
	t := &linkTree{n: n}
	root, node := make([]int32, n), make([]int32, n)
	for i := range root {
		root[i], node[i] = int32(i), int32(i)
	}
	sizeOf := func(x int32) int32 {
		if int(x) < n {
			return 1
		}
		return t.size[int(x)-n]
	}
	for _, e := range edges {
		a, b := find(root, e.i), find(root, e.j)
		t.one, t.other, t.dist = append(t.one, node[a]), append(t.other, node[b]), append(t.dist, e.dist)
		t.size = append(t.size, sizeOf(node[a])+sizeOf(node[b]))
		root[b] = a
		node[a] = int32(n + len(t.one) - 1)
	}
	return t
}

// lambda returns the density at a distance, its inverse.
func lambda(dist float64) float64 { return 1 / max(dist, 1e-6) }

// condense walks the tree from its root. A split into two parts of at least minSize creates two
// clusters; a smaller part falls out of its cluster.
func (t *linkTree) condense(minSize int) {
	t.fell, t.left = make([]int, t.n), make([]float64, t.n)
	for i := range t.fell {
		t.fell[i] = -1
	}
	t.parent, t.birth, t.stability = []int{-1}, []float64{0}, []float64{0}
	sizeOf := func(x int32) int {
		if int(x) < t.n {
			return 1
		}
		return int(t.size[int(x)-t.n])
	}
	fall := func(x int32, c int, l float64) {
		open := []int32{x}
		for len(open) > 0 {
			x := open[len(open)-1]
			open = open[:len(open)-1]
			if int(x) < t.n {
				t.fell[x], t.left[x] = c, 1/l
				t.stability[c] += l - t.birth[c]
				continue
			}
			open = append(open, t.one[int(x)-t.n], t.other[int(x)-t.n])
		}
	}
	type item struct {
		node    int32
		cluster int
	}
	open := []item{{int32(t.n + len(t.one) - 1), 0}}
	for len(open) > 0 {
		it := open[0]
		open = open[1:]
		if int(it.node) < t.n {
			fall(it.node, it.cluster, t.birth[it.cluster])
			continue
		}
		k := int(it.node) - t.n
		l, a, b := lambda(t.dist[k]), t.one[k], t.other[k]
		switch sa, sb := sizeOf(a), sizeOf(b); {
		case sa >= minSize && sb >= minSize:
			t.stability[it.cluster] += float64(sa+sb) * (l - t.birth[it.cluster])
			for _, x := range []int32{a, b} {
				t.parent, t.birth, t.stability = append(t.parent, it.cluster), append(t.birth, l), append(t.stability, 0)
				open = append(open, item{x, len(t.parent) - 1})
			}
		case sa >= minSize:
			fall(b, it.cluster, l)
			open = append(open, item{a, it.cluster})
		case sb >= minSize:
			fall(a, it.cluster, l)
			open = append(open, item{b, it.cluster})
		default:
			fall(a, it.cluster, l)
			fall(b, it.cluster, l)
		}
	}
}

// choose selects the clusters with the greatest excess of mass and returns the cluster of each
// point. The root is never selected.
func (t *linkTree) choose() []int {
	below := make([]float64, len(t.parent))
	chosen := make([]bool, len(t.parent))
	for c := len(t.parent) - 1; c > 0; c-- { // children have higher numbers
		own := t.stability[c]
		if own < below[c] {
			own = below[c]
		} else {
			chosen[c] = true
		}
		below[t.parent[c]] += own
	}
	top := make([]int, len(t.parent)) // the selected cluster that contains each cluster
	top[0] = Noise
	for c := 1; c < len(t.parent); c++ {
		switch {
		case top[t.parent[c]] != Noise:
			top[c] = top[t.parent[c]]
		case chosen[c]:
			top[c] = c
		default:
			top[c] = Noise
		}
	}
	labels := make([]int, t.n)
	for i, c := range t.fell {
		labels[i] = Noise
		if c >= 0 {
			labels[i] = top[c]
		}
	}
	return labels
}

// farOut is how many interquartile ranges beyond the upper quartile a value must be to be
// far out (Tukey 1977).
const farOut = 3

// trim turns points into noise that left their cluster at a distance far out among its points. An
// isolated cluster attracts the nearest noise points before it merges with anything else; by
// definition they belong to it, with the lowest membership.
func (t *linkTree) trim(labels []int) {
	of := map[int][]int{}
	for i, c := range labels {
		if c != Noise {
			of[c] = append(of[c], i)
		}
	}
	for _, members := range of {
		d := make([]float64, len(members))
		for k, i := range members {
			d[k] = t.left[i]
		}
		slices.Sort(d)
		q1, q3 := d[len(d)/4], d[len(d)*3/4]
		for _, i := range members {
			if t.left[i] > q3+farOut*max(q3-q1, q3/10) {
				labels[i] = Noise
			}
		}
	}
}
