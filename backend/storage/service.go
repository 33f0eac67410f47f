package storage

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/pause"
)

// ServiceOptions configure a Service. The zero value works.
type ServiceOptions struct {
	ConfigFile string        // config.toml, included in backups; empty: none
	UserDir    string        // the user's own files, included in backups; empty: none
	BackupDir  string        // default: backups beside the database
	Policy     func() Policy // the current settings; nil: DefaultPolicy
	// Retention lists the tables that Prune limits.
	Retention []Retention
	// Busy reports whether a recording or a run is active; pruning and automatic backups wait until
	// it ends.
	Busy func() bool
	// Pause pauses automatic backups and pruning. The service itself pauses background work while
	// the disk is nearly full. If nil, the service creates its own.
	Pause *pause.Pause
	// Now returns the time that retention is based on; nil means time.Now.
	Now func() time.Time
	// EndSessions is called after another database has been put in place.
	EndSessions func()

	scryptN int // lower in tests; default 2^17
}

// Policy is the part of the configuration that applies to storage.
type Policy struct {
	AutoBackup bool          // backup.auto=daily
	BackupMax  int64         // backup.max_bytes; default 10 GiB
	BackupAge  time.Duration // default 90 days
	// KeepDaily and KeepWeekly limit the number of automatic backups, KeepSnapshots that of
	// snapshots from before migrations; the defaults are 7, 4 and 3.
	KeepDaily, KeepWeekly, KeepSnapshots int
	HistoryRows                          int64         // rows per user and history table; default 10,000
	HistoryAge                           time.Duration // default 90 days
	PayloadAge                           time.Duration // payloads above 64 KiB are shortened after this; default 7 days
	ChangeLogAge                         time.Duration // default 7 days
	ChangeLogMax                         int64         // bytes; default 64 MiB
	TrashAge                             time.Duration // default 30 days
	BlobAge                              time.Duration // default 24 hours after the last reference
	LowSpace                             int64         // default 500 MiB; 5 % of the disk is low too; negative: never
}

// DefaultPolicy returns the default retention settings, as documented in the manual.
func DefaultPolicy() Policy {
	const day = 24 * time.Hour
	return Policy{
		AutoBackup: true, BackupMax: 10 << 30, BackupAge: 90 * day, KeepDaily: 7, KeepWeekly: 4, KeepSnapshots: 3,
		HistoryRows: 10_000, HistoryAge: 90 * day, PayloadAge: 7 * day,
		ChangeLogAge: 7 * day, ChangeLogMax: 64 << 20,
		TrashAge: 30 * day, BlobAge: day, LowSpace: 500 << 20,
	}
}

// Service implements the storage methods and does the background work: automatic backups, pruning,
// checks, checkpoints and watching free space.
type Service struct {
	db  *DB
	o   ServiceOptions
	log *slog.Logger

	one     chan struct{} // holds one token; the running long operation has it
	chores  atomic.Bool   // the long operation is background work, which ends by itself
	reserve reserveFile
}

// NewService returns a Service for db. It starts nothing; see Run.
func NewService(db *DB, o ServiceOptions) *Service {
	if o.Policy == nil {
		o.Policy = DefaultPolicy
	}
	if o.Busy == nil {
		o.Busy = func() bool { return false }
	}
	if o.Pause == nil {
		o.Pause, _ = pause.Open("", db.bus) // reads no file
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.EndSessions == nil {
		o.EndSessions = func() {}
	}
	if o.scryptN == 0 {
		o.scryptN = scryptN
	}
	if o.BackupDir == "" {
		o.BackupDir = filepath.Join(filepath.Dir(db.path), "backups")
	}
	s := &Service{db: db, o: o, one: make(chan struct{}, 1), log: db.log, reserve: reserveFile{path: filepath.Join(filepath.Dir(db.path), "reserve")}}
	s.one <- struct{}{}
	return s
}

func (s *Service) version() string { return s.db.o.Version }

// exclusive ensures that only one long operation runs at a time. The caller calls done at the end,
// which reports the outcome as progress.
func (s *Service) exclusive(ctx context.Context, op string) (_ context.Context, done func(error), err error) {
	waits := s.chores.Load()
	if !waits {
		select {
		case <-s.one:
		default:
			if waits = s.chores.Load(); !waits {
				return ctx, nil, fault.Conflictf("Another backup, restore, export or check is running. Wait for it, or cancel it.")
			}
		}
	}
	if waits { // for background work, which no one requested
		select {
		case <-s.one:
		case <-ctx.Done():
			return ctx, nil, ctx.Err()
		}
	}
	ctx, done = s.reporting(ctx, op)
	return ctx, done, nil
}

// reporting starts the progress reports of a long operation. done ends them and lets the next
// operation start.
func (s *Service) reporting(ctx context.Context, op string) (_ context.Context, done func(error)) {
	r := &reporter{bus: s.db.bus, user: identity.UserID(ctx), id: NewID(), op: op}
	return context.WithValue(s.db.withMigrations(ctx), reporterKey{}, r), func(err error) {
		r.finish(err)
		s.one <- struct{}{}
	}
}

// note writes one audit entry; in recovery mode there is no log to write to.
func (s *Service) note(ctx context.Context, action string, details any) error {
	if s.db.Recovery() != nil {
		s.log.Warn("not audited in recovery mode", "action", action)
		return nil
	}
	return s.db.Write(ctx, func(tx *Tx) error { return s.db.o.Audit.write(tx, action, details) })
}

// reporter publishes progress to the user who started the operation, at most ten times a second.
type reporter struct {
	bus  *bus.Bus
	user uuid.UUID
	id   uuid.UUID
	op   string

	mu   sync.Mutex
	last time.Time
	at   string // the step last reported
}

type reporterKey struct{}

// progress returns the reporter of the running operation, or one that reports to no one.
func (s *Service) progress(ctx context.Context, op string) *reporter {
	if r, ok := ctx.Value(reporterKey{}).(*reporter); ok {
		return r
	}
	return &reporter{bus: bus.New(), op: op}
}

func (r *reporter) step(name string, done, total int64) { r.report(name, done, total, "bytes") }

func (r *reporter) rows(name string, done, total int64) { r.report(name, done, total, "rows") }

func (r *reporter) report(name string, done, total int64, unit string) {
	r.mu.Lock()
	now := time.Now()
	if name == r.at && now.Sub(r.last) < 100*time.Millisecond {
		r.mu.Unlock()
		return
	}
	r.at, r.last = name, now
	r.mu.Unlock()
	bus.Publish(r.bus, r.user, BackupProgress{ID: r.id, Operation: r.op, Step: name, Done: done, Total: total, Unit: unit})
}

func (r *reporter) finish(err error) {
	p := BackupProgress{ID: r.id, Operation: r.op, Step: "done", Unit: "bytes", Finished: true}
	if err != nil {
		p.Error = fault.As(err).Message
	}
	bus.Publish(r.bus, r.user, p)
}
