package storage

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pressly/goose/v3"
	"golang.org/x/sync/errgroup"
	"modernc.org/sqlite"

	"helix/backend/fault"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// withMigrations attaches Options.Migrations to ctx for migrationSource.
func (db *DB) withMigrations(ctx context.Context) context.Context {
	if db.o.Migrations == nil {
		return ctx
	}
	return context.WithValue(ctx, migrationsKey{}, db.o.Migrations)
}

// migrationSource returns the folder of migrations.
func migrationSource(ctx context.Context) fs.FS {
	if f, ok := ctx.Value(migrationsKey{}).(fs.FS); ok {
		return f
	}
	dir, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return dir
}

type migrationsKey struct{}

// migration is one migration file of the program.
type migration struct {
	version int64
	name    string
	sum     [sha256.Size]byte
}

// knownMigrations lists the program's migrations by version.
func knownMigrations(ctx context.Context) ([]migration, error) {
	src := migrationSource(ctx)
	names, err := fs.Glob(src, "*.sql") // sorted, and versions have leading zeros
	if err != nil {
		return nil, err
	}
	var out []migration
	for _, n := range names {
		no, _, _ := strings.Cut(n, "_")
		v, err := strconv.ParseInt(no, 10, 64)
		if err != nil || v <= 0 {
			return nil, fmt.Errorf("migration %s: no version in its name", n)
		}
		b, err := fs.ReadFile(src, n)
		if err != nil {
			return nil, err
		}
		out = append(out, migration{version: v, name: n, sum: sha256.Sum256(b)})
	}
	if len(out) == 0 {
		return nil, errors.New("no migrations")
	}
	return out, nil
}

// compare returns the migrations that the file lacks, and refuses a file that this program must not
// change.
func (st fileState) compare(known []migration, version string) (pending []migration, err error) {
	newest := known[len(known)-1].version
	if st.version > newest {
		by := st.by
		if by == "" {
			by = "a newer version"
		}
		return nil, fault.Conflictf("This data was written by Helix %s (schema %d). This is Helix %s (schema %d).", by, st.version, version, newest).
			WithDetails(map[string]any{"fileSchema": st.version, "schema": newest})
	}
	for _, m := range known {
		if !st.applied[m.version] {
			pending = append(pending, m)
			continue
		}
		if sum, ok := st.logged[m.version]; ok && string(sum) != string(m.sum[:]) {
			return nil, fault.Internalf(errors.New("sha256 differs from the migration log"), "The migration %s is not the one that made this data. Helix did not open it.", m.name)
		}
	}
	return pending, nil
}

// migrateFile brings the file at db.path to the program's schema without ever writing to
// it: a copy is migrated and checked, and then takes its place. Until that rename a crash
// leaves the old file.
func (db *DB) migrateFile(ctx context.Context, st fileState, known, pending []migration) error {
	dir, work := filepath.Dir(db.path), db.path+".migrating"
	p := db.o.Progress
	if !st.present {
		p = func(string, int64, int64) {} // a first start changes no existing data
	}
	var snapshot string
	if st.present {
		size := fileSize(db.path) + fileSize(db.path+"-wal")
		room, err := diskSpace(dir)
		if err != nil {
			return err
		}
		if need := size/10*22 + 1<<20; room.Free < need {
			return fault.Limitf("Helix needs %d MB of free disk space to update its data, but only %d MB are free. Nothing was changed.", need>>20, room.Free>>20).
				WithDetails(map[string]int64{"neededBytes": need, "freeBytes": room.Free})
		}
		p("check", 0, size)
		if err := os.MkdirAll(filepath.Join(dir, "backups"), 0o700); err != nil {
			return err
		}
		snapshot = freshName(filepath.Join(dir, "backups"), fmt.Sprintf("pre-%d-%d-", st.version, known[len(known)-1].version), time.Now(), ".db")
		if problems, err := checkAndCopy(ctx, db.path, snapshot, work, func(done, total int64) { p("copy", done, total) }); err != nil {
			return errors.Join(err, removeDB(work))
		} else if len(problems) > 0 {
			return errors.Join(db.enterRecovery(&RecoveryState{Reason: "corrupt", Problems: problems}), removeDB(work))
		}
		crashPoint("migrate.snapshot")
	}
	p("migrate", 0, int64(len(pending)))
	if err := applyMigrations(ctx, work, pending, db.o.Version, filepath.Base(snapshot), func(n int) { p("migrate", int64(n), int64(len(pending))) }); err != nil {
		return errors.Join(err, removeDB(work))
	}
	crashPoint("migrate.applied")
	p("verify", 0, 1)
	var g errgroup.Group // writes to the disk while reading back
	g.Go(func() error { return syncFile(work) })
	if st.present { // a file made from nothing has no rows, and the schema that the files make
		g.Go(func() error { return verifyMigrated(ctx, work, db.path) })
	}
	if err := g.Wait(); err != nil {
		return errors.Join(err, removeDB(work))
	}
	crashPoint("migrate.verified")
	// The old WAL belongs to the old file, and its content is in the copy since the snapshot was
	// taken. It must be empty before the rename, or SQLite would replay it into the new file.
	if err := emptyWAL(ctx, db.path); err != nil {
		return err
	}
	crashPoint("migrate.wal")
	if err := os.Rename(work, db.path); err != nil {
		return err
	}
	crashPoint("migrate.renamed")
	return syncDir(dir)
}

// checkAndCopy checks the database at path for damage and at the same time copies it page by page
// with SQLite's backup interface: to work, and to snapshot with its sha256 beside it. The snapshot
// gets its final name only if the check finds nothing.
func checkAndCopy(ctx context.Context, path, snapshot, work string, progress func(done, total int64)) (problems []string, err error) {
	partial := snapshot + ".partial"
	defer os.Remove(partial) //nolint:errcheck // gone after the rename
	h := sha256.New()
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		var err error
		if problems, err = quickCheck(gctx, path); err == nil && len(problems) > 0 {
			err = errDamaged
		}
		return err
	})
	g.Go(func() error {
		if err := backupFile(gctx, path, partial, progress); err != nil {
			return err
		}
		err := copyFile(work, partial, h)
		return err
	})
	if err := g.Wait(); len(problems) > 0 {
		return problems, nil
	} else if err != nil {
		return nil, fmt.Errorf("copy before the migration: %w", err)
	}
	crashPoint("migrate.checked")
	if err := syncFile(partial); err != nil {
		return nil, err
	}
	line := hex.EncodeToString(h.Sum(nil)) + "  " + filepath.Base(snapshot) + "\n"
	if err := writeFileSafe(snapshot+".sha256", []byte(line)); err != nil {
		return nil, err
	}
	if err := os.Rename(partial, snapshot); err != nil {
		return nil, err
	}
	return nil, syncDir(filepath.Dir(snapshot))
}

var errDamaged = errors.New("the check found damage")

// backupFile copies a database to the new file dst with SQLite's backup interface. The copy is not
// yet durable.
func backupFile(ctx context.Context, src, dst string, progress func(done, total int64)) (err error) {
	if err := os.RemoveAll(dst); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", roDSN(src))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Raw(func(c any) error {
		b, err := c.(interface {
			NewBackup(string) (*sqlite.Backup, error)
		}).NewBackup(workDSN(dst))
		if err != nil {
			return err
		}
		const pages = 16 << 10 // 64 MiB per step: few enough steps to be fast, enough of them to cancel
		for more := true; more; {
			if err := ctx.Err(); err != nil {
				return errors.Join(err, b.Finish())
			}
			if more, err = b.Step(pages); err != nil {
				return errors.Join(err, b.Finish())
			}
			total := int64(b.PageCount()) * 4096
			progress(total-int64(b.Remaining())*4096, total)
		}
		return b.Finish()
	})
}

// workPragmas suit a file that is discarded after a crash: no fsync and no journal on disk. The
// file as a whole is synced before it replaces the database.
var workPragmas = []string{
	"auto_vacuum(INCREMENTAL)", "journal_mode(MEMORY)", "synchronous(OFF)", "foreign_keys(ON)",
	"cache_size(-65536)", "temp_store(MEMORY)", "trusted_schema(OFF)",
}

func workDSN(path string) string { return dsn(path, workPragmas, false) }

// applyMigrations runs the pending files on the database at path, each in its own transaction, and
// logs them.
func applyMigrations(ctx context.Context, path string, pending []migration, version, snapshot string, step func(n int)) (err error) {
	db, err := sql.Open("sqlite", workDSN(path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	if err := dropCapture(ctx, db); err != nil {
		return err
	}
	goose, err := newGoose(ctx, db)
	if err != nil {
		return err
	}
	for i, m := range pending {
		begin := time.Now().UnixMicro()
		if _, err := goose.ApplyVersion(ctx, m.version, true); err != nil {
			return fmt.Errorf("migration %s: %w", m.name, err)
		}
		if _, err := db.ExecContext(ctx, `INSERT INTO migration_log (version, name, sha256, app_version, started_at, finished_at, snapshot) VALUES (?, ?, ?, ?, ?, ?, nullif(?, '.'))`,
			m.version, m.name, m.sum[:], version, begin, time.Now().UnixMicro(), snapshot); err != nil {
			return fmt.Errorf("log migration %s: %w", m.name, err)
		}
		crashPoint("migrate.step" + strconv.Itoa(i))
		step(i + 1)
	}
	// Switch the file to WAL here, where a crash costs nothing, and not when it is first opened.
	if _, err := db.ExecContext(ctx, "PRAGMA journal_mode = WAL"); err != nil {
		return err
	}
	return os.Chmod(path, 0o600)
}

func newGoose(ctx context.Context, db *sql.DB) (*goose.Provider, error) {
	p, err := goose.NewProvider(goose.DialectSQLite3, db, migrationSource(ctx), goose.WithAllowOutofOrder(true))
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	return p, nil
}

// dropCapture removes the capture triggers that a former version kept in the file, because a
// migration is not an edit by the user.
func dropCapture(ctx context.Context, db *sql.DB) error {
	var names []string
	if err := eachRow(ctx, db, `SELECT name FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'sync\_%' ESCAPE '\'`, func(scan func(...any) error) error {
		var n string
		defer func() { names = append(names, n) }()
		return scan(&n)
	}); err != nil {
		return err
	}
	for _, n := range names {
		if _, err := db.ExecContext(ctx, `DROP TRIGGER "`+strings.ReplaceAll(n, `"`, `""`)+`"`); err != nil {
			return err
		}
	}
	return nil
}

// verifyMigrated checks references, pages and schema of a migrated copy. References that were
// already broken in the file at before are ignored: a salvage keeps rows whose parent was lost.
func verifyMigrated(ctx context.Context, path, before string) error {
	db, err := sql.Open("sqlite", forCheck(standaloneDSN(path))+"&_pragma=cache_size(-65536)")
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	broken, err := brokenReferences(ctx, db)
	if err != nil {
		return err
	}
	if broken > 0 {
		old, err := sql.Open("sqlite", roDSN(before))
		if err != nil {
			return err
		}
		was, err := brokenReferences(ctx, old)
		if err = errors.Join(err, old.Close()); err != nil {
			return err
		}
		if broken > was {
			return fault.Internalf(fmt.Errorf("foreign key check: %d broken, %d before", broken, was), "The update of the data failed its checks. The previous data stays in use.")
		}
	}
	problems, err := checkRows(ctx, db, "PRAGMA integrity_check(10)")
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		return fault.Internalf(errors.New(strings.Join(problems, "; ")), "The update of the data failed its checks. The previous data stays in use.")
	}
	got, err := dumpSchema(ctx, db)
	if err != nil {
		return err
	}
	want, err := expectedSchema(ctx)
	if err != nil {
		return err
	}
	if d := schemaDifference(got, want); d != "" {
		return fault.Internalf(fmt.Errorf("schema after migration: %s", d), "The update of the data failed its checks. The previous data stays in use.")
	}
	return nil
}

func brokenReferences(ctx context.Context, q querier) (n int64, err error) {
	err = eachRow(ctx, q, `SELECT count(*) FROM pragma_foreign_key_check`, func(scan func(...any) error) error { return scan(&n) })
	return n, err
}

// builtSchema is the schema that the program's own migrations create in an empty database. A test
// keeps it equal to testdata/schema.sql.
var builtSchema = sync.OnceValues(func() (string, error) { return buildSchema(context.Background()) })

func expectedSchema(ctx context.Context) (string, error) {
	if ctx.Value(migrationsKey{}) != nil {
		return buildSchema(ctx)
	}
	return builtSchema()
}

func buildSchema(ctx context.Context) (_ string, err error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	p, err := newGoose(ctx, db)
	if err != nil {
		return "", err
	}
	if _, err := p.Up(ctx); err != nil {
		return "", fmt.Errorf("migrate: %w", err)
	}
	return dumpSchema(ctx, db)
}

// emptyWAL moves the rest of the WAL of the database at path into its file and removes the WAL.
func emptyWAL(ctx context.Context, path string) (err error) {
	if fileSize(path+"-wal") == 0 {
		return errors.Join(removeIf(path+"-wal"), removeIf(path+"-shm"))
	}
	db, err := sql.Open("sqlite", dsn(path, writerPragmas, true))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close(), removeIf(path+"-wal"), removeIf(path+"-shm")) }()
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	return err
}

func removeIf(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// removeDB deletes a database and its side files.
func removeDB(path string) (err error) {
	for _, ext := range []string{"", "-journal", "-wal", "-shm"} {
		err = errors.Join(err, removeIf(path+ext))
	}
	return err
}
