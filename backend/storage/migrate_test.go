package storage

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/testkit"
)

var update = flag.Bool("update", false, "write golden files")

// The schema that results from the migrations, as text for review. A released migration is never
// edited, so this file only grows.
func TestSchemaIsGolden(t *testing.T) {
	t.Parallel()
	got, err := buildSchema(t.Context())
	must(t, err)
	golden := filepath.Join("testdata", "schema.sql")
	if *update {
		must(t, os.MkdirAll("testdata", 0o755))
		must(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	must(t, err)
	if d := schemaDifference(got, string(want)); d != "" {
		t.Fatalf("the migrations do not give testdata/schema.sql (%s); if the change is meant, run: go test ./backend/storage -run Golden -update", d)
	}
}

// Rules of the schema that SQLite does not enforce itself.
func TestSchemaRules(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	db := open(t)
	must(t, db.Read(t.Context(), func(tx *Tx) error {
		type table struct {
			name               string
			strict, wr, hasKey bool
		}
		var ts []table
		if err := eachRow(t.Context(), tx, `SELECT l.name, l.strict, l.wr, EXISTS (SELECT 1 FROM pragma_table_info(l.name) c WHERE c.name = 'user_id')
			FROM pragma_table_list l WHERE l.schema = 'main' AND l.type = 'table' AND l.name NOT LIKE 'sqlite\_%' ESCAPE '\' AND l.name <> 'goose_db_version'`, func(scan func(...any) error) error {
			var x table
			defer func() { ts = append(ts, x) }()
			return scan(&x.name, &x.strict, &x.wr, &x.hasKey)
		}); err != nil {
			return err
		}
		for _, x := range ts {
			var def string
			if err := tx.QueryRow(`SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?`, x.name).Scan(&def); err != nil {
				return err
			}
			if !x.strict {
				t.Errorf("%s is not STRICT", x.name)
			}
			var parts, idCheck int
			if err := tx.QueryRow(`SELECT max(pk) FROM pragma_table_info(?)`, x.name).Scan(&parts); err != nil {
				return err
			}
			if parts > 1 && !x.wr {
				t.Errorf("%s has a key of %d columns and a rowid", x.name, parts)
			}
			if err := tx.QueryRow(`SELECT count(*) FROM pragma_table_info(?) WHERE name = 'id' AND pk = 1 AND type = 'BLOB'`, x.name).Scan(&idCheck); err != nil {
				return err
			}
			if idCheck == 1 && !strings.Contains(def, "length(id) = 16") {
				t.Errorf("%s.id has no CHECK of its length", x.name)
			}
			if x.hasKey {
				var n int
				if err := tx.QueryRow(`SELECT (SELECT count(*) FROM pragma_index_list(?1) i JOIN pragma_index_info(i.name) c WHERE c.name = 'user_id' AND c.seqno = 0)
					+ (SELECT count(*) FROM pragma_table_info(?1) WHERE name = 'user_id' AND pk = 1)`, x.name).Scan(&n); err != nil {
					return err
				}
				if n == 0 {
					t.Errorf("%s.user_id leads no index", x.name)
				}
			}
		}
		if len(ts) < 9 {
			t.Errorf("only %d tables", len(ts))
		}
		return nil
	}))
}

// Every table accepts a row and allows changing, exporting and deleting it; every trigger and
// generated SQL statement runs at least once.
func TestEveryTableTakesARow(t *testing.T) {
	t.Parallel()
	db := open(t)
	must(t, db.Write(t.Context(), func(tx *Tx) error {
		names, err := plainTables(t.Context(), tx)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`PRAGMA defer_foreign_keys = ON`); err != nil {
			return err
		}
		return tx.WithoutCapture(func() error {
			for _, n := range names {
				for _, q := range []string{`SELECT * FROM ` + quote(n) + ` LIMIT 1`, `SELECT count(*) FROM ` + quote(n)} {
					if err := eachRow(t.Context(), tx, q, func(func(...any) error) error { return nil }); err != nil {
						t.Errorf("%s: %v", n, err)
					}
				}
			}
			return nil
		})
	}))
	// Tables whose rows have simple values are tested completely.
	u := db.LocalUser().ID
	seed(t, db, u, 1)
	for _, table := range toolTables {
		exec(t, db, `UPDATE `+table+` SET updated_at = updated_at + 1`)
	}
	exec(t, db, `UPDATE custom_tools SET deleted_at = 1`)
	write(t, db, func(tx *Tx) error {
		return tx.WithoutCapture(func() error { _, err := tx.Exec(`DELETE FROM custom_tools`); return err })
	})
	for table, list := range rows(t, db, toolTables...) {
		if len(list) != 0 {
			t.Errorf("%s: %d rows are left", table, len(list))
		}
	}
}

// with adds migrations to the program's own ones.
func with(ctx context.Context, extra map[string]string) context.Context {
	m := fstest.MapFS{}
	src := migrationSource(context.Background())
	names, _ := fs.Glob(src, "*.sql")
	for _, n := range names {
		b, _ := fs.ReadFile(src, n)
		m[n] = &fstest.MapFile{Data: b}
	}
	for n, s := range extra {
		m[n] = &fstest.MapFile{Data: []byte("-- +goose Up\n" + s)}
	}
	return context.WithValue(ctx, migrationsKey{}, fs.FS(m))
}

func newest(t *testing.T, ctx context.Context) int64 {
	t.Helper()
	known, err := knownMigrations(ctx)
	must(t, err)
	return known[len(known)-1].version
}

const addColumn = `ALTER TABLE users ADD COLUMN nick TEXT; CREATE TABLE extra (id BLOB PRIMARY KEY CHECK (length(id) = 16)) STRICT;`

func TestMigrationCopiesChecksAndLogs(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	path, root := filepath.Join(t.TempDir(), "helix.db"), &memRoot{}
	db := openWith(t, path, root)
	seed(t, db, db.LocalUser().ID, 5)
	before, user := rows(t, db, toolTables...), db.LocalUser()
	shut(t, db)
	old := newest(t, t.Context())

	ctx := with(t.Context(), map[string]string{"9001_nick.sql": addColumn})
	var steps []string
	db, err := Open(ctx, Options{Path: path, Keys: NewKeys(root), Version: "9.1", Progress: func(s string, _, _ int64) {
		if len(steps) == 0 || steps[len(steps)-1] != s {
			steps = append(steps, s)
		}
	}})
	must(t, err)
	defer db.Close()
	sameRows(t, rows(t, db, toolTables...), before)
	if db.LocalUser() != user {
		t.Fatal("another user")
	}
	if want := []string{"check", "copy", "migrate", "verify"}; !slices.Equal(steps, want) {
		t.Errorf("steps %v", steps)
	}
	var name, app, snap string
	var sum []byte
	must(t, db.Read(t.Context(), func(tx *Tx) error {
		return tx.QueryRow(`SELECT name, app_version, snapshot, sha256 FROM migration_log WHERE version = 9001`).Scan(&name, &app, &snap, &sum)
	}))
	want := sha256.Sum256([]byte("-- +goose Up\n" + addColumn))
	if name != "9001_nick.sql" || app != "9.1" || string(sum) != string(want[:]) {
		t.Errorf("log: %s %s %x", name, app, sum)
	}
	snapshot := filepath.Join(filepath.Dir(path), "backups", snap)
	if !strings.HasPrefix(snap, fmt.Sprintf("pre-%d-9001-", old)) {
		t.Errorf("snapshot %s", snap)
	}
	h := sha256.Sum256(read(t, snapshot))
	if got := string(read(t, snapshot+".sha256")); got != hex.EncodeToString(h[:])+"  "+snap+"\n" {
		t.Errorf("sha256 file %q", got)
	}
	st, err := readFileState(t.Context(), snapshot)
	if err != nil || st.version != old {
		t.Errorf("snapshot has schema %d, %v", st.version, err)
	}
	if left, _ := filepath.Glob(path + ".migrating*"); len(left) > 0 {
		t.Errorf("left behind %v", left)
	}
}

func TestMigrationThatFailsChangesNothing(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	for name, c := range map[string]string{
		"broken SQL":        `ALTER TABLE nothing ADD COLUMN x TEXT;`,
		"broken references": `CREATE TABLE a (id INTEGER PRIMARY KEY, u BLOB REFERENCES users (id)) STRICT; PRAGMA foreign_keys = OFF; INSERT INTO a VALUES (1, x'00');`,
		"broken constraint": `INSERT INTO users (id, display_name, created_at) VALUES (x'00', 'short id', 1);`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, root := filepath.Join(t.TempDir(), "helix.db"), &memRoot{}
			db := openWith(t, path, root)
			seed(t, db, db.LocalUser().ID, 2)
			before := rows(t, db, toolTables...)
			shut(t, db)
			bytes := read(t, path)
			if _, err := Open(with(t.Context(), map[string]string{"9001_bad.sql": c}), Options{Path: path, Keys: NewKeys(root)}); err == nil {
				t.Fatal("opened")
			}
			if string(read(t, path)) != string(bytes) {
				t.Error("the file was changed")
			}
			db = openWith(t, path, root)
			sameRows(t, rows(t, db, toolTables...), before)
		})
	}
}

func TestMigrationNeedsRoom(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	small := smallDisk(t, 6<<20)
	path, root := filepath.Join(small, "helix.db"), &memRoot{}
	db := openWith(t, path, root)
	exec(t, db, `CREATE TABLE filler (b BLOB)`)
	exec(t, db, `INSERT INTO filler VALUES (zeroblob(1600000))`)
	exec(t, db, `DROP TABLE filler`)
	shut(t, db)
	_, err := Open(with(t.Context(), map[string]string{"9001_nick.sql": addColumn}), Options{Path: path, Keys: NewKeys(root)})
	wantKind(t, err, fault.Limit, "Nothing was changed")
	shut(t, openWith(t, path, root))
}

func TestForeignAndNewerFilesAreRefused(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	path, root := filepath.Join(t.TempDir(), "helix.db"), &memRoot{}
	newer := with(t.Context(), map[string]string{"9001_nick.sql": addColumn})
	db, err := Open(newer, Options{Path: path, Keys: NewKeys(root), Version: "9.1"})
	must(t, err)
	shut(t, db)
	before := read(t, path)
	_, err = Open(t.Context(), Options{Path: path, Keys: NewKeys(root), Version: "1.0"})
	wantKind(t, err, fault.Conflict, fmt.Sprintf("This data was written by Helix 9.1 (schema 9001). This is Helix 1.0 (schema %d).", newest(t, t.Context())))
	if string(read(t, path)) != string(before) {
		t.Fatal("the newer file was written to")
	}
	edited := with(t.Context(), map[string]string{"9001_nick.sql": addColumn + " -- edited"})
	_, err = Open(edited, Options{Path: path, Keys: NewKeys(root)})
	wantKind(t, err, fault.Internal, "9001_nick.sql")
	if string(read(t, path)) != string(before) {
		t.Fatal("the file was written to")
	}
}

func TestRollbackHoldsUntilMigrate(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	dir, root := t.TempDir(), &memRoot{}
	path := filepath.Join(dir, "helix.db")
	db := openWith(t, path, root)
	seed(t, db, db.LocalUser().ID, 3)
	before := rows(t, db, toolTables...)
	shut(t, db)
	ctx := with(t.Context(), map[string]string{"9001_nick.sql": addColumn})
	db, err := Open(ctx, Options{Path: path, Keys: NewKeys(root), Version: "9.1"})
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	ended := 0
	s := NewService(db, ServiceOptions{EndSessions: func() { ended++ }})
	call := asUser(ctx, db.LocalUser().ID)
	seed(t, db, db.LocalUser().ID, 2) // written since
	dry, err := s.Rollback(call, RollbackParams{DryRun: true})
	if err != nil || dry.Newer["custom_tools"] != 2 || dry.Rows["custom_tools"] != 3 || ended != 0 {
		t.Fatalf("dry run %+v, %v", dry, err)
	}
	r, err := s.Rollback(call, RollbackParams{})
	if err != nil || r.Newer["custom_tools"] != 2 || ended != 1 || !strings.Contains(r.ReplacedPath, "rolled-back-") {
		t.Fatalf("%+v, %v", r, err)
	}
	if rec := db.Recovery(); rec == nil || rec.Reason != "held" {
		t.Fatalf("recovery %+v", rec)
	}
	wantKind(t, db.Read(call, func(*Tx) error { return nil }), fault.Unavailable, "rolled back")
	st, err := s.Status(call, struct{}{})
	if err != nil || st.Recovery == nil || st.SchemaVersion != newest(t, t.Context()) {
		t.Fatalf("status %+v, %v", st, err)
	}
	shut(t, db)

	// The next start of the same version waits too; the older version works.
	db, err = Open(ctx, Options{Path: path, Keys: NewKeys(root), Version: "9.1"})
	must(t, err)
	if rec := db.Recovery(); rec == nil || rec.Reason != "held" {
		t.Fatalf("recovery %+v", rec)
	}
	shut(t, db)
	db = openWith(t, path, root)
	sameRows(t, rows(t, db, toolTables...), before)
	shut(t, db)

	// Migrate ends the hold.
	db, err = Open(ctx, Options{Path: path, Keys: NewKeys(root), Version: "9.1"})
	must(t, err)
	s = NewService(db, ServiceOptions{})
	m, err := s.Migrate(call, struct{}{})
	if err != nil || m.To != 9001 || m.From == m.To || db.Recovery() != nil {
		t.Fatalf("%+v, %v, %+v", m, err, db.Recovery())
	}
	sameRows(t, rows(t, db, toolTables...), before)
	shut(t, db)
	db, err = Open(ctx, Options{Path: path, Keys: NewKeys(root), Version: "9.1"})
	if err != nil || db.Recovery() != nil {
		t.Fatalf("%v, %+v", err, db.Recovery())
	}
	shut(t, db)
}

// A snapshot whose bytes changed is not restored.
func TestRollbackChecksTheSnapshot(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	dir, root := t.TempDir(), &memRoot{}
	path := filepath.Join(dir, "helix.db")
	shut(t, openWith(t, path, root))
	ctx := with(t.Context(), map[string]string{"9001_nick.sql": addColumn})
	db, err := Open(ctx, Options{Path: path, Keys: NewKeys(root)})
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	s := NewService(db, ServiceOptions{})
	snap, err := s.findSnapshot("")
	must(t, err)
	b := read(t, snap)
	b[len(b)-1] ^= 1
	must(t, os.WriteFile(snap, b, 0o600))
	_, err = s.Rollback(asUser(ctx, db.LocalUser().ID), RollbackParams{})
	wantKind(t, err, fault.Invalid, "snapshot")
	_, err = s.Rollback(ctx, RollbackParams{Snapshot: "pre-0-0.db"})
	wantKind(t, err, fault.NotFound, "")
	if db.Recovery() != nil {
		t.Fatal("recovery mode")
	}
}

// Databases of released versions live in testdata/released-<version>.db and must open.
func TestReleasedDatabasesMigrate(t *testing.T) {
	t.Parallel()
	list, err := filepath.Glob(filepath.Join("testdata", "released-*.db"))
	must(t, err)
	for _, f := range list {
		path := filepath.Join(t.TempDir(), "helix.db")
		err := copyFile(path, f)
		must(t, err)
		db := openWith(t, path, &memRoot{})
		if db.Recovery() != nil {
			t.Errorf("%s: %+v", f, db.Recovery())
		}
		shut(t, db)
	}
}

// A database from every earlier migration step ends up with the same schema.
func TestMigrateFromEveryStep(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	known, err := knownMigrations(t.Context())
	must(t, err)
	grown := filepath.Join(t.TempDir(), "helix.db") // gets one migration after the other
	for i := 1; i < len(known); i++ {
		must(t, applyMigrations(t.Context(), grown, known[i-1:i], "old", "", func(int) {}))
		if !long() && i%8 != 1 && i < len(known)-4 { // released migrations do not change; new ones follow the last
			continue
		}
		path := filepath.Join(t.TempDir(), fmt.Sprint(i), "helix.db")
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, copyFile(path, grown))
		raw, err := sql.Open("sqlite", path)
		must(t, err)
		_, err = raw.Exec(`INSERT INTO users (id, display_name, created_at) VALUES (x'00112233445566778899aabbccddeeff', 'kept', 1)`)
		must(t, err)
		must(t, raw.Close())
		db := openWith(t, path, &memRoot{})
		if db.Recovery() != nil {
			t.Fatalf("step %d: %+v", i, db.Recovery())
		}
		if n := count(t, db); n != 1 { // besides the local user
			t.Errorf("step %d: %d users", i, n)
		}
		shut(t, db)
	}
}

// Former versions of Helix left bases behind whose changes the hub had acknowledged. Those of changes that
// are still to be sent stay.
func TestMigrationRemovesOnlyBasesWithoutChanges(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	known, err := knownMigrations(t.Context())
	must(t, err)
	path := filepath.Join(t.TempDir(), "helix.db")
	before := slices.IndexFunc(known, func(m migration) bool { return m.version == 62 })
	must(t, applyMigrations(t.Context(), path, known[:before], "old", "", func(int) {}))
	raw, err := sql.Open("sqlite", path)
	must(t, err)
	logged, packaged, clean := uuid.UUID{1}, uuid.UUID{2}, uuid.UUID{3}
	for _, id := range []uuid.UUID{logged, packaged, clean} {
		_, err := raw.Exec(`INSERT INTO sync_base (tbl, row_id, row) VALUES ('memories', ?, '{}')`, id[:])
		must(t, err)
	}
	_, err = raw.Exec(`INSERT INTO sync_base (tbl, row_id, row) VALUES ('schedules', ?1, '{}');
		INSERT INTO change_log (tbl, row_id, op, fields, hlc, txn, at) VALUES ('memories', ?1, 'U', 2, 1, 1, 1)`, logged[:])
	must(t, err)
	_, err = raw.Exec(`INSERT INTO sync_outbox (op_id, tbl, row_id, dot, hlc, payload, meta, base, txn, created_at) VALUES (?1, 'memories', ?1, 1, 1, '{}', x'01', '{}', 1, 1)`, packaged[:])
	must(t, err)
	must(t, raw.Close())
	db := openWith(t, path, &memRoot{})
	var left []uuid.UUID
	must(t, db.Read(t.Context(), func(tx *Tx) (err error) {
		left, err = Collect(tx.Select(`SELECT row_id FROM sync_base ORDER BY row_id, tbl`), RowTo[uuid.UUID])
		return err
	}))
	if !slices.Equal(left, []uuid.UUID{logged, packaged}) {
		t.Errorf("the bases that are left: %v", left)
	}
	shut(t, db)
}

// A crash while SQLite was using a rollback journal leaves a file that cannot be read without
// writing to it.
func TestHotJournalIsPlayedBack(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	dir, root := t.TempDir(), &memRoot{}
	path := filepath.Join(dir, "helix.db")
	shut(t, openWith(t, path, root))
	raw, err := sql.Open("sqlite", path)
	must(t, err)
	raw.SetMaxOpenConns(1)
	for _, q := range []string{`PRAGMA journal_mode = DELETE`, `PRAGMA cache_size = 1`, `PRAGMA cache_spill = 1`, `BEGIN`, `UPDATE users SET display_name = 'half'`, `CREATE TABLE filler (b BLOB)`, `INSERT INTO filler SELECT zeroblob(400000)`} {
		if _, err := raw.Exec(q); err != nil {
			t.Fatal(q, err)
		}
	}
	hot := filepath.Join(t.TempDir(), "helix.db")
	for _, ext := range []string{"", "-journal"} {
		err := copyFile(hot+ext, path+ext)
		must(t, err)
	}
	must(t, raw.Close())
	db := openWith(t, hot, root)
	if db.Recovery() != nil || db.LocalUser().DisplayName == "half" {
		t.Fatalf("%+v, %+v", db.Recovery(), db.LocalUser())
	}
	shut(t, db)
}

// Progress is reported only if existing data is migrated: the first start creates an empty file.
func TestProgressIsOfAnUpdate(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	path := filepath.Join(t.TempDir(), "helix.db")
	var steps []string
	start := func(ctx context.Context) {
		steps = nil
		db, err := Open(ctx, Options{Path: path, Progress: func(step string, _, _ int64) { steps = append(steps, step) }})
		must(t, err)
		shut(t, db)
	}
	start(t.Context())
	if len(steps) > 0 {
		t.Errorf("the first start reports %v", steps)
	}
	start(t.Context())
	if len(steps) > 0 {
		t.Errorf("the second start reports %v", steps)
	}
	start(crashContext(t.Context(), "migrate"))
	for _, want := range []string{"check", "copy", "migrate", "verify"} {
		if !slices.Contains(steps, want) {
			t.Errorf("the update does not report %s: %v", want, steps)
		}
	}
}
