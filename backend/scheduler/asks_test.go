package scheduler

import (
	"strings"
	"testing"
	"time"
)

// TestUnknownOutcomeDoesNotBlockLaterTimes checks that a run that waits for a person's decision is
// reported in one notification, and later times follow their policy as if it had ended.
func TestUnknownOutcomeDoesNotBlockLaterTimes(t *testing.T) {
	t.Parallel()
	for _, reason := range questionReasons {
		for _, overlap := range []string{"skip", "queue", "cancelPrevious"} {
			t.Run(reason+" "+overlap, func(t *testing.T) {
				t.Parallel()
				m := newSim(t, Options{})
				n := 0
				m.target.lasts = func(Occurrence) (time.Duration, TargetState) {
					if n++; n == 1 {
						return 0, TargetState{Status: "waiting", WaitReason: reason}
					}
					return 0, TargetState{Status: "success"}
				}
				c := m.create(CreateParams{Cadence: every(time.Hour), Overlap: overlap})
				m.run(3*time.Hour + time.Minute)
				rows := m.rows(c.ScheduleID)
				if len(rows) != 3 || rows[0].Status != "waiting" || rows[0].Reason != reason || !rows[0].Notified || rows[1].Status != "success" || rows[2].Status != "success" {
					t.Fatalf("%+v", rows)
				}
				told, err := m.s.Notices(m.ctx, struct{}{})
				if err != nil || len(told.Notices) != 1 || !strings.Contains(told.Notices[0].Title, "needs your decision") || *told.Notices[0].RunID != rows[0].RunID {
					t.Fatalf("%+v %v", told, err)
				}
				if len(m.target.cancelled) != 0 {
					t.Fatalf("canceled: %v", m.target.cancelled)
				}
			})
		}
	}
}
