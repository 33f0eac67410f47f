package memory

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/memory/search"
)

// meaningBundle returns a bundle with a model; the returned function computes all vectors.
func meaningBundle(t testing.TB, odd func(text string) []float32) (*bundle, func()) {
	t.Helper()
	m := newWordsModel("words", 64)
	m.odd = odd
	b := newBundle(t, Options{Embedder: m, VectorDir: t.TempDir()})
	return b, func() {
		t.Helper()
		if err := b.EmbedPending(b.ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// synonyms gives two texts the same vector, so that only their meaning connects them.
func synonyms(m *wordsModel, texts ...string) func(string) []float32 {
	return func(text string) []float32 {
		if slices.Contains(texts, text) {
			return m.vector(texts[0])
		}
		return nil
	}
}

func TestMeaningFindsWhatWordsDoNot(t *testing.T) {
	t.Parallel()
	odd := synonyms(newWordsModel("words", 64), "automobile purchase", "We bought a car.")
	b, embed := meaningBundle(t, odd)
	car := b.add(t, "We bought a car.")
	b.add(t, "Rain fell all night.")
	embed()
	r := must(b.Search(b.ctx, search.Params{Query: "automobile purchase"}))(t)
	if len(r.Results) != 1 || r.Results[0].ID != car.ID || r.Degraded != "" || r.ModelID != "words" {
		t.Errorf("hybrid: %+v", r)
	}
	e := must(b.SearchEnhanced(b.ctx, search.EnhancedParams{Params: search.Params{Query: "automobile purchase", Mode: search.ModeVector}}))(t)
	if p := e.Results[0].Parts; *p.VectorRank != 1 || *p.Cosine < 0.999 || p.BM25Rank != nil {
		t.Errorf("parts %+v", p)
	}
	if ids := b.searchIDs(t, b.ctx, search.Params{Query: "automobile purchase", Mode: search.ModeKeyword}); len(ids) != 0 {
		t.Errorf("keyword finds %v", ids)
	}
}

// A candidate unrelated to the query is not returned just because it is the only one.
func TestALoneIrrelevantCandidateIsNotReturned(t *testing.T) {
	t.Parallel()
	b, embed := meaningBundle(t, nil)
	b.add(t, "Rain fell all night.")
	embed()
	for _, mode := range []string{search.ModeHybrid, search.ModeVector, search.ModeKeyword} {
		if ids := b.searchIDs(t, b.ctx, search.Params{Query: "quarterly tax report", Mode: mode}); len(ids) != 0 {
			t.Errorf("%s returns noise", mode)
		}
	}
}

// Vectors of wrong length, zero vectors and vectors of length ten do no harm.
func TestInvalidVectorsDoNoHarmToSearch(t *testing.T) {
	t.Parallel()
	base := newWordsModel("words", 64)
	odd := func(text string) []float32 {
		switch {
		case strings.Contains(text, "short"):
			return make([]float32, 48)
		case strings.Contains(text, "nothing"):
			return make([]float32, 64)
		case strings.Contains(text, "long"):
			v := base.vector(text)
			for i := range v {
				v[i] *= 10
			}
			return v
		}
		return nil
	}
	plain, embedPlain := meaningBundle(t, nil)
	b, embed := meaningBundle(t, odd)
	var order [2][]string
	for i, x := range []*bundle{plain, b} {
		for _, text := range []string{"long apple river", "apple river stone", "long apple", "a short apple", "nothing apple"} {
			x.add(t, text)
		}
		[]func(){embedPlain, embed}[i]()
		for _, h := range must(x.Search(x.ctx, search.Params{Query: "apple river", Mode: search.ModeVector}))(t).Results {
			if !strings.Contains(h.Snippet, "short") && !strings.Contains(h.Snippet, "nothing") {
				order[i] = append(order[i], h.Snippet)
			}
		}
	}
	if len(order[0]) != 3 || !slices.Equal(order[0], order[1]) {
		t.Errorf("the order is %q, and %q with odd vectors", order[0], order[1])
	}
	if ids := b.searchIDs(t, b.ctx, search.Params{Query: "short apple"}); len(ids) != 5 {
		t.Errorf("what has no vector is not found by words: %v", ids)
	}
	if st := must(b.EmbeddingStatus(b.ctx, struct{}{}))(t); st.Failed != 2 {
		t.Errorf("status %+v", st)
	}
}

func TestMMRVaries(t *testing.T) {
	t.Parallel()
	b, embed := meaningBundle(t, nil)
	for _, text := range []string{"apple tart recipe one", "apple tart recipe two", "apple tart recipe three", "apple cider press in autumn"} {
		b.add(t, text)
	}
	embed()
	plain := b.searchIDs(t, b.ctx, search.Params{Query: "apple tart recipe"})
	zero := 0.0
	varied := b.searchIDs(t, b.ctx, search.Params{Query: "apple tart recipe", MMR: &search.MMR{Lambda: &zero}})
	if len(plain) != 4 || len(varied) != 4 || varied[0] != plain[0] || varied[1] != plain[3] {
		t.Errorf("plain %v, varied %v", plain, varied)
	}
	one := 1.0
	if same := b.searchIDs(t, b.ctx, search.Params{Query: "apple tart recipe", MMR: &search.MMR{Lambda: &one}}); !slices.Equal(same, plain) {
		t.Errorf("lambda 1 gives %v", same)
	}
}

func TestRelatedOfEachKind(t *testing.T) {
	t.Parallel()
	b, embed := meaningBundle(t, nil)
	a := b.add(t, "apple orchard by the river")
	c := b.add(t, "the river orchard in spring")
	b.add(t, "tax report")
	_, turns := b.dialogue(t, nil, "Our orchard has apple trees.", "Lovely.")
	embed()
	for _, id := range []string{a.ID.String(), "note-" + a.ID.String(), turns[0].String()} {
		r := must(b.Related(b.ctx, search.RelatedParams{ID: id}))(t)
		ids := map[uuid.UUID]bool{}
		for _, h := range r.Results {
			ids[h.ID] = true
		}
		if !ids[c.ID] || len(ids) < 2 || strings.HasSuffix(id, a.ID.String()) && ids[a.ID] || id == turns[0].String() && ids[turns[0]] {
			t.Errorf("related to %s: %+v", id, r.Results)
		}
	}
	for _, id := range []string{uuid.NewString(), "x", ""} {
		if _, err := b.Related(b.ctx, search.RelatedParams{ID: id}); !fault.Is(err, fault.NotFound) {
			t.Errorf("related to %q: %v", id, err)
		}
	}
}

func TestFiltersWithVectors(t *testing.T) {
	t.Parallel()
	b, embed := meaningBundle(t, nil)
	r := rand.New(rand.NewPCG(9, 9))
	b.fill(t, r, 80)
	embed()
	for range 40 {
		f, fits := randomFilters(r)
		f.MinSalience = nil
		q := search.Params{Query: fruit[r.IntN(len(fruit))] + " " + fruit[r.IntN(len(fruit))], Limit: 100, Mode: search.ModeVector}
		var want []uuid.UUID
		for _, h := range must(b.Search(b.ctx, q))(t).Results {
			if fits(&h, 100) {
				want = append(want, h.ID)
			}
		}
		q.Filters = f
		got := b.searchIDs(t, b.ctx, q)
		slices.SortFunc(got, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
		slices.SortFunc(want, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
		if !slices.Equal(got, want) {
			t.Fatalf("with %s: %v, want %v", marshal(t, f), got, want)
		}
	}
}
