package memory

import (
	"context"
	"sync"

	"helix/backend/storage"
)

// A commit that finds 1,000 pages in the write-ahead log checkpoints it: it copies the pages to the
// database file and syncs the file, and all queued writes wait for the disk. Long background work
// therefore checkpoints on a reader connection, where only the work itself waits.

// checkpointEvery is the number of transactions between two checkpoints: a few megabytes.
const checkpointEvery = 6

// Sizes of the write-ahead log, in pages, at which a commit checkpoints it. The limit is high
// during long work, which checkpoints by itself; it bounds the log when those checkpoints cannot
// finish because the disk is full or a read takes long.
const (
	usualPages = `PRAGMA wal_autocheckpoint = 1000`
	manyPages  = `PRAGMA wal_autocheckpoint = 16000`
)

// longWork counts running background work, and its transactions since the last checkpoint.
type longWork struct {
	mu     sync.Mutex
	going  int
	writes int
	off    bool // the high limit is set
}

// beginLongWork must be called before the first longWrite. The caller calls end after the last one,
// which restores checkpoints by commits.
func (s *Service) beginLongWork() (end func(context.Context)) {
	w := &s.imports.long
	w.mu.Lock()
	defer w.mu.Unlock()
	w.going++
	return func(ctx context.Context) {
		w.mu.Lock()
		w.going--
		over := w.going == 0 && w.off
		w.mu.Unlock()
		if !over {
			return
		}
		s.checkpointLog(ctx)
		err := s.db.Write(ctx, func(tx *storage.Tx) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.going > 0 { // other work has started
				return nil
			}
			_, err := tx.Exec(usualPages)
			w.off = err != nil
			return err
		})
		if err != nil && ctx.Err() == nil {
			s.log.Debug("commits do not move the log", "err", err)
		}
	}
}

// longWrite runs a write transaction of background work.
func (s *Service) longWrite(ctx context.Context, fn func(*storage.Tx) error) error {
	w := &s.imports.long
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		w.mu.Lock()
		w.off = true
		w.mu.Unlock()
		if _, err := tx.Exec(manyPages); err != nil { // each time: the connection may be new
			return err
		}
		return fn(tx)
	})
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.writes++
	due := w.writes >= checkpointEvery
	if due {
		w.writes = 0
	}
	w.mu.Unlock()
	if due {
		s.checkpointLog(ctx)
	}
	return nil
}

// checkpointLog checkpoints the write-ahead log as far as possible without blocking readers and writers.
func (s *Service) checkpointLog(ctx context.Context) {
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		var busy, pages, moved int64
		return tx.QueryRow(`PRAGMA wal_checkpoint(PASSIVE)`).Scan(&busy, &pages, &moved)
	})
	if err != nil && ctx.Err() == nil {
		s.log.Debug("move the log of writes", "err", err)
	}
}
