package memory

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/memory/search"
)

// The newest items are processed first, in batches that a stop or a query can interrupt.
func TestNewestFirst(t *testing.T) {
	t.Parallel()
	model := newWordsModel("words@1", 16)
	var order []string
	model.fail = func(texts []string) error {
		if len(texts) > embedPiece {
			return fmt.Errorf("%d texts at once", len(texts))
		}
		order = append(order, texts...)
		return nil
	}
	b := newBundle(t, Options{Embedder: model})
	var want []string
	for i := range 70 {
		want = append(want, fmt.Sprintf("text %d", i))
		b.add(t, want[i])
	}
	slices.Reverse(want)
	if err := b.EmbedPending(b.ctx); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(order, want) {
		t.Errorf("order %q", order)
	}
	order = nil
	if st := must(b.Reembed(b.ctx, ReembedParams{}))(t); st.Queued != 70 || st.Ready != 0 {
		t.Errorf("status %+v", st)
	}
	if b.index().Len() != 70 {
		t.Error("the present vectors do not serve while all are made again")
	}
	if err := b.EmbedPending(b.ctx); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(order, want) {
		t.Errorf("order of all anew: %q", order)
	}
}

func TestPauseOutlivesARestart(t *testing.T) {
	t.Parallel()
	model := newWordsModel("words@1", 16)
	b := newBundle(t, Options{Embedder: model})
	stop := b.works(t)
	if st := must(b.Reembed(b.ctx, ReembedParams{Pause: ptr(true)}))(t); !st.Paused {
		t.Fatalf("status %+v", st)
	}
	b.add(t, "waits")
	stop()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b2 := &bundle{Service: New(b.db, Options{Embedder: model}), db: b.db, ctx: b.ctx}
	defer b2.Close()
	stop = b2.works(t)
	defer stop()
	until(t, "the index", func() bool { return b2.generation() != nil })
	if st := b2.status(t); !st.Paused || st.Queued != 1 || model.calls.Load() != 0 {
		t.Errorf("status %+v after %d calls", st, model.calls.Load())
	}
	must(b2.Reembed(b.ctx, ReembedParams{Pause: ptr(false)}))(t)
	b2.settled(t)
	_, err := b2.Reembed(b.ctx, ReembedParams{Pause: ptr(true), Failed: true})
	wantKind(t, err, fault.Invalid, "Provide one of")
}

// Jobs left by a process are done by the next.
func TestJobsOutliveARestart(t *testing.T) {
	t.Parallel()
	model := newWordsModel("words@1", 16)
	gate := make(chan struct{})
	model.gate = gate
	b := newBundle(t, Options{Embedder: model})
	b.addMany(t, numbered(100)...)
	stop := b.works(t)
	gate <- struct{}{} // the first few are computed, but not stored
	stop()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	model.set(func(m *wordsModel) { m.gate = nil })
	b2 := &bundle{Service: New(b.db, Options{Embedder: model}), db: b.db, ctx: b.ctx}
	defer b2.Close()
	defer b2.works(t)()
	b2.settled(t)
	if st := b2.status(t); st.Ready != 100 {
		t.Errorf("status %+v", st)
	}
}

// A query does not wait for a batch; the batch gives way.
func TestQueriesGoFirst(t *testing.T) {
	t.Parallel()
	model := newWordsModel("words@1", 16)
	b := newBundle(t, Options{Embedder: model})
	b.addMany(t, numbered(fewer(400))...)
	gate := make(chan struct{})
	model.gate = gate
	b.works(t)
	until(t, "the index", func() bool { return b.generation() != nil })
	until(t, "the worker", func() bool { return model.calls.Load() > 0 })
	model.set(func(m *wordsModel) { m.gate = nil })
	if _, err := b.embedQuery(b.ctx, "while the worker waits in the model"); err != nil {
		t.Fatal(err)
	}
	calls := model.calls.Load()
	if _, err := b.embedQuery(b.ctx, "while the worker waits in the model"); err != nil || model.calls.Load() != calls {
		t.Error("the same query was embedded twice")
	}
	done := b.foreground()
	b.embedding.front.yield(canceled()) // does not wait for the query
	done()
	b.embedding.front.yield(b.ctx) // no caller is in front
	close(gate)
	b.settled(t)
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// Events come at most four times a second.
func TestProgressEventsAreFew(t *testing.T) {
	t.Parallel()
	model := newWordsModel("words@1", 16)
	b := newBundle(t, Options{Embedder: model})
	var events atomic.Int64 // the test publishes too
	cancel := bus.Subscribe(b.db.Bus(), func(uuid.UUID, EmbeddingProgress) { events.Add(1) })
	began := time.Now()
	b.addMany(t, numbered(fewer(2000))...)
	stop := b.works(t)
	b.settled(t)
	until(t, "the last event", func() bool { return !b.publishProgress() })
	stop()
	took := time.Since(began)
	cancel()
	// The time between two events is not that between their publications: the first may be late.
	if n, most := events.Load(), 1+int64(took/vectorNewsEvery); n == 0 || n > most {
		t.Errorf("%d events in %s, want at most %d", n, took, most)
	}
}

// A semantic search directly after a start waits for the index that Run is about to open.
func TestSearchByMeaningWaitsForTheIndex(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{Embedder: newWordsModel("words@1", 16)})
	b.embedding.running.Store(true)
	if b.generation() != nil {
		t.Fatal("the index is open already")
	}
	r, err := b.Search(b.ctx, search.Params{Query: "blue heron", Mode: search.ModeVector})
	if err != nil || r.Degraded != "" {
		t.Errorf("degraded %q, error %v", r.Degraded, err)
	}
}

func TestReembedRefuses(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{Embedder: newWordsModel("words@1", 16)})
	_, err := b.Reembed(b.ctx, ReembedParams{ModelID: "other@2"})
	wantKind(t, err, fault.Invalid, `Model "other@2" is not available here.`)
	_, err = b.Reembed(b.ctx, ReembedParams{ModelID: "words@1", Failed: true})
	wantKind(t, err, fault.Invalid, "Provide one of")
}

// embedQuery returns the vector of a query for the active index.
func (s *Service) embedQuery(ctx context.Context, text string) ([]float32, error) {
	g := s.generation()
	if g == nil {
		return nil, meaning{s}.unavailable()
	}
	return s.embedFor(ctx, g, text)
}
