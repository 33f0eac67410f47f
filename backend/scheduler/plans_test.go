package scheduler

import (
	"flag"
	"testing"
	"time"

	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

var _ = flag.Bool("update", false, "write the golden files")

func TestQueryPlans(t *testing.T) {
	testkit.SkipRaced(t, "one goroutine, and slow under it")
	m := newSim(t, Options{})
	plans := storagetest.RecordPlans(t, m.db)
	do := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	m.start() // like a new process
	c := m.create(CreateParams{Cadence: every(time.Minute)})
	m.run(10 * time.Minute)
	now := m.clock.Wall()
	do(m.s.Get(m.ctx, ScheduleParams{ScheduleID: c.ScheduleID}))
	do(m.s.List(m.ctx, ListParams{}))
	do(m.s.List(m.ctx, ListParams{Status: "active", Kind: "skill", Query: "x"}))
	do(m.s.Runs(m.ctx, RunsParams{}))
	do(m.s.Runs(m.ctx, RunsParams{ScheduleID: &c.ScheduleID, Status: "completed", From: &simStart, To: &now}))
	do(m.s.Calendar(m.ctx, CalendarParams{From: simStart, To: now.Add(24 * time.Hour)}))
	do(m.s.RunNow(m.ctx, RunNowParams{ScheduleID: c.ScheduleID}))
	m.run(time.Minute)
	do(m.s.Notices(m.ctx, struct{}{}))
	do(m.s.TakeNotices(m.ctx, TakeNoticesParams{}))
	do(m.s.Status(m.ctx, struct{}{}))
	do(m.s.Pause(m.ctx, ScheduleParams{ScheduleID: c.ScheduleID}))
	do(m.s.Resume(m.ctx, ScheduleParams{ScheduleID: c.ScheduleID}))
	do(m.s.PauseAll(m.ctx, PauseAllParams{}))
	do(m.s.ResumeAll(m.ctx, struct{}{}))
	do(m.s.Delete(m.ctx, ScheduleParams{ScheduleID: c.ScheduleID}))
	do(m.s.Restore(m.ctx, ScheduleParams{ScheduleID: c.ScheduleID}))
	const (
		few = "a user has few schedules"
	)
	plans.Check(t, []storagetest.Scan{
		{SQL: "FROM schedules WHERE user_id = ? AND deleted_at IS NULL AND system_key IS NULL", Reason: few},
		{SQL: "FROM schedules s WHERE s.user_id = ? AND s.deleted_at IS NULL", Reason: few},
		{SQL: "FROM schedules s LEFT JOIN schedule_state t", Reason: few},
		{SQL: "FROM schedule_pause", Reason: few},
		{SQL: "FROM schedule_notices WHERE user_id = ?", Reason: "only notices that nobody has seen are kept"},
		{SQL: "WHERE r.user_id = ? ORDER BY r.created_at DESC", Reason: "reads one page in the order of the index"},
	})
}
