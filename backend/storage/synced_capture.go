package storage

import (
	"context"
	"errors"
)

// WithoutCapture runs fn while the capture triggers are silent and hard deletes of synced
// rows are allowed: for applying remote rows, pruning and purging. It may be nested. Only a
// write transaction can do it.
func (tx *Tx) WithoutCapture(fn func() error) (err error) {
	if !tx.write {
		return errors.New("storage: WithoutCapture in a read transaction")
	}
	if tx.muted++; tx.muted == 1 {
		if _, err := tx.Exec(`UPDATE sync_local SET applying = 1`); err != nil {
			tx.muted--
			return err
		}
	}
	defer func() { // also on a panic: the caller may recover and go on in this transaction
		if tx.muted--; tx.muted == 0 {
			_, e := tx.Exec(`UPDATE sync_local SET applying = 0`)
			err = errors.Join(err, e)
		}
	}()
	return fn()
}

// endCapture runs before a commit: it closes the numbered transaction when triggers have
// written something in it.
func (tx *Tx) endCapture() error {
	_, err := tx.Exec(`UPDATE sync_local SET txn = txn + 1,
		seen_seq = (SELECT max(seq) FROM change_log),
		hlc_high = max(hlc_high, (SELECT hlc FROM change_log ORDER BY seq DESC LIMIT 1))
		WHERE seen_seq < (SELECT max(seq) FROM change_log)`)
	return err
}

func (db *DB) refreshTriggers(ctx context.Context) error { return nil }
