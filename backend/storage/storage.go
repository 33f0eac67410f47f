// Package storage keeps all data of the user durably in one SQLite file and content-addressed
// blobs. Domains write SQL against it; it does not depend on any of them. Every package at or above
// the foundation may import it.
package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"helix/backend/bus"
	"helix/backend/fault"
)

// Options configure Open. Path is required.
type Options struct {
	Path    string       // the database file; its folder is created with mode 0700
	Keys    *Keys        // for sealed columns; nil: sealed values are locked
	Bus     *bus.Bus     // receives the events of AfterCommit; nil: a new bus
	Logger  *slog.Logger // nil: slog.Default()
	Version string       // of the program, for the migration log; "" is "dev"
	Audit   AuditFunc    // writes audit entries for keys, secrets and the data as a whole; nil: none

	// Migrations replaces the program's own migration files, for tests and benchmarks of
	// migrations. nil: the program's.
	Migrations fs.FS

	// Traces are files outside the data folder that exist only if Helix was used before, such as
	// the head of the audit log. If one of them exists, a missing database is not treated as a
	// first start.
	Traces []string

	AllowNetworkFS bool // storage.allow_network_fs: open even on nfs, cifs, 9p or sshfs
	ReleaseHold    bool // "helix db migrate": migrate even after a rollback

	// TrashAge returns how long deleted items can be restored (history.trash_max_age_days); nil: 30
	// days.
	TrashAge func() time.Duration

	// Progress reports the progress of a migration, which may take a while. step is one of check,
	// copy, migrate, verify. It may be nil and is called on the goroutine of Open.
	Progress func(step string, done, total int64)
}

// DB is one open database: a single writer connection and a pool of readers. It is safe
// for concurrent use.
type DB struct {
	path    string
	log     *slog.Logger
	keys    *Keys
	bus     *bus.Bus
	blobs   *Blobs
	who     atomic.Pointer[whoami] // the local user and this device; set by prepare
	writer  *sql.DB
	readers *sql.DB
	o       Options

	gate     gate
	recovery atomic.Pointer[RecoveryState] // nil: not in recovery mode
	reading  atomic.Pointer[reading]       // not nil: open for reading only
	checkDue atomic.Bool                   // after an unclean stop, with a file too large to check at start
	rescue   sync.WaitGroup                // copying of damaged files
	startNew bool                          // the user chose to start with an empty database
	unclean  bool                          // Close does not set the clean mark

	rawMu sync.Mutex
	raw   *os.File // see rawFile

	together *Group

	turn       chan struct{}      // holds one token; its holder may write
	synced     syncLevel          // of the writer's connection; the holder of turn changes it
	queued     atomic.Int32       // writes that are waiting for it
	owner      atomic.Pointer[Tx] // the running write transaction
	lastAt     atomic.Int64       // last Tx.Now, in microseconds
	watch      atomic.Pointer[StatementFunc]
	capture    atomic.Pointer[string]        // creates the capture triggers on the writer's connection
	uncaptured atomic.Pointer[[]SyncedTable] // those whose triggers the next write creates; nil if it has them
	once       sync.Once
	closed     error
}

// writerPragmas and readerPragmas are set on each connection, in this order.
var (
	writerPragmas = []string{
		"auto_vacuum(INCREMENTAL)",     // must precede the first table; lets pruning return pages
		"busy_timeout(5000)",           // a reader's checkpoint may hold the lock for a moment
		"journal_mode(WAL)",            // readers never wait for the writer
		"synchronous(FULL)",            // NORMAL loses the last commits at power loss; see WriteUnsynced
		"foreign_keys(ON)",             // off by default in SQLite
		"recursive_triggers(ON)",       // INSERT OR REPLACE fires delete triggers: no deletion is missed
		"cache_size(-65536)",           // 64 MiB: the writer touches every index
		"temp_store(MEMORY)",           // no user data in temp files
		"journal_size_limit(67108864)", // a WAL that once grew shrinks again
		"trusted_schema(OFF)",          // a crafted schema cannot call functions with side effects
		"cell_size_check(ON)",          // detect corruption when it is read, not later
		"secure_delete(FAST)",          // overwrite deleted content in pages that are written anyway
	}
	readerPragmas = []string{
		"busy_timeout(5000)",
		"foreign_keys(ON)",
		"cache_size(-8192)",
		"temp_store(MEMORY)",
		"trusted_schema(OFF)",
		"cell_size_check(ON)",
		"query_only(ON)", // a write by mistake fails at once
	}
)

func dsn(path string, pragmas []string, write bool) string {
	q := url.Values{}
	for _, p := range pragmas {
		q.Add("_pragma", p)
	}
	if write {
		q.Set("_txlock", "immediate") // take the lock at BEGIN, so that no transaction fails halfway
	}
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath(), RawQuery: q.Encode()}
	return u.String()
}

// TrashAge returns how long deleted items can be restored.
func (db *DB) TrashAge() time.Duration { return db.o.TrashAge() }

// Open opens or creates the database at o.Path and brings its schema up to date; the caller must
// hold the Lock of the folder. The order is: unfinished restore → header → schema version → hold
// file → migration → readers → first-start rows. A file written by a newer Helix is a Conflict and
// is not changed. A damaged file is not an error: the database is then in recovery mode, see
// Recovery.
func Open(ctx context.Context, o Options) (_ *DB, err error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Bus == nil {
		o.Bus = bus.New()
	}
	if o.TrashAge == nil {
		o.TrashAge = func() time.Duration { return DefaultPolicy().TrashAge }
	}
	if o.Keys == nil {
		o.Keys = NewKeys(nil)
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	dir := filepath.Dir(o.Path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make data folder: %w", err)
	}
	if err := refuseNetworkFS(dir, o.AllowNetworkFS); err != nil {
		return nil, err
	}
	db := &DB{path: o.Path, log: o.Logger, keys: o.Keys, bus: o.Bus, o: o, turn: make(chan struct{}, 1), synced: syncFull}
	db.together = NewGroup(db, 0)
	db.blobs = newBlobs(filepath.Join(dir, "blobs"), o.Logger)
	db.turn <- struct{}{}
	defer func() {
		if err != nil {
			db.unclean = true
			err = errors.Join(err, db.Close())
		}
	}()
	if err = db.openPools(); err != nil {
		return nil, err
	}
	if err = db.start(db.withMigrations(ctx)); err != nil {
		return nil, err
	}
	return db, nil
}

// Close waits for the running write, sets the clean mark, checkpoints and closes. It may be
// called twice.
func (db *DB) Close() error {
	db.once.Do(func() {
		db.rescue.Wait()
		<-db.turn // never returned, so later writes fail with sql.ErrConnDone
		if db.readers != nil {
			db.closed = db.readers.Close()
		}
		if db.writer != nil {
			if db.recovery.Load() == nil && !db.unclean && !db.ReadOnly() {
				db.keys.returnUnusedCounts(db.writer)
				db.closed = errors.Join(db.closed, db.stopClean())
			}
			db.closed = errors.Join(db.closed, db.writer.Close())
		}
		db.closeRaw()
		close(db.turn)
	})
	return db.closed
}

// NewID returns a new UUIDv7. Later ids sort after earlier ones, so they are appended to their
// index.
func NewID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// now returns the time for a transaction in microseconds. It never goes back and is different for
// each write, so that rows are ordered by time even after the clock is set back.
func (db *DB) now(write bool) time.Time {
	for {
		last := db.lastAt.Load()
		t := time.Now().UnixMicro()
		if t <= last {
			t = last
			if write {
				t = last + 1
			}
		}
		if !write {
			return time.UnixMicro(t).UTC()
		}
		if db.lastAt.CompareAndSwap(last, t) {
			return time.UnixMicro(t).UTC()
		}
	}
}

var errNested = fault.Internalf(errors.New("storage: Write inside Write"), "Helix has an internal error. The log has the details.")
