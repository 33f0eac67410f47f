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

// Limits are the limits on skills and their runs. A zero field has its default.
type Limits struct {
	Live           int           // concurrent runs per user; 8
	Queued         int           // queued runs per user; 1,000
	Input          int           // bytes of a run's input; 1 MiB
	Document       int           // total bytes of all outputs of a run; 16 MiB
	Inline         int           // bytes of an output stored in its row, larger ones become blobs; 64 KiB
	WaitInMemory   time.Duration // how long a waiting run stays loaded; 1 min
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
	Callables *callable.Registry                   // that steps can call; nil: none
	Gate      Gate                                 // nil: a missing capability is an error
	Audit     func(*storage.Tx, audit.Entry) error // nil: nothing is audited
	Questions Questions                            // shows what runs wait for in Approvals; nil: only the runs show it
	Limits    Limits
	Hub       lifecycle.Hub    // stores shared skills; nil: skills are shared as files only
	Writes    *storage.Group   // commits the journal; nil: a new one
	Now       func() time.Time // nil: time.Now
	Rand      func() float64   // 0 to 1, for the jitter of back-offs; nil: math/rand
}

const loadLockCount = 32

// Service manages skills. There is one per database; its methods are safe for concurrent use. Run
// does the background work.
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

	// A load lock is held while a run is read and loaded, so that no one else loads the same run: the
	// data read would be stale if the other one had advanced the run and unloaded it. Indexed by
	// the last byte of the run's id.
	loadLocks [loadLockCount]sync.Mutex

	mu          sync.Mutex
	live        map[uuid.UUID]*live           // loaded runs
	queues      map[uuid.UUID]*userQueue      // of each user with running or queued runs
	watchers    map[uuid.UUID][]chan struct{} // receive a value when the status of a run changes
	closed      bool
	wg          sync.WaitGroup
	life        context.Context // ended by Close
	stop        context.CancelCauseFunc
	quiet       chan struct{} // closed when nothing new may start
	again       chan struct{} // the database may contain runs to continue
	counted     atomic.Bool   // the runs that the last process left interrupted have been counted
	uncounted   atomic.Bool   // they could not be counted, so nothing was resumed
	leftRunning atomic.Bool   // a run was unloaded before its end and continues at the next start
	lost        atomic.Bool   // the database has been replaced
	unsubscribe []func()      // subscriptions of New to cancel

	evaluating func(run uuid.UUID) // tests: called where the expressions of a run are evaluated
}

// New returns a Service on db.
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
		live: map[uuid.UUID]*live{}, queues: map[uuid.UUID]*userQueue{}, watchers: map[uuid.UUID][]chan struct{}{},
		quiet: make(chan struct{}), again: make(chan struct{}, 1),
	}
	s.kind = s.kindOfSkills()
	if s.writes = o.Writes; s.writes == nil {
		s.writes = storage.NewGroup(db, maxGroup)
	}
	s.life, s.stop = context.WithCancelCause(context.Background())
	s.unsubscribe = []func(){
		bus.Subscribe(db.Bus(), func(uuid.UUID, storage.Replaced) {
			s.detach()
			s.lost.Store(true)
			s.wake()
		}),
		bus.Subscribe(db.Bus(), s.approvalChanged),
	}
	return s
}

// wake makes Run check for runs to continue.
func (s *Service) wake() {
	select {
	case s.again <- struct{}{}:
	default:
	}
}

// stopTime is how long calls in progress may continue when Helix stops.
const stopTime = time.Second

// Close stops all loaded runs without recording an end, so that the next start continues them. It
// gives calls in progress a second and waits for all runs. It may be called more than once.
func (s *Service) Close() {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	if first {
		close(s.quiet)
		for _, end := range s.unsubscribe {
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

// background runs fn on a goroutine that Close waits for. A panic in fn is logged and has no other
// effect. The caller must hold mu or know that the service is not closed.
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

// watch returns a channel that receives a value when the status of a run changes.
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

// notifyWatchers notifies the watchers of a run that its status has changed.
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
