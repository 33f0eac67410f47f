package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	"helix/backend/fault"
)

// frozen is a state of the database that can be read as plain bytes of the file while writers
// continue: the WAL was moved into the file completely, and a read transaction that began then
// keeps SQLite from moving later changes out of the WAL.
type frozen struct {
	file *os.File // owned by DB: closing it would drop SQLite's own locks on the file
	size int64

	pool *sql.DB
	conn *sql.Conn
}

// freezeTries bounds how often freeze waits for reads that block a checkpoint.
const freezeTries = 500

// freeze freezes the current state. It is Unavailable when a read runs for so long that the WAL
// never becomes empty. The caller must call release.
func (db *DB) freeze(ctx context.Context) (_ *frozen, err error) {
	if err := db.gate.check(ctx); err != nil {
		return nil, err
	}
	f := &frozen{}
	if f.file, err = db.rawFile(); err != nil {
		return nil, err
	}
	// Skip auto_vacuum, the first pragma: setting it takes the write lock, which this connection
	// would have to wait for without holding the turn.
	if f.pool, err = sql.Open("sqlite", dsn(db.path, writerPragmas[1:], false)); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.release()
		}
	}()
	f.pool.SetMaxOpenConns(1)
	if f.conn, err = f.pool.Conn(ctx); err != nil {
		return nil, err
	}
	// The long part of the checkpoint runs while writers continue.
	if _, err := f.checkpoint(ctx); err != nil {
		return nil, err
	}
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	for range freezeTries {
		ok, err := f.begin(ctx, db)
		if err != nil {
			return nil, err
		}
		if ok {
			return f, nil
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, fault.Unavailablef("A long read keeps the backup from starting. Try again in a moment.")
}

// begin moves the rest of the WAL while writers are blocked, and starts the read.
func (f *frozen) begin(ctx context.Context, db *DB) (bool, error) {
	select {
	case _, ok := <-db.turn:
		if !ok {
			return false, errClosed
		}
	case <-ctx.Done():
		return false, ctx.Err()
	}
	defer func() { db.turn <- struct{}{} }()
	all, err := f.checkpoint(ctx)
	if err != nil || !all {
		return false, err
	}
	if _, err := f.conn.ExecContext(ctx, "BEGIN"); err != nil {
		return false, err
	}
	var pages, size int64
	if err := f.conn.QueryRowContext(ctx, `SELECT page_count, page_size FROM pragma_page_count, pragma_page_size`).Scan(&pages, &size); err != nil {
		return false, err
	}
	var n int
	if err := f.conn.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_master`).Scan(&n); err != nil {
		return false, err
	}
	f.size = pages * size
	if got, err := f.file.Stat(); err != nil || got.Size() < f.size {
		return false, errors.Join(fmt.Errorf("file is shorter than its %d pages", pages), err)
	}
	return true, nil
}

// checkpoint moves the WAL into the file and reports whether nothing is left in it.
func (f *frozen) checkpoint(ctx context.Context) (bool, error) {
	var busy, log, done int64
	if err := f.conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &log, &done); err != nil {
		return false, err
	}
	return busy == 0 && log == done, nil
}

// release ends the read, so that the WAL can be emptied again.
func (f *frozen) release() {
	if f.conn != nil {
		_, _ = f.conn.ExecContext(context.Background(), "ROLLBACK") // fails when begin did not succeed
		_ = f.conn.Close()
	}
	if f.pool != nil {
		_ = f.pool.Close()
	}
}

// rawFile returns the database file for reading bytes, opened once. On Unix, closing any descriptor
// of a file drops all locks that the process holds on it, including SQLite's.
func (db *DB) rawFile() (*os.File, error) {
	db.rawMu.Lock()
	defer db.rawMu.Unlock()
	if db.raw == nil {
		f, err := os.Open(db.path)
		if err != nil {
			return nil, err
		}
		db.raw = f
	}
	return db.raw, nil
}

// closeRaw closes the raw file after SQLite has closed the database or when the file is about to be
// replaced.
func (db *DB) closeRaw() {
	db.rawMu.Lock()
	defer db.rawMu.Unlock()
	if db.raw != nil {
		_ = db.raw.Close()
		db.raw = nil
	}
}
