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

// ServiceOptions tell the service about things it does not own. The zero value works.
type ServiceOptions struct {
	ConfigFile string        // config.toml, kept in backups; empty: none
	UserDir    string        // the user's own files, kept in backups; empty: none
	BackupDir  string        // default: backups beside the database
	Policy     func() Policy // the settings in force; nil: DefaultPolicy
	// Retention lists the tables that Prune bounds.
	Retention []Retention
	// Busy reports a recording or a run: prune and automatic backups wait for its end.
	Busy func() bool
	// Pause holds automatic backups and pruning back; the service itself pauses background work
	// while the disk is nearly full. nil: a pause of its own.
	Pause *pause.Pause
	// Now is the time that retention counts from; nil: time.Now.
	Now func() time.Time
	// EndSessions is called after another database was put in place.
	EndSessions func()

	scryptN int // tests only; default 2^17
}

// Policy is the part of the configuration that storage obeys.
type Policy struct {
	AutoBackup bool          // backup.auto=daily
	BackupMax  int64         // backup.max_bytes; default 10 GiB
	BackupAge  time.Duration // default 90 days
	// KeepDaily and KeepWeekly count automatic backups, KeepSnapshots the copies from before
	// migrations; defaults 7, 4 and 3.
	KeepDaily, KeepWeekly, KeepSnapshots int
	HistoryRows                          int64         // rows a user and history table; default 10,000
	HistoryAge                           time.Duration // default 90 days
	PayloadAge                           time.Duration // payloads above 64 KiB are cut after this; default 7 days
	ChangeLogAge                         time.Duration // default 7 days
	ChangeLogMax                         int64         // bytes; default 64 MiB
	TrashAge                             time.Duration // default 30 days
	BlobAge                              time.Duration // default 24 hours after the last reference
	LowSpace                             int64         // default 500 MiB, or 5 % of the disk if that is less free
}

// DefaultPolicy is the retention table of the manual.
func DefaultPolicy() Policy {
	const day = 24 * time.Hour
	return Policy{
		AutoBackup: true, BackupMax: 10 << 30, BackupAge: 90 * day, KeepDaily: 7, KeepWeekly: 4, KeepSnapshots: 3,
		HistoryRows: 10_000, HistoryAge: 90 * day, PayloadAge: 7 * day,
		ChangeLogAge: 7 * day, ChangeLogMax: 64 << 20,
		TrashAge: 30 * day, BlobAge: day, LowSpace: 500 << 20,
	}
}

// Service answers the storage methods and does the background work: automatic backups,
// pruning, checks, checkpoints and the watch over free space.
type Service struct {
	db  *DB
	o   ServiceOptions
	log *slog.Logger

	one     chan struct{} // holds one token; the one long operation has it
	chores  atomic.Bool   // the long operation is background work, which ends by itself
	reserve reserveFile
}

// NewService makes the service for db. It starts nothing; see Run.
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

// exclusive lets one long operation in at a time. done ends it and reports its outcome to
// whoever watches the progress.
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
	if waits { // for background work, which nobody asked for
		select {
		case <-s.one:
		case <-ctx.Done():
			return ctx, nil, ctx.Err()
		}
	}
	ctx, done = s.reporting(ctx, op)
	return ctx, done, nil
}

// reporting has a long operation report its progress. done ends the report and lets the next
// operation begin.
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

// reporter publishes progress to the user who asked, at most ten times a second.
type reporter struct {
	bus  *bus.Bus
	user uuid.UUID
	id   uuid.UUID
	op   string

	mu   sync.Mutex
	last time.Time
	at   string // the step of the last report
}

type reporterKey struct{}

// progress is the reporter of the running operation, or one that reports to nobody.
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
