package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/testkit"
)

// damage overwrites n pages of the file with noise and returns their numbers, starting at 1.
func damage(t *testing.T, path string, n int, seed uint64, first int64) []int64 {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	fi, err := f.Stat()
	must(t, err)
	rng := rand.New(rand.NewPCG(seed, 7))
	pages := fi.Size() / 4096
	var out []int64
	for len(out) < n && int64(len(out)) < pages-first+1 {
		p := first + rng.Int64N(pages-first+1)
		if slices.Contains(out, p) {
			continue
		}
		out = append(out, p)
		noise := make([]byte, 4096)
		for i := range noise {
			noise[i] = byte(rng.Uint32())
		}
		_, err := f.WriteAt(noise, (p-1)*4096)
		must(t, err)
	}
	return out
}

func TestDamagedHeaderStartsRecovery(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	path, root := filepath.Join(t.TempDir(), "helix.db"), &memRoot{}
	db := openWith(t, path, root)
	seed(t, db, db.LocalUser().ID, 3)
	shut(t, db)
	b := read(t, path)
	copy(b, "not a database at all")
	must(t, os.WriteFile(path, b, 0o600))
	db = openWith(t, path, root)
	db.rescue.Wait()
	rec := db.Recovery()
	if rec == nil || rec.Reason != "corrupt" || rec.KeptPath == "" {
		t.Fatalf("%+v", rec)
	}
	if string(read(t, filepath.Join(rec.KeptPath, "helix.db"))) != string(b) || string(read(t, path)) != string(b) {
		t.Fatal("the original bytes changed")
	}
	wantKind(t, db.Read(t.Context(), func(*Tx) error { return nil }), fault.Unavailable, "damaged")
	wantKind(t, db.Write(t.Context(), func(*Tx) error { return nil }), fault.Unavailable, "damaged")
	s := NewService(db, ServiceOptions{})
	if st, err := s.Status(t.Context(), struct{}{}); err != nil || st.Recovery == nil {
		t.Fatalf("%+v, %v", st, err)
	}
	if c, err := s.Check(t.Context(), CheckParams{}); err != nil || c.OK || len(c.Problems) == 0 {
		t.Fatalf("%+v, %v", c, err)
	}
	// Without the header nothing can be read, and salvage reports that instead of inventing rows.
	if _, err := s.Salvage(t.Context(), SalvageParams{AcceptLoss: true}); err == nil && db.Recovery() != nil {
		t.Fatal("neither an error nor an end of recovery")
	}
	if string(read(t, filepath.Join(rec.KeptPath, "helix.db"))) != string(b) {
		t.Fatal("the kept bytes changed")
	}
}

func TestDamageFoundWhileRunning(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	seed(t, h.db, h.db.LocalUser().ID, 300)
	b, err := h.s.Backup(h.ctx, BackupParams{})
	must(t, err)
	want := rows(t, h.db, toolTables...)
	shut(t, h.db)
	path := h.db.path
	// Noise in data pages, after the schema; the stop was clean, so no check runs yet.
	damage(t, path, 40, 1, 20)
	before := read(t, path)
	h = openHome(t, h.dir, h.root)
	var events []Recovery
	bus.Subscribe(h.db.Bus(), func(_ uuid.UUID, e Recovery) { events = append(events, e) })
	for i := 0; i < 200 && h.db.Recovery() == nil; i++ {
		_ = h.db.Read(h.ctx, func(tx *Tx) error {
			var n int
			return tx.QueryRow(`SELECT count(*) FROM custom_tools NOT INDEXED WHERE length(code) > ?`, i).Scan(&n)
		})
		_, _ = h.s.Check(h.ctx, CheckParams{Full: true})
	}
	h.db.rescue.Wait()
	rec := h.db.Recovery()
	if rec == nil || rec.Reason != "corrupt" || len(events) != 1 {
		t.Fatalf("%+v, %d events", rec, len(events))
	}
	kept := read(t, filepath.Join(rec.KeptPath, "helix.db"))
	if diff := differingPages(kept, before); diff > 2 { // the clean mark was cleared at the start
		t.Errorf("%d pages of the kept file differ", diff)
	}
	// The way out is the backup.
	r, err := h.s.Restore(h.ctx, RestoreParams{Path: b.Path})
	if err != nil || h.db.Recovery() != nil {
		t.Fatalf("%+v, %v", r, err)
	}
	sameRows(t, rows(t, h.db, toolTables...), want)
	seed(t, h.db, h.db.LocalUser().ID, 1)
}

func differingPages(a, b []byte) (n int) {
	for i := 0; i+4096 <= min(len(a), len(b)); i += 4096 {
		if string(a[i:i+4096]) != string(b[i:i+4096]) {
			n++
		}
	}
	return n + max(len(a), len(b))/4096 - min(len(a), len(b))/4096
}

// Salvage keeps every row that a plain scan of the damaged file can reach, and does not change the
// file.
func TestSalvageKeepsReadableRows(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	rounds := []int{1, 4, 16, 64}
	if long() {
		for i := range 60 {
			rounds = append(rounds, 1+i)
		}
	}
	for i, pages := range rounds {
		t.Run(fmt.Sprint(i, "-", pages), func(t *testing.T) {
			t.Parallel()
			dir, root := t.TempDir(), &memRoot{}
			h := openHome(t, dir, root)
			user := h.db.LocalUser().ID
			seed(t, h.db, user, 400)
			write(t, h.db, func(tx *Tx) error {
				var id uuid.UUID
				if err := tx.QueryRow(`SELECT id FROM custom_tools LIMIT 1`).Scan(&id); err != nil {
					return err
				}
				for k := range 500 { // WITHOUT ROWID
					if _, err := tx.Exec(`INSERT INTO custom_tool_state (custom_tool_id, user_id, state_key, state_value, size_bytes, updated_at) VALUES (?, ?, ?, ?, 1, 1)`, id, user, fmt.Sprintf("key-%04d", k), `"`+strings.Repeat("v", 100)+`"`); err != nil {
						return err
					}
				}
				return nil
			})
			must(t, h.db.checkpoint(h.ctx))
			tables := append([]string{"custom_tool_state"}, toolTables...)
			all := rows(t, h.db, tables...)
			shut(t, h.db)
			schemaPages := int64(60) // the schema itself fills the first pages
			bad := damage(t, h.db.path, pages, uint64(i)+1, schemaPages)
			reachable := plainScan(t, h.db.path, tables)
			before := read(t, h.db.path)

			h = openHome(t, dir, root)
			if _, err := h.s.Check(h.ctx, CheckParams{Full: true}); err != nil && fault.KindOf(err) != fault.Unavailable {
				t.Fatal(err)
			}
			h.db.rescue.Wait()
			if h.db.Recovery() == nil { // the noise hit only free pages
				sameRows(t, rows(t, h.db, tables...), all)
				return
			}
			r, err := h.s.Salvage(h.ctx, SalvageParams{AcceptLoss: true})
			must(t, err)
			if h.db.Recovery() != nil {
				t.Fatalf("still in recovery: %+v", h.db.Recovery())
			}
			got := rows(t, h.db, tables...)
			for _, table := range tables {
				for _, row := range got[table] {
					if !slices.Contains(all[table], row) {
						t.Errorf("%s: a row that was never there: %s", table, row)
					}
				}
				if len(got[table]) < reachable[table] {
					t.Errorf("%s: %d rows kept, a plain scan reaches %d of %d", table, len(got[table]), reachable[table], len(all[table]))
				}
			}
			if c, err := h.s.Check(h.ctx, CheckParams{}); err != nil || !onlyOrphans(c.Problems) {
				t.Errorf("after salvage: %+v, %v", c, err)
			}
			if n := differingPages(read(t, filepath.Join(r.KeptPath, "helix.db")), before); n > 2 {
				t.Errorf("%d pages of the kept file differ", n)
			}
			t.Logf("pages %v: %+v", bad, r.Tables)
			seed(t, h.db, h.db.LocalUser().ID, 1)
		})
	}
}

func onlyOrphans(problems []string) bool {
	return !slices.ContainsFunc(problems, func(p string) bool { return !strings.Contains(p, "refer to missing rows") })
}

// damagedPragmas are for opening a damaged file. writable_schema lets SQLite continue with the
// readable part of the schema; query_only prevents it from writing. None of these needs the schema.
var damagedPragmas = []string{"writable_schema(ON)", "query_only(ON)", "trusted_schema(OFF)", "cell_size_check(ON)"}

// loadSchema makes SQLite read the schema. The first statement that reaches a damaged page of it
// fails; the next ones see what came before.
func loadSchema(ctx context.Context, db *sql.DB) {
	var n int
	_ = db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_master`).Scan(&n)
}

// plainScan counts the rows that simple queries reach from either end of each table.
func plainScan(t *testing.T, path string, tables []string) map[string]int {
	t.Helper()
	work := filepath.Join(t.TempDir(), "scan.db")
	err := copyFile(work, path)
	must(t, err)
	db, err := sql.Open("sqlite", dsn(work, damagedPragmas, false))
	must(t, err)
	db.SetMaxOpenConns(1)
	loadSchema(t.Context(), db)
	defer db.Close()
	out := map[string]int{}
	for _, table := range tables {
		key := "rowid"
		if table == "custom_tool_state" {
			key = "state_key"
		}
		seen := map[string]bool{}
		for _, dir := range []string{"", " DESC"} {
			order := key + dir
			if table == "custom_tool_state" {
				order = "custom_tool_id" + dir + ", user_id" + dir + ", state_key" + dir
			}
			_ = eachRow(context.Background(), db, `SELECT quote(`+key+`), user_id, updated_at FROM `+table+` NOT INDEXED ORDER BY `+order, func(scan func(...any) error) error {
				var k string
				var a, b any
				if err := scan(&k, &a, &b); err != nil {
					return err
				}
				seen[k] = true
				return nil
			})
		}
		out[table] = len(seen)
	}
	return out
}

func TestHeldStateTransitions(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	_, err := h.s.Salvage(h.ctx, SalvageParams{AcceptLoss: true})
	wantKind(t, err, fault.Conflict, "not damaged")
	m, err := h.s.Migrate(h.ctx, struct{}{})
	if err != nil || m.From != m.To {
		t.Fatalf("%+v, %v", m, err)
	}
}

func TestFailedSwapKeepsPreviousData(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	seed(t, h.db, h.db.LocalUser().ID, 3)
	before := rows(t, h.db, toolTables...)
	boom := errors.New("boom")
	if err := h.db.swap(h.ctx, "later", func() error { return boom }); !errors.Is(err, boom) {
		t.Fatal(err)
	}
	sameRows(t, rows(t, h.db, toolTables...), before)
	// A read that does not end prevents the swap, and nothing else.
	in, out, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		done <- h.db.Read(context.Background(), func(*Tx) error { close(in); <-out; return nil })
	}()
	<-in
	ctx, cancel := context.WithCancel(h.ctx)
	cancel()
	if err := h.db.swap(ctx, "later", func() error { return nil }); err == nil {
		t.Fatal("swapped under a running read")
	}
	close(out)
	must(t, <-done)
	seed(t, h.db, h.db.LocalUser().ID, 1)
}
