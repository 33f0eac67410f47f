package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"helix/backend/bus"
	"helix/backend/fault"
)

// Recovery returns why the database is in recovery mode, or nil if it is not. In recovery mode Read
// and Write are Unavailable; the storage service continues to work.
func (db *DB) Recovery() *RecoveryState { return db.recovery.Load() }

// codedError is dbError, but also enters recovery mode if err means damage.
func (db *DB) codedError(ctx context.Context, err error) error {
	if corrupt(err) {
		_ = db.enterRecovery(&RecoveryState{Reason: "corrupt", Problems: []string{err.Error()}})
	}
	return dbError(ctx, err)
}

// enterRecovery stops all transactions, once, and keeps copies of damaged files. It always returns
// nil, so that a start continues in recovery mode.
func (db *DB) enterRecovery(st *RecoveryState) error {
	st.Since = time.Now().UTC()
	if st.Problems == nil {
		st.Problems = []string{}
	}
	if st.Message == "" {
		st.Message = msgCorrupt
	}
	if !db.recovery.CompareAndSwap(nil, st) {
		return nil
	}
	db.gate.close(fault.Unavailablef("%s", st.Message).WithDetails(map[string]string{"state": "recovery", "reason": st.Reason}))
	db.log.Error("recovery mode", "reason", st.Reason, "problems", st.Problems)
	if st.Reason != "corrupt" {
		bus.Publish(db.bus, db.LocalUser().ID, Recovery{State: st})
		return nil
	}
	db.rescue.Go(func() {
		kept := ""
		err := fault.Catch(func() (err error) {
			kept, err = db.keepDamaged()
			return err
		})
		if err != nil {
			db.log.Error("copy damaged files", "err", err)
		}
		next := *st
		next.KeptPath = kept
		db.recovery.CompareAndSwap(st, &next)
		bus.Publish(db.bus, db.LocalUser().ID, Recovery{State: &next})
	})
	return nil
}

// keepDamaged copies database, WAL and WAL index to corrupt-<time>/ before anything can change
// them. It waits for the running write, but not for reads.
func (db *DB) keepDamaged() (dir string, err error) {
	if _, ok := <-db.turn; !ok {
		return "", nil // closed
	}
	defer func() { db.turn <- struct{}{} }()
	dir = freshName(filepath.Dir(db.path), "corrupt-", time.Now(), "")
	tmp := dir + ".partial"
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return "", err
	}
	for _, ext := range []string{"", "-wal", "-shm"} {
		if !exists(db.path + ext) {
			continue
		}
		if err := copyFile(filepath.Join(tmp, filepath.Base(db.path)+ext), db.path+ext); err != nil {
			return "", errors.Join(fmt.Errorf("copy %s: %w", ext, err), os.RemoveAll(tmp))
		}
	}
	if err := errors.Join(syncDir(tmp), os.Rename(tmp, dir), syncDir(filepath.Dir(dir))); err != nil {
		return "", err
	}
	return dir, nil
}

// holdFile is written by a rollback. It prevents the version that was rolled back from migrating
// again at its next start.
const holdFile = "migration.hold"

type hold struct {
	Schema     int64     `json:"schema"`     // the schema not to migrate to
	AppVersion string    `json:"appVersion"` // the version that brought it
	At         time.Time `json:"at"`
}

// heldBack reports whether a rollback forbids the migration to our schema, and if so enters the
// held state.
func (db *DB) heldBack(st fileState, known []migration) (bool, error) {
	path := filepath.Join(filepath.Dir(db.path), holdFile)
	if !exists(path) {
		return false, nil
	}
	if db.o.ReleaseHold {
		return false, errors.Join(os.Remove(path), syncDir(filepath.Dir(path)))
	}
	var h hold
	if err := readJSONFile(path, &h); err != nil {
		h.Schema = known[len(known)-1].version // unreadable: assume that it means this version
	}
	if h.Schema < known[len(known)-1].version {
		return false, nil // a later version than the one rolled back
	}
	return true, db.enterRecovery(&RecoveryState{Reason: "held",
		Message:  fmt.Sprintf("The data was rolled back to schema %d. Start the older Helix, or migrate again to continue with this one.", st.version),
		Problems: []string{fmt.Sprintf("file schema %d, program schema %d, rolled back at %s", st.version, known[len(known)-1].version, h.At.Format(time.RFC3339))}})
}
