package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/testkit"
)

// notes is a table as a domain would declare it.
const notesSQL = `CREATE TABLE notes (
	id BLOB PRIMARY KEY CHECK (length(id) = 16), user_id BLOB NOT NULL,
	title TEXT, body BLOB, score REAL, hits INTEGER NOT NULL DEFAULT 0, rank INTEGER,
	created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, deleted_at INTEGER, sync_meta BLOB) STRICT;
CREATE TABLE note_tags (id BLOB PRIMARY KEY CHECK (length(id) = 16), note_id BLOB NOT NULL, tag TEXT NOT NULL) STRICT;
CREATE TABLE runs (id BLOB PRIMARY KEY CHECK (length(id) = 16), user_id BLOB NOT NULL, status TEXT NOT NULL, output TEXT,
	created_at INTEGER NOT NULL, deleted_at INTEGER, sync_meta BLOB) STRICT;
CREATE TABLE turns (id BLOB PRIMARY KEY CHECK (length(id) = 16), user_id BLOB NOT NULL, text TEXT, created_at INTEGER NOT NULL, deleted_at INTEGER, sync_meta BLOB) STRICT;`

var notesList = []SyncedTable{
	{Table: "notes", Policy: MergeRows, Fields: []SyncedField{
		{No: 1, Name: "title", Merge: LWW}, {No: 2, Name: "body", Merge: LWW}, {No: 5, Name: "score", Merge: LWW},
		{No: 4, Name: "hits", Merge: PNCounter}, {No: 3, Name: "rank", Merge: Derived},
	}},
	{Table: "note_tags", Parent: "notes", ParentKey: "note_id", ParentField: 6, Policy: MergeRows, Fields: []SyncedField{{No: 1, Name: "tag", Merge: ORSet}}},
	{Table: "runs", Policy: AppendRows, Final: "NEW.status <> 'running'", Fields: []SyncedField{{No: 1, Name: "status", Merge: Immutable}, {No: 2, Name: "output", Merge: Immutable}}},
	{Table: "turns", Policy: AppendRows, Fields: []SyncedField{{No: 1, Name: "text", Merge: Immutable}}},
}

// openNotes returns a database with the notes tables and their capture triggers.
func openNotes(t *testing.T) *DB {
	t.Helper()
	db := open(t)
	write(t, db, func(tx *Tx) error { _, err := tx.Exec(notesSQL); return err })
	if err := db.refreshTriggers(t.Context(), notesList); err != nil {
		t.Fatal(err)
	}
	return db
}

// refreshTriggers makes list that of the synced tables.
func (db *DB) refreshTriggers(ctx context.Context, list []SyncedTable) error {
	db.uncaptured.Store(&list)
	return db.Write(ctx, func(*Tx) error { return nil })
}

func write(t *testing.T, db *DB, fn func(tx *Tx) error) {
	t.Helper()
	if err := db.Write(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

func exec(t *testing.T, db *DB, query string, args ...any) {
	t.Helper()
	write(t, db, func(tx *Tx) error { _, err := tx.Exec(query, args...); return err })
}

func addNote(t *testing.T, db *DB, title string) uuid.UUID {
	t.Helper()
	id := NewID()
	exec(t, db, `INSERT INTO notes (id, user_id, title, created_at, updated_at) VALUES (?, ?, ?, 1, 1)`, id, db.LocalUser().ID, title)
	return id
}

type change struct {
	Tbl    string
	Row    uuid.UUID
	Op     string
	Fields uint64
	HLC    int64
	Txn    int64
}

func changes(t *testing.T, db *DB) (out []change) {
	t.Helper()
	if err := db.Read(t.Context(), func(tx *Tx) error {
		rows, err := tx.Query(`SELECT tbl, row_id, op, fields, hlc, txn FROM change_log ORDER BY seq`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var c change
			if err := rows.Scan(&c.Tbl, &c.Row, &c.Op, &c.Fields, &c.HLC, &c.Txn); err != nil {
				return err
			}
			out = append(out, c)
		}
		return rows.Err()
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// summarize formats changes as "table op fields" for comparison.
func summarize(list []change) string {
	var b strings.Builder
	for _, c := range list {
		fmt.Fprintf(&b, "%s %s %b\n", c.Tbl, c.Op, c.Fields)
	}
	return b.String()
}

func wantChanges(t *testing.T, db *DB, want string) []change {
	t.Helper()
	got := changes(t, db)
	if b := strings.TrimSpace(summarize(got)); b != strings.TrimSpace(want) {
		t.Fatalf("change log:\n%s\nwant:\n%s", b, want)
	}
	return got
}

func TestCaptureByField(t *testing.T) {
	t.Parallel()
	db := openNotes(t)
	id := addNote(t, db, "a")
	exec(t, db, `UPDATE notes SET title = 'a', rank = 3, updated_at = 2 WHERE id = ?`, id)        // no synced field changed
	exec(t, db, `UPDATE notes SET title = NULL WHERE id = ?`, id)                                 // clearing is a change
	exec(t, db, `UPDATE notes SET title = '' WHERE id = ?`, id)                                   // and empty is not NULL
	exec(t, db, `UPDATE notes SET body = x'00ff', hits = hits + 1, score = 0.5 WHERE id = ?`, id) // several at once
	exec(t, db, `UPDATE notes SET deleted_at = 5 WHERE id = ?`, id)                               // to the trash
	exec(t, db, `UPDATE notes SET deleted_at = NULL WHERE id = ?`, id)                            // and back
	exec(t, db, `INSERT INTO notes (id, user_id, title, created_at, updated_at) VALUES (?, ?, 'b', 1, 1)
		ON CONFLICT (id) DO UPDATE SET title = excluded.title`, id, db.LocalUser().ID)
	wantChanges(t, db, `
notes I 110111
notes U 10
notes U 10
notes U 110100
notes D 1
notes U 1
notes U 10`)
}

func TestCaptureRollbackAndSilence(t *testing.T) {
	t.Parallel()
	db := openNotes(t)
	id := addNote(t, db, "a")
	_ = db.Write(t.Context(), func(tx *Tx) error {
		if _, err := tx.Exec(`UPDATE notes SET title = 'b'`); err != nil {
			return err
		}
		return fmt.Errorf("no")
	})
	write(t, db, func(tx *Tx) error {
		if err := tx.WithoutCapture(func() error {
			return tx.WithoutCapture(func() error { _, err := tx.Exec(`UPDATE notes SET title = 'c'`); return err })
		}); err != nil {
			return err
		}
		func() {
			defer func() { _ = recover() }()
			_ = tx.WithoutCapture(func() error { panic("x") })
		}()
		if err := tx.WithoutCapture(func() error { return fmt.Errorf("no") }); err == nil {
			t.Error("the error got lost")
		}
		_, err := tx.Exec(`UPDATE notes SET hits = 7`) // captured again
		return err
	})
	wantChanges(t, db, "notes I 110111\nnotes U 10000")
	if err := db.Read(t.Context(), func(tx *Tx) error { return tx.WithoutCapture(func() error { return nil }) }); err == nil {
		t.Error("WithoutCapture in a read")
	}
	if id == uuid.Nil {
		t.Fatal()
	}
}

func TestHardDeleteAborts(t *testing.T) {
	t.Parallel()
	db := openNotes(t)
	id := addNote(t, db, "a")
	for _, q := range []string{
		`DELETE FROM notes WHERE id = ?`,
		`INSERT OR REPLACE INTO notes (id, user_id, title, created_at, updated_at) VALUES (?, x'00', 'r', 1, 1)`,
	} {
		if err := db.Write(t.Context(), func(tx *Tx) error { _, err := tx.Exec(q, id); return err }); err == nil || !strings.Contains(err.Error(), "hard delete") {
			t.Errorf("%s: err = %v", q, err)
		}
	}
	write(t, db, func(tx *Tx) error {
		return tx.WithoutCapture(func() error { _, err := tx.Exec(`DELETE FROM notes WHERE id = ?`, id); return err })
	})
	wantChanges(t, db, "notes I 110111")
}

func TestCaptureOfRunsAndChildren(t *testing.T) {
	t.Parallel()
	db := openNotes(t)
	note, run, done, turn, tag := addNote(t, db, "a"), NewID(), NewID(), NewID(), NewID()
	me := db.LocalUser().ID
	exec(t, db, `INSERT INTO runs (id, user_id, status, created_at) VALUES (?, ?, 'running', 1)`, run, me)
	exec(t, db, `UPDATE runs SET output = 'half' WHERE id = ?`, run)
	exec(t, db, `UPDATE runs SET status = 'success', output = 'all' WHERE id = ?`, run)
	exec(t, db, `UPDATE runs SET output = 'cut' WHERE id = ?`, run) // what came back changed
	exec(t, db, `INSERT INTO runs (id, user_id, status, created_at) VALUES (?, ?, 'failure', 1)`, done, me)
	exec(t, db, `INSERT INTO turns (id, user_id, text, created_at) VALUES (?, ?, 'x', 1)`, turn, me)
	exec(t, db, `UPDATE turns SET text = 'y' WHERE id = ?`, turn)
	exec(t, db, `INSERT INTO note_tags (id, note_id, tag) VALUES (?, ?, 't')`, tag, note)
	exec(t, db, `UPDATE note_tags SET tag = 't' WHERE id = ?`, tag)
	exec(t, db, `UPDATE note_tags SET tag = 'u' WHERE id = ?`, tag)
	exec(t, db, `DELETE FROM note_tags WHERE id = ?`, tag)
	got := wantChanges(t, db, `
notes I 110111
runs I 111
runs U 100
runs I 111
turns I 11
turns U 10
notes U 1000000
notes U 1000000
notes U 1000000`)
	if got[1].Row != run || got[3].Row != done || got[7].Row != note {
		t.Errorf("rows: %v", got)
	}
}

// Rows of append tables are moved to the trash, restored and imported again like others.
func TestChangeLogHoldsDeletedAndImportedAppendRows(t *testing.T) {
	t.Parallel()
	db := openNotes(t)
	run, turn := NewID(), NewID()
	me := db.LocalUser().ID
	exec(t, db, `INSERT INTO turns (id, user_id, text, created_at) VALUES (?, ?, 'x', 1)`, turn, me)
	exec(t, db, `UPDATE turns SET deleted_at = 5 WHERE id = ?`, turn)
	exec(t, db, `UPDATE turns SET deleted_at = NULL, text = 'y' WHERE id = ?`, turn)
	exec(t, db, `UPDATE turns SET created_at = 2 WHERE id = ?`, turn)
	exec(t, db, `INSERT INTO runs (id, user_id, status, created_at) VALUES (?, ?, 'running', 1)`, run, me)
	exec(t, db, `UPDATE runs SET deleted_at = 5 WHERE id = ?`, run) // not final: not logged yet
	exec(t, db, `UPDATE runs SET deleted_at = NULL, status = 'success' WHERE id = ?`, run)
	write(t, db, func(tx *Tx) error { // as sync does after a push
		return tx.WithoutCapture(func() error {
			_, err := tx.Exec(`UPDATE runs SET sync_meta = x'01aa' WHERE id = ?`, run)
			return err
		})
	})
	exec(t, db, `UPDATE runs SET deleted_at = 6 WHERE id = ?`, run)
	wantChanges(t, db, `
turns I 11
turns D 1
turns U 11
runs I 111
runs D 1`)
	var base string
	if err := db.Read(t.Context(), func(tx *Tx) error {
		return tx.QueryRow(`SELECT row ->> 'status' FROM sync_base WHERE row_id = ?`, run).Scan(&base)
	}); err != nil || base != "success" {
		t.Errorf("base version of a final row: %q %v", base, err)
	}
}

func TestChangeLogClockAndTransactions(t *testing.T) {
	t.Parallel()
	db := openNotes(t)
	before := time.Now().UnixMilli()
	write(t, db, func(tx *Tx) error { // one transaction, three rows
		for range 3 {
			if _, err := tx.Exec(`INSERT INTO notes (id, user_id, created_at, updated_at) VALUES (?, ?, 1, 1)`, NewID(), NewID()); err != nil {
				return err
			}
		}
		return nil
	})
	exec(t, db, `INSERT INTO meta (key, value) VALUES ('x', 'y')`) // captures nothing, so it uses up no number
	exec(t, db, `UPDATE notes SET title = 'q'`)
	// The system clock is set back by a day: the hybrid clock continues.
	exec(t, db, `UPDATE sync_local SET offset_us = -86400000000`)
	exec(t, db, `UPDATE notes SET title = 'r'`)
	exec(t, db, `DELETE FROM change_log`) // pruned: the high-water mark is kept
	high := int64(0)
	if err := db.Read(t.Context(), func(tx *Tx) error { return tx.QueryRow(`SELECT hlc_high FROM sync_local`).Scan(&high) }); err != nil {
		t.Fatal(err)
	}
	exec(t, db, `UPDATE notes SET title = 's'`)
	got := changes(t, db)
	if len(got) != 3 || got[0].HLC <= high {
		t.Fatalf("after pruning: %v, high-water mark %d", got, high)
	}
	if ms := high >> 16; ms < before || ms > before+60_000 {
		t.Errorf("clock says %d, wall clock %d", ms, before)
	}
	if got[0].Txn != got[2].Txn {
		t.Errorf("one transaction has two numbers: %v", got)
	}
	for i := 1; i < len(got); i++ {
		if got[i].HLC < got[i-1].HLC || got[i].HLC == got[i-1].HLC && got[i].Txn != got[i-1].Txn {
			t.Errorf("clock does not rise: %v", got)
		}
	}
	first := got[0].Txn
	exec(t, db, `UPDATE notes SET title = 't'`)
	if got = changes(t, db); got[3].Txn != first+1 {
		t.Errorf("next transaction has number %d after %d", got[3].Txn, first)
	}
}

func TestConcurrentIncrementsAreAllCounted(t *testing.T) {
	t.Parallel()
	db := openNotes(t)
	id := addNote(t, db, "a")
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if err := db.Write(t.Context(), func(tx *Tx) error {
				_, err := tx.Exec(`UPDATE notes SET hits = hits + 1 WHERE id = ?`, id)
				return err
			}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if hits := noteRows(t, db)[id]["hits"]; hits != 50.0 {
		t.Errorf("hits = %v", hits)
	}
	txns := map[int64]bool{}
	for _, c := range changes(t, db) {
		txns[c.Txn] = true
	}
	if len(txns) != 51 {
		t.Errorf("%d transactions in the log", len(txns))
	}
}

func TestBaseVersionIsKeptOnce(t *testing.T) {
	t.Parallel()
	db := openNotes(t)
	known, fresh := addNote(t, db, "known"), addNote(t, db, "fresh")
	write(t, db, func(tx *Tx) error { // as sync does after a push
		return tx.WithoutCapture(func() error {
			_, err := tx.Exec(`UPDATE notes SET sync_meta = x'01aa', body = x'beef' WHERE id = ?`, known)
			return err
		})
	})
	exec(t, db, `UPDATE notes SET title = 'one'`)
	exec(t, db, `UPDATE notes SET title = 'two', body = NULL`)
	base := map[uuid.UUID]map[string]any{}
	if err := db.Read(t.Context(), func(tx *Tx) error {
		rows, err := tx.Query(`SELECT row_id, row FROM sync_base WHERE tbl = 'notes'`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id uuid.UUID
			row := map[string]any{}
			if err := rows.Scan(&id, JSON(&row)); err != nil {
				return err
			}
			base[id] = row
		}
		return rows.Err()
	}); err != nil {
		t.Fatal(err)
	}
	if len(base) != 1 || base[fresh] != nil {
		t.Fatalf("base versions: %v", base)
	}
	row := base[known]
	for k, want := range map[string]any{"title": "known", "body": "BEEF", "sync_meta": "01AA", "deleted_at": nil, "hits": 0.0} {
		if row[k] != want {
			t.Errorf("%s = %v, want %v (in %v)", k, row[k], want, row)
		}
	}
	if _, has := row["rank"]; has {
		t.Error("a derived field is in the base")
	}
}

func TestTriggersFollowTheList(t *testing.T) {
	t.Parallel()
	db := openNotes(t)
	read := func() map[string]string {
		var m map[string]string
		write(t, db, func(tx *Tx) (err error) { m, err = tx.captureTriggers("temp"); return err })
		return m
	}
	had := read()
	if len(had) != 3+3+3+3 {
		t.Fatalf("triggers: %v", slices.Sorted(maps.Keys(had)))
	}
	if err := db.refreshTriggers(t.Context(), notesList); err != nil || !maps.Equal(read(), had) {
		t.Fatalf("an unchanged list changes triggers: %v", err)
	}
	shorter := slices.Clone(notesList[:1])
	shorter[0].Fields = shorter[0].Fields[1:]
	if err := db.refreshTriggers(t.Context(), shorter); err != nil {
		t.Fatal(err)
	}
	now := read()
	if len(now) != 3 || now["sync_notes_update"] == had["sync_notes_update"] || now["sync_notes_delete"] != had["sync_notes_delete"] {
		t.Fatalf("triggers after a change: %v", slices.Sorted(maps.Keys(now)))
	}
	exec(t, db, `DROP TRIGGER temp.sync_notes_update; CREATE TRIGGER sync_notes_update AFTER UPDATE ON notes BEGIN SELECT 1; END`)
	if err := db.refreshTriggers(t.Context(), notesList); err != nil || !maps.Equal(read(), had) {
		t.Fatalf("a foreign trigger stays: %v", err)
	}
	write(t, db, func(tx *Tx) error {
		if left, err := tx.captureTriggers("main"); err != nil || len(left) > 0 {
			t.Errorf("triggers of a former version stay in the file: %v, %v", left, err)
		}
		return nil
	})
	if err := db.refreshTriggers(t.Context(), []SyncedTable{{Table: "absent"}}); err == nil {
		t.Error("a table that is not there was accepted")
	}
}

// The triggers belong to the connection, so a new one must get them before its first statement.
func TestCaptureSurvivesALostConnection(t *testing.T) {
	t.Parallel()
	db := openNotes(t)
	id := addNote(t, db, "before")
	db.writer.SetMaxIdleConns(0) // closes the connection
	db.writer.SetMaxIdleConns(1)
	exec(t, db, `DELETE FROM change_log`)
	exec(t, db, `UPDATE notes SET title = 'after' WHERE id = ?`, id)
	var n int
	write(t, db, func(tx *Tx) error { return tx.QueryRow(`SELECT count(*) FROM change_log`).Scan(&n) })
	if n != 1 {
		t.Errorf("%d entries for an edit on a new connection", n)
	}
	if err := db.Write(t.Context(), func(tx *Tx) error { _, err := tx.Exec(`DELETE FROM notes`); return err }); err == nil {
		t.Error("a hard delete of a synced row passes on a new connection")
	}
}

// A start creates no triggers, so reading does not wait for them. The first write creates them
// before it runs, and one that was canceled leaves that to the next.
func TestTheFirstWriteIsCaptured(t *testing.T) {
	t.Parallel()
	db := open(t)
	if db.capture.Load() != nil || db.uncaptured.Load() == nil {
		t.Fatal("the start created the triggers")
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := db.Write(canceled, func(*Tx) error { return nil }); err == nil {
		t.Fatal("a canceled write passed")
	}
	refused := errors.New("refused")
	if err := db.Write(t.Context(), func(*Tx) error { return refused }); !errors.Is(err, refused) {
		t.Fatal(err)
	}
	var n int
	write(t, db, func(tx *Tx) error {
		if _, err := tx.Exec(`INSERT INTO conversations (id, user_id, source, external_id, created_at, updated_at) VALUES (?, ?, 'test', '1', 1, 1)`, NewID(), db.LocalUser().ID); err != nil {
			return err
		}
		return tx.QueryRow(`SELECT count(*) FROM change_log WHERE tbl = 'conversations' AND op = 'I'`).Scan(&n)
	})
	if n != 1 {
		t.Errorf("%d entries for the row of the first write", n)
	}
}

// A random sequence of edits produces a log that, replayed on a copy of the original rows, produces
// the current rows: each entry contains every field that differs.
func TestReplayReproducesRows(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	db := openNotes(t)
	rng := rand.New(rand.NewPCG(1, 2))
	var ids []uuid.UUID
	for i := range 8 {
		ids = append(ids, addNote(t, db, fmt.Sprint(i)))
	}
	base := noteRows(t, db)
	exec(t, db, `DELETE FROM change_log`)
	pick := func(list ...any) any { return list[rng.IntN(len(list))] }
	for range 300 {
		_ = db.Write(t.Context(), func(tx *Tx) error {
			for range 1 + rng.IntN(3) {
				if rng.IntN(6) == 0 {
					id := NewID()
					ids = append(ids, id)
					if _, err := tx.Exec(`INSERT INTO notes (id, user_id, title, created_at, updated_at) VALUES (?, x'01', ?, 1, 1)`, id, pick("n", nil)); err != nil {
						return err
					}
					continue
				}
				column := pick("title", "score", "hits", "deleted_at", "rank").(string)
				value := pick(int64(1), int64(2), int64(0))
				if column == "title" {
					value = pick("x", "y", "", nil)
				}
				if column == "deleted_at" || column == "score" {
					value = pick(int64(9), nil)
				}
				if _, err := tx.Exec(`UPDATE notes SET `+column+` = ? WHERE id = ?`, value, ids[rng.IntN(len(ids))]); err != nil {
					return err
				}
			}
			if rng.IntN(4) == 0 {
				return fmt.Errorf("rolled back")
			}
			return nil
		})
	}
	now := noteRows(t, db)
	numbers := map[int]string{0: "deleted_at"}
	for _, f := range notesList[0].Fields {
		numbers[f.No] = f.Name
	}
	for _, c := range changes(t, db) {
		if base[c.Row] == nil {
			base[c.Row] = map[string]any{}
		}
		for no, name := range numbers {
			if c.Fields&(1<<no) != 0 {
				base[c.Row][name] = now[c.Row][name]
			}
		}
	}
	for id, row := range now {
		for _, name := range numbers {
			if name != "rank" && base[id][name] != row[name] {
				t.Errorf("%s of %s: replayed %v, is %v", name, id, base[id][name], row[name])
			}
		}
	}
	if len(base) != len(now) {
		t.Errorf("%d rows replayed, %d are there", len(base), len(now))
	}
}

func noteRows(t *testing.T, db *DB) map[uuid.UUID]map[string]any {
	t.Helper()
	out := map[uuid.UUID]map[string]any{}
	if err := db.Read(t.Context(), func(tx *Tx) error {
		rows, err := tx.Query(`SELECT id, json_object('title', title, 'score', score, 'hits', hits, 'deleted_at', deleted_at, 'body', hex(body)) FROM notes`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id uuid.UUID
			var text string
			if err := rows.Scan(&id, &text); err != nil {
				return err
			}
			row := map[string]any{}
			if err := json.Unmarshal([]byte(text), &row); err != nil {
				return err
			}
			out[id] = row
		}
		return rows.Err()
	}); err != nil {
		t.Fatal(err)
	}
	return out
}
