package memory

import (
	"context"
	"time"

	"helix/backend/fault"
	"helix/backend/storage"
)

const (
	wipePages = `PRAGMA incremental_vacuum(200)` // in a transaction
	wipeTries = 20                               // to empty the log of writes, while reads need it
)

// wipeFreed removes deleted content from the files: free pages, some at a time, and the
// write-ahead log, which holds earlier states of pages. Deleted content within pages in use is
// overwritten by secure_delete, which storage sets.
func (s *Service) wipeFreed(ctx context.Context) error {
	for more := true; more; {
		err := s.db.Write(ctx, func(tx *storage.Tx) error {
			var before, after int64
			if err := tx.QueryRow(`PRAGMA freelist_count`).Scan(&before); err != nil || before == 0 {
				more = false
				return err
			}
			rows, err := tx.Query(wipePages)
			if err != nil {
				return err
			}
			for rows.Next() { // each step gives back a page
			}
			if err := rows.Err(); err != nil {
				return err
			}
			if err := rows.Close(); err != nil {
				return err
			}
			err = tx.QueryRow(`PRAGMA freelist_count`).Scan(&after)
			more = after > 0 && after < before
			return err
		})
		if err != nil {
			return err
		}
	}
	return s.emptyLog(ctx)
}

// emptyLog cuts the log of writes to nothing; reads that need it are waited for.
func (s *Service) emptyLog(ctx context.Context) error {
	for try := 1; ; try++ {
		s.moveLog(ctx) // the long part, beside the writer
		var busy, pages, moved int64
		err := s.db.Read(ctx, func(tx *storage.Tx) error {
			if _, err := tx.Exec(`PRAGMA busy_timeout = 50`); err != nil { // it keeps writers out
				return err
			}
			defer tx.Exec(`PRAGMA busy_timeout = 5000`) //nolint:errcheck // the connection gives up sooner from now on
			return tx.QueryRow(`PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &pages, &moved)
		})
		if err != nil || busy == 0 {
			return err
		}
		if try == wipeTries {
			return fault.Unavailablef("Earlier texts can't be removed from the write-ahead log while a long read is running.")
		}
		timer := time.NewTimer(time.Duration(try) * 100 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}
