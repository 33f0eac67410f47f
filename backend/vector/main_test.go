package vector

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"helix/backend/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Run(m)) }

const testModel = "model@1"

// open opens the index in dir; the end of the test closes it.
func open(t testing.TB, dir string, dims int) *Index {
	t.Helper()
	ix, err := Open(dir, dims, testModel)
	must(t, err)
	t.Cleanup(func() { ix.Close() })
	return ix
}

// abandon closes the file like the end of a process: without a flush.
func abandon(ix *Index) {
	ix.broken = errors.New("abandoned")
	ix.Close()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// source generates vectors with a common component, like embeddings.
type source struct {
	r    *rand.Rand
	dims int
}

func newSource(seed uint64, dims int) source {
	return source{r: rand.New(rand.NewPCG(seed, 7)), dims: dims}
}

func (s source) vector() []float32 {
	v := make([]float32, s.dims)
	for i := range v {
		v[i] = float32(0.3 + s.r.NormFloat64())
	}
	return v
}

// near returns v with some noise.
func (s source) near(v []float32) []float32 {
	w := slices.Clone(v)
	for i := range w {
		w[i] += float32(0.3 * s.r.NormFloat64())
	}
	return w
}

// model is an index implemented as a map, searched in float64.
type model map[uint32]Vector

func cosine(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}
	return ab / math.Sqrt(aa*bb)
}

// scores returns the cosines of all vectors in allow, greatest first.
func (m model) scores(q []float32, allow *Bitmap) []float64 {
	var out []float64
	for id, v := range m {
		if allow == nil || allow.Has(id) {
			out = append(out, cosine(q, v.Values))
		}
	}
	slices.Sort(out)
	slices.Reverse(out)
	return out
}

// agrees fails unless hits are the best k of the model. Hits whose scores differ only by a rounding
// error may be in either order.
func (m model) agrees(t *testing.T, what string, q []float32, k int, allow *Bitmap, hits []Hit) {
	t.Helper()
	want := m.scores(q, allow)
	if len(hits) != min(k, len(want)) {
		t.Fatalf("%s: %d hits, want %d", what, len(hits), min(k, len(want)))
	}
	seen := map[uint32]bool{}
	for i, h := range hits {
		v, ok := m[h.ID]
		switch {
		case !ok || allow != nil && !allow.Has(h.ID):
			t.Fatalf("%s: hit %d has id %d, which is not there", what, i, h.ID)
		case seen[h.ID]:
			t.Fatalf("%s: id %d came twice", what, h.ID)
		case math.Abs(float64(h.Score)-want[i]) > 1e-5:
			t.Fatalf("%s: hit %d scores %v, want %v", what, i, h.Score, want[i])
		case math.Abs(float64(h.Score)-cosine(q, v.Values)) > 1e-5:
			t.Fatalf("%s: id %d scores %v, its cosine is %v", what, h.ID, h.Score, cosine(q, v.Values))
		case i > 0 && compare(hits[i-1], h) >= 0:
			t.Fatalf("%s: %v comes before %v", what, hits[i-1], h)
		}
		seen[h.ID] = true
	}
}

// same fails unless ix has the content of the model.
func (m model) same(t *testing.T, ix *Index) {
	t.Helper()
	if ix.Len() != len(m) {
		t.Fatalf("%d vectors, want %d", ix.Len(), len(m))
	}
	for id, v := range m {
		tag, ok := ix.Tag(id)
		if !ok || tag != v.Tag {
			t.Fatalf("tag of %d is %d (%v), want %d", id, tag, ok, v.Tag)
		}
		got, ok := ix.Vector(id, nil)
		if !ok || len(got) != len(v.Values) || cosine(got, v.Values) < 1-1e-9 {
			t.Fatalf("vector of %d is another (%v)", id, ok)
		}
	}
}
