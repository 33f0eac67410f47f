package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/skills/expr"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

func TestMain(m *testing.M) {
	if serveKillChild() {
		return
	}
	os.Exit(testkit.Run(m))
}

// simClock is a simulated clock with separate wall and monotonic times, which tests advance.
type simClock struct {
	mu   sync.Mutex
	wall time.Time
	mono time.Duration
	fuse int    // the process is killed after this many reads of the clock; 0: never
	kill func() // ends it
}

// burn counts a read of the clock. mu is held.
func (c *simClock) burn() {
	if c.fuse > 0 {
		if c.fuse--; c.fuse == 0 {
			c.kill()
		}
	}
}

func (c *simClock) Wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.burn()
	return c.wall
}

func (c *simClock) Mono() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.burn()
	return c.mono
}

func (c *simClock) After(time.Duration) (<-chan time.Time, func()) { return nil, func() {} }

// pass advances the time; asleep advances only the wall clock.
func (c *simClock) pass(d time.Duration, asleep bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = c.wall.Add(d)
	if !asleep {
		c.mono += d
	}
}

// simRun is a run of the test's target.
type simRun struct {
	occ    Occurrence
	starts int
	state  TargetState
	end    time.Time // when it ends by itself; zero: immediately
}

// simTarget is a target in memory. Runs that are not committed are ignored.
type simTarget struct {
	clock Clock
	mu    sync.Mutex
	runs  map[uuid.UUID]*simRun
	made  map[uuid.UUID]*simRun // includes uncommitted ones, but only committed ones are queried
	order []uuid.UUID           // in the order of their starts
	// lasts returns the duration and the result of a run; nil: immediate success.
	lasts     func(Occurrence) (time.Duration, TargetState)
	enqueue   func(Occurrence) error
	check     func(Target) error
	onStart   func(Occurrence)
	done      func(uuid.UUID)
	ignores   bool // ignores cancel
	dead      bool // its process was killed: nothing happens any more
	cancelled []string
}

func (t *simTarget) Check(_ context.Context, target Target) (Target, error) {
	if t.check != nil {
		if err := t.check(target); err != nil {
			return target, err
		}
	}
	if target.Name == "" {
		target.Name = "target"
	}
	return target, nil
}

func (t *simTarget) Enqueue(tx *storage.Tx, occ Occurrence) (uuid.UUID, error) {
	if t.dead {
		return uuid.Nil, context.Canceled
	}
	if t.enqueue != nil {
		if err := t.enqueue(occ); err != nil {
			return uuid.Nil, err
		}
	}
	id := storage.NewID()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.made == nil {
		t.made = map[uuid.UUID]*simRun{}
	}
	t.made[id] = &simRun{occ: occ, state: TargetState{Status: "queued"}}
	tx.AfterCommit(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.run(id)
	})
	return id, nil
}

// run returns a run. mu is held.
func (t *simTarget) run(id uuid.UUID) *simRun {
	if r := t.made[id]; r != nil {
		delete(t.made, id)
		t.runs[id] = r
	}
	return t.runs[id]
}

func (t *simTarget) Start(id uuid.UUID) {
	t.mu.Lock()
	r := t.run(id)
	if t.dead {
		t.mu.Unlock()
		return
	}
	r.starts++
	first := r.starts == 1
	if first {
		t.order = append(t.order, id)
		r.state.Status = "running"
	}
	t.mu.Unlock()
	if t.onStart != nil {
		t.onStart(r.occ)
	}
	if !first {
		return
	}
	d, st := time.Duration(0), TargetState{Status: "success", Output: json.RawMessage(`"done"`)}
	if t.lasts != nil {
		d, st = t.lasts(r.occ)
	}
	if t.done != nil {
		defer t.done(id)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r.end = t.clock.Wall().Add(d)
	if d == 0 {
		r.state = st
	} else {
		r.state = TargetState{Status: "running"}
	}
	r.occ.Input = mustJSON(st) // what it will be
}

func (t *simTarget) State(_ context.Context, id uuid.UUID) (TargetState, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.run(id)
	if r == nil {
		return TargetState{}, fault.NotFoundf("no such run")
	}
	if r.state.Status == "running" && !t.clock.Wall().Before(r.end) {
		if err := json.Unmarshal(r.occ.Input, &r.state); err != nil {
			return TargetState{}, err
		}
	}
	return r.state, nil
}

// nextEnd returns when the next run ends by itself.
func (t *simTarget) nextEnd() (at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.runs {
		if r.state.Status == "running" && (at.IsZero() || r.end.Before(at)) {
			at = r.end
		}
	}
	return at
}

// report reports ended runs to the scheduler.
func (t *simTarget) report(s *Service) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, r := range t.runs {
		if r.state.Status == "running" && !t.clock.Wall().Before(r.end) {
			s.Ended(id)
		}
	}
}

func (t *simTarget) Cancel(_ context.Context, id uuid.UUID, reason string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cancelled = append(t.cancelled, reason)
	if t.dead {
		return nil
	}
	if r := t.runs[id]; r != nil && !t.ignores && isOpen(r.state.Status) {
		r.state = TargetState{Status: "cancelled"}
	}
	return nil
}

// sim is a scheduler that a test runs step by step.
type sim struct {
	t      testing.TB
	db     *storage.DB
	ctx    context.Context
	life   context.Context // of the process
	clock  *simClock
	target *simTarget
	s      *Service
	o      Options
}

var simStart = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC) // a Monday

func newSim(t testing.TB, o Options) *sim {
	db := storagetest.Open(t)
	c := &simClock{wall: simStart}
	m := &sim{t: t, db: db, ctx: storagetest.Ctx(t, db), clock: c, o: o}
	m.life = m.ctx
	m.target = &simTarget{clock: c, runs: map[uuid.UUID]*simRun{}}
	m.o.Clock = c
	if m.o.Poll == 0 {
		m.o.Poll = time.Hour // disables polling
	}
	if m.o.Zone == nil {
		m.o.Zone = func() string { return "Europe/Berlin" }
	}
	m.o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	m.o.Condition = func(text string) (func(any) (bool, error), error) {
		c, err := expr.ParseCondition(text)
		if err != nil {
			return nil, err
		}
		return c.Holds, nil
	}
	m.start()
	return m
}

// start creates a new service on the same database, like a new process.
func (m *sim) start() {
	m.s = New(m.db, m.o)
	m.s.inline = true
	m.s.Register("skill", m.target, "skill", "Skill")
	m.s.Register("tool", m.target, "tool", "Tool")
	m.s.reload, m.s.running = true, true
	m.s.begin()
}

// step does everything that is due at this moment.
func (m *sim) step() time.Duration {
	m.t.Helper()
	for range 500 {
		wait := m.s.pump(m.life)
		if m.life.Err() != nil {
			return time.Minute // it was killed
		}
		m.s.mu.Lock()
		for id, l := range m.s.targets {
			if st, _ := m.target.State(m.ctx, id); st.Status != "running" && st.Status != "queued" && !(st.Status == "waiting" && l.phase == parked) {
				l.look = true
				wait = 0
			}
		}
		m.s.mu.Unlock()
		select {
		case <-m.s.wake:
			continue
		default:
		}
		if wait > 0 {
			return wait
		}
	}
	m.t.Fatal("the scheduler never rests")
	return 0
}

// run advances the time while awake, in the steps that the scheduler requests.
func (m *sim) run(d time.Duration) {
	m.t.Helper()
	for end := m.clock.Wall().Add(d); ; {
		wait := m.step()
		left := end.Sub(m.clock.Wall())
		if left <= 0 {
			return
		}
		wait = min(max(wait, time.Millisecond), left)
		if end := m.target.nextEnd(); !end.IsZero() && end.After(m.clock.Wall()) {
			wait = min(wait, end.Sub(m.clock.Wall()))
		}
		m.clock.pass(wait, false)
		m.target.report(m.s)
	}
}

// sleep advances the time while asleep, then wakes up.
func (m *sim) sleep(d time.Duration) {
	m.t.Helper()
	m.clock.pass(d, true)
	m.step()
}

func (m *sim) create(p CreateParams) Schedule {
	m.t.Helper()
	if p.Name == "" {
		p.Name = "job"
	}
	if p.Target.Kind == "" {
		p.Target.Kind = "tool"
	}
	c, err := m.s.Create(m.ctx, p)
	if err != nil {
		m.t.Fatalf("create: %v", err)
	}
	return c
}

func (m *sim) get(id uuid.UUID) Schedule {
	m.t.Helper()
	c, err := m.s.Get(m.ctx, ScheduleParams{id})
	if err != nil {
		m.t.Fatal(err)
	}
	return c
}

// rows returns all runs of a schedule, oldest due time first.
func (m *sim) rows(id uuid.UUID) (out []Run) {
	m.t.Helper()
	err := m.db.Read(m.ctx, func(tx *storage.Tx) error {
		list, err := queryRuns(tx, `WHERE r.schedule_id = ? ORDER BY r.due_at, r.attempt, r.id`, id)
		for _, r := range list {
			out = append(out, r.Run)
		}
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return out
}

// course formats the rows of a schedule: "09:00 due success".
func (m *sim) course(id uuid.UUID) string {
	m.t.Helper()
	var out []string
	for _, r := range m.rows(id) {
		text := fmt.Sprintf("%s %s %s", r.DueAt.Format("02 15:04"), r.Trigger, r.Status)
		if r.Attempt > 0 {
			text += fmt.Sprintf(" #%d", r.Attempt)
		}
		if r.Reason != "" {
			text += "/" + r.Reason
		}
		if r.MissedCount != nil {
			text += fmt.Sprintf(" %d until %s", *r.MissedCount, r.LastMissedAt.Format("02 15:04"))
			if r.MissedMore {
				text += " more"
			}
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

func (m *sim) want(id uuid.UUID, want ...string) {
	m.t.Helper()
	if got := m.course(id); got != strings.Join(want, "; ") {
		m.t.Errorf("course:\n got %s\nwant %s", got, strings.Join(want, "; "))
	}
}

func (m *sim) notices() (out []string) {
	m.t.Helper()
	r, err := m.s.Notices(m.ctx, struct{}{})
	if err != nil {
		m.t.Fatal(err)
	}
	for _, n := range r.Notices {
		out = append(out, n.Level+": "+n.Title)
	}
	return out
}

func cronUTC(text string) json.RawMessage {
	return mustJSON(map[string]string{"type": "cron", "expression": text, "timezone": "UTC"})
}

func every(d time.Duration) json.RawMessage {
	return mustJSON(map[string]any{"type": "interval", "everySecs": int64(d / time.Second)})
}

func onceAt(at time.Time) json.RawMessage {
	return mustJSON(map[string]any{"type": "once", "at": at})
}

func ptr[T any](v T) *T { return &v }

func failing(kind string) func(Occurrence) (time.Duration, TargetState) {
	return func(Occurrence) (time.Duration, TargetState) {
		return 0, TargetState{Status: "failed", Error: &RunError{Kind: kind, Message: "it broke"}}
	}
}

var errPlain = errors.New("plain")

type uuidT = uuid.UUID

func storageOther(t testing.TB, m *sim) context.Context { return storagetest.OtherUser(t, m.db) }
