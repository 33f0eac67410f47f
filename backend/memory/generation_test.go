package memory

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"helix/backend/storage"
	"helix/backend/testkit"
)

// reopen closes the service and opens another one on the same database.
func (b *bundle) reopen(t testing.TB, o Options) *bundle {
	t.Helper()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	s := New(b.db, o)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return &bundle{Service: s, db: b.db, ctx: b.ctx, them: b.them}
}

func (b *bundle) pending(t testing.TB) {
	t.Helper()
	if err := b.EmbedPending(b.ctx); err != nil {
		t.Fatal(err)
	}
}

// exact checks that the active index contains exactly the items of the database, with the vectors
// of their texts.
func (b *bundle) exact(t testing.TB) {
	t.Helper()
	g := b.generation()
	if g == nil {
		t.Fatal("nothing serves")
	}
	type row struct {
		item   uint32
		hash   []byte
		vector []byte
	}
	var rows []row
	err := b.db.Read(b.ctx, func(tx *storage.Tx) error {
		rs, err := tx.Query(`SELECT i.item, i.text_hash, v.vector FROM search_items i JOIN item_vectors v ON v.item_kind = i.kind AND v.item_id = i.item_id AND v.model_id = ? AND v.text_hash = i.text_hash`, g.id)
		if err != nil {
			return err
		}
		defer rs.Close()
		for rs.Next() {
			var r row
			if err := rs.Scan(&r.item, &r.hash, &r.vector); err != nil {
				return err
			}
			rows = append(rows, r)
		}
		return rs.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	if g.index.Len() != len(rows) {
		t.Errorf("the index has %d vectors, the database %d", g.index.Len(), len(rows))
	}
	for _, r := range rows {
		tag, ok := g.index.Tag(r.item)
		if !ok || tag != textTag(r.hash) {
			t.Fatalf("item %d has tag %x, %v", r.item, tag, ok)
		}
		want, err := decodeVector(r.vector, g.dims)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := g.index.Vector(r.item, nil); cosine(got, want) < 0.999 {
			t.Fatalf("item %d has another vector", r.item)
		}
	}
}

// While one model replaces another, every query is answered by exactly one of them, the old one is
// used until the new one has its vectors, and new texts get vectors of both.
func TestModelSwitchUnderLoad(t *testing.T) {
	t.Parallel()
	old, next := newWordsModel("old@1", 48), newWordsModel("new@2", 48)
	b := newBundle(t, Options{Embedder: old, Models: []Embedder{next}})
	items := fewer(800)
	b.addMany(t, numbered(items)...)
	b.works(t)
	b.settled(t)
	gate := make(chan struct{})
	next.gate = gate

	var stop atomic.Bool
	var served [2]atomic.Int64
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 3))
			switched := false
			for !stop.Load() {
				g := b.generation()
				if g == nil {
					t.Error("nothing serves")
					return
				}
				if g.id == "new@2" {
					if !switched && g.index.Len() < items*99/100 {
						t.Errorf("the new model serves with %d vectors", g.index.Len())
					}
					switched = true
					served[1].Add(1)
				} else {
					if switched {
						t.Error("the old model serves again")
					}
					served[0].Add(1)
				}
				text := fmt.Sprintf("text %d", r.IntN(items))
				vec, err := b.embedFor(b.ctx, g, text)
				if err != nil {
					t.Error(err)
					return
				}
				hits := searchIndex(g, vec, 1)
				if len(hits) == 0 || hits[0].Score < 0.9999 {
					t.Errorf("%s finds %v for %q", g.id, hits, text)
					return
				}
			}
		})
	}
	if st := must(b.Reembed(b.ctx, ReembedParams{ModelID: "new@2"}))(t); st.ModelID != "old@1" || st.BuildingModel != "new@2" || !st.Available {
		t.Errorf("status %+v", st)
	}
	until(t, "the jobs of the new model", func() bool { return b.status(t).Queued == int64(items) })
	edited := b.add(t, "written while both are in use")
	if n := b.number(t, `SELECT count(DISTINCT model_id) FROM embedding_jobs j JOIN search_items i USING (item) WHERE i.item_id = ?`, edited.ID); n == 0 {
		t.Error("no job for the new text")
	}
	for range items / embedPiece * 9 / 10 {
		gate <- struct{}{}
	}
	if b.generation().id != "old@1" {
		t.Error("the new model serves too early")
	}
	next.set(func(m *wordsModel) { m.gate = nil })
	close(gate)
	until(t, "the switch", func() bool { g := b.generation(); return g != nil && g.id == "new@2" })
	until(t, "queries of the new model", func() bool { return served[1].Load() > 50 })
	stop.Store(true)
	wg.Wait()
	if served[0].Load() == 0 {
		t.Error("the old model served nothing")
	}
	b.settled(t)
	if st := b.status(t); st.ModelID != "new@2" || st.BuildingModel != "" || st.Ready != int64(items)+1 {
		t.Errorf("status %+v", st)
	}
	b.exact(t)
	// The data of the old model are deleted.
	if err := b.forgetFormer(b.ctx); err != nil {
		t.Fatal(err)
	}
	if n := b.number(t, `SELECT count(*) FROM item_vectors WHERE model_id = 'old@1'`) + b.number(t, `SELECT count(*) FROM embedding_jobs WHERE model_id = 'old@1'`); n != 0 {
		t.Errorf("%d rows of the old model", n)
	}
	if n := b.number(t, `SELECT count(*) FROM memories_full WHERE embedding_model = 'new@2'`); n != int64(items)+1 {
		t.Errorf("%d memories show their vector", n)
	}
}

// A switch continues after a restart, a choice persists, and a new default takes over.
func TestModelsAcrossRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, two, three := newWordsModel("one@1", 24), newWordsModel("two@1", 16), newWordsModel("three@1", 32)
	b := newBundle(t, Options{Embedder: one, Models: []Embedder{two}, VectorDir: dir})
	b.addMany(t, numbered(50)...)
	b.pending(t)
	must(b.Reembed(b.ctx, ReembedParams{ModelID: "two@1"}))(t)
	if st := b.status(t); st.ModelID != "one@1" || st.BuildingModel != "two@1" || st.Queued != 50 {
		t.Fatalf("status %+v", st)
	}
	b = b.reopen(t, Options{Embedder: one, Models: []Embedder{two}, VectorDir: dir})
	if st := b.status(t); st.ModelID != "one@1" || st.BuildingModel != "two@1" || st.Queued != 50 {
		t.Fatalf("status after a restart %+v", st)
	}
	b.pending(t)
	if st := b.status(t); st.ModelID != "two@1" || st.BuildingModel != "" || st.Ready != 50 {
		t.Fatalf("status after the switch %+v", st)
	}
	b = b.reopen(t, Options{Embedder: one, Models: []Embedder{two}, VectorDir: dir})
	if g := b.generation(); g == nil || g.id != "two@1" || g.index.Len() != 50 {
		t.Fatal("the choice is forgotten")
	}
	// A version of Helix with another default prepares it.
	b = b.reopen(t, Options{Embedder: three, Models: []Embedder{two}, VectorDir: dir})
	if g := b.generation(); g == nil || g.id != "two@1" {
		t.Fatal("the old model does not serve")
	}
	if st := b.status(t); st.BuildingModel != "three@1" || st.Queued != 50 {
		t.Fatalf("status %+v", st)
	}
	// Naming the active model ends the preparation.
	if st := must(b.Reembed(b.ctx, ReembedParams{ModelID: "two@1"}))(t); st.BuildingModel != "" || st.ModelID != "two@1" || st.Ready != 50 {
		t.Fatalf("status %+v", st)
	}
	// Without its model the index cannot be used; the default starts with the vectors it has.
	b = b.reopen(t, Options{Embedder: three, VectorDir: dir})
	if g := b.generation(); g == nil || g.id != "three@1" || (meaning{b.Service}).Degraded() != "reindexing" {
		t.Fatal("the default does not serve")
	}
	b.pending(t)
	if st := b.status(t); st.Ready != 50 || (meaning{b.Service}).Degraded() != "" && b.number(t, `SELECT count(*) FROM embedding_jobs WHERE model_id = 'three@1'`) > 0 {
		t.Fatalf("status %+v", st)
	}
	b.exact(t)
}

// An index file that is missing, truncated, of another model or out of date is repaired from the
// database without the model.
func TestIndexIsRepaired(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	model := newWordsModel("words@1", 32)
	b := newBundle(t, Options{Embedder: model, VectorDir: dir})
	b.addMany(t, numbered(300)...)
	b.pending(t)
	file := filepath.Join(dir, modelDir("words@1"), "vectors.bin")
	made := model.texts.Load()
	for name, damage := range map[string]func() error{
		"untouched": func() error { return nil },
		"missing":   func() error { return os.Remove(file) },
		"cut":       func() error { return os.Truncate(file, 5000) },
		"foreign":   func() error { return os.WriteFile(file, []byte(strings.Repeat("something else ", 1000)), 0o600) },
	} {
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		b = b.reopen(t, Options{Embedder: model, VectorDir: dir})
		b.exact(t)
		if n := b.index().Len(); n != 300 {
			t.Errorf("%s: %d vectors", name, n)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b.write(t, func(tx *storage.Tx) error {
		if _, err := tx.Exec(`DELETE FROM search_items WHERE item % 3 = 0`); err != nil {
			return err
		}
		_, err := tx.Exec(`UPDATE search_items SET text_hash = ? WHERE item = (SELECT min(item) FROM search_items)`, textHash("another"))
		return err
	})
	b = b.reopen(t, Options{Embedder: model, VectorDir: dir})
	b.exact(t)
	if n := b.index().Len(); n != 199 {
		t.Errorf("%d vectors after changes that the index did not see", n)
	}
	if n := b.number(t, `SELECT count(*) FROM embedding_jobs`); n != 1 {
		t.Errorf("%d jobs for the item without a vector", n)
	}
	if model.texts.Load() != made {
		t.Error("texts were embedded for the repair")
	}
}

// After a restore the index matches the new database.
func TestRestoredDatabase(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	model := newWordsModel("words@1", 32)
	b := newBundle(t, Options{Embedder: model})
	b.works(t)
	b.addMany(t, numbered(120)...)
	b.settled(t)
	st := storage.NewService(b.db, storage.ServiceOptions{})
	backup := must(st.Backup(b.ctx, storage.BackupParams{}))(t)
	gone := b.add(t, "written after the backup about penguins")
	b.settled(t)
	b.write(t, func(tx *storage.Tx) error {
		all, err := storage.Collect(tx.Select(`SELECT item_id FROM search_items ORDER BY item LIMIT 30`), storage.RowTo[uuid.UUID])
		if err != nil {
			return err
		}
		return b.search.Drop(tx, KindMemory, all...)
	})
	if b.index().Len() != 91 {
		t.Fatalf("%d vectors", b.index().Len())
	}
	if _, err := st.Restore(b.ctx, storage.RestoreParams{Path: backup.Path}); err != nil {
		t.Fatal(err)
	}
	until(t, "the index of the restored database", func() bool { g := b.generation(); return g != nil && g.index.Len() == 120 })
	b.settled(t)
	b.exact(t)
	if id, _ := b.nearest(t, "penguins"); id == gone.ID {
		t.Error("found what the backup does not have")
	}
}

// A reader sees either the old or the new document, by words, by meaning and by reading it.
func TestReadersSeeOneVersion(t *testing.T) {
	t.Parallel()
	model := newWordsModel("words@1", 16)
	b := newBundle(t, Options{Embedder: model})
	version := func(n int) UpsertParams {
		var texts []string
		for i := range 12 {
			texts = append(texts, fmt.Sprintf("version %d part %d", n, (i*5+n)%12), fmt.Sprintf("constant %d", (i*7+n)%12))
		}
		return chunks("doc", texts...)
	}
	id := b.upsert(t, version(0)).DocumentID
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for !stop.Load() {
				v, err := b.Document(b.ctx, DocumentViewParams{ID: id, Limit: 200})
				if err != nil || len(v.Chunks) != 24 || v.Total != 24 {
					t.Errorf("%d chunks of %d, %v", len(v.Chunks), v.Total, err)
					return
				}
				which := strings.Fields(v.Chunks[0].Text)[1]
				for i, c := range v.Chunks {
					if w := strings.Fields(c.Text); c.Seq != int64(i) || w[0] == "version" && w[1] != which {
						t.Errorf("versions %s and %q at %d", which, c.Text, c.Seq)
						return
					}
				}
				err = b.db.Read(b.ctx, func(tx *storage.Tx) error {
					var words, items int
					if err := tx.QueryRow(`SELECT (SELECT count(*) FROM search_fts WHERE search_fts MATCH 'part OR constant'), (SELECT count(*) FROM search_items)`).Scan(&words, &items); err != nil {
						return err
					}
					if words != 24 || items != 24 {
						t.Errorf("%d by words, %d items", words, items)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for n := range fewer(24) {
		if r := b.upsert(t, version(n+1)); r.Kept != 12 || r.Added != 12 || r.Removed != 12 {
			t.Errorf("%+v", r)
		}
	}
	stop.Store(true)
	wg.Wait()
	b.exact(t)
}

// A large index is compared quickly, and is used immediately after a restart.
func TestManyVectorsOpenQuickly(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	n, dims := fewer(10_000), 16
	if os.Getenv("HELIX_LONG") != "" {
		n, dims = 100_000, 512
	}
	dir := t.TempDir()
	model := newWordsModel("words@1", dims)
	b := newBundle(t, Options{Embedder: model, VectorDir: dir})
	r := rand.New(rand.NewPCG(1, 1))
	vec := make([]float32, dims)
	user := b.db.LocalUser().ID
	for from := 0; from < n; from += 5000 {
		b.write(t, func(tx *storage.Tx) error {
			for i := from; i < min(n, from+5000); i++ {
				for d := range vec {
					vec[d] = float32(r.NormFloat64())
				}
				id, hash := uuid.UUID(storage.NewID()), textHash(fmt.Sprint(i))
				if _, err := tx.Exec(`INSERT INTO search_items (user_id, kind, item_id, text_hash) VALUES (?, 'memory', ?, ?)`, user, id, hash); err != nil {
					return err
				}
				if err := storeVector(tx, KindMemory, id, user, "words@1", hash, vec); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if b.index().Len() != n {
		t.Fatalf("%d vectors", b.index().Len())
	}
	b = b.reopen(t, Options{Embedder: model, VectorDir: dir})
	if b.index().Len() != n {
		t.Fatalf("%d vectors after opening again", b.index().Len())
	}
	if (meaning{b.Service}).Degraded() != "" {
		t.Errorf("degraded: %q", (meaning{b.Service}).Degraded())
	}
}
