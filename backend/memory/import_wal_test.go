package memory

import (
	"os"
	"sync"
	"testing"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/memory/importer/importertest"
	"helix/backend/storage"
)

// autoCheckpoint returns the size, in pages, at which a commit checkpoints the write-ahead log.
func (b *bundle) autoCheckpoint(t testing.TB) (pages int64) {
	t.Helper()
	if err := b.db.Write(b.ctx, func(tx *storage.Tx) error { return tx.QueryRow(`PRAGMA wal_autocheckpoint`).Scan(&pages) }); err != nil {
		t.Error(err)
	}
	return pages
}

// During an import commits do not checkpoint the write-ahead log, which nevertheless does not grow
// with the import; afterwards they do so again.
func TestImportCheckpointsOffTheWriter(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{Embedder: newWordsModel("words@1", 64)})
	before := b.autoCheckpoint(t)
	var mu sync.Mutex
	var during []int64
	t.Cleanup(bus.Subscribe(b.bus(t), func(uuid.UUID, ImportProgress) {
		pages := b.autoCheckpoint(t)
		mu.Lock()
		during = append(during, pages)
		mu.Unlock()
	}))
	path, _ := export(t, importertest.Options{Conversations: 300})
	b.imported(t, ImportParams{Path: path})
	until(t, "the end of the work", func() bool { return b.autoCheckpoint(t) == before })
	mu.Lock()
	defer mu.Unlock()
	if len(during) == 0 {
		t.Fatal("no progress was told")
	}
	for _, pages := range during {
		if pages != 16000 {
			t.Errorf("commits move the log from %d pages on while an import runs", pages)
		}
	}
	var file string
	if err := b.db.Read(b.ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&file)
	}); err != nil {
		t.Fatal(err)
	}
	whole, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Stat(file + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	if log.Size() > whole.Size() {
		t.Errorf("the log has %d bytes, the file %d", log.Size(), whole.Size())
	}
	if err := b.EmbedPending(b.ctx); err != nil {
		t.Fatal(err)
	}
	if now := b.autoCheckpoint(t); now != before {
		t.Errorf("after the vectors commits move the log from %d pages on, before %d", now, before)
	}
}
