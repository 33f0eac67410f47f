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

// reading is how a database is used that was opened on a full disk: there is no room even
// for the index of the WAL, so nothing can be written and the readers open the file in a
// way that needs no file beside it.
type reading struct {
	conn driver.Connector
	max  int // readers at once
	why  *fault.Error
}

// ReadOnly reports whether nothing could be written at start, because the disk is full or the
// folder read-only. Reads work; Service.Run opens the file for writing when that has changed.
func (db *DB) ReadOnly() bool { return db.reading.Load() != nil }

// ReadOnlyReason says why the database is only read; "" when it can be written.
func (db *DB) ReadOnlyReason() string {
	if r := db.reading.Load(); r != nil {
		return r.why.Message
	}
	return ""
}

// readOnlyFolder reports whether err means that the data folder cannot be written.
func readOnlyFolder(err error) bool {
	return errors.Is(err, fs.ErrPermission) || isReadOnlyFS(err)
}

// writableFolder tries to make a file in dir.
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

// roomToWrite is what has to be free before a database that is only read is opened again.
const roomToWrite = 16 << 20

// noRoom reports whether err means that the disk is full, in whichever way it was noticed.
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

// startReading opens the file for reads after start failed with cause, which is returned
// when even that is not possible: an older schema cannot be read, and a first start needs
// room.
func (db *DB) startReading(ctx context.Context, cause error) error {
	known, err := knownMigrations(ctx)
	if err != nil {
		return errors.Join(cause, err)
	}
	if err := db.closeConns(ctx); err != nil { // of the start that failed
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

// readingDSN finds a way to read the file that needs no new file. A WAL that a crash left is
// moved into the file first, whose pages are mostly there already. If that takes more room
// than there is, one reader has the file to itself and keeps the index of the WAL in memory.
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

// aloneDSN opens path for one connection only, which then needs no shared memory.
func aloneDSN(path string) string {
	return dsn(path, []string{"locking_mode(EXCLUSIVE)", "busy_timeout(5000)", "temp_store(MEMORY)", "trusted_schema(OFF)", "cell_size_check(ON)"}, false)
}

// prepareReading is prepare without a write: what it would make is there, since the file was
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

// attachReading is attach for a database that cannot be written: values can be opened, and
// sealing counts no uses because nothing sealed can be stored.
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

// writeAgain opens a database that is only read for writing, when there is room.
func (s *Service) writeAgain(ctx context.Context, free int64) error {
	if !s.db.ReadOnly() || free < roomToWrite {
		return nil
	}
	if writableFolder(filepath.Dir(s.db.path)) != nil {
		return nil // still full or read-only
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

// connector is the way to open a connection now.
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
