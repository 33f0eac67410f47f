package storage

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/pause"
)

// Intervals and limits of the background work.
const (
	watchEvery = 30 * time.Second
	longRead   = 30 * time.Second
	walLimit   = 64 << 20
	pruneEvery = time.Hour
	// pruneAtLatest is how long pruning is postponed while the user is always active.
	pruneAtLatest = 24 * time.Hour
	maxIdleWait   = 60 // seconds that one batch waits for an idle moment
	backupEvery   = 24 * time.Hour
	checkEvery    = 7 * 24 * time.Hour
	retryAfter    = time.Hour // after a failed automatic backup or check
	quietTime     = time.Minute
)

// Run does the background work until ctx ends: it watches free space, the WAL and long
// reads, makes the daily backup when nothing is being written, checks the file every week
// and after an unclean stop, and prunes.
func (s *Service) Run(ctx context.Context) error {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	next := schedule{prune: time.Now().Add(5 * time.Minute)}
	for {
		s.watch(ctx, &next)
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// schedule holds the earliest times at which work is due.
type schedule struct {
	prune, backup, check time.Time
	shrunkAt             int64 // the last write before the writer's cache was emptied
}

// watch is one round of the background work.
func (s *Service) watch(ctx context.Context, next *schedule) {
	db := s.db
	s.watchSpace(ctx, next)
	if db.Recovery() != nil || db.ReadOnly() {
		return
	}
	now := time.Now()
	for _, caller := range db.gate.longReads(now, longRead) {
		db.log.Warn("a read has been running for more than 30 s and keeps the WAL from shrinking", "caller", caller)
	}
	if fileSize(db.path+"-wal") > walLimit && db.quiet(now, time.Second) {
		s.logged("checkpoint", db.checkpoint(ctx))
	}
	if db.quiet(now, 0) && db.lastAt.Load() != next.shrunkAt {
		next.shrunkAt = db.lastAt.Load()
		s.logged("shrink memory", db.onWriter(ctx, shrink))
	}
	ctx = identity.With(ctx, identity.Identity{User: db.LocalUser().ID, Client: identity.ClientProgram, Pipe: "background"})
	if db.checkDue.Swap(false) || (now.After(next.check) && s.overdue(ctx, "quick_check_at", checkEvery, now)) {
		next.check = now.Add(retryAfter)
		s.background(ctx, "check", func(ctx context.Context) error {
			_, err := s.check(ctx, false)
			return err
		})
	}
	late := now.After(next.prune.Add(pruneAtLatest))
	if (s.o.Busy() || !db.quiet(now, quietTime)) && !late {
		return
	}
	if s.o.Policy().AutoBackup && !s.o.Pause.Active() && now.After(next.backup) && s.overdue(ctx, "last_backup_at", backupEvery, now) {
		next.backup = now.Add(retryAfter)
		s.background(ctx, "backup", func(ctx context.Context) error {
			_, err := s.backup(ctx, BackupParams{}, "auto-")
			return err
		})
	}
	if now.After(next.prune) && !s.o.Pause.By(pause.Person) { // when space is low, pruning frees some
		next.prune = now.Add(pruneEvery)
		s.background(ctx, "prune", func(ctx context.Context) error {
			_, err := s.pruneUsers(ctx)
			return err
		})
	}
}

// PruneAll applies the retention settings to the rows of every user, as Run does every hour.
func (s *Service) PruneAll(ctx context.Context) (PruneResult, error) {
	ctx, done, err := s.exclusive(ctx, "prune")
	if err != nil {
		return PruneResult{}, err
	}
	r, err := s.pruneUsers(ctx)
	done(err)
	return r, err
}

func (s *Service) pruneUsers(ctx context.Context) (PruneResult, error) {
	var users []uuid.UUID
	err := s.db.Read(ctx, func(tx *Tx) (err error) {
		users, err = Collect(tx.Select(`SELECT id FROM users`), RowTo[uuid.UUID])
		return err
	})
	if err != nil {
		return PruneResult{}, err
	}
	return s.prune(ctx, users, false)
}

// background runs one piece of work, unless a long operation that a user started is running.
func (s *Service) background(ctx context.Context, what string, fn func(context.Context) error) {
	// Set before the token is taken, so that a call that finds it taken waits.
	s.chores.Store(true)
	defer s.chores.Store(false) // after the token is back
	select {
	case <-s.one:
	default:
		return // the next round tries again
	}
	ctx, done := s.reporting(ctx, what)
	err := fault.Catch(func() error { return fn(ctx) })
	done(err)
	s.logged(what, err)
}

func (s *Service) logged(what string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		s.log.Error("background work", "what", what, "err", err)
	}
}

// overdue reports whether the time stored under key is at least every before now.
func (s *Service) overdue(ctx context.Context, key string, every time.Duration, now time.Time) bool {
	var at time.Time
	err := s.db.Read(ctx, func(tx *Tx) (err error) {
		at, err = metaTime(tx, key)
		return err
	})
	return err == nil && now.Sub(at) >= every
}

// untilIdle waits while a recording or a run is active, but at most maxIdleWait seconds, because
// the user may always be active.
func (s *Service) untilIdle(ctx context.Context) error {
	for range maxIdleWait {
		if !s.o.Busy() {
			break
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return ctx.Err()
}

// quiet reports whether nothing has been written for d.
func (db *DB) quiet(now time.Time, d time.Duration) bool {
	return len(db.turn) == 1 && now.UnixMicro()-db.lastAt.Load() >= d.Microseconds()
}

// onWriter calls fn with the writing connection while no transaction runs.
func (db *DB) onWriter(ctx context.Context, fn func(context.Context, *sql.Conn) error) error {
	select {
	case _, ok := <-db.turn:
		if !ok {
			return errClosed
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { db.turn <- struct{}{} }()
	if err := db.gate.check(ctx); err != nil {
		return err
	}
	conn, err := db.writer.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return dbError(ctx, fn(ctx, conn))
}

// shrink frees the writer's page cache, which grows to its limit of 64 MiB with the database. The few
// pages that an idle program needs are quickly read again.
func shrink(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, "PRAGMA shrink_memory")
	return err
}

// checkpoint moves the WAL into the file and truncates it. If reads still need it, it is kept, and
// a later call tries again.
func (db *DB) checkpoint(ctx context.Context) error {
	return db.onWriter(ctx, func(ctx context.Context, conn *sql.Conn) error {
		// A read must not make the next write wait for 5 s.
		if _, err := conn.ExecContext(ctx, "PRAGMA busy_timeout(50)"); err != nil {
			return err
		}
		_, err := conn.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
		_, err2 := conn.ExecContext(context.WithoutCancel(ctx), "PRAGMA busy_timeout(5000)")
		if f := codeSQLite(err); f != nil && f.Kind == fault.Unavailable {
			err = nil
		}
		return errors.Join(err, err2)
	})
}

// LowSpace reports whether the disk is nearly full: background work and imports pause until there
// is space.
func (s *Service) LowSpace() bool { return s.o.Pause.By(pause.LowSpace) || s.db.ReadOnly() }

// lowRoom reports whether the free space is less than limit or less than 5 % of the disk. A negative
// limit turns this off.
func lowRoom(r space, limit int64) bool { return limit >= 0 && (r.Free < limit || r.Free*20 < r.Total) }

func (s *Service) watchSpace(ctx context.Context, next *schedule) {
	room, err := diskSpace(dirOf(s.db.path))
	if err != nil {
		s.logged("free space", err)
		return
	}
	limit := s.o.Policy().LowSpace
	low := lowRoom(room, limit)
	if !low && s.o.Pause.By(pause.LowSpace) { // needs some spare room to end, to avoid flapping
		low = lowRoom(space{Free: room.Free * 9 / 10, Total: room.Total}, limit)
	}
	if s.o.Pause.Set(pause.LowSpace, low) {
		bus.Publish(s.db.bus, s.db.LocalUser().ID, LowSpace{FreeBytes: room.Free, TotalBytes: room.Total, Low: low})
		if low {
			s.log.Warn("the disk is nearly full", "freeBytes", room.Free)
			next.prune = time.Time{} // now
		}
	}
	s.logged("open for writing", s.writeAgain(ctx, room.Free))
	if !low && ctx.Err() == nil {
		s.logged("reserve file", s.reserve.fill())
	}
}

// ReleaseReserve frees the 64 MiB that are reserved for a recording on a full disk. The file is
// created again when there is space.
func (s *Service) ReleaseReserve() error { return s.reserve.free() }

// reserveSize is the size in bytes of the file that reserves space to finish a recording on a full
// disk.
const reserveSize = 64 << 20

type reserveFile struct {
	path string
	mu   sync.Mutex
}

func (r *reserveFile) fill() (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if fileSize(r.path) == reserveSize {
		return nil
	}
	f, err := os.OpenFile(r.path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, removeIf(r.path))
		}
	}()
	return allocate(f, reserveSize)
}

func (r *reserveFile) free() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return removeIf(r.path)
}

// writeZeros allocates a file by writing zeros, which is slow but works everywhere.
func writeZeros(f *os.File, size int64) error {
	zero := make([]byte, 1<<20)
	for at := int64(0); at < size; at += int64(len(zero)) {
		if _, err := f.WriteAt(zero, at); err != nil {
			return err
		}
	}
	return f.Sync()
}
