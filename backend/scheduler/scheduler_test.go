package scheduler

import (
	"testing"
	"time"
)

func TestFiresAtItsTimeAndSurvivesARestart(t *testing.T) {
	t.Parallel()
	m := newSim(t, Options{})
	c := m.create(CreateParams{Cadence: cronUTC("0 9 * * *")})
	if c.NextRunAt == nil || !c.NextRunAt.Equal(simStart.Add(time.Hour)) || c.Words != "every day at 09:00, UTC" {
		t.Fatalf("next %v, %q", c.NextRunAt, c.Words)
	}
	m.run(2 * time.Hour)
	m.want(c.ScheduleID, "02 09:00 due success")
	m.start()
	m.run(24 * time.Hour)
	m.want(c.ScheduleID, "02 09:00 due success", "03 09:00 due success")
	if r := m.rows(c.ScheduleID)[0]; r.LateMs > 1000 || r.OutputSummary != "done" || r.StartedAt == nil || r.FinishedAt == nil {
		t.Errorf("run %+v", r)
	}
}
