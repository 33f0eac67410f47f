package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"helix/backend/bus"
	"helix/backend/fault"
)

// drainLimit is how long a swap waits for reads that are still running.
const drainLimit = 10 * time.Second

// move is one rename; paths are relative to the data folder.
type move struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// journal lists renames that belong together. Once it is on disk, all of them will happen, if
// necessary at the next start. So after a crash the state is either the old or the new one.
type journal struct {
	Reason string `json:"reason"`
	Moves  []move `json:"moves"`
	Hold   *hold  `json:"hold,omitempty"` // written with the moves
}

const journalFile = "swap.journal"

// commitJournal writes the journal durably and carries it out.
func commitJournal(dir string, j journal) error {
	b, err := json.Marshal(j)
	if err != nil {
		return err
	}
	if err := writeFileSafe(filepath.Join(dir, journalFile), b); err != nil {
		return err
	}
	crashPoint("swap.journal")
	return finishJournal(dir)
}

// finishJournal carries out the journal in dir, if there is one. A move that was already done is
// skipped: its target exists, which it never does before the move.
func finishJournal(dir string) error {
	path := filepath.Join(dir, journalFile)
	if !exists(path) {
		return nil
	}
	var j journal
	if err := readJSONFile(path, &j); err != nil {
		return err
	}
	if j.Hold != nil {
		b, err := json.Marshal(j.Hold)
		if err != nil {
			return err
		}
		if err := writeFileSafe(filepath.Join(dir, holdFile), b); err != nil {
			return err
		}
	}
	for i, m := range j.Moves {
		if !filepath.IsLocal(m.From) || !filepath.IsLocal(m.To) {
			return fmt.Errorf("journal leaves the data folder: %q to %q", m.From, m.To)
		}
		from, to := filepath.Join(dir, m.From), filepath.Join(dir, m.To)
		if exists(to) || !exists(from) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		if err := os.Rename(from, to); err != nil {
			return err
		}
		if err := errors.Join(syncDir(filepath.Dir(from)), syncDir(filepath.Dir(to))); err != nil {
			return err
		}
		crashPoint(fmt.Sprintf("swap.move%d", i))
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	return syncDir(dir)
}

func readJSONFile(path string, dst any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, dst); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return nil
}

// swap stops all transactions, closes every connection, calls fn to put other files in place, and
// opens those. If fn fails, the former files are opened again. If the new file is intact, recovery
// mode ends. Replaced is published at the end. A nil fn reopens the same file.
func (db *DB) swap(ctx context.Context, why string, fn func() error) error {
	if db.current(ctx) != nil {
		return errNested
	}
	db.rescue.Wait()
	select {
	case _, ok := <-db.turn:
		if !ok {
			return errClosed
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	was := db.recovery.Load()
	if was == nil && fn != nil {
		bus.Publish(db.bus, db.LocalUser().ID, Replacing{})
	}
	shut := fault.Unavailablef("%s", why)
	shut.RetryAfter = 2 * time.Second
	db.gate.close(shut)
	reopen := func() {
		if was == nil {
			db.gate.open()
		}
		db.turn <- struct{}{}
	}
	wait, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	if err := db.gate.drain(wait); err != nil {
		if was != nil {
			db.gate.close(recoveryFault(was))
		}
		reopen()
		return fault.Unavailablef("Something is still reading the data. Nothing was changed; try again.").WithCause(err)
	}
	inside := db.gate.insider(db.withMigrations(context.WithoutCancel(ctx)))
	var err error
	if was == nil && !db.ReadOnly() {
		err = db.stopCleanIn(inside)
	}
	if err == nil {
		err = db.closeConns(wait)
	}
	if err == nil && fn != nil {
		err = fn()
	}
	// From here on ctx is ignored: stopping halfway would leave no database at all.
	db.turn <- struct{}{}
	db.recovery.Store(nil)
	db.reading.Store(nil)
	db.readers.SetMaxOpenConns(readerCount())
	db.blobs.forget()
	db.keys.ring.Store(nil) // attach determines which keys open the new file
	serr := db.start(inside)
	if st := db.recovery.Load(); st == nil && serr == nil {
		db.gate.open()
	} else if st == nil {
		_ = db.enterRecovery(&RecoveryState{Reason: "corrupt", Message: "The data could not be opened.", Problems: []string{serr.Error()}})
	}
	if err == nil {
		bus.Publish(db.bus, db.LocalUser().ID, Replaced{Same: fn == nil})
	}
	return errors.Join(err, serr)
}

func recoveryFault(st *RecoveryState) *fault.Error {
	return fault.Unavailablef("%s", st.Message).WithDetails(map[string]string{"state": "recovery", "reason": st.Reason})
}

// stopCleanIn is stopClean for a closed gate.
func (db *DB) stopCleanIn(ctx context.Context) error {
	if _, err := db.writer.ExecContext(ctx, `UPDATE meta SET value = '1' WHERE key = 'clean'`); err != nil {
		return err
	}
	_, err := db.writer.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	return err
}

var errClosed = fault.Unavailablef("Helix is stopping.")

// forget discards what is known about blobs: after a swap, other files may have the same names.
func (b *Blobs) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.ok)
}
