// Command vector measures backend/vector in one run with its peers: faiss (FlatIP, and
// BinaryFlat with exact scores of 400 candidates, one thread) and sqlite-vec. It prints one line
// per measurement: name, value, unit, ratio to the peer, peer, separated by tabs. Times are CPU
// times of one query, as medians of alternating runs.
//
// The vectors are embeddings of the shared texts, mixed in pairs with seeded noise. A million of
// them take 6 GB in the temporary folder and 3 GB of memory in faiss; -n sets the sizes.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"helix/backend/vector"
	"helixbench/figures"
)

const (
	dims  = 512
	model = "bench"
)

var (
	dataDir = flag.String("data", "../../../shared/data", "`folder` with locomo and emobank")
	cache   = flag.String("embeddings", "", "`file` that keeps the embeddings for the next run")
	sizes   = flag.String("n", "10000,100000,1000000", "numbers of vectors")
	sigma   = flag.Float64("sigma", 0.3, "length of the noise relative to that of a vector")
	runs    = flag.Int("runs", 5, "runs of which the median is taken")
	peers   = flag.Bool("peers", true, "run the peers")
	rescore = flag.Int("rescore", 0, "candidates that are scored exactly")
	child   = flag.String("child", "", "for internal use: measure the memory of the index in this folder")
)

func main() {
	flag.Parse()
	if *child != "" {
		memoryChild(*child)
		return
	}
	base := embeddings(*dataDir, *cache)
	figures.Print("vector.base", float64(len(base)), "embeddings", 0, "")
	figures.Print("vector.sigma", *sigma, "of length", 0, "")
	for _, s := range strings.Split(*sizes, ",") {
		n, err := strconv.Atoi(s)
		figures.Check(err)
		measure(n, mixer{base: base, sigma: *sigma, seed: 1}, mixer{base: base, sigma: *sigma, seed: 2})
	}
}

// measure runs all measurements at one size, in a temporary folder.
func measure(n int, corpus, asked mixer) {
	dir, err := os.MkdirTemp("", "helix-bench-vector-")
	figures.Check(err)
	defer os.RemoveAll(dir)
	name := func(what string) string { return fmt.Sprintf("vector.%s.%s", size(n), what) }
	queries := 200
	if n >= 1_000_000 {
		queries = 30
	}
	qs := make([][]float32, queries)
	for i := range qs {
		qs[i] = make([]float32, dims)
		asked.vector(i, qs[i])
	}

	ix, err := vector.Open(filepath.Join(dir, "index"), dims, model)
	figures.Check(err)
	defer func() { ix.Close() }()
	figures.Print(name("add"), build(ix, n, corpus), "us CPU a vector", 0, "")
	st := ix.Stats()
	figures.Print(name("ram"), float64(st.MemoryBytes)/float64(n), "bytes a vector", 0, "")
	opened := time.Now()
	figures.Check(ix.Close())
	ix, err = vector.Open(filepath.Join(dir, "index"), dims, model)
	figures.Check(err)
	figures.Print(name("reopen"), float64(time.Since(opened).Milliseconds()), "ms", 0, "")

	var fs *faiss
	var lite *liteVec
	if *peers {
		data, ask := filepath.Join(dir, "data.f32"), filepath.Join(dir, "queries.f32")
		corpus.write(data, n, dims)
		asked.write(ask, queries, dims)
		if fs, err = startFaiss(data, ask, dims); err != nil {
			fmt.Fprintln(os.Stderr, "bench vector:", err)
		} else {
			defer fs.close()
		}
		lite = openLiteVec(filepath.Join(dir, "lite.db"), n, dims, corpus.vector)
		defer lite.close()
	}

	var own, exact, flatMS, binMS, liteMS []float64
	var truth, found, foundBin [][]uint32
	for range *runs {
		cpu, ids := ownRun(ix, qs, vector.SearchOptions{Rescore: *rescore})
		own, found = append(own, cpu), ids
		few := qs[:max(5, min(len(qs), 2_000_000/n))]
		cpu, _ = ownRun(ix, few, vector.SearchOptions{Exact: true})
		exact = append(exact, cpu)
		if fs != nil {
			cpu, truth = fs.run("flat", queries)
			flatMS = append(flatMS, cpu)
			cpu, foundBin = fs.run("binary", queries)
			binMS = append(binMS, cpu)
		}
		if lite != nil {
			start := cpuTime()
			for _, q := range few {
				lite.search(q)
			}
			liteMS = append(liteMS, ms(cpuTime()-start)/float64(len(few)))
		}
	}
	if truth == nil {
		_, truth = ownRun(ix, qs, vector.SearchOptions{Exact: true})
	}
	figures.Print(name("search"), median(own), "ms CPU", 0, "")
	figures.Print(name("search-exact"), median(exact), "ms CPU", 0, "")
	figures.Print(name("recall@10"), recall(truth, found), "of exact", 0, "")
	if fs != nil {
		figures.Print(name("speed-of-flat"), median(flatMS), "ms CPU", median(flatMS)/median(own), "faiss FlatIP")
		figures.Print(name("speed-of-binary"), median(binMS), "ms CPU", median(binMS)/median(own), "faiss BinaryFlat+rescore400")
		figures.Print(name("recall-of-binary"), recall(truth, foundBin), "of exact", 0, "faiss BinaryFlat+rescore400")
	}
	if lite != nil {
		figures.Print(name("speed-of-sqlite-vec"), median(liteMS), "ms CPU", median(liteMS)/median(own), "sqlite-vec")
	}
	figures.Print(name("allocs"), allocs(ix, qs), "bytes a query", 0, "")
	alone, beside := addWait(ix, n, corpus, nil), addWait(ix, n, corpus, qs)
	figures.Print(name("add-beside-searches"), beside, "ms p95", beside/alone, "add alone")
	filters(ix, n, qs, name)
	rss(dir, ix, name)
}

// filters measures searches of a part of the index, and of the rest after deletions.
func filters(ix *vector.Index, n int, qs [][]float32, name func(string) string) {
	r := rand.New(rand.NewPCG(3, 3))
	some := func(share float64) *vector.Bitmap {
		b := vector.NewBitmap(n)
		for i := range n {
			if r.Float64() < share {
				b.Set(uint32(i))
			}
		}
		return b
	}
	span := vector.NewBitmap(n)
	for i := n / 2; i < n*3/4; i++ {
		span.Set(uint32(i))
	}
	few := qs[:max(10, min(len(qs), 5_000_000/n))]
	for _, f := range []struct {
		name  string
		allow *vector.Bitmap
	}{{"half", some(0.5)}, {"tenth", some(0.1)}, {"hundredth", some(0.01)}, {"a-quarter-in-a-row", span}} {
		part(ix, few, name("filter-"+f.name), f.allow)
	}
	gone := some(0.3)
	for id := range gone.All() {
		figures.Check(ix.Remove(id))
	}
	part(ix, few, name("deleted-30%"), nil)
}

func part(ix *vector.Index, qs [][]float32, name string, allow *vector.Bitmap) {
	var cpus []float64
	var ids [][]uint32
	for range *runs {
		var cpu float64
		cpu, ids = ownRun(ix, qs, vector.SearchOptions{Allow: allow, Rescore: *rescore})
		cpus = append(cpus, cpu)
	}
	_, truth := ownRun(ix, qs, vector.SearchOptions{Allow: allow, Exact: true})
	figures.Print(name, median(cpus), "ms CPU", 0, "")
	figures.Print(name+".recall@10", recall(truth, ids), "of exact", 0, "")
}

// build adds n vectors and returns the CPU microseconds per vector, without generating it.
func build(ix *vector.Index, n int, m mixer) float64 {
	batch := make([]vector.Vector, 0, 512)
	var spent time.Duration
	flush := func() {
		start := cpuTime()
		figures.Check(ix.AddBatch(batch))
		spent += cpuTime() - start
		batch = batch[:0]
	}
	vs := make([]float32, cap(batch)*dims)
	for i := range n {
		v := vs[len(batch)*dims : (len(batch)+1)*dims]
		m.vector(i, v)
		if batch = append(batch, vector.Vector{ID: uint32(i), Tag: uint64(i), Values: v}); len(batch) == cap(batch) {
			flush()
		}
	}
	flush()
	figures.Check(ix.Flush())
	return float64(spent.Microseconds()) / float64(n)
}

// addWait returns the 95th percentile of the duration of additions, while two searchers are busy if
// there are queries. It adds the first vectors again, so that the index does not change.
func addWait(ix *vector.Index, n int, m mixer, qs [][]float32) float64 {
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range min(2, len(qs)) {
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				ix.Search(qs[i%len(qs)], 10, vector.SearchOptions{})
			}
		})
	}
	v := make([]float32, dims)
	waits := make([]float64, min(n, 1000))
	for i := range waits {
		m.vector(i, v)
		start := time.Now()
		figures.Check(ix.Add(uint32(i), uint64(i), v))
		waits[i] = ms(time.Since(start))
	}
	stop.Store(true)
	wg.Wait()
	slices.Sort(waits)
	return waits[len(waits)*95/100]
}

func ownRun(ix *vector.Index, qs [][]float32, o vector.SearchOptions) (float64, [][]uint32) {
	out := make([][]uint32, len(qs))
	hits := make([][]vector.Hit, len(qs))
	start := cpuTime()
	for i, q := range qs {
		hits[i] = ix.Search(q, 10, o)
	}
	cpu := ms(cpuTime()-start) / float64(len(qs))
	for i, hs := range hits {
		for _, h := range hs {
			out[i] = append(out[i], h.ID)
		}
	}
	return cpu, out
}

// allocs measures the heap memory that a search allocates.
func allocs(ix *vector.Index, qs [][]float32) float64 {
	var a, b runtime.MemStats
	runtime.ReadMemStats(&a)
	for _, q := range qs {
		ix.Search(q, 10, vector.SearchOptions{})
	}
	runtime.ReadMemStats(&b)
	return float64(b.TotalAlloc-a.TotalAlloc) / float64(len(qs))
}

func recall(truth, found [][]uint32) float64 {
	good, all := 0, 0
	for i, want := range truth[:min(len(truth), len(found))] {
		all += len(want)
		for _, id := range want {
			if slices.Contains(found[i], id) {
				good++
			}
		}
	}
	return float64(good) / float64(all)
}

// rss measures the memory of a process that only opens the index and searches.
func rss(dir string, ix *vector.Index, name func(string) string) {
	figures.Check(ix.Flush())
	exe, err := os.Executable()
	figures.Check(err)
	cmd := exec.Command(exe, "-child", filepath.Join(dir, "index"))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	figures.Check(err)
	var after, peak float64
	_, err = fmt.Sscan(string(out), &after, &peak)
	figures.Check(err)
	figures.Print(name("rss"), after, "MB after 200 searches", 0, "")
	figures.Print(name("rss-peak"), peak, "MB", 0, "")
}

func memoryChild(dir string) {
	ix, err := vector.Open(dir, dims, model)
	figures.Check(err)
	r := rand.New(rand.NewPCG(5, 5))
	q := make([]float32, dims)
	for range 200 {
		for i := range q {
			q[i] = float32(r.NormFloat64())
		}
		ix.Search(q, 10, vector.SearchOptions{})
	}
	fmt.Println(status("VmRSS"), status("VmHWM"))
}

// status returns a value of the process status, converted from kB to MB.
func status(key string) float64 {
	b, err := os.ReadFile("/proc/self/status")
	figures.Check(err)
	_, rest, _ := strings.Cut(string(b), key+":")
	kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	figures.Check(err)
	return kb / 1024
}

func cpuTime() time.Duration {
	var r syscall.Rusage
	figures.Check(syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

func size(n int) string {
	if n >= 1_000_000 && n%1_000_000 == 0 {
		return fmt.Sprintf("%dm", n/1_000_000)
	}
	return fmt.Sprintf("%dk", n/1000)
}
