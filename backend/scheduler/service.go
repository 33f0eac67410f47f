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

// Options configure New; the zero value works.
type Options struct {
	Logger *slog.Logger  // nil: slog.Default()
	Clock  Clock         // nil: the computer's
	Poll   time.Duration // how often the wall clock is looked at; default 15 s
	// MinInterval is the shortest time between two due times of people's schedules; default
	// 60 s, negative: any.
	MinInterval time.Duration
	MaxPerUser  int            // schedules a user; default 50
	Lanes       map[string]int // capacities that differ from the defaults
	// Zone names the time zone of the operating system; nil: asks it.
	Zone func() string
	// Condition reads the condition of a notification, an RFC 9535 logical expression; nil:
	// schedules cannot have one.
	Condition func(text string) (holds func(doc any) (bool, error), err error)
	// Callables are what schedules can start beside what Register adds; nil: nothing.
	Callables *callable.Registry
	// Audit writes an entry of the audit log in a transaction; nil: nothing is audited.
	Audit func(*storage.Tx, audit.Entry) error
	// Leases is the hub's table for schedules that another device may take over; nil: there
	// is no hub, and this device fires everything.
	Leases Leases
}

// Service serves schedules. There is one a database; its methods are safe for concurrent use.
type Service struct {
	db    *storage.DB
	o     Options
	log   *slog.Logger
	clock Clock
	wake  chan struct{}
	seq   atomic.Int64
	tasks sync.WaitGroup // calls of targets that go on

	mu       sync.Mutex
	kinds    map[string]*kind
	lanes    map[string]*lane
	live     map[uuid.UUID]*live // runs that are not over, by id
	targets  map[uuid.UUID]*live // the same by the target's run
	outcomes []outcome
	reload   bool
	skew     int64
	held     map[uuid.UUID]holding
	cads     map[cadKey]*cadence.Cadence
	nextDue  time.Time
	running  bool

	// Of the goroutine in Run.
	seenWall  time.Time // when it last looked
	seenMono  time.Duration
	polled    time.Duration
	renewed   time.Duration
	awayFrom  time.Time // while catching up: since when nobody looked
	awayWhy   string
	startWall time.Time
	inline    bool // tests: targets are called on this goroutine
}

// kind is a registered kind of target.
type kind struct {
	Starter
	lane, title string
}

// Times that the rules name.
const (
	missedAfter   = time.Minute      // a due time not claimed for so long is missed
	longAfter     = 30 * time.Second // a run that holds a slot for so long moves to the long lane
	cancelWithin  = 10 * time.Second // a target that ignores cancel for so long is left alone
	stateWithin   = 10 * time.Second // a target that does not tell its state for so long
	claimWithin   = 30 * time.Second // a claim's transaction
	defaultPoll   = 15 * time.Second
	defaultLeast  = time.Minute
	perUser       = 50
	claimsAtOnce  = 64
	longLane      = "long"
	stopWithin    = 2 * time.Second
	settleAttempt = 8
)

// capacities are the slots of each lane.
var capacities = map[string]int{"skill": 2, "tool": 4, "agent": 2, "synthesis": 1, "decay": 1, longLane: 16}

// New makes the service over db. Nothing fires before Run.
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

// Register offers a kind of target. lane names the slots that its runs use; lanes without a
// known capacity have one slot. It is called before Run.
func (s *Service) Register(name string, st Starter, lane, title string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kinds[name] = &kind{st, lane, title}
	s.lane(lane)
}

// lane finds or makes a lane; mu is held or the service is not shared yet.
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

// kindLocked is kind while mu is held. A callable's kind is also its lane.
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

// TargetEnded is the event that a target's run ended, began to wait or went on.
type TargetEnded struct{ Run uuid.UUID }

// Ended tells that a target's run ended, began to wait or went on; unknown runs are ignored.
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

// kick lets Run look at once.
func (s *Service) kick() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run fires schedules until ctx ends. Runs that go on then are left to their targets, which
// continue them at the next start.
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

// begin notes the time from which this process looks.
func (s *Service) begin() {
	s.startWall, s.seenWall, s.seenMono = s.now(), time.Time{}, s.clock.Mono()
	s.polled, s.renewed = s.seenMono, s.seenMono-time.Hour
}

// interrupt marks what goes on, so that the history says what a stop did.
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

// Close waits a moment for calls of targets that go on. It may be called without Run.
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

// task runs fn on a goroutine of its own; a panic becomes failed's error.
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

// now is the wall clock in the precision of the database.
func (s *Service) now() time.Time { return s.clock.Wall().UTC().Truncate(time.Microsecond) }

func (s *Service) device() uuid.UUID { return s.db.Device().ID }

// as is ctx as the user of a schedule, for targets.
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

// audit writes a change to the audit log. actor is "" for the caller; c is nil for all schedules.
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
