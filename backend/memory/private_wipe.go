package memory

import (
	"context"
	"time"

	"helix/backend/fault"
	"helix/backend/storage"
)

const (
	wipePages = `PRAGMA incremental_vacuum(200)` // per transaction
	wipeTries = 20                               // attempts to empty the write-ahead log while readers need it
)

// wipeFreed removes deleted content from the files: it frees unused pages, in batches, and empties
// the write-ahead log, which contains earlier states of pages. Deleted content within pages in use
// is already overwritten by secure_delete, which storage sets.
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
			for rows.Next() { // each step frees a page
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

// emptyLog truncates the write-ahead log to zero bytes. It waits for readers that need it.
func (s *Service) emptyLog(ctx context.Context) error {
	for try := 1; ; try++ {
		s.checkpointLog(ctx) // the slow part, without blocking writers
		var busy, pages, moved int64
		err := s.db.Read(ctx, func(tx *storage.Tx) error {
			if _, err := tx.Exec(`PRAGMA busy_timeout = 50`); err != nil { // it blocks writers
				return err
			}
			defer tx.Exec(`PRAGMA busy_timeout = 5000`) //nolint:errcheck // the connection gives up sooner from now on
			return tx.QueryRow(`PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &pages, &moved)
		})
		if err != nil || busy == 0 {
			return err
		}
		if try == wipeTries {
			return fault.Unavailablef("A long read keeps former texts in the log of writes.")
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
