package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"helixbench/figures"

	"helix/backend/embed"
)

// texts reads the sentences of the shared data: LoCoMo's turns and EmoBank.
func texts(dir string) []string {
	var out []string
	files, err := filepath.Glob(filepath.Join(dir, "locomo", "*.json"))
	figures.Check(err)
	slices.Sort(files)
	for _, f := range files {
		b, err := os.ReadFile(f)
		figures.Check(err)
		var doc map[string]json.RawMessage
		figures.Check(json.Unmarshal(b, &doc))
		for i := 1; doc[fmt.Sprintf("session_%d", i)] != nil; i++ {
			var turns []struct{ Text string }
			figures.Check(json.Unmarshal(doc[fmt.Sprintf("session_%d", i)], &turns))
			for _, t := range turns {
				out = append(out, t.Text)
			}
		}
	}
	f, err := os.Open(filepath.Join(dir, "emobank", "emobank-train-dev.csv"))
	figures.Check(err)
	defer f.Close()
	rows, err := csv.NewReader(bufio.NewReader(f)).ReadAll()
	figures.Check(err)
	for _, r := range rows[1:] {
		out = append(out, r[len(r)-1])
	}
	return slices.DeleteFunc(out, func(s string) bool { return len(s) < 3 })
}

// embeddings returns the embeddings of the texts. cache, if given, keeps them for the next run.
func embeddings(dir, cache string) [][]float32 {
	const dims = 512
	var flat []float32
	if b, err := os.ReadFile(cache); cache != "" && err == nil {
		flat = make([]float32, len(b)/4)
		_, err = binary.Decode(b, binary.LittleEndian, flat)
		figures.Check(err)
	} else {
		m, err := embed.Open()
		figures.Check(err)
		defer m.Release()
		all := texts(dir)
		for len(all) > 0 {
			n := min(64, len(all))
			vs, err := m.Embed(context.Background(), all[:n])
			figures.Check(err)
			for _, v := range vs {
				flat = append(flat, v...)
			}
			all = all[n:]
		}
		if cache != "" {
			b, err := binary.Append(nil, binary.LittleEndian, flat)
			figures.Check(err)
			figures.Check(os.WriteFile(cache, b, 0o600))
		}
	}
	var out [][]float32
	seen := map[[4]float32]bool{} // a duplicate sentence would make ties
	for v := range slices.Chunk(flat, dims) {
		if key := [4]float32(v[:4]); !seen[key] && len(v) == dims {
			seen[key] = true
			out = append(out, v)
		}
	}
	return out
}

// mixer generates any number of vectors from a few thousand: each is a mix of two embeddings with
// noise of sigma times a vector's length, and has length 1. The same seed and number give the same
// vector.
type mixer struct {
	base  [][]float32
	sigma float64
	seed  uint64
}

func (m mixer) vector(i int, dst []float32) {
	r := rand.New(rand.NewPCG(m.seed, uint64(i)))
	a, b := m.base[r.IntN(len(m.base))], m.base[r.IntN(len(m.base))]
	w := float32(0.5 + 0.5*r.Float64())
	noise := m.sigma / math.Sqrt(float64(len(dst)))
	var sum float64
	for j := range dst {
		x := w*a[j] + (1-w)*b[j] + float32(noise*r.NormFloat64())
		dst[j] = x
		sum += float64(x) * float64(x)
	}
	f := float32(1 / math.Sqrt(sum))
	for j := range dst {
		dst[j] *= f
	}
}

// write writes n vectors to a file, as float32.
func (m mixer) write(path string, n, dims int) {
	f, err := os.Create(path)
	figures.Check(err)
	w := bufio.NewWriterSize(f, 1<<20)
	v, b := make([]float32, dims), make([]byte, 0, dims*4)
	for i := range n {
		m.vector(i, v)
		b, err = binary.Append(b[:0], binary.LittleEndian, v)
		figures.Check(err)
		_, err = w.Write(b)
		figures.Check(err)
	}
	figures.Check(w.Flush())
	figures.Check(f.Close())
}
