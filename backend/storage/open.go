package storage

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"helix/backend/fault"
)

// inlineCheck is the size in bytes of the largest file that is checked before the start continues;
// quick_check reads about 300 MB per second. A larger file is checked in the background right after
// the start.
const inlineCheck = 64 << 20

// headerMagic begins every SQLite file.
var headerMagic = []byte("SQLite format 3\x00")

func refuseNetworkFS(dir string, allowed bool) error {
	kind, err := networkFS(dir)
	if err != nil || kind == "" || allowed {
		return nil //nolint:nilerr // a file system of unknown type is assumed to be local
	}
	return fault.Invalidf("The data folder is on a network file system (%s), where SQLite can't keep data safe. Choose a local folder, or set storage.allow_network_fs=true.", kind).
		WithDetails(map[string]string{"fileSystem": kind})
}

// start opens the file at db.path for use: in Open, and again after a swap. On a full disk or in a
// read-only folder it opens it for reading only.
func (db *DB) start(ctx context.Context) error {
	err := db.startWriting(ctx)
	if noRoom(err) {
		return db.startReading(ctx, err)
	}
	if dir := filepath.Dir(db.path); err != nil && readOnlyFolder(writableFolder(dir)) {
		if rerr := db.startReading(ctx, err); rerr != nil {
			return readOnlyFault(dir).WithCause(rerr)
		}
		return nil
	}
	return err
}

func (db *DB) startWriting(ctx context.Context) error {
	dir := filepath.Dir(db.path)
	if err := finishJournal(dir); err != nil {
		return fmt.Errorf("finish the interrupted restore: %w", err)
	}
	if err := removeLeftovers(dir, filepath.Base(db.path)); err != nil {
		return err
	}
	db.blobs.sweep()
	if problem, err := headerProblem(db.path); err != nil {
		return err
	} else if problem != "" {
		return db.enterRecovery(&RecoveryState{Reason: "corrupt", Problems: []string{problem}})
	}
	if problem := walProblem(db.path); problem != "" && !db.startNew { // SQLite would silently drop what it cannot read
		return db.enterRecovery(&RecoveryState{Reason: "corrupt", Problems: []string{problem}})
	}
	known, err := knownMigrations(ctx)
	if err != nil {
		return err
	}
	st, err := readFileState(ctx, db.path)
	switch {
	case corrupt(err):
		return db.enterRecovery(&RecoveryState{Reason: "corrupt", Problems: []string{err.Error()}})
	case err != nil:
		return err
	}
	if fileSize(db.path) == 0 && fileSize(db.path+"-wal") > 0 && !db.startNew {
		// SQLite would delete the WAL, and with it the only copy of the last writes.
		return db.enterRecovery(&RecoveryState{Reason: "corrupt", Problems: []string{"the database file is missing or empty, and its WAL is there"}})
	}
	if lost := db.lostData(st); lost != nil {
		return db.enterRecovery(lost)
	}
	pending, err := st.compare(known, db.o.Version)
	if err != nil {
		return err
	}
	if len(pending) > 0 {
		if held, err := db.heldBack(st, known); held || err != nil {
			return err
		}
		if err := db.migrateFile(ctx, st, known, pending); err != nil {
			if corrupt(err) {
				return db.enterRecovery(&RecoveryState{Reason: "corrupt", Problems: []string{err.Error()}})
			}
			return err
		}
	} else if st.present && !st.clean {
		if fileSize(db.path) > inlineCheck {
			db.checkDue.Store(true)
		} else if problems, err := quickCheck(ctx, db.path); err != nil && !corrupt(err) {
			return err
		} else if len(problems) > 0 || err != nil {
			if err != nil {
				problems = append(problems, err.Error())
			}
			return db.enterRecovery(&RecoveryState{Reason: "corrupt", Problems: problems})
		}
	}
	err = db.begin(ctx)
	if corrupt(err) {
		return db.enterRecovery(&RecoveryState{Reason: "corrupt", Problems: []string{err.Error()}})
	}
	return err
}

// begin clears the clean mark and creates the rows of a first start.
func (db *DB) begin(ctx context.Context) error {
	if err := os.Chmod(db.path, 0o600); err != nil {
		return err
	}
	db.capture.Store(nil) // they are those of the former file
	db.uncaptured.Store(nil)
	if _, err := db.writer.ExecContext(ctx, `INSERT INTO meta (key, value) VALUES ('clean', '0') ON CONFLICT (key) DO UPDATE SET value = '0'`); err != nil {
		return fmt.Errorf("open database: %w", err)
	}
	return db.prepare(ctx)
}

// stopClean sets the clean mark and moves the WAL into the file. The caller holds the turn.
func (db *DB) stopClean() error {
	if db.unclean {
		return nil
	}
	if _, err := db.writer.Exec(`UPDATE meta SET value = '1' WHERE key = 'clean'`); err != nil {
		if sqliteCode(err)&0xff == sqlite3.SQLITE_FULL {
			return nil // the next start checks the file; nothing is lost
		}
		return err
	}
	_, err := db.writer.Exec("PRAGMA wal_checkpoint(TRUNCATE)")
	return err
}

// headerProblem returns a description of why the file is not a database, or "". An empty or missing
// file is fine: it is a first start.
func headerProblem(path string) (string, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	var head [100]byte
	switch n, err := io.ReadFull(f, head[:]); {
	case n == 0:
		return "", nil
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return "", err
	case n < len(head) || !bytes.Equal(head[:16], headerMagic):
		return "the file does not begin like a database", nil
	}
	size := int(head[16])<<8 | int(head[17])
	if size == 1 {
		size = 65536
	}
	if fileSize(path) < int64(size) { // SQLite treats it as an empty database
		return "the file ends within its first page", nil
	}
	if size < 512 || size&(size-1) != 0 || head[18] > 2 || head[19] > 2 || head[21] != 64 {
		return "the header of the file is damaged", nil
	}
	return "", nil
}

// removeLeftovers deletes the files of an interrupted migration or restore, which starts again from
// data that is still intact.
func removeLeftovers(dir, base string) error {
	es, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range es {
		n := e.Name()
		if strings.HasPrefix(n, base+".migrating") || strings.HasPrefix(n, "staging-") || strings.HasPrefix(n, base+".salvaged") {
			if err := os.RemoveAll(filepath.Join(dir, n)); err != nil {
				return err
			}
		}
	}
	bs, err := os.ReadDir(filepath.Join(dir, "backups"))
	if err != nil {
		return nil //nolint:nilerr // no backups yet
	}
	for _, e := range bs {
		if strings.HasSuffix(e.Name(), ".partial") {
			if err := os.Remove(filepath.Join(dir, "backups", e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// fileState is what can be read from a database file about itself.
type fileState struct {
	present bool // it has a schema
	clean   bool
	users   bool             // it has users, and so data
	foreign bool             // it has tables that are not Helix's
	version int64            // highest migration applied
	applied map[int64]bool   // all migrations applied
	logged  map[int64][]byte // sha256 of the applied migration files
	by      string           // version of the Helix that migrated last
}

// roDSN opens the file without write access, not even to the WAL.
func roDSN(path string) string {
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath(),
		RawQuery: "mode=ro&_pragma=busy_timeout(5000)&_pragma=query_only(ON)&_pragma=trusted_schema(OFF)&_pragma=cell_size_check(ON)"}).String()
}

// standaloneDSN is for a file that is not open anywhere and has no WAL: SQLite then leaves no side
// files behind.
func standaloneDSN(path string) string { return roDSN(path) + "&immutable=1" }

// readFileState reads the state without writing. Only a rollback journal that a crash left, without
// which the file is unreadable, is played back first.
func readFileState(ctx context.Context, path string) (fileState, error) {
	st, err := inspectFile(ctx, path, roDSN(path))
	if sqliteCode(err)&0xff != sqlite3.SQLITE_READONLY {
		return st, err
	}
	db, err := sql.Open("sqlite", dsn(path, []string{"busy_timeout(5000)"}, false))
	if err != nil {
		return st, err
	}
	var n int
	err = db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_master`).Scan(&n)
	if err = errors.Join(err, db.Close()); err != nil {
		return st, err
	}
	return inspectFile(ctx, path, roDSN(path))
}

// closedFileState is readFileState for a file that is not open anywhere.
func closedFileState(ctx context.Context, path string) (fileState, error) {
	return inspectFile(ctx, path, standaloneDSN(path))
}

func inspectFile(ctx context.Context, path, dsn string) (st fileState, err error) {
	st.applied, st.logged = map[int64]bool{}, map[int64][]byte{}
	if fileSize(path) == 0 {
		return st, nil
	}
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return st, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	rows, err := db.QueryContext(ctx, `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\'`)
	if err != nil {
		return st, fmt.Errorf("read schema: %w", err)
	}
	has := map[string]bool{}
	for rows.Next() {
		var n string
		if err := rows.Scan(&n); err != nil {
			return st, errors.Join(err, rows.Close())
		}
		has[n] = true
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return st, fmt.Errorf("read schema: %w", err)
	}
	st.present = has["goose_db_version"] && has["users"]
	st.foreign = len(has) > 0 && !st.present
	if !st.present {
		return st, nil
	}
	if err := db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM users)`).Scan(&st.users); err != nil {
		return st, fmt.Errorf("read users: %w", err)
	}
	if err := eachRow(ctx, db, `SELECT version_id FROM goose_db_version WHERE is_applied = 1 AND version_id > 0`, func(scan func(...any) error) error {
		var v int64
		if err := scan(&v); err != nil {
			return err
		}
		st.applied[v] = true
		st.version = max(st.version, v)
		return nil
	}); err != nil {
		return st, err
	}
	if has["migration_log"] {
		if err := eachRow(ctx, db, `SELECT version, sha256, app_version FROM migration_log ORDER BY version`, func(scan func(...any) error) error {
			var v int64
			var sum []byte
			if err := scan(&v, &sum, &st.by); err != nil {
				return err
			}
			st.logged[v] = sum
			return nil
		}); err != nil {
			return st, err
		}
	}
	if has["meta"] {
		if err := db.QueryRowContext(ctx, `SELECT value = '1' FROM meta WHERE key = 'clean'`).Scan(&st.clean); err != nil && !errors.Is(err, sql.ErrNoRows) {
			return st, err
		}
	}
	return st, nil
}

// eachRow calls fn for each row with its Scan method.
func eachRow(ctx context.Context, db querier, query string, fn func(scan func(...any) error) error, args ...any) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return wrapSQL(err, query)
	}
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows.Scan); err != nil {
			return err
		}
	}
	return wrapSQL(rows.Err(), query)
}

// querier is a pool, a connection or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// quickCheck returns the problems that PRAGMA quick_check finds in the file at path.
func quickCheck(ctx context.Context, path string) ([]string, error) {
	return pragmaProblems(ctx, roDSN(path), "PRAGMA quick_check(100)")
}

// forCheck removes cell_size_check from dsn: the checks examine each cell themselves, and doing it
// twice takes an eighth longer.
func forCheck(dsn string) string { return strings.Replace(dsn, "&_pragma=cell_size_check(ON)", "", 1) }

// pragmaProblems runs a check on a read-only connection of its own and returns the problems found.
func pragmaProblems(ctx context.Context, dsn, pragma string) (out []string, err error) {
	db, err := sql.Open("sqlite", forCheck(dsn)+"&_pragma=cache_size(-65536)")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return checkRows(ctx, db, pragma)
}

func checkRows(ctx context.Context, q querier, pragma string) (out []string, err error) {
	err = eachRow(ctx, q, pragma, func(scan func(...any) error) error {
		var s string
		if err := scan(&s); err != nil {
			return err
		}
		if s != "ok" {
			out = append(out, s)
		}
		return nil
	})
	return out, err
}

// markChecked stores the time when quick_check last found no problem.
func (db *DB) markChecked(ctx context.Context, at time.Time) error {
	return db.Write(ctx, func(tx *Tx) error {
		_, err := tx.Exec(`INSERT INTO meta (key, value) VALUES ('quick_check_at', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value`, at.UTC().Format(time.RFC3339Nano))
		return err
	})
}
