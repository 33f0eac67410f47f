package skills

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/lifecycle"
	"helix/backend/schema"
	"helix/backend/storage"
)

// Limits bound skills and their runs. A zero field has its default.
type Limits struct {
	Live           int           // runs of a user that go on at a time; 8
	Queued         int           // runs of a user that wait for their turn; 1,000
	Input          int           // bytes of a run's input; 1 MiB
	Document       int           // bytes of all outputs that a run holds; 16 MiB
	Inline         int           // bytes of an output that are kept in its row, more become a blob; 64 KiB
	WaitInMemory   time.Duration // how long a waiting run stays in memory; 1 min
	CancelPatience time.Duration // how long a canceled call may take to return before the run ends without it; 200 ms
}

func (l Limits) filled() Limits {
	or := func(v *int, otherwise int) {
		if *v <= 0 {
			*v = otherwise
		}
	}
	or(&l.Live, 8)
	or(&l.Queued, 1000)
	or(&l.Input, 1<<20)
	or(&l.Document, 16<<20)
	or(&l.Inline, 64<<10)
	if l.WaitInMemory <= 0 {
		l.WaitInMemory = time.Minute
	}
	if l.CancelPatience <= 0 {
		l.CancelPatience = 200 * time.Millisecond
	}
	return l
}

// Options configure New. The zero value works.
type Options struct {
	Logger    *slog.Logger
	Callables *callable.Registry                   // what steps call; nil: nothing
	Gate      Gate                                 // nil: a missing right is final
	Audit     func(*storage.Tx, audit.Entry) error // nil: nothing is audited
	Questions Questions                            // shows what runs wait for in Approvals; nil: only the runs show it
	Limits    Limits
	Writes    *storage.Group   // commits the journal; nil: one of its own
	Now       func() time.Time // nil: time.Now
	Rand      func() float64   // from 0 to 1, for the jitter of back-offs; nil: math/rand
}

const doors = 32

// Service serves composite skills. There is one a database; its methods are safe for
// concurrent use. Run does the background work.
type Service struct {
	db     *storage.DB
	o      Options
	log    *slog.Logger
	limits Limits

	kind     *lifecycle.Kind
	writes   *storage.Group
	schemas  schema.Cache
	programs programs
	sizes    sizes

	// From reading a run until it is in memory nobody else may do the same: what was read
	// would be old when the other one has carried the run on and left. By the last byte of ids.
	doors [doors]sync.Mutex

	mu          sync.Mutex
	live        map[uuid.UUID]*live           // runs in memory
	lines       map[uuid.UUID]*line           // of each user with live or queued runs
	watchers    map[uuid.UUID][]chan struct{} // get a value when the status of a run changes
	closed      bool
	wg          sync.WaitGroup
	life        context.Context // ends with Close
	stop        context.CancelCauseFunc
	quiet       chan struct{} // closed when nothing may begin any more
	again       chan struct{} // there is something to look for in the database
	counted     atomic.Bool   // the runs that the last process was interrupted with
	uncounted   atomic.Bool   // they could not be counted, and nothing was resumed
	leftRunning atomic.Bool   // a run has left memory before its end and goes on at the next start
	lost        atomic.Bool   // another database has taken the place of the one before
	silence     []func()      // ends what New subscribed to

	evaluating func(run uuid.UUID) // tests: called where the expressions of a run are evaluated
}

// New returns the service.
func New(db *storage.DB, o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	s := &Service{
		db: db, o: o, log: o.Logger, limits: o.Limits.filled(),
		live: map[uuid.UUID]*live{}, lines: map[uuid.UUID]*line{}, watchers: map[uuid.UUID][]chan struct{}{},
		quiet: make(chan struct{}), again: make(chan struct{}, 1),
	}
	s.kind = s.kindOfSkills()
	if s.writes = o.Writes; s.writes == nil {
		s.writes = storage.NewGroup(db, maxGroup)
	}
	s.life, s.stop = context.WithCancelCause(context.Background())
	s.silence = []func(){
		bus.Subscribe(db.Bus(), func(uuid.UUID, storage.Replaced) {
			s.detach()
			s.lost.Store(true)
			s.wake()
		}),
		bus.Subscribe(db.Bus(), s.approvalChanged),
	}
	return s
}

// wake lets Run look for runs to continue.
func (s *Service) wake() {
	select {
	case s.again <- struct{}{}:
	default:
	}
}

// stopTime is how long calls on their way may go on when Helix stops.
const stopTime = time.Second

// Close ends all runs in memory without ending them on record: the next start continues
// them. It gives calls on their way a second, waits for all and may be called twice.
func (s *Service) Close() {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	if first {
		close(s.quiet)
		for _, end := range s.silence {
			end()
		}
	}
	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(done)
	}()
	timer := time.NewTimer(stopTime)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	s.stop(errShutdown)
	<-done
	if first {
		s.noteStop()
	}
}

// background runs fn on a goroutine that Close waits for. A panic in fn is logged and ends
// nothing else. The caller holds mu or knows that the service is not closed.
func (s *Service) background(what string, fn func()) {
	s.wg.Go(func() {
		if err := fault.Catch(func() error { fn(); return nil }); err != nil {
			s.log.Error(what, "error", err)
		}
	})
}

func (s *Service) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// watch gives a channel that gets a value when the status of a run changes.
func (s *Service) watch(run uuid.UUID) (news <-chan struct{}, cancel func()) {
	ch := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers[run] = append(s.watchers[run], ch)
	return ch, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		left := slices.DeleteFunc(s.watchers[run], func(x chan struct{}) bool { return x == ch })
		if s.watchers[run] = left; len(left) == 0 {
			delete(s.watchers, run)
		}
	}
}

// notifyWatchers wakes what waits for a change of a run's status.
func (s *Service) notifyWatchers(run uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ch := range s.watchers[run] {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}
