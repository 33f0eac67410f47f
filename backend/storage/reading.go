package storage

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
	"modernc.org/sqlite"

	"helix/backend/fault"
)

// reading is the mode of a database that was opened on a full disk or in a read-only folder. There
// may be no room even for the index of the WAL, so nothing can be written and the readers open the
// file in a way that needs no side files.
type reading struct {
	conn driver.Connector
	max  int // maximum concurrent readers
	why  *fault.Error
}

// ReadOnly reports whether the database is open for reading only, because the disk was full or the
// folder read-only at start. Service.Run opens it for writing when that has changed.
func (db *DB) ReadOnly() bool { return db.reading.Load() != nil }

// ReadOnlyReason returns why the database is open for reading only; "" if it is not.
func (db *DB) ReadOnlyReason() string {
	if r := db.reading.Load(); r != nil {
		return r.why.Message
	}
	return ""
}

// readOnlyFolder reports whether err means that the data folder is not writable.
func readOnlyFolder(err error) bool {
	return errors.Is(err, fs.ErrPermission) || isReadOnlyFS(err)
}

// writableFolder returns an error if no file can be created in dir.
func writableFolder(dir string) error {
	probe := filepath.Join(dir, ".writable")
	if err := os.WriteFile(probe, nil, 0o600); err != nil {
		return err
	}
	return os.Remove(probe)
}

func readOnlyFault(dir string) *fault.Error {
	return fault.Unavailablef("The data folder %s is read-only. Nothing was changed. Make it writable, or choose another with --data-dir.", dir)
}

// roomToWrite is the free space, in bytes, that is needed to open a read-only database for writing
// again.
const roomToWrite = 16 << 20

// noRoom reports whether err means that the disk is full, in whatever way that was detected.
func noRoom(err error) bool {
	if err == nil {
		return false
	}
	if isFull(err) {
		return true
	}
	f := codeSQLite(err)
	return f != nil && f.Kind == fault.Limit
}

// startReading opens the file for reading only, after start failed with cause. It returns cause if
// even that is not possible: a database with an older schema cannot be read, and a first start
// needs space.
func (db *DB) startReading(ctx context.Context, cause error) error {
	known, err := knownMigrations(ctx)
	if err != nil {
		return errors.Join(cause, err)
	}
	if err := db.closeConns(ctx); err != nil { // those of the failed start
		return errors.Join(cause, err)
	}
	dsn, readers, err := db.readingDSN(ctx)
	if err != nil {
		return errors.Join(cause, err)
	}
	st, err := inspectFile(ctx, db.path, dsn)
	if err != nil || !st.present {
		return errors.Join(cause, err)
	}
	if pending, err := st.compare(known, db.o.Version); err != nil || len(pending) > 0 {
		return errors.Join(cause, err)
	}
	conn, err := sqlite.NewConnector(dsn)
	if err != nil {
		return errors.Join(cause, err)
	}
	why := fault.Limitf(msgFull)
	if !noRoom(cause) {
		why = readOnlyFault(filepath.Dir(db.path))
	}
	db.reading.Store(&reading{conn: conn, max: readers, why: why.WithCause(errReadOnly)})
	db.readers.SetMaxOpenConns(readers)
	if err := db.prepareReading(ctx); err != nil {
		db.reading.Store(nil)
		return errors.Join(cause, err)
	}
	db.log.Warn("the data can only be read", "why", why.Message, "err", cause)
	return nil
}

// readingDSN returns a way to open the file that needs no new file. If a crash left a WAL, its
// pages are moved into the file first, where most of them already have space. If that needs more
// space than is free, a single reader opens the file exclusively and keeps the index of the WAL in
// memory.
func (db *DB) readingDSN(ctx context.Context) (dsn string, readers int, err error) {
	if fileSize(db.path+"-wal") > 0 {
		alone := aloneDSN(db.path)
		w, err := sql.Open("sqlite", alone)
		if err != nil {
			return "", 0, err
		}
		w.SetMaxOpenConns(1)
		_, err = w.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
		if err = errors.Join(err, w.Close()); err != nil && !noRoom(err) {
			return "", 0, err
		}
		if fileSize(db.path+"-wal") > 0 {
			return alone + "&_pragma=query_only(ON)", 1, nil
		}
		if err := removeIf(db.path + "-shm"); err != nil && !noRoom(err) { // it counts frames that are in the file now
			return "", 0, err
		}
	}
	return strings.Replace(standaloneDSN(db.path), "busy_timeout(5000)", "busy_timeout(5000)&_pragma=cache_size(-8192)&_pragma=temp_store(MEMORY)", 1), readerCount(), nil
}

// aloneDSN opens path for a single connection, which then needs no shared memory.
func aloneDSN(path string) string {
	return dsn(path, []string{"locking_mode(EXCLUSIVE)", "busy_timeout(5000)", "temp_store(MEMORY)", "trusted_schema(OFF)", "cell_size_check(ON)"}, false)
}

// prepareReading is prepare without writing: what prepare would create exists, since the file was
// in use before.
func (db *DB) prepareReading(ctx context.Context) error {
	var w whoami
	err := db.Read(ctx, func(tx *Tx) error {
		if err := tx.QueryRow(`SELECT u.id, u.display_name FROM sync_local l JOIN users u ON u.id = l.user_id`).Scan(&w.user.ID, &w.user.DisplayName); err != nil {
			return err
		}
		var pub []byte
		err := tx.QueryRow(`SELECT d.id, d.public_key FROM sync_local l JOIN device_keys d ON d.id = l.device_id`).Scan(&w.device.ID, &pub)
		w.device.PublicKey = pub
		return ignoreNoRows(err)
	})
	if err != nil {
		return fmt.Errorf("read who this is: %w", err)
	}
	if err := db.keys.attachReading(ctx, db); err != nil {
		return fmt.Errorf("data keys: %w", err)
	}
	if db.keys.Locked() {
		w.device.ID = uuid.Nil
	}
	db.who.Store(&w)
	return nil
}

// attachReading is attach for a read-only database: values can be opened, and uses are not counted
// because no sealed value can be stored.
func (k *Keys) attachReading(ctx context.Context, db *DB) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.at.Store(db)
	for _, root := range k.root.Candidates() {
		r, err := db.openRing(ctx, root)
		if err != nil {
			return err
		}
		if r != nil && r.current != 0 {
			k.ring.Store(r)
			return nil
		}
	}
	empty, err := db.hasNoEncryptedValues(ctx)
	k.sealed.Store(!empty)
	return err
}

// writeAgain reopens a read-only database for writing if that is possible now.
func (s *Service) writeAgain(ctx context.Context, free int64) error {
	if !s.db.ReadOnly() || free < roomToWrite {
		return nil
	}
	if writableFolder(filepath.Dir(s.db.path)) != nil {
		return nil // still full, or still read-only
	}
	ctx, done, err := s.exclusive(ctx, "open")
	if err != nil {
		return nil //nolint:nilerr // the next round tries again
	}
	err = s.db.swap(ctx, "Helix is opening its data for writing again. Try again in a moment.", nil)
	done(err)
	return err
}

var errReadOnly = errors.New("the file was opened for reading only")

// connector returns the connector to use now.
func (c gated) connector() (driver.Connector, error) {
	r := c.db.reading.Load()
	switch {
	case r == nil:
		return c.Connector, nil
	case c.write:
		return nil, r.why
	}
	return r.conn, nil
}
