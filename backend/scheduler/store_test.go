package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
)

// TestRefusals compares each invalid input with the table in the scheduler's documentation.
func TestRefusals(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{MaxPerUser: 2})
	m.target.check = func(target Target) error {
		if target.Name == "gone" {
			return fault.NotFoundf("skill not found")
		}
		if !strings.Contains(string(target.Input), "city") {
			return fault.InvalidField("input.city", fault.CodeMissing, "input/city: required")
		}
		return nil
	}
	good := func() map[string]any {
		return map[string]any{"name": "x", "target": map[string]any{"kind": "tool", "input": map[string]any{"city": 1}}, "cadence": map[string]any{"type": "cron", "expression": "0 9 * * *"}}
	}
	cron := func(text, zone string) map[string]any {
		return map[string]any{"type": "cron", "expression": text, "timezone": zone}
	}
	for _, c := range []struct {
		field string
		value any
		kind  fault.Kind
		want  string
		at    string // field and code of the details
	}{
		{"cadence", cron("60 * * * *", "UTC"), fault.Invalid, "field 1 (minute): 60 is outside 0–59", "cadence.expression[0] syntax"},
		{"cadence", cron("0 9 * *", "UTC"), fault.Invalid, "5 fields", "cadence.expression syntax"},
		{"cadence", cron("0 9 * * 8", "UTC"), fault.Invalid, "field 5 (weekday): 8 is outside 0–7", "cadence.expression[4] syntax"},
		{"cadence", cron("0 0 30 2 *", "UTC"), fault.Invalid, "this date never occurs", "cadence.expression never_due"},
		{"cadence", cron("0 9 * * *", "Mars/Base"), fault.Invalid, "unknown time zone", "cadence.timezone unknown_value"},
		{"cadence", cron("0 9 * * *", "IST"), fault.Invalid, "did you mean Asia/Kolkata?", "cadence.timezone unknown_value"},
		{"cadence", cron("*/30 * * * * *", "UTC"), fault.Invalid, "shortest interval is 60 s", "cadence.expression out_of_range"},
		{"cadence", map[string]any{"type": "interval", "everySecs": 5}, fault.Invalid, "shortest interval is 60 s", "cadence.everySecs out_of_range"},
		{"cadence", map[string]any{"type": "interval", "every_secs": 5}, fault.Invalid, "shortest interval is 60 s", "cadence.everySecs out_of_range"},
		{"cadence", map[string]any{"type": "once", "at": simStart.Add(-time.Second)}, fault.Invalid, "time has passed", "cadence.at past"},
		{"cadence", map[string]any{"type": "cron", "cron": "x"}, fault.Invalid, "unknown field", "cadence.cron unknown_field"},
		{"cadence", nil, fault.Invalid, "required", "cadence missing"},
		{"name", " ", fault.Invalid, "name: required", "name missing"},
		{"name", strings.Repeat("ä", 101), fault.Invalid, "at most 100", "name too_long"},
		{"description", strings.Repeat("x", 1001), fault.Invalid, "at most 1000", "description too_long"},
		{"missedPolicy", "later", fault.Invalid, "skip, once, all", "missedPolicy unknown_value"},
		{"overlap", "later", fault.Invalid, "cancelPrevious", "overlap unknown_value"},
		{"notification", "maybe", fault.Invalid, "conditional", "notification unknown_value"},
		{"notifyWhen", "output.includes('x')", fault.Invalid, "notifyWhen", "notifyWhen syntax"},
		{"graceSecs", -1, fault.Invalid, "graceSecs", "graceSecs out_of_range"},
		{"maxRunMs", 10, fault.Invalid, "maxRunMs", "maxRunMs out_of_range"},
		{"maxRuns", 0, fault.Invalid, "maxRuns", "maxRuns out_of_range"},
		{"endsAt", simStart.Add(-time.Hour), fault.Invalid, "endsAt", "endsAt past"},
		{"endsAt", simStart.Add(time.Minute), fault.Invalid, "no run falls between", "endsAt never_due"},
		{"target", map[string]any{"kind": "tool", "name": "gone"}, fault.NotFound, "skill not found", "target not_found"},
		{"target", map[string]any{"kind": "tool", "input": map[string]any{}}, fault.Invalid, "input/city: required", "target.input.city missing"},
		{"target", map[string]any{"kind": "tool", "input": []int{1}}, fault.Invalid, "must be a JSON object", "target.input wrong_type"},
		{"target", map[string]any{"kind": "agent", "name": "x"}, fault.Unavailable, "agent turns are not available in this build", "target.kind unavailable"},
		{"target", map[string]any{"kind": "rocket"}, fault.Invalid, "rocket", "target.kind invalid"},
	} {
		p := good()
		p[c.field] = c.value
		var in CreateParams
		if err := json.Unmarshal(mustJSON(p), &in); err != nil {
			t.Fatal(err)
		}
		_, err := m.s.Create(m.ctx, in)
		if !fault.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: %v, want %s %q", c.field, c.value, err, c.kind, c.want)
		}
		if at := fieldOf(t, err); at != c.at {
			t.Errorf("%s %v: details name %q, want %q", c.field, c.value, at, c.at)
		}
	}
	var in CreateParams
	if err := json.Unmarshal(mustJSON(good()), &in); err != nil {
		t.Fatal(err)
	}
	var last Schedule
	for i := range 3 {
		s, err := m.s.Create(m.ctx, in)
		if i < 2 && err != nil || i == 2 && (!fault.Is(err, fault.Limit) || !strings.Contains(err.Error(), "2 schedules at most")) {
			t.Errorf("schedule %d: %v", i, err)
		}
		if i < 2 {
			last = s
		}
	}
	if last.Cadence.Timezone != "Europe/Berlin" || !last.OsZone {
		t.Errorf("no zone became %q, %v", last.Cadence.Timezone, last.OsZone)
	}
	other := storageOther(t, m)
	id := ScheduleParams{last.ScheduleID}
	for name, call := range map[string]func(context.Context) error{
		"get":      func(c context.Context) error { _, err := m.s.Get(c, id); return err },
		"pause":    func(c context.Context) error { _, err := m.s.Pause(c, id); return err },
		"resume":   func(c context.Context) error { _, err := m.s.Resume(c, id); return err },
		"delete":   func(c context.Context) error { _, err := m.s.Delete(c, id); return err },
		"restore":  func(c context.Context) error { _, err := m.s.Restore(c, id); return err },
		"takeover": func(c context.Context) error { _, err := m.s.TakeOver(c, id); return err },
		"update": func(c context.Context) error {
			_, err := m.s.Update(c, UpdateParams{ScheduleID: last.ScheduleID, Patch: []byte(`{"name":"y"}`)})
			return err
		},
	} {
		if err := call(other); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s by another user: %v", name, err)
		}
	}
	if l, err := m.s.List(other, ListParams{}); err != nil || l.Total != 0 || l.Schedules == nil {
		t.Errorf("another user's list: %+v, %v", l, err)
	}
}

// fieldOf returns the field and the code in the details of an error on the wire.
func fieldOf(t *testing.T, err error) string {
	t.Helper()
	var d fault.FieldError
	if err == nil || json.Unmarshal(mustJSON(fault.As(err).Details), &d) != nil {
		return ""
	}
	return d.Field + " " + d.Code
}

func TestSeveralWrongNumbersAreEachNamed(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{})
	_, err := m.s.Create(m.ctx, CreateParams{
		Name: "x", Target: Target{Kind: "tool", Input: json.RawMessage(`{}`)}, Cadence: json.RawMessage(`{"type":"cron","expression":"0 9 * * *"}`),
		JitterSecs: -1, Retry: &Retry{Max: 99, BaseSecs: 60, CapSecs: 3600},
	})
	want := fault.FieldErrors{Errors: []fault.FieldProblem{
		{Path: "jitterSecs", Code: fault.CodeRange, Message: "jitterSecs: -1 is outside 0–86400"},
		{Path: "retry.max", Code: fault.CodeRange, Message: "retry.max: 99 is outside 0–10"},
	}}
	if !fault.Is(err, fault.Invalid) || !reflect.DeepEqual(fault.As(err).Details, want) {
		t.Fatalf("%v, details %+v", err, fault.As(err).Details)
	}
}

// TestFieldsComeBack checks that all fields are returned as given, also after an edit of one field.
func TestFieldsComeBack(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{})
	from, to := simStart.Add(48*time.Hour), simStart.Add(480*time.Hour)
	p := CreateParams{
		Name: "all", Description: "d", Cadence: cronUTC("0 9 * * *"), Target: Target{Kind: "tool", Name: "n", Version: "1.2.0", Input: []byte(`{"a":1}`)},
		StartsAt: &from, EndsAt: &to, MaxRuns: ptr[int64](3), MissedPolicy: "all", GraceSecs: ptr[int64](60), Overlap: "queue", JitterSecs: 5, Retry: &Retry{1, 2, 3},
		AutoDisableAfter: ptr(7), NotifyAfterFailures: ptr(2), Notification: "always", NotifyWhen: "$.status == 'x'", MaxRunMs: 5000, Budget: &Budget{7, 8},
	}
	c := m.create(p)
	check := func(c Schedule) {
		t.Helper()
		if c.Description != "d" || !c.StartsAt.Equal(from) || !c.EndsAt.Equal(to) || *c.MaxRuns != 3 || c.MissedPolicy != "all" || c.GraceSecs != 60 || c.Overlap != "queue" || c.JitterSecs != 5 ||
			c.Retry != (Retry{1, 2, 3}) || c.AutoDisableAfter != 7 || c.NotifyAfterFailures != 2 || c.Notification != "always" || c.NotifyWhen == "" || c.MaxRunMs != 5000 ||
			c.Budget != (Budget{7, 8}) || string(c.Target.Input) != `{"a":1}` || c.Target.Version != "1.2.0" || !c.Placement.Here || c.Cadence.Timezone != "UTC" || c.OsZone {
			t.Errorf("%+v", c)
		}
	}
	check(c)
	if !c.NextRunAt.Equal(time.Date(2026, 3, 4, 9, 0, 0, 0, time.UTC)) {
		t.Errorf("next %v is before startsAt", c.NextRunAt)
	}
	u, err := m.s.Update(m.ctx, UpdateParams{ScheduleID: c.ScheduleID, Patch: []byte(`{"name":"other","target":{"input":{"a":1}}}`)})
	if err != nil || u.Name != "other" || u.Revision != 2 {
		t.Fatalf("%+v, %v", u, err)
	}
	check(u)
	u, err = m.s.Update(m.ctx, UpdateParams{ScheduleID: c.ScheduleID, Patch: []byte(`{"startsAt":null,"endsAt":null}`)})
	if err != nil || u.StartsAt != nil || u.EndsAt != nil || !u.NextRunAt.Equal(simStart.Add(time.Hour)) {
		t.Errorf("%+v, %v", u, err)
	}
	for _, bad := range []string{`[]`, `{"paused":true}`, `{"nope":1}`, `{"retry":null}`, `null`} {
		if _, err := m.s.Update(m.ctx, UpdateParams{ScheduleID: c.ScheduleID, Patch: []byte(bad)}); !fault.Is(err, fault.Invalid) {
			t.Errorf("patch %s: %v", bad, err)
		}
	}
	// maxRuns: completed after three runs.
	m.run(5 * 24 * time.Hour)
	if got := m.get(c.ScheduleID); got.Status != "completed" || got.RunCount != 3 || len(m.rows(c.ScheduleID)) != 3 || got.NextRunAt != nil || got.LastRun == nil || len(got.RecentRuns) != 3 {
		t.Errorf("%s after %d runs", got.Status, got.RunCount)
	}
}

func TestEndsAt(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{})
	end := simStart.Add(3 * time.Hour)
	c := m.create(CreateParams{Cadence: cronUTC("0 * * * *"), EndsAt: &end})
	m.run(8 * time.Hour)
	m.want(c.ScheduleID, "02 09:00 due success", "02 10:00 due success", "02 11:00 due success")
	if got := m.get(c.ScheduleID); got.Status != "completed" {
		t.Error(got.Status)
	}
}

func TestDeleteAndRestore(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{})
	c := m.create(CreateParams{Cadence: cronUTC("0 * * * *")})
	m.run(time.Hour)
	if _, err := m.s.Delete(m.ctx, ScheduleParams{c.ScheduleID}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.s.Get(m.ctx, ScheduleParams{c.ScheduleID}); !fault.Is(err, fault.NotFound) {
		t.Errorf("deleted: %v", err)
	}
	m.run(3 * time.Hour)
	r, err := m.s.Restore(m.ctx, ScheduleParams{c.ScheduleID})
	if err != nil || !r.NextRunAt.After(m.clock.Wall()) {
		t.Fatalf("%+v, %v", r, err)
	}
	m.run(time.Hour)
	m.want(c.ScheduleID, "02 09:00 due success", "02 13:00 due success")
}

// TestChangesAreAudited checks that each change of a schedule is in the audit log, in the
// same transaction.
func TestChangesAreAudited(t *testing.T) {
	t.Parallel()
	var got []string
	m := newSim(t, Options{Audit: func(_ *storage.Tx, e audit.Entry) error {
		if e.SubjectKind != "schedule" || (e.SubjectID == "") != (e.Details == nil) {
			t.Errorf("entry %+v", e)
		}
		got = append(got, e.Action)
		return nil
	}})
	c := m.create(CreateParams{Cadence: cronUTC("0 * * * *")})
	p := ScheduleParams{c.ScheduleID}
	for _, act := range []func() error{
		func() error { _, err := m.s.Pause(m.ctx, p); return err },
		func() error { _, err := m.s.Resume(m.ctx, p); return err },
		func() error { _, err := m.s.Delete(m.ctx, p); return err },
		func() error { _, err := m.s.Restore(m.ctx, p); return err },
		func() error { _, err := m.s.PauseAll(m.ctx, PauseAllParams{}); return err },
		func() error { _, err := m.s.ResumeAll(m.ctx, struct{}{}); return err },
	} {
		if err := act(); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"schedule.created", "schedule.paused", "schedule.resumed", "schedule.deleted", "schedule.restored", "schedule.paused_all", "schedule.resumed_all"}
	if !slices.Equal(got, want) {
		t.Errorf("audited %q, want %q", got, want)
	}
}

// TestNewerRows checks that schedules written by a newer Helix are shown, but neither fired nor changed.
func TestNewerRows(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{})
	var ids []uuid.UUID
	for _, set := range []string{`cadence = '{"type":"moon","phase":"full"}'`, `retry = '[1]'`, `target_kind = 'hologram'`} {
		c := m.create(CreateParams{Cadence: cronUTC("0 9 * * *")})
		ids = append(ids, c.ScheduleID)
		err := m.db.Write(m.ctx, func(tx *storage.Tx) error {
			_, err := tx.Exec(`UPDATE schedules SET `+set+` WHERE id = ?`, c.ScheduleID)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	good := m.create(CreateParams{Cadence: cronUTC("0 9 * * *")})
	m.run(3 * time.Hour)
	m.want(good.ScheduleID, "02 09:00 due success")
	list, err := m.s.List(m.ctx, ListParams{})
	if err != nil || list.Total != 4 {
		t.Fatalf("%d, %v", list.Total, err)
	}
	for _, id := range ids {
		c := m.get(id)
		if !c.NeedsNewer || c.NextRunAt != nil || len(c.Raw) == 0 || c.Revision != 1 || c.Status != "active" || m.course(id) != "" {
			t.Errorf("%+v, %s", c, m.course(id))
		}
		if _, err := m.s.Pause(m.ctx, ScheduleParams{id}); !fault.Is(err, fault.Unavailable) {
			t.Errorf("pause: %v", err)
		}
		if _, err := m.s.Update(m.ctx, UpdateParams{ScheduleID: id, Patch: []byte(`{"name":"y"}`)}); !fault.Is(err, fault.Unavailable) {
			t.Errorf("update: %v", err)
		}
		if _, err := m.s.RunNow(m.ctx, RunNowParams{ScheduleID: id}); !fault.Is(err, fault.Unavailable) {
			t.Errorf("run: %v", err)
		}
	}
}

// TestOSZone checks that a schedule without a zone follows the operating system's, and others do not.
func TestOSZone(t *testing.T) {
	t.Parallel()
	zone := "Europe/Berlin"
	m := newSim(t, Options{Zone: func() string { return zone }, Poll: 15 * time.Minute})
	free := m.create(CreateParams{Cadence: json.RawMessage(`{"type":"cron","expression":"0 12 * * *"}`)})
	fixed := m.create(CreateParams{Cadence: json.RawMessage(`{"type":"cron","expression":"0 12 * * *","timezone":"Europe/Berlin"}`)})
	m.run(5 * time.Hour)
	zone = "America/New_York"
	m.run(16 * time.Minute)
	if c := m.get(free.ScheduleID); c.Cadence.Timezone != zone || !c.NextRunAt.Equal(time.Date(2026, 3, 2, 17, 0, 0, 0, time.UTC)) {
		t.Errorf("%s, next %v", c.Cadence.Timezone, c.NextRunAt)
	}
	m.run(20 * time.Hour)
	m.want(free.ScheduleID, "02 11:00 due success", "02 17:00 due success")
	m.want(fixed.ScheduleID, "02 11:00 due success")
}

func TestSystemSchedules(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{})
	m.s.Register("cleanup", m.target, "cleanup", "")
	m.run(time.Minute)
	m.start()
	m.s.Register("cleanup", m.target, "cleanup", "")
	m.run(20 * time.Hour)
	list, err := m.s.List(m.ctx, ListParams{})
	if err != nil || list.Total != 1 { // no decay, because no target could run it
		t.Fatalf("%+v, %v", list, err)
	}
	c := list.Schedules[0]
	if !c.System || c.Target.Kind != "cleanup" || c.Words != "every day at 03:30, Berlin" {
		t.Errorf("%+v", c)
	}
	m.want(c.ScheduleID, "03 02:30 due success")
	if _, err := m.s.Delete(m.ctx, ScheduleParams{c.ScheduleID}); !fault.Is(err, fault.Denied) {
		t.Errorf("delete: %v", err)
	}
	templates, err := m.s.Templates(m.ctx, struct{}{})
	if err != nil || len(templates.Templates) != 4 || templates.Templates[0].Unavailable == "" {
		t.Errorf("%+v, %v", templates, err)
	}
	st, err := m.s.Status(m.ctx, struct{}{})
	if err != nil || !st.Enabled || st.NextDue == nil || st.Timezone != "Europe/Berlin" {
		t.Errorf("%+v, %v", st, err)
	}
	for _, k := range st.Targets {
		if usable := k.Kind == "tool" || k.Kind == "skill" || k.Kind == "cleanup"; usable != (k.Reason == "") {
			t.Errorf("%+v", k)
		}
	}
	// Its runs are not synced.
	err = m.db.Read(m.ctx, func(tx *storage.Tx) error {
		var n int
		err := tx.QueryRow(`SELECT count(*) FROM change_log WHERE tbl = 'schedule_runs'`).Scan(&n)
		if n != 0 {
			t.Errorf("%d changes", n)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// The rows of two devices of one user are merged to one row each.
func TestSystemSchedulesHaveTheSameIDOnEachDevice(t *testing.T) {
	t.Parallel()
	var ids []uuid.UUID
	for range 2 {
		m := newSim(t, Options{})
		m.s.Register("cleanup", m.target, "cleanup", "")
		m.run(time.Minute)
		list, err := m.s.List(m.ctx, ListParams{})
		if err != nil || list.Total != 1 {
			t.Fatalf("%+v, %v", list, err)
		}
		ids = append(ids, list.Schedules[0].ScheduleID)
	}
	if ids[0] != ids[1] {
		t.Errorf("ids %v", ids)
	}
}

func TestRunsPages(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{})
	c := m.create(CreateParams{Cadence: cronUTC("*/10 * * * *")})
	m.run(5 * time.Hour)
	var got []string
	cursor := ""
	for range 10 {
		r, err := m.s.Runs(m.ctx, RunsParams{ScheduleID: &c.ScheduleID, Limit: 7, Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range r.Runs {
			got = append(got, x.DueAt.Format("15:04"))
		}
		if cursor = r.NextCursor; cursor == "" {
			break
		}
	}
	if len(got) != 30 || !slices.IsSortedFunc(got, func(a, b string) int { return strings.Compare(b, a) }) || got[0] != "13:00" {
		t.Errorf("%d %v", len(got), got)
	}
	for _, p := range []RunsParams{{Limit: 101}, {Cursor: "x"}, {Limit: -1}} {
		if _, err := m.s.Runs(m.ctx, p); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func TestPrune(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{})
	c := m.create(CreateParams{Cadence: cronUTC("0 */6 * * *")})
	m.target.lasts = func(o Occurrence) (time.Duration, TargetState) {
		if o.DueAt.Day() == 5 {
			return failing("invalid")(o)
		}
		return 0, TargetState{Status: "success", Output: []byte(`"x"`)}
	}
	m.run(20 * 24 * time.Hour)
	before := len(m.rows(c.ScheduleID))
	prune := func() int64 {
		return storagetest.Prune(t, m.db, storage.ServiceOptions{Retention: []storage.Retention{Retention()}, Now: m.s.now})
	}
	n := prune()
	if n == 0 {
		t.Fatal("nothing left")
	}
	rows := m.rows(c.ScheduleID)
	days, failed := map[string]int{}, 0
	for _, r := range rows[:len(rows)-keepFull] {
		if r.Status == "failed" {
			failed++
		} else {
			days[r.DueAt.Format(time.DateOnly)]++
		}
	}
	if int64(before-len(rows)) != n || failed != 4 || len(days) < 13 || slices.Max(slices.Collect(mapValues(days))) != 1 {
		t.Errorf("%d of %d rows left, %d failed, %v", len(rows), before, failed, days)
	}
	m.clock.pass(100*24*time.Hour, true)
	if prune(); len(m.rows(c.ScheduleID)) != keepFull {
		t.Errorf("%d rows after 100 days", len(m.rows(c.ScheduleID)))
	}
}

func mapValues(m map[string]int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for _, v := range m {
			if !yield(v) {
				return
			}
		}
	}
}

func TestPreview(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{})
	from := time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC)
	r, err := m.s.Preview(m.ctx, PreviewParams{Cadence: json.RawMessage(`{"type":"cron","expression":"30 2 * * *","timezone":"Europe/Berlin"}`), Count: 3, From: &from})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range r.Times {
		got = append(got, strings.TrimSpace(x.Local+" "+x.Offset+" "+x.Note))
	}
	if want := []string{"2026-03-28 02:30:00 +01:00", "2026-03-29 03:00:00 +02:00 gap_shifted", "2026-03-30 02:30:00 +02:00"}; !slices.Equal(got, want) || len(r.Warnings) != 1 {
		t.Errorf("%v, %v", got, r.Warnings)
	}
	r, err = m.s.Preview(m.ctx, PreviewParams{Cadence: cronUTC("0 9 13 * 5")})
	if err != nil || len(r.Times) != 10 || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "matches either") {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := m.s.Preview(m.ctx, PreviewParams{Cadence: cronUTC("0 9 * * *"), Count: 101}); !fault.Is(err, fault.Invalid) {
		t.Error(err)
	}
}

func TestCalendar(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{})
	hourly := m.create(CreateParams{Name: "hourly", Cadence: cronUTC("0 * * * *"), MissedPolicy: "skip"})
	m.run(2 * time.Hour)
	m.sleep(2*time.Hour + 30*time.Minute)
	day := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	r, err := m.s.Calendar(m.ctx, CalendarParams{From: day, To: day.AddDate(0, 0, 2)})
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, it := range r.Items {
		kinds[it.Kind]++
		if it.ScheduleID != hourly.ScheduleID || (it.Kind == "planned") == (it.RunID != nil) {
			t.Errorf("%+v", it)
		}
	}
	if fmt.Sprint(kinds) != "map[missed:2 planned:35 ran:2]" || r.Truncated {
		t.Errorf("%v", kinds)
	}
	m.create(CreateParams{Name: "often", Cadence: cronUTC("* * * * *")})
	if r, err = m.s.Calendar(m.ctx, CalendarParams{From: day, To: day.AddDate(0, 0, 62)}); err != nil {
		t.Fatal(err)
	}
	counts := 0
	for _, it := range r.Items {
		if it.Count == 1440 {
			counts++
		}
	}
	if counts != 61 || len(r.Items) > 300 {
		t.Errorf("%d whole days in %d items", counts, len(r.Items))
	}
	for _, p := range []CalendarParams{{From: day, To: day}, {From: day, To: day.AddDate(0, 0, 70)}} {
		if _, err := m.s.Calendar(m.ctx, p); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func FuzzDecodeCadence(f *testing.F) {
	for _, seed := range []string{
		`{"type":"cron","expression":"0 9 * * 1-5","timezone":"Europe/Berlin"}`, `{"type":"interval","every_secs":3600}`, `{"type":"once","at":"2030-01-01T00:00:00Z"}`,
		`{"type":"cron","expression":"@hourly"}`, `{"type":"cron","expression":"0 0 29 2 1#5","timezone":"Pacific/Apia"}`, `{"type":"interval","everySecs":9223372036854775807}`, `[]`, `{"type":"once","at":"9999-12-31T23:59:59Z"}`,
		`{"type":"interval","everySecs":60,"anchor":"0001-01-01T00:00:00Z"}`,
	} {
		f.Add([]byte(seed))
	}
	s := New(nil, Options{Zone: func() string { return "Europe/Berlin" }, Clock: &simClock{wall: simStart}})
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, c, _, err := s.decodeCadence(raw, simStart)
		if err != nil {
			if k := fault.KindOf(err); k != fault.Invalid {
				t.Fatalf("%q: %v", raw, err)
			}
			return
		}
		at := simStart
		for range 20 {
			d, ok := c.Next(at)
			if !ok {
				break
			}
			if !d.At.After(at) {
				t.Fatalf("%q: due at %v after %v", raw, d.At, at)
			}
			at = d.At
		}
		c.Last(simStart, simStart.Add(1000*time.Hour))
		if n := c.Count(simStart, simStart.Add(1000*time.Hour)); n < 0 {
			t.Fatalf("%q: %d due times", raw, n)
		}
		if c.Words() == "" {
			t.Fatalf("%q has no words", raw)
		}
	})
}
