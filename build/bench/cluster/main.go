// Command cluster measures backend/cluster in one run with scikit-learn (DBSCAN, brute, one
// thread) on the same planted vectors. Times are CPU times on one thread unless a row says
// otherwise; the agreement with the planted groups is the adjusted Rand index.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"helix/backend/cluster"
	"helixbench/figures"
)

const (
	dim    = 384
	groups = 60
	eps    = 0.48
	minPts = 5
)

var large = flag.Int("large", 100_000, "points of the large run; 0 leaves it out")

func main() {
	flag.Parse()
	x, truth := planted(rand.New(rand.NewPCG(1, 1)), 10_000, func(int) float64 { return 0.75 })
	peer := sklearn(x, eps)
	old := runtime.GOMAXPROCS(1)
	var labels []int
	ours := cpu(func() { labels = dbscan(x) })
	runtime.GOMAXPROCS(old)
	figures.Print("dbscan.10k", ours, "s CPU", ours/peer.dbscan, "sklearn DBSCAN brute")
	figures.Print("dbscan.10k.ari", adjustedRand(labels, truth), "adjusted Rand index", 0, "")
	figures.Print("dbscan.10k.agreement", adjustedRand(labels, peer.labels), "adjusted Rand index with sklearn", 0, "")
	wall := clock(func() { dbscan(x) })
	figures.Print("dbscan.10k.wall", wall, "s, all processors", 0, "")
	runtime.GOMAXPROCS(1)
	pairs := cpu(func() {
		_, err := cluster.New(x).Near(context.Background(), 0.01)
		figures.Check(err)
	})
	runtime.GOMAXPROCS(old)
	rate := float64(len(x)) * float64(len(x)) * dim / pairs / 1e9 // half of all pairs, two operations each
	figures.Print("tiles", rate, "GFLOP/s", rate/peer.gemm, "numpy, one thread")

	kmeans("kmeans.10k", x, truth, peer)

	varied, truth := planted(rand.New(rand.NewPCG(2, 1)), 10_000, func(g int) float64 { return []float64{0.25, 0.5, 1.0}[g%3] })
	wall = clock(func() {
		nb, err := cluster.New(varied).Nearest(context.Background())
		figures.Check(err)
		labels = nb.HDBSCAN(10, minPts, nil)
	})
	figures.Print("hdbscan.10k", wall, "s, all processors", 0, "")
	figures.Print("hdbscan.10k.ari", adjustedRand(labels, truth), "adjusted Rand index", 0, "")
	best := 0.0
	for e := 0.1; e < 0.75; e += 0.05 {
		g, err := cluster.New(varied).Near(context.Background(), e)
		figures.Check(err)
		best = max(best, adjustedRand(g.DBSCAN(minPts, nil), truth))
	}
	figures.Print("dbscan.varied.ari", best, "adjusted Rand index at its best distance", 0, "")
	near, truth := twins(rand.New(rand.NewPCG(4, 1)), 10_000)
	nb, err := cluster.New(near).Nearest(context.Background())
	figures.Check(err)
	own := adjustedRand(nb.HDBSCAN(10, minPts, nil), truth)
	best = 0
	for e := 0.02; e < 0.75; e += 0.02 {
		g, err := cluster.New(near).Near(context.Background(), e)
		figures.Check(err)
		best = max(best, adjustedRand(g.DBSCAN(minPts, nil), truth))
	}
	figures.Print("hdbscan.twins.ari", own, "adjusted Rand index", 0, "")
	figures.Print("hdbscan.twins.gain", own-best, "adjusted Rand index above DBSCAN at its best distance", 0, "")
	if *large > 0 {
		x, truth = planted(rand.New(rand.NewPCG(3, 1)), *large, func(int) float64 { return 0.75 })
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		wall = clock(func() { labels = dbscan(x) })
		runtime.ReadMemStats(&after)
		figures.Print("dbscan.100k", wall, "s, all processors", 0, "")
		figures.Print("dbscan.100k.ari", adjustedRand(labels, truth), "adjusted Rand index", 0, "")
		figures.Print("dbscan.100k.memory", float64(after.Sys-before.Sys)/(1<<20), "MiB above the vectors", 0, "")
		kmeans("kmeans.100k", x, truth, sklearn(x, 0))
	}
}

// kmeans compares five single starts on one thread with the peer's, by their medians. A tenth of
// the points are noise, which k-means must assign to some group.
func kmeans(name string, x [][]float32, truth []int, peer result) {
	old := runtime.GOMAXPROCS(1)
	var times, ours, theirs []float64
	for seed, means := range peer.means {
		var labels []int
		times = append(times, cpu(func() {
			var err error
			labels, err = cluster.New(x).KMeans(context.Background(), groups, 1, uint64(seed), nil)
			figures.Check(err)
		}))
		ours, theirs = append(ours, adjustedRand(labels, truth)), append(theirs, adjustedRand(means, truth))
	}
	runtime.GOMAXPROCS(old)
	median := func(v []float64) float64 { return slices.Sorted(slices.Values(v))[len(v)/2] }
	figures.Print(name, median(times), "s CPU", median(times)/median(peer.kmeans), "sklearn KMeans n_init=1")
	figures.Print(name+".ari", median(ours), "adjusted Rand index", 0, "")
	figures.Print(name+".ari_above_sklearn", median(ours)-median(theirs), "adjusted Rand index", 0, "")
}

// twins creates pairs of dense groups that are nearer to each other than the points within the
// loose groups, so that no single distance fits all, and a tenth of noise.
func twins(r *rand.Rand, n int) (x [][]float32, truth []int) {
	x, truth = planted(r, n, func(g int) float64 { return []float64{0.12, 1.0}[g%2] })
	first := map[int][]float32{}
	for i, g := range truth {
		if g >= 0 && g%4 == 0 && first[g] == nil {
			first[g] = slices.Clone(x[i])
		}
	}
	for i, g := range truth {
		if g < 0 || g%4 != 2 || first[g-2] == nil {
			continue
		}
		// Move the group next to its twin: what was its center is now near the other's.
		for k := range x[i] {
			x[i][k] = 0.35*x[i][k] + first[g-2][k]
		}
	}
	return x, truth
}

func dbscan(x [][]float32) []int {
	g, err := cluster.New(x).Near(context.Background(), eps)
	figures.Check(err)
	return g.DBSCAN(minPts, nil)
}

// planted creates groups around random centers, and a tenth of noise.
func planted(r *rand.Rand, n int, spread func(group int) float64) (x [][]float32, truth []int) {
	unit := func() []float32 {
		v := make([]float32, dim)
		sum := 0.0
		for i := range v {
			f := r.NormFloat64()
			v[i], sum = float32(f), sum+f*f
		}
		for i := range v {
			v[i] /= float32(math.Sqrt(sum))
		}
		return v
	}
	var centers [][]float32
	for range groups {
		centers = append(centers, unit())
	}
	for i := range n {
		v, g := unit(), cluster.Noise
		if i%10 > 0 {
			g = (i - i/10 - 1) % groups // of those that are not noise
			for k := range v {
				v[k] = centers[g][k] + float32(spread(g))*v[k]
			}
		}
		x, truth = append(x, v), append(truth, g)
	}
	return x, truth
}

type result struct {
	gemm, dbscan float64
	labels       []int
	kmeans       []float64 // seconds of each start
	means        [][]int   // the labels of each start
}

func sklearn(x [][]float32, eps float64) (r result) {
	dir, err := os.MkdirTemp("", "cluster-")
	figures.Check(err)
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "x")
	var buf bytes.Buffer
	for _, v := range x {
		figures.Check(binary.Write(&buf, binary.LittleEndian, v))
	}
	figures.Check(os.WriteFile(file, buf.Bytes(), 0o600))
	cmd := exec.Command("/usr/bin/python3", "cluster/sklearn_peer.py", file, strconv.Itoa(len(x)), strconv.Itoa(dim), fmt.Sprint(eps), strconv.Itoa(minPts), strconv.Itoa(groups))
	cmd.Env = append(os.Environ(), "OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1")
	out, err := cmd.Output()
	figures.Check(err)
	s := bufio.NewScanner(bytes.NewReader(out))
	s.Buffer(nil, 16<<20)
	for s.Scan() {
		name, rest, _ := strings.Cut(s.Text(), " ")
		switch name {
		case "gemm":
			r.gemm, err = strconv.ParseFloat(rest, 64)
		case "dbscan":
			r.dbscan, err = strconv.ParseFloat(rest, 64)
		case "kmeans":
			var seconds float64
			seconds, err = strconv.ParseFloat(rest, 64)
			r.kmeans = append(r.kmeans, seconds)
		case "labels", "kmeans_labels":
			into := &r.labels
			if name != "labels" {
				r.means = append(r.means, nil)
				into = &r.means[len(r.means)-1]
			}
			for _, f := range strings.Fields(rest) {
				l, err := strconv.Atoi(f)
				figures.Check(err)
				*into = append(*into, l)
			}
		}
		figures.Check(err)
	}
	return r
}

func cpu(fn func()) float64 {
	used := func() float64 {
		var r syscall.Rusage
		figures.Check(syscall.Getrusage(syscall.RUSAGE_SELF, &r))
		return float64(r.Utime.Sec+r.Stime.Sec) + float64(r.Utime.Usec+r.Stime.Usec)/1e6
	}
	best := math.Inf(1)
	for range 3 {
		begin := used()
		fn()
		best = min(best, used()-begin)
	}
	return best
}

func clock(fn func()) float64 {
	begin := time.Now()
	fn()
	return time.Since(begin).Seconds()
}

// adjustedRand returns 1 for the same partition and 0 for chance (Hubert and Arabie 1985).
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
