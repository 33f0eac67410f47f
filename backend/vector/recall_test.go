package vector

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"helix/backend/embed"
	"helix/backend/testkit"
)

// sentences returns n distinct sentences about everyday things.
func sentences(s source, n int) []string {
	who := []string{"My sister", "The doctor", "An old friend", "Our neighbour", "The teacher", "I", "Somebody at work", "The new cook"}
	did := []string{"forgot", "bought", "talked about", "was afraid of", "repaired", "dreamed of", "sold", "lost", "painted", "wrote to me about"}
	what := []string{"the blue bicycle", "a train to Lisbon", "the broken heating", "her first concert", "an invoice", "the garden", "a long illness", "two kittens", "the exam", "a recipe with lentils", "the flood", "his guitar"}
	when := []string{"yesterday", "before the move", "in the winter of 2019", "during lunch", "for no reason", "when it rained", "at the airport", "last Tuesday", "on a quiet morning"}
	seen := map[string]bool{}
	var out []string
	for len(out) < n {
		pick := func(list []string) string { return list[s.r.IntN(len(list))] }
		text := fmt.Sprintf("%s %s %s %s.", pick(who), pick(did), pick(what), pick(when))
		if !seen[text] {
			seen[text] = true
			out = append(out, text)
		}
	}
	return out
}

// Real embeddings, mixed in pairs with noise: codes find nearly everything that comparing all does,
// also with filters and after removals.
func TestRecallOnRealEmbeddings(t *testing.T) {
	t.Parallel()
	testkit.SkipRaced(t, "one goroutine, and slow under it")
	if raced {
		t.Skip("embedding takes too long under the race detector")
	}
	m, err := embed.Open()
	if err != nil {
		t.Skipf("no encoder: %v", err)
	}
	defer m.Release()
	count, base := 8000, 250
	if os.Getenv("HELIX_LONG") == "1" {
		count, base = 200_000, 4000
	}
	s := newSource(1, m.Dims())
	real, err := m.Embed(context.Background(), sentences(s, base))
	must(t, err)
	mix := func() []float32 {
		a, b := real[s.r.IntN(base)], real[s.r.IntN(base)]
		w, sigma := float32(0.5+s.r.Float64()/2), 0.3/math.Sqrt(float64(s.dims))
		v := make([]float32, s.dims)
		for i := range v {
			v[i] = w*a[i] + (1-w)*b[i] + float32(sigma*s.r.NormFloat64())
		}
		return v
	}
	ix := open(t, t.TempDir(), m.Dims())
	ix.exactBelow = 0
	batch := make([]Vector, count)
	for i := range batch {
		batch[i] = Vector{ID: uint32(i), Values: mix()}
	}
	must(t, ix.AddBatch(batch))
	half := NewBitmap(count)
	for i := range count {
		if s.r.IntN(2) == 0 {
			half.Set(uint32(i))
		}
	}
	recall := func(what string, allow *Bitmap) {
		t.Helper()
		good, all := 0, 0
		for range 100 {
			q := mix()
			got := ix.Search(q, 10, SearchOptions{Allow: allow})
			for _, h := range ix.Search(q, 10, SearchOptions{Allow: allow, Exact: true}) {
				all++
				if slices.Contains(got, h) {
					good++
				}
			}
		}
		if r := float64(good) / float64(all); r < 0.99 || all != 1000 {
			t.Errorf("%s: recall %.3f of %d", what, r, all)
		}
	}
	recall("all", nil)
	recall("half of them", half)
	for i := range count / 3 {
		must(t, ix.Remove(uint32(i*3)))
	}
	recall("a third removed", nil)
	recall("a third removed, half of the rest", half)
}
