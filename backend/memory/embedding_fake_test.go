package memory

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/memory/search"
	"helix/backend/storage"
	"helix/backend/testkit"
)

// wordsModel is a model for tests. The vector of a text is the sum of one direction per word, so
// that texts with common words are similar. The directions depend on the model's name.
type wordsModel struct {
	id    string
	dims  int
	calls atomic.Int64
	texts atomic.Int64

	mu   sync.Mutex
	gate chan struct{}                    // if set, each call receives a value or waits for one
	odd  func(text string) []float32      // replaces the vector of some texts
	fail func(texts []string) error       // error of a call
	seen func(ctx context.Context, n int) // called at the beginning of a call
}

func newWordsModel(id string, dims int) *wordsModel { return &wordsModel{id: id, dims: dims} }

func (m *wordsModel) ModelID() string { return m.id }
func (m *wordsModel) Dims() int       { return m.dims }

func (m *wordsModel) set(fn func(*wordsModel)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fn(m)
}

func (m *wordsModel) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	m.mu.Lock()
	gate, odd, fail, seen := m.gate, m.odd, m.fail, m.seen
	m.mu.Unlock()
	m.calls.Add(1)
	if seen != nil {
		seen(ctx, len(texts))
	}
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if fail != nil {
		if err := fail(texts); err != nil {
			return nil, err
		}
	}
	out := make([][]float32, len(texts))
	for i, text := range texts {
		if odd != nil {
			if out[i] = odd(text); out[i] != nil {
				continue
			}
		}
		out[i] = m.vector(text)
	}
	m.texts.Add(int64(len(texts)))
	return out, nil
}

func (m *wordsModel) vector(text string) []float32 {
	vec := make([]float32, m.dims)
	for _, w := range strings.Fields(strings.ToLower(text)) {
		h := fnv.New64a()
		h.Write([]byte(m.id + " " + strings.Trim(w, ".,;:!?")))
		x := h.Sum64()
		for i := range vec {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			vec[i] += float32(int64(x)) / math.MaxInt64
		}
	}
	var sum float64
	for _, v := range vec {
		sum += float64(v) * float64(v)
	}
	if sum == 0 {
		vec[0], sum = 1, 1
	}
	for i := range vec {
		vec[i] /= float32(math.Sqrt(sum))
	}
	return vec
}

// works runs the background work of embedding until the test ends or stop is called.
func (b *bundle) works(t testing.TB) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := b.runEmbedding(ctx); err != nil {
			t.Errorf("embedding: %v", err)
		}
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// until waits until ok returns true.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	testkit.Eventually(t, what, ok, func(ok bool) bool { return ok })
}

func (b *bundle) status(t testing.TB) EmbeddingStatus {
	t.Helper()
	return must(b.EmbeddingStatus(b.ctx, struct{}{}))(t)
}

// settled waits until all items have a vector. All items belong to the local user.
func (b *bundle) settled(t testing.TB) {
	t.Helper()
	until(t, "all vectors", func() bool {
		st, g := b.status(t), b.embedding.serving.Load()
		return st.Queued == 0 && g != nil && g.index.Len() == int(st.Ready) // the index is updated after the commit
	})
}

// nearest returns the item whose vector is nearest to that of a text, and the cosine.
func (b *bundle) nearest(t testing.TB, text string) (id uuid.UUID, score float32) {
	t.Helper()
	g := b.generation()
	if g == nil {
		t.Fatal("nothing serves")
	}
	vec := must(b.embedFor(b.ctx, g, text))(t)
	hits := searchIndex(g, vec, 1)
	if len(hits) == 0 {
		return uuid.Nil, 0
	}
	err := b.db.Read(b.ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT item_id FROM search_items WHERE item = ?`, hits[0].ID).Scan(&id)
	})
	if err != nil {
		t.Fatalf("item %d: %v", hits[0].ID, err)
	}
	return id, hits[0].Score
}

func (b *bundle) number(t testing.TB, query string, args ...any) (n int64) {
	t.Helper()
	if err := b.db.Read(b.ctx, func(tx *storage.Tx) error { return tx.QueryRow(query, args...).Scan(&n) }); err != nil {
		t.Fatal(err)
	}
	return n
}

func (b *bundle) write(t testing.TB, fn func(*storage.Tx) error) {
	t.Helper()
	if err := b.db.Write(b.ctx, fn); err != nil {
		t.Fatal(err)
	}
}

// news collects events.
func news[E any](t testing.TB, b *bundle) func() []E {
	t.Helper()
	var mu sync.Mutex
	var got []E
	cancel := bus.Subscribe(b.db.Bus(), func(_ uuid.UUID, e E) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, e)
	})
	t.Cleanup(cancel)
	return func() []E {
		mu.Lock()
		defer mu.Unlock()
		return append([]E(nil), got...)
	}
}

// logLines collects log lines.
type logLines struct {
	mu    sync.Mutex
	lines []string
}

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(b))
	return len(b), nil
}

func (l *logLines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logLines) count(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// addMany stores memories in one transaction, which is faster than one call each.
func (b *bundle) addMany(t testing.TB, texts ...string) {
	t.Helper()
	b.write(t, func(tx *storage.Tx) error {
		for _, text := range texts {
			id, user := storage.NewID(), b.db.LocalUser().ID
			if _, err := tx.Exec(`INSERT INTO memories (id, user_id, content, content_hash, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?)`, id, user, text, textHash(text), tx.Now, tx.Now); err != nil {
				return err
			}
			if err := b.search.Put(tx, &search.Entry{Kind: KindMemory, ID: id, User: user, Text: text, Hash: textHash(text), Type: "episodic", Source: "manual", Salience: 50, CreatedAt: tx.Now}); err != nil {
				return err
			}
		}
		return nil
	})
}

// numbered returns n distinct texts.
func numbered(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("text %d", i)
	}
	return out
}

// fewer returns n, or an eighth of it with the race detector, under which SQLite is slow.
func fewer(n int) int {
	if raced {
		return n / 8
	}
	return n
}
