package memory

import (
	"context"
	"sync"

	"helix/backend/storage"
)

// A commit that finds a thousand pages in the log of writes moves them into the file and syncs
// it; every write that stands behind waits for the disk. Work in the background that writes
// without end has this done beside the writer, where only it waits itself: on a connection
// that reads, which may move pages too.

// moveEvery is after how many transactions the log is moved: a few megabytes.
const moveEvery = 6

// Sizes of the write-ahead log, in pages, at which a commit checkpoints it. Long work
// checkpoints beside the writer, so its limit is high; it bounds the log when those
// checkpoints cannot finish (a full disk, a long read).
const (
	usualPages = `PRAGMA wal_autocheckpoint = 1000`
	manyPages  = `PRAGMA wal_autocheckpoint = 16000`
)

// longWork counts work in the background, and its transactions since the log was moved.
type longWork struct {
	mu     sync.Mutex
	going  int
	writes int
	off    bool // the high limit is in force
}

// beginLongWork is to be called before the first longWrite. Call end behind the last, which
// leaves moving the log to commits again.
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
		s.moveLog(ctx)
		err := s.db.Write(ctx, func(tx *storage.Tx) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.going > 0 { // other work has begun
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

// longWrite is a write of work in the background.
func (s *Service) longWrite(ctx context.Context, fn func(*storage.Tx) error) error {
	w := &s.imports.long
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		w.mu.Lock()
		w.off = true
		w.mu.Unlock()
		if _, err := tx.Exec(manyPages); err != nil { // also on a new connection
			return err
		}
		return fn(tx)
	})
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.writes++
	due := w.writes >= moveEvery
	if due {
		w.writes = 0
	}
	w.mu.Unlock()
	if due {
		s.moveLog(ctx)
	}
	return nil
}

// moveLog moves what is in the log of writes into the file, as far as no read needs it, while
// others read and write.
func (s *Service) moveLog(ctx context.Context) {
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		var busy, pages, moved int64
		return tx.QueryRow(`PRAGMA wal_checkpoint(PASSIVE)`).Scan(&busy, &pages, &moved)
	})
	if err != nil && ctx.Err() == nil {
		s.log.Debug("move the log of writes", "err", err)
	}
}
