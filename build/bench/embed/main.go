// Command embed measures backend/embed in one run with its peer, the encoder's own JavaScript
// (TensorFlow.js, WebAssembly) on Node, and with itself without assembly. Each contender is a
// separate process; they alternate, and each result is the median of the rounds. It prints one line
// per measurement: name, value, unit, ratio to the peer, peer, separated by tabs.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"helix/backend/embed"
	"helixbench/figures"
)

func main() {
	role := flag.String("role", "", "internal: ours")
	rounds := flag.Int("rounds", 5, "medians of")
	sentences := flag.Int("sentences", 100, "in each round")
	flag.Parse()
	if *role == "ours" {
		ours()
		return
	}
	compare(*rounds, texts(*sentences))
}

func report(name string, value float64, unit string, peer float64, peerName string) {
	ratio := 0.0
	if peer > 0 {
		ratio = value / peer
	}
	figures.Print(name, value, unit, ratio, peerName)
}

// texts returns n sentences of 15 words, the same in each run.
func texts(n int) []string {
	r := rand.New(rand.NewPCG(15, 5))
	pick := func(s string) string { w := strings.Split(s, ","); return w[r.IntN(len(w))] }
	out := make([]string, n)
	for i := range out {
		out[i] = strings.Join([]string{
			pick("Yesterday,Perhaps,Later,Suddenly,Afterwards"), pick("my,her,our,their"), pick("sister,neighbour,teacher,uncle,friend"),
			pick("told us,wrote down,explained again,talked about"), pick("why,how,where"), pick("the,that"), pick("restaurant,orchestra,garden,company,library"),
			pick("near the,behind the,beside the"), pick("river,station,harbour,castle"), pick("had"), pick("closed,moved,changed,opened"),
			pick("before,after"), pick("Christmas.,midnight.,summer.,breakfast."),
		}, " ")
		if words := len(strings.Fields(out[i])); words != 15 {
			figures.Check(fmt.Errorf("%q has %d words", out[i], words))
		}
	}
	return out
}

// timings are a contender's own measurements: times in ms, memory in MiB.
type timings struct {
	Load      float64   // wall time until it can embed
	LoadCPU   float64   // CPU time of the same
	Sentence  []float64 // CPU time of each sentence alone
	Batch     float64   // CPU time per sentence, all in one call
	Memory    float64   // resident memory added by loading and embedding
	Released  float64   // part of it that is left after Release
	Vectors   [][]float32
	Installed bool
}

func cpu() float64 {
	var u syscall.Rusage
	figures.Check(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6
}

// resident returns the memory of this process in MiB.
func resident() float64 {
	b, err := os.ReadFile("/proc/self/statm")
	figures.Check(err)
	pages, err := strconv.Atoi(strings.Fields(string(b))[1])
	figures.Check(err)
	return float64(pages*os.Getpagesize()) / (1 << 20)
}

func ours() {
	var in []string
	figures.Check(json.NewDecoder(os.Stdin).Decode(&in))
	ctx := context.Background()
	f := timings{Installed: true}
	memory, began, before := resident(), time.Now(), cpu()
	m, err := embed.Open()
	figures.Check(err)
	_, err = m.Embed(ctx, in[:1])
	figures.Check(err)
	f.Load, f.LoadCPU = float64(time.Since(began).Microseconds())/1000, cpu()-before
	for _, text := range in {
		before := cpu()
		v, err := m.Embed(ctx, []string{text})
		figures.Check(err)
		f.Sentence = append(f.Sentence, cpu()-before)
		f.Vectors = append(f.Vectors, v[0])
	}
	before = cpu()
	_, err = m.Embed(ctx, in)
	figures.Check(err)
	f.Batch = (cpu() - before) / float64(len(in))
	f.Memory = resident() - memory
	m.Release()
	f.Released = resident() - memory
	figures.Check(json.NewEncoder(os.Stdout).Encode(f))
}

func run(in []byte, name string, args ...string) timings {
	cmd := exec.Command(name, args...)
	cmd.Stdin, cmd.Stderr = strings.NewReader(string(in)), os.Stderr
	out, err := cmd.Output()
	figures.Check(err)
	var f timings
	figures.Check(json.Unmarshal(out, &f))
	return f
}

func compare(rounds int, texts []string) {
	in, err := json.Marshal(texts)
	figures.Check(err)
	self, err := os.Executable()
	figures.Check(err)
	dir, err := os.MkdirTemp("", "helix-bench-embed-")
	figures.Check(err)
	defer os.RemoveAll(dir)
	plain := filepath.Join(dir, "plain")
	build := exec.Command("go", "build", "-tags", "purego", "-o", plain, "helixbench/embed")
	build.Stderr = os.Stderr
	figures.Check(build.Run())

	var kernels, purego, peer []timings
	for range rounds {
		kernels = append(kernels, run(in, self, "-role", "ours"))
		purego = append(purego, run(in, plain, "-role", "ours"))
		peer = append(peer, run(in, "node", folder("embed/peer.cjs"), folder("../models/package.json")))
	}
	med := func(all []timings, of func(timings) float64) float64 {
		var v []float64
		for _, f := range all {
			v = append(v, of(f))
		}
		return median(v)
	}
	sentence := func(f timings) float64 { return median(f.Sentence) }
	installed := peer[0].Installed
	node := ""
	if installed {
		node = "tfjs wasm on Node"
	}
	tfjs := func(of func(timings) float64) float64 {
		if !installed {
			return 0
		}
		return med(peer, of)
	}
	report("sentence of 15 words, processor time", med(kernels, sentence), "ms", tfjs(sentence), node)
	report("the same without assembly", med(purego, sentence), "ms", tfjs(sentence), node)
	batch := func(f timings) float64 { return f.Batch }
	report(fmt.Sprintf("sentence in a call of %d, processor time", len(texts)), med(kernels, batch), "ms", tfjs(batch), node)
	report("the same without assembly", med(purego, batch), "ms", tfjs(batch), node)
	load := func(f timings) float64 { return f.Load }
	report("load and first sentence, wall", med(kernels, load), "ms", tfjs(load), node)
	report("the same, processor time", med(kernels, func(f timings) float64 { return f.LoadCPU }), "ms", tfjs(func(f timings) float64 { return f.LoadCPU }), node)
	report("resident memory of the model", med(kernels, func(f timings) float64 { return f.Memory }), "MiB", tfjs(func(f timings) float64 { return f.Memory }), node)
	report("resident memory after Release", med(kernels, func(f timings) float64 { return f.Released }), "MiB", 0, "")
	if installed {
		cos, diff := apart(kernels[0].Vectors, peer[0].Vectors)
		report("worst cosine with tfjs", cos, "", 0, "")
		report("largest difference of a component from tfjs", diff, "", 0, "")
	}
	_, diff := apart(kernels[0].Vectors, purego[0].Vectors)
	report("largest difference without assembly", diff, "", 0, "")
}

// apart returns the smallest cosine and the largest difference of a component.
func apart(a, b [][]float32) (cos, diff float64) {
	cos = 1
	for i := range a {
		var ab, aa, bb float64
		for j := range a[i] {
			x, y := float64(a[i][j]), float64(b[i][j])
			ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
			diff = max(diff, math.Abs(x-y))
		}
		cos = min(cos, ab/math.Sqrt(aa*bb))
	}
	return cos, diff
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// folder finds a file of build/bench from the current directory: there or at the top.
func folder(name string) string {
	for _, dir := range []string{".", "build/bench"} {
		if p := filepath.Join(dir, name); exists(p) {
			return p
		}
	}
	figures.Check(fmt.Errorf("%s not found: run in build/bench", name))
	return ""
}

func exists(p string) bool { _, err := os.Stat(p); return err == nil }
