package tools

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"helix/backend/audit"
	"helix/backend/storage"
)

// usage measures what may grow with the number of runs.
type usage struct {
	heap, goroutines, files, rows, held int
	pages                               int // of the database, in use
}

// TestManyRunsDoNotGrow makes runs of a tool, 60,000 with HELIX_LONG: after the first sixth and a
// prune of the histories, further runs take no more memory, goroutines, files or space in the
// database. HELIX_RUNS sets another number.
func TestManyRunsDoNotGrow(t *testing.T) {
	if os.Getenv("HELIX_LONG") == "" {
		t.Skip("it takes minutes; make test-long runs it")
	}
	runs := 60_000
	if n, err := strconv.Atoi(os.Getenv("HELIX_RUNS")); err == nil {
		runs = n
	}
	const kept = 300 // per tool
	s := setup(t)
	tools := []Tool{
		s.create(t, CreateParams{Name: "adds", Code: "return params.n + 1"}),
		s.granted(t, "reads"),
		s.create(t, CreateParams{Name: "fails", Code: "enum E { A = 'a' } throw new Error(E.A + params.n)", Language: TypeScript}),
	}
	// Retention counts in days: for this service, every entry is old.
	later := audit.New(s.db, audit.Options{Now: func() time.Time { return time.Now().AddDate(2, 0, 0) }})
	changes := storage.NewService(s.db, storage.ServiceOptions{Retention: Retention(), Policy: func() storage.Policy {
		return storage.Policy{HistoryRows: 3 * kept, HistoryAge: 90 * 24 * time.Hour, PayloadAge: 7 * 24 * time.Hour, ChangeLogMax: 1 << 10}
	}})
	measure := func() (u usage) {
		t.Helper()
		if err := s.audit.Sign(s.ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := changes.Prune(s.ctx, storage.PruneParams{}); err != nil {
			t.Fatal(err)
		}
		if err := later.Prune(s.ctx); err != nil {
			t.Fatal(err)
		}
		err := s.db.Read(s.ctx, func(tx *storage.Tx) error {
			return tx.QueryRow(`SELECT (SELECT count(*) FROM custom_tool_usage),
				(SELECT page_count FROM pragma_page_count) - (SELECT freelist_count FROM pragma_freelist_count)`).Scan(&u.rows, &u.pages)
		})
		if err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		open, _ := os.ReadDir("/proc/self/fd") // other systems do not have it, and the count stays 0
		s.mu.Lock()
		u.held = len(s.running) + len(s.slots) + len(s.keys) + len(s.reviews) + len(s.undo)
		s.mu.Unlock()
		u.heap, u.goroutines, u.files = int(m.HeapAlloc), runtime.NumGoroutine(), len(open)
		return u
	}
	var first usage
	for i := range runs {
		tool := tools[i%len(tools)]
		if _, err := s.Execute(s.ctx, ExecuteParams{ToolID: &tool.ID, Params: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))}); err != nil {
			t.Fatal(err)
		}
		if done := i + 1; done%(runs/6) == 0 {
			u := measure()
			t.Logf("%d runs: %+v", done, u)
			if first == (usage{}) {
				first = u
			}
			if u.heap > first.heap+8<<20 || u.goroutines > first.goroutines+8 || u.files > first.files+8 ||
				u.held > first.held || u.rows > kept*len(tools) || u.pages > first.pages+first.pages/10+64 {
				t.Errorf("after %d runs %+v, after the first sixth %+v", done, u, first)
			}
		}
	}
}
