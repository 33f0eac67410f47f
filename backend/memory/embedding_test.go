package memory

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"helix/backend/fault"
	"helix/backend/storage"
	"helix/backend/vector"
)

func searchIndex(g *generation, vec []float32, k int) []vector.Hit {
	return g.index.Search(vec, k, vector.SearchOptions{})
}

func TestVectorsAreMadeInTheBackground(t *testing.T) {
	t.Parallel()
	model := newWordsModel("words@1", 64)
	b := newBundle(t, Options{Embedder: model})
	progress := news[EmbeddingProgress](t, b)
	first := b.add(t, "the ferry to the island leaves at nine")
	if first.EmbeddingState != "queued" {
		t.Errorf("state %q", first.EmbeddingState)
	}
	b.works(t)
	other := b.add(t, "bread with olives and cheese")
	b.settled(t)
	if id, score := b.nearest(t, "ferry island"); id != first.ID || score < 0.3 {
		t.Errorf("found %v with %v", id, score)
	}
	if id, _ := b.nearest(t, "olives bread"); id != other.ID {
		t.Errorf("found %v", id)
	}
	if got := b.get(t, first.ID).EmbeddingState; got != "ready" {
		t.Errorf("state %q", got)
	}
	st := b.status(t)
	if st.Ready != 2 || st.Failed != 0 || st.Stale != 0 || st.ModelID != "words@1" || st.Dims != 64 || !st.Available || st.BuildingModel != "" || !slices.Equal(st.Models, []string{"words@1"}) {
		t.Errorf("status %+v", st)
	}
	if d := (meaning{b.Service}).Degraded(); d != "" {
		t.Errorf("degraded %q", d)
	}
	until(t, "an event", func() bool { e := progress(); return len(e) > 0 && e[len(e)-1].Queued == 0 && e[len(e)-1].Ready == 2 })
	if theirs := must(b.EmbeddingStatus(b.them, struct{}{}))(t); theirs.Ready != 0 {
		t.Errorf("somebody else has %d", theirs.Ready)
	}
}

// Cached counts from before the last vector was stored, or before all vectors were requested again,
// are not reported.
func TestReindexingIsOverWithTheLastVector(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{Embedder: newWordsModel("words@1", 64)})
	b.add(t, "a red kite over the dunes")
	for range 3 {
		if d := (meaning{b.Service}).Degraded(); d != "reindexing" {
			t.Fatalf("degraded %q while a vector is missing", d)
		}
		if err := b.EmbedPending(b.ctx); err != nil {
			t.Fatal(err)
		}
		if d := (meaning{b.Service}).Degraded(); d != "" {
			t.Fatalf("degraded %q with all vectors", d)
		}
		must(b.Reembed(b.ctx, ReembedParams{}))(t)
	}
}

func TestWithoutRunTheFirstQueryOpensTheIndex(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	model := newWordsModel("words@1", 64)
	b := newBundle(t, Options{Embedder: model, VectorDir: dir})
	m := b.add(t, "a red kite over the dunes")
	if (meaning{b.Service}).Degraded() != "reindexing" {
		t.Errorf("degraded %q while a vector is missing", (meaning{b.Service}).Degraded())
	}
	if err := b.EmbedPending(b.ctx); err != nil {
		t.Fatal(err)
	}
	if id, _ := b.nearest(t, "red kite"); id != m.ID {
		t.Fatalf("found %v", id)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	again := New(b.db, Options{Embedder: model, VectorDir: dir})
	defer again.Close()
	b2 := &bundle{Service: again, db: b.db, ctx: b.ctx}
	if id, _ := b2.nearest(t, "red kite"); id != m.ID {
		t.Fatalf("found %v after opening again", id)
	}
	if n := model.texts.Load(); n != 3 {
		t.Errorf("%d texts were embedded: one memory and one query in each process", n)
	}
}

func TestNoModel(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{Why: "The sentence encoder is not in this build. Run make models."})
	b.add(t, "found by words only")
	if n := b.number(t, `SELECT count(*) FROM embedding_jobs`); n != 0 {
		t.Errorf("%d jobs", n)
	}
	if (meaning{b.Service}).Degraded() != "no_vectors" || b.index() != nil {
		t.Error("search by meaning is said to be there")
	}
	_, err := b.embedQuery(b.ctx, "x")
	wantKind(t, err, fault.Unavailable, "Run make models")
	if st := b.status(t); st.Available || !strings.Contains(st.Reason, "Run make models") {
		t.Errorf("status %+v", st)
	}
	_, err = b.Reembed(b.ctx, ReembedParams{})
	wantKind(t, err, fault.Unavailable, "Run make models")
	wantKind(t, b.EmbedPending(b.ctx), fault.Unavailable, "Run make models")
}

// A vector is never used for another text than its own, whatever the order of edits and embedding.
func TestVectorOfAnOldTextIsNotUsed(t *testing.T) {
	t.Parallel()
	model := newWordsModel("words@1", 64)
	b := newBundle(t, Options{Embedder: model})
	m := b.add(t, "harbour lights at night")
	if err := b.EmbedPending(b.ctx); err != nil {
		t.Fatal(err)
	}
	held := func() (item int64, ok bool) {
		item = b.number(t, `SELECT item FROM search_items`)
		_, ok = b.index().Tag(uint32(item))
		return item, ok
	}
	if _, ok := held(); !ok || b.index().Len() != 1 {
		t.Fatal("the index has no vector")
	}
	edited := must(b.Update(b.ctx, UpdateParams{ID: m.ID.String(), Version: m.Version, Content: ptr("a recipe for bread")}))(t)
	if b.index().Len() != 0 {
		t.Fatal("the index still has the vector of the old text")
	}
	if st := b.status(t); st.Stale != 1 || st.Queued != 1 || st.Ready != 0 {
		t.Errorf("status %+v", st)
	}
	// Back to the previous text: its vector still exists and is used again.
	before := model.texts.Load()
	if _, err := b.Undo(b.ctx, UndoParams{UndoToken: edited.UndoToken}); err != nil {
		t.Fatal(err)
	}
	if _, ok := held(); !ok {
		t.Fatal("the vector of the text was not used again")
	}
	if b.number(t, `SELECT count(*) FROM embedding_jobs`) != 0 || model.texts.Load() != before {
		t.Error("the text was embedded again")
	}
	// An edit while the model processes the previous text.
	now := b.get(t, m.ID)
	var edits atomic.Int64
	model.set(func(w *wordsModel) {
		w.seen = func(context.Context, int) {
			if edits.Add(1) == 1 {
				must(b.Update(b.ctx, UpdateParams{ID: m.ID.String(), Version: now.Version + 1, Content: ptr("third text about trams")}))(t)
			}
		}
	})
	must(b.Update(b.ctx, UpdateParams{ID: m.ID.String(), Version: now.Version, Content: ptr("second text about boats")}))(t)
	if err := b.EmbedPending(b.ctx); err != nil {
		t.Fatal(err)
	}
	if edits.Load() < 2 {
		t.Fatalf("%d calls of the model", edits.Load())
	}
	want := model.vector("third text about trams")
	item, _ := held()
	got, ok := b.index().Vector(uint32(item), nil)
	if !ok || cosine(got, want) < 0.9999 {
		t.Errorf("cosine with the present text is %v", cosine(got, want))
	}
	if n := b.number(t, `SELECT count(*) FROM item_vectors v JOIN search_items i ON i.item_id = v.item_id AND i.text_hash = v.text_hash`); n != 1 {
		t.Errorf("%d vectors of the present text", n)
	}
}

func cosine(a, b []float32) (sum float64) {
	for i := range min(len(a), len(b)) {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

func TestDeleteRestoreKeepsTheVector(t *testing.T) {
	t.Parallel()
	model := newWordsModel("words@1", 64)
	b := newBundle(t, Options{Embedder: model})
	m := b.add(t, "the lighthouse keeper")
	if err := b.EmbedPending(b.ctx); err != nil {
		t.Fatal(err)
	}
	gone := must(b.Delete(b.ctx, IDsParams{IDs: []string{m.ID.String()}}))(t)
	if n := b.index().Len(); n != 0 {
		t.Fatalf("the index holds %d after the delete", n)
	}
	before := model.texts.Load()
	if _, err := b.Undo(b.ctx, UndoParams{UndoToken: gone.UndoToken}); err != nil {
		t.Fatal(err)
	}
	if n := b.index().Len(); n != 1 || model.texts.Load() != before {
		t.Errorf("the index holds %d; %d texts embedded", n, model.texts.Load()-before)
	}
	if got := b.get(t, m.ID).EmbeddingState; got != "ready" {
		t.Errorf("state %q", got)
	}
}

// Invalid vectors count as failed and affect no other item.
func TestInvalidVectorsFail(t *testing.T) {
	t.Parallel()
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	model := newWordsModel("words@1", 8)
	model.odd = func(text string) []float32 {
		switch {
		case strings.Contains(text, "nan"):
			return []float32{1, 0, 0, nan, 0, 0, 0, 0}
		case strings.Contains(text, "infinite"):
			return []float32{1, 0, 0, inf, 0, 0, 0, 0}
		case strings.Contains(text, "zero"):
			return make([]float32, 8)
		case strings.Contains(text, "short"):
			return []float32{1, 0, 0, 0}
		case strings.Contains(text, "none"):
			return []float32{}
		}
		return nil
	}
	b := newBundle(t, Options{Embedder: model})
	var bad []Item
	for _, text := range []string{"nan text", "infinite text", "zero text", "short text", "none text"} {
		bad = append(bad, b.add(t, text))
	}
	good := b.add(t, "a good text")
	if err := b.EmbedPending(b.ctx); err != nil {
		t.Fatal(err)
	}
	if st := b.status(t); st.Failed != 5 || st.Ready != 1 || st.Queued != 0 {
		t.Errorf("status %+v", st)
	}
	for _, m := range bad {
		if got := b.get(t, m.ID).EmbeddingState; got != "failed" {
			t.Errorf("%q is %s", m.Content, got)
		}
	}
	if id, _ := b.nearest(t, "good text"); id != good.ID || b.index().Len() != 1 {
		t.Errorf("found %v among %d", id, b.index().Len())
	}
	// Failed items are retried only on request.
	calls := model.calls.Load()
	if err := b.EmbedPending(b.ctx); err != nil || model.calls.Load() != calls {
		t.Errorf("tried again: %v", err)
	}
	model.set(func(m *wordsModel) { m.odd = nil })
	if st := must(b.Reembed(b.ctx, ReembedParams{Failed: true}))(t); st.Queued != 5 || st.Failed != 0 {
		t.Errorf("status %+v", st)
	}
	if err := b.EmbedPending(b.ctx); err != nil {
		t.Fatal(err)
	}
	if st := b.status(t); st.Ready != 6 {
		t.Errorf("status %+v", st)
	}
}

// A stored vector with a wrong length, of zeros or with NaN is skipped with a warning and recomputed.
func TestInvalidStoredVectorsAreRecomputed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	model := newWordsModel("words@1", 512)
	b := newBundle(t, Options{Embedder: model, VectorDir: dir})
	var items []Item
	for i := range 6 {
		items = append(items, b.add(t, fmt.Sprintf("text number %d", i)))
	}
	if err := b.EmbedPending(b.ctx); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	ten := model.vector(items[4].Content)
	for i := range ten {
		ten[i] *= 10
	}
	nan := slices.Clone(ten)
	nan[7] = float32(math.NaN())
	b.write(t, func(tx *storage.Tx) error {
		for i, vec := range [][]float32{make([]float32, 384), make([]float32, 512), nan, nil, ten} {
			if vec == nil {
				continue
			}
			if i == 0 {
				vec[0] = 1
			}
			if err := storeVector(tx, KindMemory, items[i].ID, b.db.LocalUser().ID, "words@1", textHash(items[i].Content), vec); err != nil {
				return err
			}
		}
		return nil
	})
	warned := &logLines{}
	b2 := &bundle{Service: New(b.db, Options{Embedder: model, VectorDir: t.TempDir(), Logger: warned.logger()}), db: b.db, ctx: b.ctx}
	defer b2.Close()
	if n := b2.index().Len(); n != 3 {
		t.Fatalf("%d vectors are in use", n)
	}
	if n := warned.count("a stored vector is left out"); n != 3 {
		t.Errorf("%d warnings", n)
	}
	if id, score := b2.nearest(t, items[4].Content); id != items[4].ID || score < 0.9999 || score > 1.0001 {
		t.Errorf("a vector of length 10: found %v with %v", id, score)
	}
	if err := b2.EmbedPending(b.ctx); err != nil {
		t.Fatal(err)
	}
	if n := b2.index().Len(); n != 6 {
		t.Errorf("%d vectors after the repair", n)
	}
}

// TestRejectedTextDoesNotBlockOthers checks that a text that a model rejects fails after some attempts.
func TestRejectedTextDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	model := newWordsModel("words@1", 16)
	model.fail = func(texts []string) error {
		if slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, "poison") }) {
			return errors.New("cannot read this")
		}
		return nil
	}
	b := newBundle(t, Options{Embedder: model})
	b.embedding.retry = func(int) time.Duration { return 0 }
	for i := range 10 {
		b.add(t, fmt.Sprintf("text %d", i))
	}
	m := b.add(t, "poison")
	if err := b.EmbedPending(b.ctx); err != nil {
		t.Fatal(err)
	}
	if st := b.status(t); st.Ready != 10 || st.Failed != 1 {
		t.Errorf("status %+v", st)
	}
	if n := b.number(t, `SELECT attempts FROM embedding_jobs`); n != embedAttempts {
		t.Errorf("%d attempts", n)
	}
	if got := b.get(t, m.ID).EmbeddingState; got != "failed" {
		t.Errorf("state %q", got)
	}
}

// While the model is unavailable, jobs wait and no attempts are counted.
func TestModelIsDown(t *testing.T) {
	t.Parallel()
	model := newWordsModel("words@1", 16)
	model.fail = func([]string) error { return fault.Unavailablef("The model is being loaded.") }
	b := newBundle(t, Options{Embedder: model})
	b.add(t, "some text")
	wantKind(t, b.EmbedPending(b.ctx), fault.Unavailable, "being loaded")
	b.works(t)
	until(t, "the reason", func() bool { return b.status(t).Reason == "The model is being loaded." })
	if n := b.number(t, `SELECT attempts FROM embedding_jobs`); n != 0 {
		t.Errorf("%d attempts", n)
	}
	model.set(func(m *wordsModel) { m.fail = nil })
	must(b.Reembed(b.ctx, ReembedParams{Failed: true}))(t) // wake the workers
	b.settled(t)
	if st := b.status(t); st.Ready != 1 || st.Reason != "" {
		t.Errorf("status %+v", st)
	}
}
