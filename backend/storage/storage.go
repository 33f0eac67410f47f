// Package storage keeps everything the user has in one SQLite file plus content-addressed
// blobs, and never loses it. Domains write SQL against it; it knows none of them. Every
// package at or above the foundation may import it.
package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
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
	Path   string       // the database file; its folder is made with mode 0700
	Keys   *Keys        // seals columns; nil leaves the database locked for sealed values
	Bus    *bus.Bus     // where events of AfterCommit go; nil: a bus of its own
	Logger *slog.Logger // nil: slog.Default()
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

	turn   chan struct{}      // holds one token; whoever has it may write
	owner  atomic.Pointer[Tx] // the running write transaction
	lastAt atomic.Int64       // last Tx.Now given out, in microseconds
	once   sync.Once
	closed error
}

// writerPragmas and readerPragmas are set on each connection, in this order.
var (
	writerPragmas = []string{
		"auto_vacuum(INCREMENTAL)",     // must precede the first table; lets pruning give pages back
		"busy_timeout(5000)",           // a reader's checkpoint may hold the lock for a moment
		"journal_mode(WAL)",            // readers never wait for the writer
		"synchronous(FULL)",            // NORMAL loses the last commits at power loss
		"foreign_keys(ON)",             // off by default in SQLite
		"cache_size(-65536)",           // 64 MiB: the writer touches every index
		"temp_store(MEMORY)",           // no user data in temp files
		"journal_size_limit(67108864)", // a WAL that once grew shrinks again
		"trusted_schema(OFF)",          // a crafted schema cannot call functions with side effects
		"cell_size_check(ON)",          // find corruption when it is read, not later
	}
	readerPragmas = []string{
		"busy_timeout(5000)",
		"foreign_keys(ON)",
		"cache_size(-8192)",
		"temp_store(MEMORY)",
		"trusted_schema(OFF)",
		"cell_size_check(ON)",
		"query_only(ON)", // a stray write fails at once
	}
)

func dsn(path string, pragmas []string, write bool) string {
	q := url.Values{}
	for _, p := range pragmas {
		q.Add("_pragma", p)
	}
	if write {
		q.Set("_txlock", "immediate") // take the lock at BEGIN, so no transaction fails half-way
	}
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath(), RawQuery: q.Encode()}
	return u.String()
}

// Open opens or creates the database at o.Path and brings its schema up to date.
func Open(ctx context.Context, o Options) (_ *DB, err error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if err := os.MkdirAll(filepath.Dir(o.Path), 0o700); err != nil {
		return nil, fmt.Errorf("make data folder: %w", err)
	}
	if o.Bus == nil {
		o.Bus = bus.New()
	}
	if o.Keys == nil {
		o.Keys = NewKeys(nil)
	}
	db := &DB{path: o.Path, log: o.Logger, keys: o.Keys, bus: o.Bus, turn: make(chan struct{}, 1)}
	db.blobs = newBlobs(filepath.Join(filepath.Dir(o.Path), "blobs"), o.Logger)
	db.turn <- struct{}{}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	if db.writer, err = sql.Open("sqlite", dsn(o.Path, writerPragmas, true)); err != nil {
		return nil, err
	}
	db.writer.SetMaxOpenConns(1)
	if err = db.writer.PingContext(ctx); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if err = os.Chmod(o.Path, 0o600); err != nil {
		return nil, err
	}
	if err = migrate(ctx, db.writer); err != nil {
		return nil, err
	}
	if err = db.prepare(ctx); err != nil {
		return nil, err
	}
	if db.readers, err = sql.Open("sqlite", dsn(o.Path, readerPragmas, false)); err != nil {
		return nil, err
	}
	n := min(8, max(2, runtime.NumCPU()))
	db.readers.SetMaxOpenConns(n)
	db.readers.SetMaxIdleConns(n)
	return db, nil
}

// Close waits for the running write, checkpoints and closes. It may be called twice.
func (db *DB) Close() error {
	db.once.Do(func() {
		<-db.turn // never given back: later writes fail with sql.ErrConnDone
		if db.readers != nil {
			db.closed = db.readers.Close()
		}
		if db.writer != nil {
			_, err := db.writer.Exec("PRAGMA wal_checkpoint(TRUNCATE)")
			db.closed = errors.Join(db.closed, err, db.writer.Close())
		}
		close(db.turn)
	})
	return db.closed
}

// NewID returns a fresh UUIDv7: ids made later sort later, so they append to their index.
func NewID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// now returns the time for a transaction: microseconds, never earlier than the last one
// given out and different for each write, so that rows order by time even when the clock
// is set back.
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

var errNested = fault.Internalf(errors.New("storage: Write inside Write"), "Something went wrong inside Helix. The log has the details.")
