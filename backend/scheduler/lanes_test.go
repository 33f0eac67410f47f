package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
)

// TestLongRunsDoNotDelayOthers checks that a run that holds a slot for 30 s moves to the long lane.
func TestLongRunsDoNotDelayOthers(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{Lanes: map[string]int{"tool": 2, longLane: 3}})
	m.target.lasts = func(o Occurrence) (time.Duration, TargetState) {
		if o.Name == "short" {
			return 0, TargetState{Status: "success"}
		}
		return 5 * time.Hour, TargetState{Status: "success"}
	}
	for i := range 4 {
		m.create(CreateParams{Name: fmt.Sprint("long ", i), Cadence: cronUTC("0 9 * * *"), MaxRunMs: 6 * 3_600_000})
	}
	short := m.create(CreateParams{Name: "short", Cadence: cronUTC("5 9 * * *")})
	m.run(time.Hour + time.Second)
	lane := func(name string) LaneStatus {
		t.Helper()
		st, err := m.s.Status(m.ctx, struct{}{})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range st.Lanes {
			if l.Lane == name {
				return l
			}
		}
		return LaneStatus{}
	}
	if l := lane("tool"); l.Running != 2 || l.Waiting != 2 {
		t.Errorf("at first %+v", l)
	}
	m.run(2 * time.Minute) // two moved after 30 s, one more after 60 s; then the long lane is full
	if l, long := lane("tool"), lane(longLane); l.Running != 1 || long.Running != 3 || l.Waiting != 0 {
		t.Errorf("then %+v and %+v", l, long)
	}
	m.run(10 * time.Minute)
	m.want(short.ScheduleID, "02 09:05 due success")
	if r := m.rows(short.ScheduleID)[0]; r.LateMs > 1000 {
		t.Errorf("%d ms late", r.LateMs)
	}
	// With both full, the next ones wait, and other lanes are not affected.
	m.create(CreateParams{Name: "long 5", Cadence: cronUTC("20 9 * * *"), MaxRunMs: 6 * 3_600_000})
	wait := m.create(CreateParams{Name: "short", Cadence: cronUTC("25 9 * * *")})
	other := m.create(CreateParams{Name: "short", Cadence: cronUTC("25 9 * * *"), Target: Target{Kind: "skill"}})
	m.run(30 * time.Minute)
	m.want(wait.ScheduleID, "02 09:25 due queued")
	m.want(other.ScheduleID, "02 09:25 due success")
	m.run(5 * time.Hour)
	if r := m.rows(wait.ScheduleID)[0]; r.Status != "success" || r.LateMs < 4*3_600_000 {
		t.Errorf("%s, %d ms late", r.Status, r.LateMs)
	}
}

// TestRoundRobin checks that users are served in turn, however many runs one of them has.
func TestRoundRobin(t *testing.T) {
	t.Parallel()
	l := &lane{name: "x", capacity: 1, queues: map[uuid.UUID][]*live{}}
	a, b, c := uuid.New(), uuid.New(), uuid.New()
	names := map[uuid.UUID]string{a: "a", b: "b", c: "c"}
	for range 4 {
		l.push(&live{runRow: runRow{user: a}})
	}
	extra := &live{runRow: runRow{user: b}}
	l.push(&live{runRow: runRow{user: b}})
	l.push(extra)
	l.push(&live{runRow: runRow{user: c}})
	l.drop(extra)
	got := ""
	for range 10 {
		if r := l.pop(); r != nil {
			got += names[r.user]
			if l.pop() != nil {
				t.Fatal("two of one slot")
			}
			r.slot = l
			r.free(0)
		}
	}
	if got != "abcaaa" || l.waiting() != 0 || l.running != 0 {
		t.Errorf("order %s, %d left", got, l.waiting())
	}
}

// TestWaitingHoldsNoSlot checks that a run that waits for an answer holds no slot, and its time
// does not count.
func TestWaitingHoldsNoSlot(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{Lanes: map[string]int{"tool": 1}})
	m.target.lasts = func(o Occurrence) (time.Duration, TargetState) {
		if o.Name == "asks" {
			return 0, TargetState{Status: "waiting", WaitReason: "approval"}
		}
		return 0, TargetState{Status: "success"}
	}
	asks := m.create(CreateParams{Name: "asks", Cadence: cronUTC("0 9 * * *"), MaxRunMs: 60_000})
	other := m.create(CreateParams{Name: "other", Cadence: cronUTC("5 9 * * *")})
	m.run(3 * time.Hour)
	m.want(asks.ScheduleID, "02 09:00 due waiting/approval")
	m.want(other.ScheduleID, "02 09:05 due success")
	m.start() // also after a restart
	m.run(time.Hour)
	m.want(asks.ScheduleID, "02 09:00 due waiting/approval")
	m.target.mu.Lock()
	for id, r := range m.target.runs {
		if r.occ.Name == "asks" {
			r.state, r.end, r.occ.Input = TargetState{Status: "running"}, m.clock.Wall().Add(30*time.Second), mustJSON(TargetState{Status: "success"})
			m.s.Ended(id)
		}
	}
	m.target.mu.Unlock()
	m.run(time.Second)
	m.want(asks.ScheduleID, "02 09:00 due running")
	m.run(time.Minute)
	m.want(asks.ScheduleID, "02 09:00 due success")
}
