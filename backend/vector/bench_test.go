package vector

import "testing"

func BenchmarkSearch100k(b *testing.B) {
	const dims, n = 512, 100_000
	ix := open(b, b.TempDir(), dims)
	s := newSource(1, dims)
	pool := make([][]float32, 500)
	for i := range pool {
		pool[i] = s.vector()
	}
	batch := make([]Vector, 1000)
	for at := 0; at < n; at += len(batch) {
		for i := range batch {
			batch[i] = Vector{ID: uint32(at + i), Values: s.near(pool[s.r.IntN(len(pool))])}
		}
		must(b, ix.AddBatch(batch))
	}
	q := make([][]float32, 64)
	for i := range q {
		q[i] = s.near(pool[i])
	}
	i := 0
	for b.Loop() {
		i++
		ix.Search(q[i%len(q)], 10, SearchOptions{})
	}
}
