package memory

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/memory/importer/importertest"
	"helix/backend/storage"
	"helix/backend/testkit"
)

// ends waits for the end of imports.
type ends struct {
	mu   sync.Mutex
	over map[uuid.UUID]ImportStatus
	more chan struct{}
}

func (b *bundle) ends(t testing.TB) *ends {
	t.Helper()
	e := &ends{over: map[uuid.UUID]ImportStatus{}, more: make(chan struct{}, 1)}
	cancel := bus.Subscribe(b.bus(t), func(_ uuid.UUID, d ImportDone) {
		e.mu.Lock()
		e.over[d.JobID] = d.ImportStatus
		e.mu.Unlock()
		select {
		case e.more <- struct{}{}:
		default:
		}
	})
	t.Cleanup(cancel)
	return e
}

func (b *bundle) bus(t testing.TB) (events *bus.Bus) {
	t.Helper()
	if err := b.db.Read(b.ctx, func(tx *storage.Tx) error { events = tx.Bus(); return nil }); err != nil {
		t.Fatal(err)
	}
	return events
}

func (e *ends) await(t testing.TB, id uuid.UUID) ImportStatus {
	t.Helper()
	limit := time.After(awaitLimit())
	for {
		e.mu.Lock()
		st, ok := e.over[id]
		e.mu.Unlock()
		if ok {
			return st
		}
		select {
		case <-e.more:
		case <-limit:
			t.Fatal("the import does not end")
		}
	}
}

// awaitLimit returns how long a test waits for an import: a long one may read a gigabyte.
func awaitLimit() time.Duration {
	if os.Getenv("HELIX_LONG") != "" || os.Getenv("HELIX_IMPORT_MB") != "" {
		return time.Hour
	}
	return 5 * time.Minute
}

// imported runs an import and waits for its end.
func (b *bundle) imported(t testing.TB, p ImportParams) ImportStatus {
	t.Helper()
	e := b.ends(t)
	id := must(b.Import(b.ctx, p))(t).JobID
	st := e.await(t, id)
	again := must(b.ImportStatus(b.ctx, JobParams{JobID: id}))(t)
	if again.Status != st.Status || again.Added != st.Added || again.FinishedAt == nil || again.StartedAt == nil {
		t.Errorf("status after the end: %+v, told: %+v", again, st)
	}
	return st
}

// wantCounts compares the counters of an import.
func wantCounts(t testing.TB, st ImportStatus, status string, read, added, updated, skipped, failed int64) {
	t.Helper()
	if st.Status != status || st.Read != read || st.Added != added || st.Updated != updated || st.Skipped != skipped || st.Failed != failed {
		t.Errorf("import: %+v\nwant %s read %d added %d updated %d skipped %d failed %d", st, status, read, added, updated, skipped, failed)
	}
	if st.Status == "completed" && st.Progress != 1 {
		t.Errorf("progress at the end: %v", st.Progress)
	}
}

// count returns the result of a counting query.
func (b *bundle) count(t testing.TB, query string, args ...any) (n int64) {
	t.Helper()
	if err := b.db.Read(b.ctx, func(tx *storage.Tx) error { return tx.QueryRow(query, args...).Scan(&n) }); err != nil {
		t.Fatal(err)
	}
	return n
}

func (b *bundle) wantTurns(t testing.TB, turns int64) {
	t.Helper()
	if n := b.count(t, `SELECT count(*) FROM conversation_turns WHERE deleted_at IS NULL`); n != turns {
		t.Errorf("%d turns are stored, want %d", n, turns)
	}
	if n := b.count(t, `SELECT count(*) FROM search_items WHERE kind = 'turn'`); n != turns {
		t.Errorf("%d turns can be found, want %d", n, turns)
	}
	if n := b.count(t, `SELECT count(*) FROM (SELECT 1 FROM conversation_turns WHERE deleted_at IS NULL GROUP BY conversation_id HAVING max(seq) + 1 <> count(*))`); n != 0 {
		t.Errorf("%d conversations have gaps", n)
	}
}

func writeFile(t testing.TB, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// export writes a generated export.
func export(t testing.TB, o importertest.Options) (path string, wrote importertest.Wrote) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "conversations.json")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if wrote, err = importertest.ChatGPT(f, o); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path, wrote
}

func TestImportTwiceAddsNothing(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	b := newBundle(t, Options{})
	path, wrote := export(t, importertest.Options{Conversations: 30})
	n := int64(wrote.Turns)
	wantCounts(t, b.imported(t, ImportParams{Path: path, Tags: []string{"Old"}}), "completed", n, n, 0, 0, 0)
	b.wantTurns(t, n)
	changes := b.count(t, `SELECT count(*) FROM change_log`)
	wantCounts(t, b.imported(t, ImportParams{Path: path}), "completed", n, 0, 0, n, 0)
	b.wantTurns(t, n)
	if now := b.count(t, `SELECT count(*) FROM change_log`); now != changes {
		t.Errorf("the second import wrote %d rows", now-changes)
	}
}
