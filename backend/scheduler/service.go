package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/scheduler/cadence"
	"helix/backend/storage"
)

// Options configure New. The zero value works.
type Options struct {
	Logger *slog.Logger  // nil: slog.Default()
	Clock  Clock         // nil: the computer's clock
	Poll   time.Duration // how often the wall clock is checked; default 15 s
	// MinInterval is the minimum time between two due times of schedules created by people; default
	// 60 s, negative: none.
	MinInterval time.Duration
	MaxPerUser  int            // schedules per user; default 50
	Lanes       map[string]int // capacities other than the defaults
	// Zone returns the time zone of the operating system; nil: it is queried.
	Zone func() string
	// Condition compiles the condition of a notification, an RFC 9535 logical expression; nil:
	// schedules cannot have conditions.
	Condition func(text string) (holds func(doc any) (bool, error), err error)
	// Callables can be started by schedules, in addition to the targets added by Register; nil: none.
	Callables *callable.Registry
	// Audit writes an entry of the audit log in a transaction; nil: nothing is audited.
	Audit func(*storage.Tx, audit.Entry) error
	// Deliver is called with each notification in its transaction; nil: clients alone show it.
	Deliver func(*storage.Tx, uuid.UUID, Notification) error
	// Leases is the hub's table for schedules that another device may take over; nil: there is never
	// a hub.
	Leases Leases
}

// Service manages schedules. There is one per database; its methods are safe for concurrent use.
type Service struct {
	db    *storage.DB
	o     Options
	log   *slog.Logger
	clock Clock
	wake  chan struct{}
	seq   atomic.Int64
	tasks sync.WaitGroup // calls of targets in progress

	mu       sync.Mutex
	kinds    map[string]*kind
	lanes    map[string]*lane
	live     map[uuid.UUID]*live // runs that have not ended, by id
	targets  map[uuid.UUID]*live // the same by the id of the target's run
	outcomes []outcome
	reload   bool
	skew     int64
	held     map[uuid.UUID]holding
	cads     map[cadKey]*cadence.Cadence
	nextDue  time.Time
	running  bool

	// Used only by the goroutine of Run.
	seenWall  time.Time // wall clock at the last check
	seenMono  time.Duration
	polled    time.Duration
	renewed   time.Duration
	awayFrom  time.Time // while catching up: when checks stopped
	awayWhy   string
	startWall time.Time
	inline    bool // tests: call targets on this goroutine
}

// kind is a registered kind of target.
type kind struct {
	Starter
	lane, title string
}

// Periods used by the rules.
const (
	missedAfter  = time.Minute      // a due time not claimed for this long is missed
	longAfter    = 30 * time.Second // a run that holds a slot for this long moves to the long lane
	cancelWithin = 10 * time.Second // how long to wait for a target that ignores cancel
	stateWithin  = 10 * time.Second // how long to wait for the state from a target
	claimWithin  = 30 * time.Second // time limit of a claim's transaction
	defaultPoll  = 15 * time.Second
	defaultLeast = time.Minute
	perUser      = 50
	claimsAtOnce = 64
	longLane     = "long"
	stopWithin   = 2 * time.Second
)

// capacities are the numbers of slots of the lanes.
var capacities = map[string]int{"skill": 2, "tool": 4, "agent": 2, "synthesis": 1, "decay": 1, longLane: 16}

// New returns a Service on db. Nothing fires before Run.
func New(db *storage.DB, o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Clock == nil {
		o.Clock = newSystemClock()
	}
	if o.Poll <= 0 {
		o.Poll = defaultPoll
	}
	if o.MinInterval == 0 {
		o.MinInterval = defaultLeast
	}
	if o.MaxPerUser == 0 {
		o.MaxPerUser = perUser
	}
	if o.Zone == nil {
		o.Zone = SystemZone
	}
	s := &Service{
		db: db, o: o, log: o.Logger, clock: o.Clock, wake: make(chan struct{}, 1), kinds: map[string]*kind{}, lanes: map[string]*lane{},
		live: map[uuid.UUID]*live{}, targets: map[uuid.UUID]*live{}, held: map[uuid.UUID]holding{}, cads: map[cadKey]*cadence.Cadence{},
	}
	s.lane(longLane)
	return s
}

// Register adds a kind of target. lane names the slots that its runs use; lanes without a known
// capacity have one slot. It must be called before Run.
func (s *Service) Register(name string, st Starter, lane, title string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kinds[name] = &kind{st, lane, title}
	s.lane(lane)
}

// lane returns a lane, which it creates if necessary. The caller must hold mu, unless the service
// is not shared yet.
func (s *Service) lane(name string) *lane {
	l := s.lanes[name]
	if l == nil {
		n := capacities[name]
		if own := s.o.Lanes[name]; own > 0 {
			n = own
		}
		l = &lane{name: name, capacity: max(n, 1), queues: map[uuid.UUID][]*live{}}
		s.lanes[name] = l
	}
	return l
}

// kindLocked is kind with mu held. The lane of a callable is its kind.
func (s *Service) kindLocked(name string) *kind {
	if k := s.kinds[name]; k != nil || s.o.Callables.Starter(callable.Kind(name)) == nil {
		return k
	}
	k := &kind{target{s.o.Callables, callable.Kind(name)}, name, ""}
	s.kinds[name] = k
	s.lane(name)
	return k
}

func (s *Service) kind(name string) *kind {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kindLocked(name)
}

// TargetEnded is the event that a target's run ended, started to wait or continued.
type TargetEnded struct{ Run uuid.UUID }

// Ended reports that a target's run ended, started to wait or continued. Unknown runs are ignored.
func (s *Service) Ended(run uuid.UUID) {
	s.mu.Lock()
	l := s.targets[run]
	if l != nil {
		l.look = true
	}
	s.mu.Unlock()
	if l != nil {
		s.kick()
	}
}

// kick makes Run check immediately.
func (s *Service) kick() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run fires schedules until ctx ends. Active runs are then left to their targets, which continue
// them at the next start.
func (s *Service) Run(ctx context.Context) error {
	s.mu.Lock()
	if s.running {
		s.mu.Unlock()
		return fault.Internalf(errors.New("scheduler: Run twice"), "The scheduler is already running.")
	}
	s.running, s.reload = true, true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.running = false
		s.mu.Unlock()
	}()
	defer bus.Subscribe(s.db.Bus(), func(_ uuid.UUID, e TargetEnded) { s.Ended(e.Run) })()
	defer bus.Subscribe(s.db.Bus(), func(uuid.UUID, storage.Replaced) {
		s.mu.Lock()
		s.reload = true
		s.mu.Unlock()
		s.kick()
	})()
	s.begin()
	for ctx.Err() == nil {
		wait := s.pump(ctx)
		c, stop := s.clock.After(wait)
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-c:
		}
		stop()
	}
	s.interrupt(ctx)
	return nil
}

// begin records when this process started to check.
func (s *Service) begin() {
	s.startWall, s.seenWall, s.seenMono = s.now(), time.Time{}, s.clock.Mono()
	s.polled, s.renewed = s.seenMono, s.seenMono-time.Hour
}

// interrupt marks active runs as interrupted, so that the history shows the effect of a stop.
func (s *Service) interrupt(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE schedule_runs SET status = 'interrupted', updated_at = ? WHERE status = 'running' AND `+open+` AND device_id = ?`, s.now(), s.device())
		return err
	})
	if err != nil {
		s.log.Warn("runs of schedules are not marked as interrupted", "err", err)
	}
}

// Close waits a moment for calls of targets in progress. It may be called without Run.
func (s *Service) Close() error {
	done := make(chan struct{})
	go func() { s.tasks.Wait(); close(done) }()
	t := time.NewTimer(stopWithin)
	defer t.Stop()
	select {
	case <-done:
		return nil
	case <-t.C:
		return errors.New("a target of a schedule does not answer")
	}
}

// task runs fn on a goroutine of its own. A panic is passed to failed as an error.
func (s *Service) task(fn func() error, failed func(error)) {
	work := func() {
		if err := fault.Catch(fn); err != nil {
			failed(err)
		}
	}
	if s.inline {
		work()
		return
	}
	s.tasks.Go(work)
}

// now returns the wall clock time with the precision of the database.
func (s *Service) now() time.Time { return s.clock.Wall().UTC().Truncate(time.Microsecond) }

func (s *Service) device() uuid.UUID { return s.db.Device().ID }

// as returns ctx with the user of a schedule, for targets.
func (s *Service) as(ctx context.Context, user uuid.UUID) context.Context {
	return identity.With(ctx, identity.Identity{User: user, Scopes: identity.Write.Closed(), Client: identity.ClientProgram, Label: "scheduler", Pipe: "schedule"})
}

func (s *Service) changed(tx *storage.Tx, user, id uuid.UUID, change string) {
	e := Changed{Change: change}
	if id != uuid.Nil {
		e.ScheduleID = &id
	}
	tx.AfterCommit(func() { bus.Publish(tx.Bus(), user, e); s.kick() })
}

// audit writes a change to the audit log. actor is "" for the caller; c is nil for a change
// to all schedules.
func (s *Service) audit(tx *storage.Tx, c *sched, actor, change string) error {
	if s.o.Audit == nil {
		return nil
	}
	e := audit.Entry{ActorKind: actor, Action: "schedule." + change, SubjectKind: "schedule"}
	if c != nil {
		e.User, e.SubjectID, e.Details = c.user, c.ScheduleID.String(), map[string]any{"name": c.Name}
	}
	return s.o.Audit(tx, e)
}

func (s *Service) runEvent(tx *storage.Tx, user uuid.UUID, run, schedule uuid.UUID, status string, at time.Time) {
	tx.AfterCommit(func() {
		bus.Publish(tx.Bus(), user, RunEvent{RunID: run, ScheduleID: schedule, Status: status, At: at, Seq: s.seq.Add(1)})
	})
}
