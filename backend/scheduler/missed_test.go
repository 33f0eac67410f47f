package scheduler

import (
	"strings"
	"testing"
	"time"
)

// TestThreeMissedTimesAfterSleep checks each policy for missed times.
func TestThreeMissedTimesAfterSleep(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string][]string{
		"skip": {"02 09:00 due success", "02 10:00 due missed/asleep", "02 11:00 due missed/asleep", "02 12:00 due missed/asleep", "02 13:00 due success"},
		"once": {"02 09:00 due success", "02 10:00 due missed/asleep", "02 11:00 due missed/asleep", "02 12:00 catchup success", "02 13:00 due success"},
		"all":  {"02 09:00 due success", "02 10:00 catchup success", "02 11:00 catchup success", "02 12:00 catchup success", "02 13:00 due success"},
	} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			m := newSim(t, Options{})
			c := m.create(CreateParams{Cadence: cronUTC("0 * * * *"), MissedPolicy: policy})
			m.run(90 * time.Minute)
			m.sleep(3 * time.Hour)
			m.run(45 * time.Minute)
			m.want(c.ScheduleID, want...)
			if policy == "skip" {
				if n := m.notices(); len(n) != 1 || n[0] != "info: 3 scheduled times were missed" {
					t.Errorf("notices %q", n)
				}
			}
			if policy == "all" { // one at a time, oldest first
				var at []time.Time
				for _, id := range m.target.order {
					at = append(at, m.target.runs[id].occ.DueAt)
				}
				for i := 1; i < len(at); i++ {
					if !at[i-1].Before(at[i]) {
						t.Errorf("order %v", at)
					}
				}
			}
			for _, r := range m.rows(c.ScheduleID) {
				if r.Status == "missed" && (r.StartedAt == nil || r.StartedAt.Before(simStart.Add(89*time.Minute)) || r.FinishedAt.Sub(*r.StartedAt) < 3*time.Hour) {
					t.Errorf("asleep %v to %v", r.StartedAt, r.FinishedAt)
				}
			}
		})
	}
}

// TestCatchUpRunsAreLimited checks that the newest 24 run and the others are missed; outside of the grace
// period all are.
func TestCatchUpRunsAreLimited(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{})
	c := m.create(CreateParams{Cadence: cronUTC("0 * * * *"), MissedPolicy: "all", GraceSecs: ptr[int64](100 * 3600)})
	m.step()
	m.sleep(30*time.Hour + 10*time.Minute)
	rows := m.rows(c.ScheduleID)
	if len(rows) != 30 {
		t.Fatalf("%d rows", len(rows))
	}
	for i, r := range rows {
		if want := i < 6; want != (r.Status == "missed") || !want && r.Status != "success" {
			t.Errorf("%v %s", r.DueAt, r.Status)
		}
	}
	if len(m.target.order) != 24 {
		t.Errorf("%d runs", len(m.target.order))
	}
}

func TestWakeAroundADueTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sleep time.Duration // from 08:00 on
		grace int64
		want  []string
	}{
		"1 ms before":         {25*time.Hour - time.Millisecond, 86400, []string{"02 09:00 catchup success", "03 09:00 due success"}},
		"1 ms after":          {25*time.Hour + time.Millisecond, 86400, []string{"02 09:00 due missed/asleep", "03 09:00 due success"}},
		"60 s after is due":   {time.Hour + time.Minute, 0, []string{"02 09:00 due success"}},
		"61 s after is late":  {time.Hour + 61*time.Second, 0, []string{"02 09:00 due missed/asleep"}},
		"last of the grace":   {time.Hour + 2*time.Hour, 7200, []string{"02 09:00 catchup success"}},
		"just past the grace": {time.Hour + 2*time.Hour + time.Second, 7200, []string{"02 09:00 due missed/asleep"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newSim(t, Options{})
			s := m.create(CreateParams{Cadence: cronUTC("0 9 * * *"), GraceSecs: &c.grace})
			m.step()
			m.sleep(c.sleep)
			m.run(time.Second)
			m.want(s.ScheduleID, c.want...)
		})
	}
}

// TestSleepAcrossAClockChange sleeps in the night to 29 March 2026, when Berlin's clocks skip 02:30.
func TestSleepAcrossAClockChange(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{})
	m.clock.wall = time.Date(2026, 3, 27, 12, 0, 0, 0, time.UTC)
	daily := m.create(CreateParams{Cadence: mustJSON(map[string]string{"type": "cron", "expression": "30 2 * * *", "timezone": "Europe/Berlin"}), MissedPolicy: "all", GraceSecs: ptr[int64](7 * 86400)})
	m.step()
	m.sleep(72 * time.Hour)
	m.want(daily.ScheduleID, "28 01:30 catchup success", "29 01:00 catchup success", "30 00:30 catchup success")
}

func TestClockSetBack(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{})
	c := m.create(CreateParams{Cadence: cronUTC("0 * * * *")})
	m.run(3*time.Hour + 10*time.Minute)
	want := []string{"02 09:00 due success", "02 10:00 due success", "02 11:00 due success"}
	m.want(c.ScheduleID, want...)
	m.clock.pass(-2*time.Hour, true)
	m.run(2*time.Hour + 30*time.Minute) // 09:10 to 11:40 again: nothing fires twice
	m.want(c.ScheduleID, want...)
	m.start()
	m.run(30 * time.Minute)
	m.want(c.ScheduleID, append(want, "02 12:00 due success")...)
}

func TestClockSetForward(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{})
	c := m.create(CreateParams{Cadence: cronUTC("0 9 * * *"), GraceSecs: ptr[int64](3600)})
	m.step()
	m.sleep(48*time.Hour + 3*time.Hour)
	m.want(c.ScheduleID, "02 09:00 due missed/asleep", "03 09:00 due missed/asleep", "04 09:00 due missed/asleep")
	m.clock.pass(-48*time.Hour, true) // and back
	m.run(24 * time.Hour)
	m.want(c.ScheduleID, "02 09:00 due missed/asleep", "03 09:00 due missed/asleep", "04 09:00 due missed/asleep")
	m.run(72 * time.Hour)
	if got := m.course(c.ScheduleID); !strings.HasSuffix(got, "05 09:00 due success; 06 09:00 due success") {
		t.Error(got)
	}
}

// TestNotRunning checks that a daily job is not lost if the computer sleeps or Helix is not running
// at its minute.
func TestNotRunning(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{})
	c := m.create(CreateParams{Cadence: cronUTC("0 9 * * *")})
	m.step()
	m.clock.pass(26*time.Hour+time.Minute, true)
	m.start()
	m.run(time.Hour)
	m.want(c.ScheduleID, "02 09:00 due missed/not_running", "03 09:00 catchup success")
}

// TestCatchUpAfterAYear checks that a minutely schedule leaves one row for all missed times.
func TestCatchUpAfterAYear(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{})
	c := m.create(CreateParams{Cadence: cronUTC("* * * * *")})
	hundred := m.create(CreateParams{Cadence: every(24 * time.Hour), MissedPolicy: "skip"})
	m.step()
	m.sleep(365 * 24 * time.Hour)
	rows := m.rows(c.ScheduleID)
	// The last minute is claimed in time; all earlier ones share one row.
	if len(rows) != 2 || rows[0].Status != "missed" || rows[1].Status != "success" {
		t.Fatal(m.course(c.ScheduleID))
	}
	r := rows[0]
	if *r.MissedCount != maxWalk || !r.MissedMore || !r.DueAt.Equal(simStart.Add(time.Minute)) || !r.LastMissedAt.Equal(m.clock.Wall().Add(-time.Minute)) {
		t.Errorf("row %v to %v, %d, %v", r.DueAt, r.LastMissedAt, *r.MissedCount, r.MissedMore)
	}
	rows = m.rows(hundred.ScheduleID)
	if len(rows) != 2 || *rows[0].MissedCount != 364 || rows[0].MissedMore {
		t.Error(m.course(hundred.ScheduleID))
	}
}

func TestPauseIsNotMissing(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{})
	one := m.create(CreateParams{Name: "one", Cadence: cronUTC("0 * * * *"), MissedPolicy: "all"})
	two := m.create(CreateParams{Name: "two", Cadence: cronUTC("30 * * * *"), MissedPolicy: "all"})
	if _, err := m.s.Pause(m.ctx, ScheduleParams{one.ScheduleID}); err != nil {
		t.Fatal(err)
	}
	m.run(2 * time.Hour)
	m.want(one.ScheduleID)
	c, err := m.s.Resume(m.ctx, ScheduleParams{one.ScheduleID})
	if err != nil || !c.NextRunAt.After(m.clock.Wall()) {
		t.Fatalf("%v, %v", c.NextRunAt, err)
	}
	until := m.clock.Wall().Add(90 * time.Minute) // 10:00 to 11:30
	if _, err := m.s.PauseAll(m.ctx, PauseAllParams{Until: &until}); err != nil {
		t.Fatal(err)
	}
	m.start() // the pause persists across a restart
	m.run(time.Hour)
	if st, err := m.s.Status(m.ctx, struct{}{}); err != nil || !st.PausedAll || !st.PausedUntil.Equal(until) || st.NextDue != nil {
		t.Errorf("status %+v, %v", st, err)
	}
	m.sleep(2 * time.Hour) // past its end: 12:00 and 12:30 were missed, the times in the pause were not
	m.want(one.ScheduleID, "02 12:00 catchup success", "02 13:00 due success")
	m.want(two.ScheduleID, "02 08:30 due success", "02 09:30 due success", "02 11:30 catchup success", "02 12:30 catchup success")
	// Times that were due when it was paused are accounted for.
	m.clock.pass(2*time.Hour+10*time.Minute, true)
	if _, err := m.s.PauseAll(m.ctx, PauseAllParams{}); err != nil {
		t.Fatal(err)
	}
	m.step()
	m.clock.pass(5*time.Hour, false)
	if _, err := m.s.ResumeAll(m.ctx, struct{}{}); err != nil {
		t.Fatal(err)
	}
	m.run(time.Minute)
	if got := m.course(one.ScheduleID); !strings.HasSuffix(got, "02 14:00 due missed/paused; 02 15:00 due missed/paused") {
		t.Error(got)
	}
}

func TestEditSkipsDueTimesBeforeIt(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{})
	c := m.create(CreateParams{Cadence: cronUTC("0 9 * * *")})
	m.step()
	m.clock.pass(70*time.Minute, true) // 09:10, not checked yet
	u, err := m.s.Update(m.ctx, UpdateParams{ScheduleID: c.ScheduleID, Patch: mustJSON(map[string]any{"cadence": cronUTC("5 9 * * *")}), ExpectedRevision: 1})
	if err != nil || u.Revision != 2 || !u.NextRunAt.Equal(simStart.Add(25*time.Hour+5*time.Minute)) {
		t.Fatalf("%+v, %v", u, err)
	}
	m.run(24 * time.Hour)
	m.want(c.ScheduleID, "02 09:00 due missed/edited", "03 09:05 due success")
	// Changing the name loses no due time.
	m.clock.pass(24*time.Hour, true)
	if _, err := m.s.Update(m.ctx, UpdateParams{ScheduleID: c.ScheduleID, Patch: []byte(`{"name":"other"}`)}); err != nil {
		t.Fatal(err)
	}
	m.step()
	m.want(c.ScheduleID, "02 09:00 due missed/edited", "03 09:05 due success", "04 09:05 catchup success")
	if _, err := m.s.Update(m.ctx, UpdateParams{ScheduleID: c.ScheduleID, Patch: []byte(`{"name":"x"}`), ExpectedRevision: 1}); err == nil || !strings.Contains(err.Error(), "has changed since") {
		t.Errorf("stale edit: %v", err)
	}
}

// TestIntervalDoesNotDrift uses runs of different durations; one is due every 90 s.
func TestIntervalDoesNotDrift(t *testing.T) {
	t.Parallel()
	n := 250
	switch {
	case long():
		n = 10_000
	case raced:
		n = 20
	}
	m := newSim(t, Options{})
	i := 0
	m.target.lasts = func(Occurrence) (time.Duration, TargetState) {
		i++
		return time.Duration(i*7919%85) * time.Second, TargetState{Status: "success"}
	}
	c := m.create(CreateParams{Cadence: every(90 * time.Second)})
	m.run(time.Duration(n) * 90 * time.Second)
	rows := m.rows(c.ScheduleID)
	if len(rows) != n {
		t.Fatalf("%d rows", len(rows))
	}
	for i, r := range rows {
		if want := simStart.Add(time.Duration(i+1) * 90 * time.Second); !r.DueAt.Equal(want) || r.Status == "skipped" {
			t.Fatalf("run %d: due %v %s, want %v", i, r.DueAt, r.Status, want)
		}
	}
}

func TestJitterIsStable(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{})
	c := m.create(CreateParams{Cadence: cronUTC("0 9 * * *"), JitterSecs: 1800})
	m.run(40 * time.Hour)
	rows := m.rows(c.ScheduleID)
	if len(rows) != 2 || rows[0].DueAt.Minute() != 0 || rows[0].StartedAt.Equal(rows[0].DueAt) || rows[0].LateMs > 1_800_000 ||
		rows[0].StartedAt.Sub(rows[0].DueAt) == rows[1].StartedAt.Sub(rows[1].DueAt) || rows[0].Trigger != "due" {
		t.Errorf("%+v", rows)
	}
}
