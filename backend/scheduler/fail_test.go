package scheduler

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"helix/backend/fault"
	"helix/backend/storage"
)

func TestRetriesThenCountsOnce(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{})
	n := 0
	m.target.lasts = func(o Occurrence) (time.Duration, TargetState) {
		if n++; n < 3 {
			return failing("unavailable")(o)
		}
		return 0, TargetState{Status: "success"}
	}
	c := m.create(CreateParams{Cadence: cronUTC("0 9 * * *")})
	m.run(3 * time.Hour)
	m.want(c.ScheduleID, "02 09:00 due failed", "02 09:00 retry failed #1", "02 09:00 retry success #2")
}

func TestRetryRules(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		state   TargetState
		cadence json.RawMessage
		want    string
	}{
		"a passing failure is tried again": {TargetState{Error: &RunError{Kind: "internal"}}, cronUTC("0 9 * * *"), "02 09:00 due failed; 02 09:00 retry failed #1; 02 09:00 retry failed #2"},
		"a wrong input is not":             {TargetState{Error: &RunError{Kind: "invalid"}}, cronUTC("0 9 * * *"), "02 09:00 due failed"},
		"an unknown outcome is not":        {TargetState{Error: &RunError{Kind: "internal"}, Unknown: true}, cronUTC("0 9 * * *"), "02 09:00 due failed/unknown_outcome"},
		"a missing right is not":           {TargetState{Error: &RunError{Kind: "denied"}, NeedsApproval: true}, cronUTC("0 9 * * *"), "02 09:00 due failed/needs_approval"},
		"the next time is nearer":          {TargetState{Error: &RunError{Kind: "timeout"}}, every(60 * time.Second), "02 08:01 due failed; 02 08:02 due failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newSim(t, Options{})
			c.state.Status = "failed"
			m.target.lasts = func(Occurrence) (time.Duration, TargetState) { return 0, c.state }
			s := m.create(CreateParams{Cadence: c.cadence, Retry: &Retry{Max: 2, BaseSecs: 120, CapSecs: 600}})
			d := 3 * time.Hour
			if strings.Contains(c.want, "08:01") {
				d = 150 * time.Second
			}
			m.run(d)
			m.want(s.ScheduleID, c.want)
			for i, r := range m.rows(s.ScheduleID) {
				if i > 0 && r.Attempt > 0 { // min(base·2ⁿ, cap) × [0.5, 1]
					lo, hi := time.Minute<<(i-1), 2*time.Minute<<(i-1)
					before := m.rows(s.ScheduleID)[i-1].FinishedAt
					if d := r.ClaimedAt.Sub(*before); d < lo-time.Second || d > hi+time.Second {
						t.Errorf("attempt %d came after %v, want %v to %v", r.Attempt, d, lo, hi)
					}
				}
			}
			if f := m.get(s.ScheduleID).ConsecutiveFailures; f != 1+strings.Count(c.want, "08:02") {
				t.Errorf("%d failures", f)
			}
			if c.state.NeedsApproval {
				if n := m.notices(); len(n) != 1 || n[0] != "warning: job needs your approval" {
					t.Errorf("notices %q", n)
				}
			}
		})
	}
}

// TestRepeatedFailuresDisableTheSchedule checks for a notification after three failures and disabling after five; a
// success in between resets the count.
func TestRepeatedFailuresDisableTheSchedule(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{})
	fails := map[int]bool{1: true, 2: true, 4: true, 5: true, 6: true, 7: true, 8: true}
	n := 0
	m.target.lasts = func(o Occurrence) (time.Duration, TargetState) {
		if n++; fails[n] {
			return failing("invalid")(o)
		}
		return 0, TargetState{Status: "success"}
	}
	c := m.create(CreateParams{Cadence: cronUTC("0 * * * *")})
	m.run(5*time.Hour + time.Minute)
	if got := m.get(c.ScheduleID); got.ConsecutiveFailures != 2 || len(m.notices()) != 0 {
		t.Fatalf("%d failures, %q", got.ConsecutiveFailures, m.notices())
	}
	m.run(time.Hour)
	if got := m.notices(); len(got) != 1 || got[0] != "warning: job keeps failing" {
		t.Fatalf("%q", got)
	}
	m.run(20 * time.Hour)
	got := m.get(c.ScheduleID)
	if got.Status != "disabled" || got.DisabledReason != "failures" || got.NextRunAt != nil || n != 8 {
		t.Fatalf("%s/%s after %d runs", got.Status, got.DisabledReason, n)
	}
	if all := m.notices(); len(all) != 2 || all[1] != "error: job was turned off" {
		t.Errorf("%q", all)
	}
	r, err := m.s.Resume(m.ctx, ScheduleParams{c.ScheduleID})
	if err != nil || r.Status != "active" || r.ConsecutiveFailures != 0 || r.NextRunAt == nil {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestDisablingIsNotifiedWhateverThePolicy(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{})
	m.target.lasts = failing("invalid")
	m.create(CreateParams{Cadence: cronUTC("0 * * * *"), Notification: "never"})
	m.run(6 * time.Hour)
	if all := m.notices(); len(all) != 1 || all[0] != "error: job was turned off" {
		t.Errorf("%q", all)
	}
}

func TestOnce(t *testing.T) {
	t.Parallel()
	at := simStart.Add(time.Hour)
	for name, c := range map[string]struct {
		do     func(m *sim)
		state  func(Occurrence) (time.Duration, TargetState)
		grace  int64
		status string
		want   string
	}{
		"success":           {func(m *sim) { m.run(2 * time.Hour) }, nil, 86400, "completed", "02 09:00 due success"},
		"failure":           {func(m *sim) { m.run(12 * time.Hour) }, failing("unavailable"), 86400, "disabled/failures", "02 09:00 due failed; 02 09:00 retry failed #1; 02 09:00 retry failed #2"},
		"refused for good":  {func(m *sim) { m.run(2 * time.Hour) }, failing("invalid"), 86400, "disabled/failures", "02 09:00 due failed"},
		"missed":            {func(m *sim) { m.step(); m.sleep(3 * time.Hour) }, nil, 3600, "disabled/missed", "02 09:00 due missed/asleep"},
		"late in its grace": {func(m *sim) { m.step(); m.sleep(3 * time.Hour) }, nil, 86400, "completed", "02 09:00 catchup success"},
		"retried after a restart": {func(m *sim) {
			m.run(time.Hour + time.Second)
			m.start()
			m.target.lasts = nil
			m.run(2 * time.Hour)
		}, failing("unavailable"), 86400, "completed", "02 09:00 due failed; 02 09:00 retry success #1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newSim(t, Options{})
			m.target.lasts = c.state
			s := m.create(CreateParams{Cadence: onceAt(at), GraceSecs: &c.grace})
			c.do(m)
			m.want(s.ScheduleID, c.want)
			got := m.get(s.ScheduleID)
			if text := strings.TrimSuffix(got.Status+"/"+got.DisabledReason, "/"); text != c.status {
				t.Errorf("%s, want %s", text, c.status)
			}
			if got.NextRunAt != nil {
				t.Errorf("next %v", got.NextRunAt)
			}
		})
	}
}

// TestRestartsAndCancelsAreNoFailures checks that five restarts in a row do not disable a schedule.
func TestRestartsAndCancelsAreNoFailures(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{})
	m.target.lasts = func(Occurrence) (time.Duration, TargetState) { return 40 * time.Minute, TargetState{Status: "success"} }
	c := m.create(CreateParams{Cadence: cronUTC("0 9 * * *"), MaxRunMs: 3_600_000 * 3})
	m.run(time.Hour + time.Minute)
	for range 5 {
		m.s.interrupt(m.ctx)
		if got := m.course(c.ScheduleID); got != "02 09:00 due interrupted" {
			t.Fatal(got)
		}
		m.start()
		m.run(time.Minute)
	}
	m.run(time.Hour)
	m.want(c.ScheduleID, "02 09:00 due success")
	for day := range 6 { // canceled each day
		m.run(simStart.Add(time.Duration(24*(day+1))*time.Hour + 61*time.Minute).Sub(m.clock.Wall()))
		rows := m.rows(c.ScheduleID)
		if _, err := m.s.CancelRun(m.ctx, RunParams{rows[len(rows)-1].RunID}); err != nil {
			t.Fatal(err)
		}
		m.step()
	}
	if got := m.rows(c.ScheduleID); len(got) != 7 || got[6].Status != "cancelled" {
		t.Error(m.course(c.ScheduleID))
	}
	if got := m.get(c.ScheduleID); got.Status != "active" || got.ConsecutiveFailures != 0 {
		t.Errorf("%s, %d failures", got.Status, got.ConsecutiveFailures)
	}
}

func TestCancelRun(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{})
	m.target.lasts = func(Occurrence) (time.Duration, TargetState) { return time.Hour, TargetState{Status: "success"} }
	c := m.create(CreateParams{Cadence: cronUTC("0 9 * * *"), Notification: "conditional"})
	m.run(time.Hour + time.Minute)
	run := m.rows(c.ScheduleID)[0]
	if _, err := m.s.CancelRun(m.ctx, RunParams{run.RunID}); err != nil {
		t.Fatal(err)
	}
	m.step()
	m.want(c.ScheduleID, "02 09:00 due cancelled/person")
	if _, err := m.s.CancelRun(m.ctx, RunParams{run.RunID}); !fault.Is(err, fault.Conflict) {
		t.Errorf("again: %v", err)
	}
	// A run that ignores the cancel for 10 s is closed.
	m.target.ignores = true
	m.run(24 * time.Hour)
	rows := m.rows(c.ScheduleID)
	if _, err := m.s.CancelRun(m.ctx, RunParams{rows[1].RunID}); err != nil {
		t.Fatal(err)
	}
	m.run(9 * time.Second)
	m.want(c.ScheduleID, "02 09:00 due cancelled/person", "03 09:00 due running/person")
	m.run(2 * time.Second)
	m.want(c.ScheduleID, "02 09:00 due cancelled/person", "03 09:00 due cancelled/person")
}

func TestMaxRun(t *testing.T) {
	t.Parallel()
	for _, ignores := range []bool{false, true} {
		t.Run(fmt.Sprint(ignores), func(t *testing.T) {
			t.Parallel()
			m := newSim(t, Options{})
			m.target.ignores = ignores
			m.target.lasts = func(Occurrence) (time.Duration, TargetState) { return 10 * time.Hour, TargetState{Status: "success"} }
			c := m.create(CreateParams{Cadence: cronUTC("0 9 * * *"), MaxRunMs: 60_000, Retry: &Retry{Max: 0, BaseSecs: 1, CapSecs: 1}})
			m.run(time.Hour + 59*time.Second)
			m.want(c.ScheduleID, "02 09:00 due running")
			m.run(12 * time.Second)
			m.want(c.ScheduleID, "02 09:00 due failed/timeout")
			if e := m.rows(c.ScheduleID)[0].Error; e == nil || e.Kind != "timeout" {
				t.Errorf("error %+v", e)
			}
		})
	}
}

func TestOverlap(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string]string{
		"skip":           "02 09:00 due success; 02 10:00 due skipped/overlap; 02 11:00 due skipped/overlap; 02 12:00 due success",
		"queue":          "02 09:00 due success; 02 10:00 due success; 02 11:00 due skipped/overlap; 02 12:00 due success",
		"cancelPrevious": "02 09:00 due cancelled/overlap; 02 10:00 due cancelled/overlap; 02 11:00 due cancelled/overlap; 02 12:00 due success",
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			m := newSim(t, Options{})
			n := 0
			m.target.lasts = func(Occurrence) (time.Duration, TargetState) {
				if n++; n == 1 || rule == "cancelPrevious" && n < 4 {
					return 2*time.Hour + 30*time.Minute, TargetState{Status: "success"}
				}
				return 10 * time.Minute, TargetState{Status: "success"}
			}
			c := m.create(CreateParams{Cadence: cronUTC("0 * * * *"), Overlap: rule, MaxRunMs: 10 * 3_600_000})
			m.run(4*time.Hour + 30*time.Minute)
			m.want(c.ScheduleID, want)
		})
	}
}

func TestPanickingOrDeletedTargetFailsRun(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{})
	good := m.create(CreateParams{Name: "good", Cadence: cronUTC("0 * * * *")})
	bad := m.create(CreateParams{Name: "bad", Cadence: cronUTC("0 9 * * *"), Target: Target{Kind: "skill"}, Retry: &Retry{0, 1, 1}})
	worse := m.create(CreateParams{Name: "worse", Cadence: cronUTC("0 9 * * *"), Retry: &Retry{0, 1, 1}})
	gone := m.create(CreateParams{Name: "gone", Cadence: cronUTC("0 9 * * *")})
	plain := m.create(CreateParams{Name: "plain", Cadence: cronUTC("0 9 * * *"), Retry: &Retry{0, 1, 1}})
	m.target.enqueue = func(o Occurrence) error {
		switch o.Name {
		case "bad":
			panic("in enqueue")
		case "gone":
			return fault.NotFoundf("skill not found")
		case "plain":
			return errPlain
		}
		return nil
	}
	m.target.onStart = func(o Occurrence) {
		if o.Name == "worse" {
			panic("in start")
		}
	}
	m.run(3 * time.Hour)
	m.want(good.ScheduleID, "02 09:00 due success", "02 10:00 due success", "02 11:00 due success")
	m.want(bad.ScheduleID, "02 09:00 due failed")
	m.want(worse.ScheduleID, "02 09:00 due failed")
	m.want(plain.ScheduleID, "02 09:00 due failed")
	m.want(gone.ScheduleID, "02 09:00 due failed/target_gone")
	if c := m.get(gone.ScheduleID); c.Status != "disabled" || c.DisabledReason != "target_gone" {
		t.Errorf("%s/%s", c.Status, c.DisabledReason)
	}
	if e := m.rows(bad.ScheduleID)[0].Error; e == nil || e.Kind != "internal" {
		t.Errorf("%+v", e)
	}
}

// TestNotifications checks that only the structure of a result matters.
func TestNotifications(t *testing.T) {
	t.Parallel()
	text := TargetState{Status: "success", Output: json.RawMessage(`"[NOTIFY] look at me"`)}
	asks := TargetState{Status: "success", Notice: &Notice{Title: "Rain", Body: "at noon", Level: "warning"}}
	high := TargetState{Status: "success", Output: json.RawMessage(`{"count": 9}`)}
	for name, c := range map[string]struct {
		policy, when string
		state        TargetState
		want         []string
	}{
		"text is only text":      {"conditional", "", text, nil},
		"always":                 {"always", "", text, []string{"info: job"}},
		"the target asks":        {"conditional", "", asks, []string{"warning: Rain"}},
		"never":                  {"never", "", asks, nil},
		"the condition holds":    {"conditional", "$.output.count > 5", high, []string{"info: job"}},
		"it does not":            {"conditional", "$.output.count > 50", high, nil},
		"it looks at the status": {"conditional", "$.status == 'failed' && $.error.kind == 'invalid'", TargetState{Status: "failed", Error: &RunError{Kind: "invalid", Message: "no"}}, []string{"error: job failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newSim(t, Options{})
			m.target.lasts = func(Occurrence) (time.Duration, TargetState) { return 0, c.state }
			s := m.create(CreateParams{Cadence: cronUTC("0 9 * * *"), Notification: c.policy, NotifyWhen: c.when})
			m.run(2 * time.Hour)
			if got := m.notices(); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
			if r := m.rows(s.ScheduleID)[0]; r.Notified != (len(c.want) > 0) {
				t.Errorf("notified %v", r.Notified)
			}
		})
	}
}

func TestConditionOverThePreviousRun(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{})
	values := []int{1, 1, 2, 2}
	n := -1
	m.target.lasts = func(Occurrence) (time.Duration, TargetState) {
		n++
		return 0, TargetState{Status: "success", Output: mustJSON(map[string]int{"v": values[n]})}
	}
	m.create(CreateParams{Cadence: cronUTC("0 * * * *"), NotifyWhen: "$.previous.output.v != $.output.v && $.previous.status"})
	m.run(4*time.Hour + time.Minute)
	got, err := m.s.Notices(m.ctx, struct{}{})
	if err != nil || len(got.Notices) != 1 || got.Notices[0].Body != `{"v":2}` {
		t.Fatalf("%+v, %v", got, err)
	}
	rest, err := m.s.TakeNotices(m.ctx, TakeNoticesParams{[]uuidT{got.Notices[0].NoticeID}})
	if err != nil || len(rest.Notices) != 0 || len(m.notices()) != 0 {
		t.Errorf("%+v, %v", rest, err)
	}
}

// TestSummary checks that long outputs in any script are truncated between graphemes.
func TestSummary(t *testing.T) {
	t.Parallel()
	for name, piece := range map[string]string{
		"Hindi": "नमस्ते दुनिया क्षत्रिय ", "emoji": "👩‍👩‍👧‍👦🏳️‍🌈👍🏽", "marks": "e\u0301\u0323", "broken": "ab\xff\xfe",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			long := strings.Repeat(piece, 200)
			m := newSim(t, Options{})
			m.target.lasts = func(Occurrence) (time.Duration, TargetState) {
				return 0, TargetState{Status: "success", Output: mustJSON(long)}
			}
			c := m.create(CreateParams{Cadence: cronUTC("0 * * * *"), Notification: "always"})
			m.run(2*time.Hour + time.Minute)
			rows := m.rows(c.ScheduleID)
			if len(rows) != 2 {
				t.Fatal(m.course(c.ScheduleID))
			}
			sum := rows[0].OutputSummary
			if n := utf8.RuneCountInString(sum); !utf8.ValidString(sum) || n > summaryChars || n < summaryChars-20 {
				t.Errorf("%d characters, valid %v", n, utf8.ValidString(sum))
			}
			valid := strings.ToValidUTF8(long, "\uFFFD")
			if name != "broken" && (!strings.HasPrefix(valid, sum) || len(clip(valid, utf8.RuneCountInString(sum))) != len(sum)) {
				t.Errorf("cut inside a letter: …%q", sum[len(sum)-8:])
			}
			out, err := m.s.RunOutput(m.ctx, RunOutputParams{RunID: rows[0].RunID, MaxChars: 300})
			if err != nil || !out.Truncated || !utf8.ValidString(out.Text) || utf8.RuneCountInString(out.Text) > 300 || out.TotalChars < 600 && name != "broken" {
				t.Errorf("%d of %d, %v", utf8.RuneCountInString(out.Text), out.TotalChars, err)
			}
		})
	}
}

func TestRunNow(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{})
	c := m.create(CreateParams{Cadence: cronUTC("0 9 * * *"), Paused: true})
	r, err := m.s.RunNow(m.ctx, RunNowParams{ScheduleID: c.ScheduleID, Input: json.RawMessage(`{"x":1}`)})
	if err != nil || r.TargetRunID == nil {
		t.Fatalf("%+v, %v", r, err)
	}
	if in := string(m.target.runs[*r.TargetRunID].occ.Input); in != `{"x":1}` {
		t.Errorf("input %s", in)
	}
	m.step()
	if got := m.rows(c.ScheduleID); len(got) != 1 || got[0].Status != "success" || got[0].Trigger != "manual" || got[0].RunID != r.RunID {
		t.Errorf("%+v", got)
	}
	if s := m.get(c.ScheduleID); s.NextRunAt != nil || s.Status != "paused" {
		t.Errorf("next %v", s.NextRunAt)
	}
	m.target.enqueue = func(Occurrence) error { return fault.Unavailablef("not today") }
	r, err = m.s.RunNow(m.ctx, RunNowParams{ScheduleID: c.ScheduleID})
	if err != nil {
		t.Fatal(err)
	}
	run, err := m.s.Runs(m.ctx, RunsParams{ScheduleID: &c.ScheduleID})
	if err != nil || run.Runs[0].RunID != r.RunID || run.Runs[0].Status != "failed" || run.Runs[0].Error.Message != "not today" || run.Runs[0].RetryAt != nil {
		t.Errorf("%+v, %v", run.Runs, err)
	}
	if _, err := m.s.RunNow(storageOther(t, m), RunNowParams{ScheduleID: c.ScheduleID}); !fault.Is(err, fault.NotFound) {
		t.Errorf("another user: %v", err)
	}
}

// TestRunNowWhileItStarts checks that a run requested while the scheduler loads its rows after a
// start is neither lost nor started twice.
func TestRunNowWhileItStarts(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{})
	c := m.create(CreateParams{Cadence: cronUTC("0 9 * * *"), Paused: true})
	const rounds, each = 20, 5
	for range rounds {
		first, made := make(chan bool), make(chan error, 1)
		go func() {
			for i := range each {
				if _, err := m.s.RunNow(m.ctx, RunNowParams{ScheduleID: c.ScheduleID}); err != nil {
					made <- err
				}
				if i == 0 {
					close(first)
				}
			}
			close(made)
		}()
		<-first
		m.s.mu.Lock()
		m.s.reload = true
		m.s.mu.Unlock()
		m.s.pump(m.ctx)
		if err := <-made; err != nil {
			t.Fatal(err)
		}
		m.step()
	}
	for _, r := range m.rows(c.ScheduleID) {
		if r.Status != "success" {
			t.Errorf("%s is %s: %+v", r.RunID, r.Status, r.Error)
		}
	}
	if n := len(m.rows(c.ScheduleID)); n != rounds*each {
		t.Errorf("%d runs", n)
	}
}

// TestDatabaseFull checks that a claim that fails because of the database is retried, and
// the time remains due.
func TestDatabaseFull(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{Poll: 15 * time.Second})
	c := m.create(CreateParams{Cadence: cronUTC("0 9 * * *")})
	err := m.db.Write(m.ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`CREATE TRIGGER full BEFORE INSERT ON schedule_runs BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	m.run(time.Hour + 20*time.Second)
	m.want(c.ScheduleID)
	if s := m.get(c.ScheduleID); !s.NextRunAt.Equal(simStart.Add(time.Hour)) || len(m.target.runs) != 0 {
		t.Errorf("next %v, %d runs", s.NextRunAt, len(m.target.runs))
	}
	err = m.db.Write(m.ctx, func(tx *storage.Tx) error { _, err := tx.Exec(`DROP TRIGGER full`); return err })
	if err != nil {
		t.Fatal(err)
	}
	m.run(15 * time.Second)
	m.want(c.ScheduleID, "02 09:00 due success")
}
