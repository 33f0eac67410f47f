package cloudsync

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"helix/backend/identity"
	"helix/backend/scheduler"
	"helix/backend/storage"
	"helix/backend/testkit"
)

// leaseClock is a clock that the test advances. Every wait ends with the next step.
type leaseClock struct {
	mu    sync.Mutex
	now   time.Time
	skew  time.Duration
	mono  time.Duration
	waits []chan time.Time
}

func (c *leaseClock) Wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now.Add(c.skew)
}

func (c *leaseClock) Mono() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mono
}

func (c *leaseClock) After(time.Duration) (<-chan time.Time, func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := make(chan time.Time, 1)
	c.waits = append(c.waits, w)
	return w, func() {}
}

// waited reports whether the scheduler has done everything that was due.
func (c *leaseClock) waited() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waits) > 0
}

func (c *leaseClock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.mono = c.now.Add(d), c.mono+d
	for _, w := range c.waits {
		w <- c.now
	}
	c.waits = nil
}

// leaseRuns counts the runs that all devices started, by due time.
type leaseRuns struct {
	mu  sync.Mutex
	due map[string][]string
}

func (r *leaseRuns) by(device string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, list := range r.due {
		for _, d := range list {
			if d == device {
				n++
			}
		}
	}
	return n
}

// leaseTarget is a target whose runs succeed when they are started.
type leaseTarget struct {
	device string
	runs   *leaseRuns
	mu     sync.Mutex
	state  map[uuid.UUID]string
	due    map[uuid.UUID]string
}

func (t *leaseTarget) Check(_ context.Context, x scheduler.Target) (scheduler.Target, error) {
	return x, nil
}

func (t *leaseTarget) Enqueue(_ *storage.Tx, o scheduler.Occurrence) (uuid.UUID, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id := storage.NewID()
	t.state[id], t.due[id] = "queued", fmt.Sprint(o.DueAt.UnixMicro(), o.Attempt)
	return id, nil
}

func (t *leaseTarget) Start(id uuid.UUID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state[id] != "queued" {
		return
	}
	t.state[id] = "success"
	t.runs.mu.Lock()
	defer t.runs.mu.Unlock()
	t.runs.due[t.due[id]] = append(t.runs.due[t.due[id]], t.device)
}

func (t *leaseTarget) State(_ context.Context, id uuid.UUID) (scheduler.TargetState, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return scheduler.TargetState{Status: t.state[id]}, nil
}

func (t *leaseTarget) Cancel(context.Context, uuid.UUID, string) error { return nil }

// leaseCalls counts the calls to the hub in progress.
type leaseCalls struct {
	scheduler.Leases
	n atomic.Int64
}

func (l *leaseCalls) Claim(ctx context.Context, schedule, device uuid.UUID) (scheduler.LeaseGrant, error) {
	l.n.Add(1)
	defer l.n.Add(-1)
	return l.Leases.Claim(ctx, schedule, device)
}

func (l *leaseCalls) Renew(ctx context.Context, schedule, device uuid.UUID, term int64) (scheduler.LeaseGrant, error) {
	l.n.Add(1)
	defer l.n.Add(-1)
	return l.Leases.Renew(ctx, schedule, device, term)
}

func (l *leaseCalls) Record(ctx context.Context, r scheduler.LeaseRecord) (bool, error) {
	l.n.Add(1)
	defer l.n.Add(-1)
	return l.Leases.Record(ctx, r)
}

// leaseDevice is a device with a scheduler.
type leaseDevice struct {
	*device
	name   string
	clock  *leaseClock
	target *leaseTarget
	calls  leaseCalls
	s      *scheduler.Service
	stop   func() // nil while it is not running
}

func (d *leaseDevice) start() {
	d.s = scheduler.New(d.db, scheduler.Options{Clock: d.clock, Poll: time.Minute, Leases: &d.calls, Logger: slog.New(slog.DiscardHandler), Zone: func() string { return "UTC" }})
	d.s.Register("tool", d.target, "tool", "Tool")
	id, _ := identity.From(d.ctx)
	ctx, cancel := context.WithCancel(identity.With(context.Background(), id))
	var done sync.WaitGroup
	done.Go(func() { _ = d.s.Run(ctx) })
	d.stop = func() {
		cancel()
		done.Wait()
		d.stop = nil
		if err := d.s.Close(); err != nil {
			d.t.Error(err)
		}
	}
}

// leasePair returns two devices of a hub with one schedule that fires every minute and that either
// may run. pass advances all clocks, and the hub's by moving its leases.
func leasePair(t *testing.T) (a, b *leaseDevice, runs *leaseRuns, schedule uuid.UUID, pass func(time.Duration)) {
	da, db, dsn := connected(t)
	runs = &leaseRuns{due: map[string][]string{}}
	start := time.Now().UTC().Truncate(time.Second)
	both := make([]*leaseDevice, 2)
	for i, d := range []*device{da, db} {
		name := string(rune('A' + i))
		both[i] = &leaseDevice{device: d, name: name, clock: &leaseClock{now: start},
			target: &leaseTarget{device: name, runs: runs, state: map[uuid.UUID]string{}, due: map[uuid.UUID]string{}}}
		both[i].calls.Leases = d.Leases()
		t.Cleanup(func() {
			if both[i].stop != nil {
				both[i].stop()
			}
		})
	}
	a, b = both[0], both[1]
	a.start()
	made := must[scheduler.Schedule](t)(a.s.Create(a.ctx, scheduler.CreateParams{
		Name: "x", Target: scheduler.Target{Kind: "tool", Name: "x", Input: json.RawMessage(`{}`)},
		Cadence: json.RawMessage(`{"type":"interval","everySecs":60}`), Placement: &scheduler.Placement{Takeover: true},
	}))
	a.now()
	b.now()
	b.start()
	hub := admin(t, dsn)
	return a, b, runs, made.ScheduleID, func(d time.Duration) {
		for _, d := range both { // the clocks stand still while the hub answers
			for d.stop != nil && (!d.clock.waited() || d.calls.n.Load() > 0) {
				time.Sleep(time.Millisecond)
			}
		}
		must[pgconn.CommandTag](t)(hub.Exec(t.Context(), `update public.schedule_leases set expires_at = expires_at - $1::bigint * interval '1 microsecond'`, d.Microseconds()))
		a.clock.pass(d)
		b.clock.pass(d)
	}
}

// passUntil advances the clocks until done.
func passUntil(t *testing.T, what string, pass func(time.Duration), done func() bool) {
	t.Helper()
	testkit.Eventually(t, what, func() bool { // the pauses let the schedulers begin their calls to the hub
		pass(10 * time.Second)
		return done()
	}, func(done bool) bool { return done })
}

func (r *leaseRuns) onlyOnce(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for due, by := range r.due {
		if len(by) != 1 {
			t.Errorf("due time %s ran on %v", due, by)
		}
	}
}

func TestOneDeviceRunsEachDueTimeAndTheOtherTakesOver(t *testing.T) {
	t.Parallel()
	a, b, runs, schedule, pass := leasePair(t)
	passUntil(t, "A runs", pass, func() bool { return runs.by("A") >= 3 })
	if n := runs.by("B"); n != 0 {
		t.Errorf("B ran %d due times while A was there", n)
	}
	a.stop()
	passUntil(t, "B takes over", pass, func() bool { return runs.by("B") >= 3 })
	a.start()
	before := runs.by("A")
	passUntil(t, "B goes on", pass, func() bool { return runs.by("B") >= 6 })
	if n := runs.by("A"); n != before {
		t.Errorf("A ran %d due times while B held the lease", n-before)
	}
	grant := must[scheduler.LeaseGrant](t)(a.Leases().Claim(a.ctx, schedule, uuid.Nil))
	if grant.Held || grant.Term != 2 || grant.TTL <= 0 || grant.Through.IsZero() {
		t.Errorf("A sees %+v", grant)
	}
	must[scheduler.Schedule](t)(a.s.TakeOver(a.ctx, scheduler.ScheduleParams{ScheduleID: schedule}))
	a.Service.mustSync(t, a.ctx)
	b.Service.mustSync(t, b.ctx)
	after := runs.by("A")
	passUntil(t, "A has it again", pass, func() bool { return runs.by("A") >= after+2 })
	runs.onlyOnce(t)
}

func (s *Service) mustSync(t *testing.T, ctx context.Context) {
	t.Helper()
	must[CoordinateResult](t)(s.Coordinate(ctx, CoordinateParams{}))
}

func TestHomeDeviceAloneFiresScheduleWithoutTakeover(t *testing.T) {
	t.Parallel()
	a, b, runs, schedule, pass := leasePair(t)
	must[scheduler.Schedule](t)(a.s.Update(a.ctx, scheduler.UpdateParams{ScheduleID: schedule, Patch: json.RawMessage(`{"placement":{"takeover":false}}`)}))
	a.now()
	b.now()
	passUntil(t, "A runs", pass, func() bool { return runs.by("A") >= 3 })
	a.stop()
	for range 30 {
		pass(time.Minute)
	}
	a.start()
	before := runs.by("A")
	passUntil(t, "A runs again", pass, func() bool { return runs.by("A") > before })
	if n := runs.by("B"); n != 0 {
		t.Errorf("B ran %d due times of A's schedule", n)
	}
	must[struct{}](t)(a.Disconnect(a.ctx, struct{}{}))
	must[struct{}](t)(b.Disconnect(b.ctx, struct{}{}))
	passUntil(t, "without a hub B fires its copy", pass, func() bool { return runs.by("B") > 0 })
}

func TestHubRefusesSecondRunAndFormerTerm(t *testing.T) {
	t.Parallel()
	da, db, dsn := connected(t)
	a, b := da.Leases(), db.Leases()
	schedule, now := uuid.New(), time.Now().Truncate(time.Second)
	record := func(l scheduler.Leases, run uuid.UUID, due time.Time, attempt int, term int64) bool {
		t.Helper()
		return must[bool](t)(l.Record(t.Context(), scheduler.LeaseRecord{Schedule: schedule, Run: run, DueAt: due, Attempt: attempt, Term: term}))
	}
	first := must[scheduler.LeaseGrant](t)(a.Claim(t.Context(), schedule, uuid.Nil))
	if !first.Held || first.Term != 1 || first.TTL > 10*time.Minute || first.TTL < 9*time.Minute {
		t.Fatalf("first claim: %+v", first)
	}
	if g := must[scheduler.LeaseGrant](t)(b.Claim(t.Context(), schedule, uuid.Nil)); g.Held || g.Holder != first.Holder {
		t.Errorf("claim of a held lease: %+v", g)
	}
	run := uuid.New()
	for range 2 { // an answer that was lost is asked for again
		if !record(a, run, now, 0, 1) {
			t.Error("a run was not recorded")
		}
	}
	if record(a, uuid.New(), now, 0, 1) || record(b, uuid.New(), now, 0, 1) {
		t.Error("a second run of a due time was recorded")
	}
	if record(b, uuid.New(), now.Add(time.Minute), 0, 1) {
		t.Error("a device without the lease recorded a run")
	}
	hub := admin(t, dsn)
	expire := func(ago string) {
		t.Helper()
		must[pgconn.CommandTag](t)(hub.Exec(t.Context(), `update public.schedule_leases set expires_at = now() - $1::interval`, ago))
	}
	expire("50 seconds")
	if g := must[scheduler.LeaseGrant](t)(b.Claim(t.Context(), schedule, uuid.Nil)); g.Held {
		t.Error("a lease was taken within a minute of its end")
	}
	expire("70 seconds")
	if g := must[scheduler.LeaseGrant](t)(b.Claim(t.Context(), schedule, uuid.Nil)); !g.Held || g.Term != 2 || !g.Through.Equal(now) {
		t.Errorf("claim of an expired lease: %+v", g)
	}
	if record(a, uuid.New(), now.Add(time.Minute), 0, 1) {
		t.Error("a former term recorded a run")
	}
	if g := must[scheduler.LeaseGrant](t)(a.Renew(t.Context(), schedule, uuid.Nil, 1)); g.Held {
		t.Error("a former term was renewed")
	}
	if !record(b, uuid.New(), now.Add(time.Minute), 0, 2) {
		t.Error("the holder could not record a run")
	}
}

// TestLeaseStorm cuts devices off, sets their clocks wrong, kills them and hands the schedule over at
// random. No due time runs twice, and after a quiet time the schedule runs.
func TestLeaseStorm(t *testing.T) {
	t.Parallel()
	steps := 25
	if os.Getenv("HELIX_LONG") != "" {
		steps = 2000
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	a, b, runs, schedule, pass := leasePair(t)
	devices := []*leaseDevice{a, b}
	for range steps {
		d := devices[r.IntN(2)]
		switch r.IntN(6) {
		case 0:
			if d.stop != nil {
				d.stop()
			} else {
				d.start()
			}
		case 1:
			d.clock.mu.Lock()
			d.clock.skew = time.Duration(r.IntN(601)-300) * time.Second
			d.clock.mu.Unlock()
		case 2:
			if d.stop != nil {
				_, _ = d.s.TakeOver(d.ctx, scheduler.ScheduleParams{ScheduleID: schedule}) // may be cut off
			}
		case 3:
			_, _ = d.Coordinate(d.ctx, CoordinateParams{})
		}
		pass(time.Duration(10+r.IntN(400)) * time.Second)
	}
	for _, d := range devices {
		d.clock.mu.Lock()
		d.clock.skew = 0
		d.clock.mu.Unlock()
		if d.stop == nil {
			d.start()
		}
		d.now()
	}
	before := runs.by("A") + runs.by("B")
	passUntil(t, "the schedule runs", pass, func() bool { return runs.by("A")+runs.by("B") > before })
	runs.onlyOnce(t)
}
