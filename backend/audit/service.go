package audit

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// Options configure New; the zero value works.
type Options struct {
	Logger *slog.Logger
	// HeadFile is where the newest signed head is kept beside the database, mode 0600, so that
	// a log that was cut off at its end shows; "" keeps none.
	HeadFile string
	// SegmentEntries closes a segment, default 1,024; SegmentAge closes it that long after its
	// first entry, default 60 s.
	SegmentEntries int
	SegmentAge     time.Duration
	// DetailsDays and EntryDays say how long details and entries stay, read before each sweep.
	// nil: 90 and 400 days. 0 or less keeps them for ever.
	DetailsDays, EntryDays func() int
	// Name says what a subject is called, for lists; nil or "" shows the id only.
	Name func(ctx context.Context, kind, id string) string
	// Now is the clock of retention, for tests; nil is time.Now.
	Now func() time.Time
}

// Service serves the log: lists, verification, export, and in Run signing and retention.
// There is one a database. Methods are safe for concurrent use.
type Service struct {
	db  *storage.DB
	o   Options
	log *slog.Logger

	secrets Redactor
	opened  atomic.Int64 // the last entry when the file was opened: runs open before it were cut off

	mu      sync.Mutex
	cur     head // committed
	have    bool
	next    head // of the transaction pending, not committed
	pending *storage.Tx

	down     atomic.Pointer[fault.Error] // why the log cannot be written, nil when it can
	probedAt atomic.Int64
	wake     chan struct{}
	again    atomic.Bool  // the file was replaced: look again for what was cut off
	adopt    atomic.Bool  // the file was replaced: its log goes on where it ends
	modern   atomic.Int64 // an entry with a statement, 0: none is known
	closing  sync.Mutex   // one segment is closed at a time
	reading  sync.RWMutex // nothing is pruned or erased while somebody walks the log

	heading   sync.Mutex // the head file is written by one
	replacing bool       // guarded by heading: another database is about to be put in place
}

// located asks on the database's bus for the service of that database: Append is a plain
// function of a transaction, and the bus is what both know.
type located struct{ s **Service }

// New returns the service of db. It writes nothing; Run does.
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
	bus.Subscribe(db.Bus(), func(_ uuid.UUID, l located) { *l.s = s })
	bus.Subscribe(db.Bus(), func(uuid.UUID, storage.Replacing) { s.replacingSoon() })
	bus.Subscribe(db.Bus(), func(_ uuid.UUID, e storage.Replaced) { s.replaced(e.Same) })
	_ = s.noteOpened()
	return s
}

// serviceOf is the service of tx's database, nil when there is none.
func serviceOf(tx *storage.Tx) (s *Service) {
	bus.Publish(tx.Bus(), uuid.Nil, located{&s})
	return s
}

func (s *Service) redactor() *Redactor {
	if s == nil {
		return nil
	}
	return &s.secrets
}

// KnowSecret makes a secret value known: from now on it is replaced wherever it would enter
// the log, in plain, base64, hexadecimal or URL-encoded form, until forget is called. Call it
// for each value before anything uses it.
func (s *Service) KnowSecret(value string) (forget func()) { return s.secrets.Add(value) }

// Redact replaces known secret values and what looks like a credential in a text that is
// meant for a log, an error or a stored result.
func (s *Service) Redact(text string) string { return s.secrets.String(text) }

// cachedHead is the end of the chain as tx sees it, without asking the database.
func (s *Service) cachedHead(tx *storage.Tx) (head, bool) {
	if s == nil {
		return head{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending == tx {
		return s.next, true
	}
	s.pending = nil // the transaction before this one was rolled back
	return s.cur, s.have
}

func (s *Service) forgetHead() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.have, s.pending = false, nil
}

// advance moves the head: for tx at once, for everybody when it commits.
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

// Record commits entries in a transaction of their own: the start of an act outside the
// database, before it, or its end, after it. When they cannot be written the answer is
// Unavailable, the act must not happen, and Writable says so to everybody until an entry
// could be written again.
func (s *Service) Record(ctx context.Context, entries ...Entry) error {
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		for _, e := range entries {
			if err := Append(tx, e); err != nil {
				return err
			}
		}
		return nil
	})
	return s.note(ctx, err)
}

// note remembers whether the log could be written.
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

// Writable is nil when the audit log can be written, as far as is known, and Unavailable
// with the reason otherwise. While it cannot, it tries again at most once a second.
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

// Degraded is why the log cannot be written, for the warning that stays visible, and "" when
// it can.
func (s *Service) Degraded() string {
	if f := s.down.Load(); f != nil {
		return f.Message
	}
	return ""
}
