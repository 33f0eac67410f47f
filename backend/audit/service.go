package audit

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// Options configure New. The zero value works.
type Options struct {
	Logger *slog.Logger
	// HeadFile is the file, of mode 0600, that holds the newest signed head outside of the
	// database, so that truncation of the log is detected; "": none.
	HeadFile string
	// SegmentEntries is the maximum size of a segment, default 1,024. SegmentAge is the maximum
	// time from its first entry until it is closed, default 60 s.
	SegmentEntries int
	SegmentAge     time.Duration
	// DetailsDays and EntryDays return how long details and entries are kept; they are called
	// before each sweep. nil: 90 and 400 days. 0 or less: for ever.
	DetailsDays, EntryDays func() int
	// Name returns the name of a subject, for lists; if it is nil or returns "", only the id is shown.
	Name func(ctx context.Context, kind, id string) string
	// Now returns the current time for retention, for tests; nil: time.Now.
	Now func() time.Time
}

// Service manages the log: lists, verification and export, and in Run signing and retention. There
// is one per database. Its methods are safe for concurrent use.
type Service struct {
	db  *storage.DB
	o   Options
	log *slog.Logger

	secrets Redactor
	opened  atomic.Int64 // last entry when the file was opened: runs started before it were interrupted

	mu      sync.Mutex
	cur     head // committed
	have    bool
	next    head // of the uncommitted transaction pending
	pending *storage.Tx

	down         atomic.Pointer[fault.Error] // why the log cannot be written; nil: it can
	probedAt     atomic.Int64
	wake         chan struct{}
	again        atomic.Bool  // the file was replaced: check again for interrupted runs
	adopt        atomic.Bool  // the file was replaced: its log is valid as it is
	statementSeq atomic.Int64 // an entry with a statement; 0: none is known
	closing      sync.Mutex   // held while a segment is closed
	reading      sync.RWMutex // held shared while the log is walked; pruning and erasing hold it exclusively

	heading   sync.Mutex // held while the head file is written
	replacing bool       // guarded by heading: the database is about to be replaced
}

// serviceQuery is published on the database's bus to find the service of that database. Append is a
// plain function of a transaction, and the bus is what it has in common with the service.
type serviceQuery struct{ s **Service }

// New returns a Service on db. It writes nothing; Run does.
func New(db *storage.DB, o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.SegmentEntries <= 0 {
		o.SegmentEntries = 1024
	}
	if o.SegmentAge <= 0 {
		o.SegmentAge = time.Minute
	}
	if o.DetailsDays == nil {
		o.DetailsDays = func() int { return 90 }
	}
	if o.EntryDays == nil {
		o.EntryDays = func() int { return 400 }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Service{db: db, o: o, log: o.Logger, wake: make(chan struct{}, 1)}
	bus.Subscribe(db.Bus(), func(_ uuid.UUID, l serviceQuery) { *l.s = s })
	bus.Subscribe(db.Bus(), func(uuid.UUID, storage.Replacing) { s.replacingSoon() })
	bus.Subscribe(db.Bus(), func(_ uuid.UUID, e storage.Replaced) { s.replaced(e.Same) })
	_ = s.noteOpened()
	return s
}

// serviceOf returns the service of tx's database, or nil.
func serviceOf(tx *storage.Tx) (s *Service) {
	bus.Publish(tx.Bus(), uuid.Nil, serviceQuery{&s})
	return s
}

func (s *Service) redactor() *Redactor {
	if s == nil {
		return nil
	}
	return &s.secrets
}

// KnowSecret registers a secret value. Until forget is called it is replaced wherever it would
// enter the log, in plain, base64, hexadecimal or URL-encoded form. Call it for each value before
// anything uses it.
func (s *Service) KnowSecret(value string) (forget func()) { return s.secrets.Add(value) }

// Redact replaces known secret values and apparent credentials in a text that is meant for a log,
// an error or a stored result.
func (s *Service) Redact(text string) string { return s.secrets.String(text) }

// cachedHead returns the end of the chain as tx sees it, without querying the database.
func (s *Service) cachedHead(tx *storage.Tx) (head, bool) {
	if s == nil {
		return head{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending == tx {
		return s.next, true
	}
	s.pending = nil // the previous transaction was rolled back
	return s.cur, s.have
}

func (s *Service) forgetHead() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.have, s.pending = false, nil
}

// advance moves the head: for tx immediately, for others when it commits.
func (s *Service) advance(tx *storage.Tx, h head) {
	if s == nil {
		return
	}
	s.mu.Lock()
	first := s.pending != tx
	s.pending, s.next = tx, h
	s.mu.Unlock()
	if !first {
		return
	}
	tx.AfterCommit(func() {
		s.mu.Lock()
		if s.pending == tx {
			s.cur, s.have, s.pending = s.next, true, nil
		}
		s.mu.Unlock()
		select {
		case s.wake <- struct{}{}:
		default:
		}
	})
}

// Record commits entries in a transaction of their own: before an action outside the database its
// start, and after it its end. If they cannot be written, the error is Unavailable, the action must
// not happen, and Writable returns the error to all callers until an entry can be written again.
// Entries of calls that run at the same time share commits.
func (s *Service) Record(ctx context.Context, entries ...Entry) error {
	return s.RecordWith(ctx, nil, entries...)
}

// RecordWith is Record with a function that writes in the same transaction, such as the row of the
// run that the entries are about; nil: none. The function may be called twice; see storage.Group.
// It does not wait for the disk if all entries are the ends of acts: after a power failure an act
// whose end was lost appears as interrupted.
func (s *Service) RecordWith(ctx context.Context, with func(*storage.Tx) error, entries ...Entry) error {
	write := s.db.Together().WriteUnsynced
	if slices.ContainsFunc(entries, func(e Entry) bool { return e.Action != Complete && e.Action != Error || e.Outcome == Denied }) {
		write = s.db.Together().Write
	}
	err := write(ctx, len(entries), func(tx *storage.Tx) error {
		for _, e := range entries {
			if err := Append(tx, e); err != nil {
				return err
			}
		}
		if with == nil {
			return nil
		}
		return with(tx)
	})
	return s.note(ctx, err)
}

// note records whether the log could be written.
func (s *Service) note(ctx context.Context, err error) error {
	if err == nil {
		if s.down.Swap(nil) != nil {
			s.log.Info("audit log can be written again")
		}
		return nil
	}
	if ctx.Err() != nil || fault.Is(err, fault.Invalid) || fault.Is(err, fault.Canceled) || fault.Is(err, fault.Timeout) {
		return err
	}
	f := fault.Unavailablef("Couldn't write the audit log, so nothing was done. You can still read data. Free some disk space, then try again.").WithCause(err)
	if s.down.Swap(f) == nil {
		s.log.Error("audit log cannot be written", "error", err)
	}
	return f
}

// Writable returns nil if the audit log is known to be writable, and else Unavailable with the
// reason. While it is not, Writable tries again at most once a second.
func (s *Service) Writable(ctx context.Context) error {
	f := s.down.Load()
	if f == nil {
		return nil
	}
	now := time.Now().UnixMilli()
	last := s.probedAt.Load()
	if now-last < 1000 || !s.probedAt.CompareAndSwap(last, now) {
		return f
	}
	user := s.db.LocalUser().ID
	if id, ok := identity.From(ctx); ok {
		user = id.User
	}
	return s.Record(ctx, Entry{User: user, ActorKind: "system", Action: "audit.resumed", Details: map[string]any{"reason": f.Message}})
}

// Degraded returns why the log cannot be written, for the persistent warning, or "".
func (s *Service) Degraded() string {
	if f := s.down.Load(); f != nil {
		return f.Message
	}
	return ""
}
