package cluster

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"helix/backend/testkit"
)

// planted returns groups of vectors around random centers, and noise.
func planted(r *rand.Rand, groups, each, noise, dim int, spread float64) (x [][]float32, truth []int) {
	unit := func() []float32 {
		v := make([]float32, dim)
		for i := range v {
			v[i] = float32(r.NormFloat64())
		}
		return v
	}
	for g := range groups {
		center := unit()
		for range each {
			v := unit()
			for i := range v {
				v[i] = center[i] + float32(spread)*v[i]
			}
			x, truth = append(x, v), append(truth, g)
		}
	}
	for range noise {
		x, truth = append(x, unit()), append(truth, Noise)
	}
	return x, truth
}

// naive implements the definition of DBSCAN.
func naive(x [][]float32, eps float64, minPts int) []int {
	p := New(x)
	n := len(x)
	near := func(i int) (out []int) {
		for j := range n {
			if j != i && p.valid[i] && p.valid[j] && float32(p.Cosine(i, j)) >= float32(1-eps) {
				out = append(out, j)
			}
		}
		return out
	}
	labels, next := make([]int, n), 0
	for i := range labels {
		labels[i] = Noise
	}
	core := func(i int) bool { return p.valid[i] && len(near(i))+1 >= minPts }
	var grow func(i, l int)
	grow = func(i, l int) {
		labels[i] = l
		for _, j := range near(i) {
			if core(j) && labels[j] == Noise {
				grow(j, l)
			}
		}
	}
	for i := range n {
		if core(i) && labels[i] == Noise {
			grow(i, next)
			next++
		}
	}
	for i := range n {
		best := -2.0
		for _, j := range near(i) {
			if !core(i) && core(j) && p.Cosine(i, j) > best {
				best, labels[i] = p.Cosine(i, j), labels[j]
			}
		}
	}
	return Number(labels)
}

func TestDBSCANEqualsItsDefinition(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 7))
		x, _ := planted(r, 1+r.IntN(6), 3+r.IntN(30), r.IntN(60), 16, 0.3+r.Float64())
		r.Shuffle(len(x), func(i, j int) { x[i], x[j] = x[j], x[i] })
		x = append(x, make([]float32, 16), append([]float32{float32(math.NaN())}, make([]float32, 15)...))
		eps, minPts := 0.1+0.5*r.Float64(), 2+r.IntN(4)
		g, err := New(x).Near(context.Background(), eps)
		if err != nil {
			t.Fatal(err)
		}
		got := g.DBSCAN(minPts, nil)
		if want := naive(x, eps, minPts); !slices.Equal(got, want) {
			t.Fatalf("seed %d: %v, want %v", seed, got, want)
		}
		if got[len(x)-1] != Noise || got[len(x)-2] != Noise {
			t.Fatal("a vector without direction is in a cluster")
		}
	}
}

func TestPlantedGroupsAreFound(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	x, truth := planted(r, 5, 40, 30, 64, 0.4)
	p := New(x)
	g, err := p.Near(context.Background(), 0.25)
	if err != nil {
		t.Fatal(err)
	}
	labels := g.DBSCAN(3, nil)
	if !slices.Equal(labels, truth) {
		t.Fatalf("labels %v", labels)
	}
	q := p.Measure(labels)
	stable, err := Stability(context.Background(), labels, 1, func(in []bool) []int { return g.DBSCAN(3, in) })
	if err != nil {
		t.Fatal(err)
	}
	for i := range q {
		if q[i].Silhouette < 0.5 || q[i].Silhouette > 1 || q[i].Cohesion < 0.8 || q[i].Cohesion > 1.0001 || stable[i] < 0.95 {
			t.Errorf("cluster %d: %+v, stability %f", i, q[i], stable[i])
		}
	}
	if b := p.Baseline(1); math.Abs(b) > 0.3 {
		t.Errorf("baseline %f", b)
	}
	noise, _ := planted(r, 0, 0, 300, 64, 0)
	g, err = New(noise).Near(context.Background(), 0.45)
	if err != nil || slices.ContainsFunc(g.DBSCAN(3, nil), func(l int) bool { return l != Noise }) {
		t.Error("random vectors make a cluster")
	}
}

// The order of the points changes only the numbers of the clusters, and the number of threads nothing.
func TestResultsDependOnThePointsAlone(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	x, _ := planted(r, 6, 50, 100, 32, 0.7)
	run := func(x [][]float32) []int {
		g, err := New(x).Near(context.Background(), 0.35)
		if err != nil {
			t.Fatal(err)
		}
		return g.DBSCAN(3, nil)
	}
	want := run(x)
	old := runtime.GOMAXPROCS(1)
	one := run(x)
	runtime.GOMAXPROCS(old)
	if !slices.Equal(want, one) {
		t.Error("one thread gives another result")
	}
	order := r.Perm(len(x))
	moved := make([][]float32, len(x))
	for i, o := range order {
		moved[i] = x[o]
	}
	back := make([]int, len(x))
	for i, l := range run(moved) {
		back[order[i]] = l
	}
	if !slices.Equal(want, Number(back)) {
		t.Error("the order of the points changes the clusters")
	}
}

func TestCanceledClusteringStops(t *testing.T) {
	t.Parallel()
	x, _ := planted(rand.New(rand.NewPCG(1, 1)), 2, 500, 0, 16, 0.5)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := New(x).Near(ctx, 0.3); err == nil {
		t.Error("it went on")
	}
}

func TestKDistanceAndKnee(t *testing.T) {
	t.Parallel()
	x, _ := planted(rand.New(rand.NewPCG(5, 1)), 3, 30, 20, 64, 0.4)
	d, err := New(x).KDistance(context.Background(), 3, 1000)
	if err != nil || len(d) != len(x) || !slices.IsSorted(d) {
		t.Fatal(len(d), err)
	}
	if k := Knee(d); k < 0.05 || k > 0.4 {
		t.Errorf("knee %f of %v", k, d)
	}
}

func TestHDBSCANFindsGroupsOfDifferentDensity(t *testing.T) {
	t.Parallel()
	for _, each := range []int{20, 150} { // exact, and by nearest neighbors
		r := rand.New(rand.NewPCG(9, 2))
		x, truth := planted(r, 2, each, 0, 64, 0.15)
		wide, more := planted(r, 2, each, 15, 64, 0.8)
		for i, v := range wide {
			x = append(x, v)
			if l := more[i]; l != Noise {
				truth = append(truth, l+2)
			} else {
				truth = append(truth, l)
			}
		}
		nb, err := New(x).Nearest(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		got := nb.HDBSCAN(5, 3, nil)
		if a := adjustedRand(got, truth); a < 0.9 {
			t.Errorf("%d in each group: adjusted Rand index %f, %v", each, a, got)
		}
		none := nb.HDBSCAN(5, 3, make([]bool, len(x)))
		if slices.Max(none) != Noise {
			t.Error("points that do not exist are clustered")
		}
	}
}

// reference implements the definition of HDBSCAN: it computes the clusters of points from their
// spanning tree, by repeatedly removing its longest edge.
func reference(points []int32, tree []edge, minSize int, birth float64, root bool) (stability float64, chosen [][]int32) {
	all, alive := points, points
	for {
		cut := edge{dist: -1}
		for _, e := range tree { // by ascending length
			if slices.Contains(alive, e.i) && slices.Contains(alive, e.j) {
				cut = e
			}
		}
		if cut.dist < 0 {
			return stability, [][]int32{all}
		}
		l := lambda(cut.dist)
		side := map[int32]bool{cut.i: true}
		for grown := true; grown; {
			grown = false
			for _, e := range tree {
				if e != cut && slices.Contains(alive, e.i) && slices.Contains(alive, e.j) && side[e.i] != side[e.j] {
					side[e.i], side[e.j], grown = true, true, true
				}
			}
		}
		var a, b []int32
		for _, p := range alive {
			if side[p] {
				a = append(a, p)
			} else {
				b = append(b, p)
			}
		}
		switch {
		case len(a) >= minSize && len(b) >= minSize:
			stability += float64(len(alive)) * (l - birth)
			sa, ca := reference(a, tree, minSize, l, false)
			sb, cb := reference(b, tree, minSize, l, false)
			if root || stability < sa+sb {
				return sa + sb, append(ca, cb...)
			}
			return stability, [][]int32{all}
		case len(a) >= minSize:
			stability, alive = stability+float64(len(b))*(l-birth), a
		case len(b) >= minSize:
			stability, alive = stability+float64(len(a))*(l-birth), b
		default:
			stability += float64(len(alive)) * (l - birth)
			if root {
				return stability, nil
			}
			return stability, [][]int32{all}
		}
	}
}

// The condensed tree and its clusters equal those of the definition, on random points of different
// densities, except for outlying points.
func TestHDBSCANEqualsItsDefinition(t *testing.T) {
	t.Parallel()
	testkit.SkipRaced(t, "one goroutine, and slow under it")
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 3))
		x, _ := planted(r, 1+r.IntN(4), 10+r.IntN(20), r.IntN(60), 12, 0.1+r.Float64())
		more, _ := planted(r, 2, 12, 0, 12, 0.2)
		p := New(append(x, more...))
		nb, err := p.Nearest(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		list := make([]int32, p.n)
		for i := range list {
			list[i] = int32(i)
		}
		minSize := 3 + r.IntN(8)
		edges := nb.spanning(list, 2, nil)
		tree := newTree(p.n, edges)
		tree.condense(minSize)
		got := Number(tree.choose())
		want := make([]int, p.n)
		for i := range want {
			want[i] = Noise
		}
		_, chosen := reference(list, edges, minSize, 0, true)
		for c, members := range chosen {
			for _, i := range members {
				want[i] = c
			}
		}
		if !slices.Equal(got, Number(want)) {
			t.Errorf("seed %d: %v\nwant %v", seed, got, want)
		}
	}
}

// The spanning tree is as short as Prim's over all pairs.
func TestSpanningTreeIsMinimal(t *testing.T) {
	t.Parallel()
	x, _ := planted(rand.New(rand.NewPCG(4, 4)), 3, 30, 20, 16, 0.5)
	p := New(x)
	nb, err := p.Nearest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const core = 3
	near := make([]float64, p.n)
	for i := range near {
		var d []float64
		for j := range p.n {
			if j != i {
				d = append(d, 1-p.Cosine(i, j))
			}
		}
		slices.Sort(d)
		near[i] = d[core-1]
	}
	best, in, want := make([]float64, p.n), make([]bool, p.n), 0.0
	for i := range best {
		best[i] = math.Inf(1)
	}
	best[0] = 0
	for range p.n {
		at := -1
		for i := range best {
			if !in[i] && (at < 0 || best[i] < best[at]) {
				at = i
			}
		}
		in[at] = true
		want += best[at]
		for j := range best {
			best[j] = min(best[j], max(1-p.Cosine(at, j), near[at], near[j]))
		}
	}
	list := make([]int32, p.n)
	for i := range list {
		list[i] = int32(i)
	}
	got := 0.0
	for _, e := range nb.spanning(list, core, nil) {
		got += e.dist
	}
	if math.Abs(got-want) > 1e-4 {
		t.Errorf("%f, want %f", got, want)
	}
}

func TestKMeans(t *testing.T) {
	t.Parallel()
	testkit.SkipRaced(t, "one goroutine, and slow under it")
	x, truth := planted(rand.New(rand.NewPCG(5, 1)), 8, 60, 0, 48, 0.6)
	x = append(x, make([]float32, 48)) // a zero vector is in no cluster
	truth = append(truth, Noise)
	p := New(x)
	got, err := p.KMeans(t.Context(), 8, 3, 1, nil)
	if err != nil || adjustedRand(got, truth) < 0.99 || got[len(got)-1] != Noise {
		t.Fatalf("adjusted Rand index %f, %v", adjustedRand(got, truth), err)
	}
	old := runtime.GOMAXPROCS(1)
	again, err := p.KMeans(t.Context(), 8, 3, 1, nil)
	runtime.GOMAXPROCS(old)
	if err != nil || !slices.Equal(again, got) {
		t.Error("one thread gives something else", err)
	}
	// No center is without points, and each point belongs to its nearest center.
	for _, k := range []int{1, 30, len(x), 2 * len(x)} {
		labels, err := p.KMeans(t.Context(), k, 1, 2, nil)
		if err != nil {
			t.Fatal(err)
		}
		groups := Members(labels)
		if len(groups) != min(k, len(x)-1) {
			t.Errorf("%d clusters, want %d", len(groups), k)
		}
		if k != 30 {
			continue
		}
		for i, l := range labels[:len(labels)-1] {
			own, best := 0.0, math.Inf(-1)
			for g, members := range groups {
				mean, _ := p.mean(members)
				sum := 0.0
				for d, f := range p.row(i) {
					sum -= (float64(f) - float64(mean[d])) * (float64(f) - float64(mean[d]))
				}
				if best = max(best, sum); g == l {
					own = sum
				}
			}
			if own < best-1e-4 {
				t.Errorf("point %d is nearer to another center: %f, %f", i, own, best)
			}
		}
	}
	half := make([]bool, len(x))
	for i := range half {
		half[i] = i%2 == 0
	}
	labels, err := p.KMeans(t.Context(), 8, 2, 1, half)
	if err != nil || labels[1] != Noise || labels[0] == Noise {
		t.Error("marks are ignored", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.KMeans(ctx, 8, 1, 1, nil); err == nil {
		t.Error("it went on")
	}
}

// adjustedRand returns the adjusted Rand index (Hubert and Arabie 1985).
func adjustedRand(a, b []int) float64 {
	both, left, right := map[[2]int]float64{}, map[int]float64{}, map[int]float64{}
	for i := range a {
		both[[2]int{a[i], b[i]}]++
		left[a[i]]++
		right[b[i]]++
	}
	pairs := func(n float64) float64 { return n * (n - 1) / 2 }
	sum, sl, sr := 0.0, 0.0, 0.0
	for _, n := range both {
		sum += pairs(n)
	}
	for _, n := range left {
		sl += pairs(n)
	}
	for _, n := range right {
		sr += pairs(n)
	}
	expected := sl * sr / pairs(float64(len(a)))
	return (sum - expected) / ((sl+sr)/2 - expected)
}
