package scheduler

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/storage/storagetest"
)

// bubbleClock is the clock of a synctest bubble; ahead is the time for which the computer slept.
type bubbleClock struct {
	start time.Time
	ahead atomic.Int64
}

func (c *bubbleClock) Wall() time.Time {
	return time.Now().Round(0).UTC().Add(time.Duration(c.ahead.Load()))
}
func (c *bubbleClock) Mono() time.Duration { return time.Since(c.start) }
func (c *bubbleClock) After(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}

// bubble runs a real scheduler, with its goroutines, on the bubble's clock.
func bubble(t *testing.T, fn func(t *testing.T, m *sim, c *bubbleClock)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db := storagetest.Open(t)
		c := &bubbleClock{start: time.Now()}
		m := &sim{t: t, db: db, ctx: storagetest.Ctx(t, db)}
		m.target = &simTarget{clock: c, runs: map[uuid.UUID]*simRun{}}
		m.s = New(db, Options{Clock: c, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Zone: func() string { return "UTC" }})
		m.s.Register("tool", m.target, "tool", "Tool")
		m.s.Register("skill", m.target, "skill", "Skill")
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- m.s.Run(ctx) }()
		fn(t, m, c)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := m.s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestLoop checks that the wall clock is checked every 15 s, because timers do not advance
// during system sleep.
func TestLoop(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, m *sim, c *bubbleClock) {
		// The bubble begins on Saturday 2000-01-01 at 00:00 UTC.
		job := m.create(CreateParams{Cadence: cronUTC("0 * * * *"), MissedPolicy: "all"})
		time.Sleep(time.Hour + time.Second)
		synctest.Wait()
		time.Sleep(16 * time.Second) // the end is not reported: it is found by polling
		m.want(job.ScheduleID, "01 01:00 due success")
		if r := m.rows(job.ScheduleID)[0]; r.LateMs > 100 {
			t.Errorf("%d ms late", r.LateMs)
		}
		c.ahead.Add(int64(3 * time.Hour)) // asleep from 01:00:17 to 04:00:17
		time.Sleep(16 * time.Second)
		synctest.Wait()
		time.Sleep(time.Minute)
		m.want(job.ScheduleID, "01 01:00 due success", "01 02:00 catchup success", "01 03:00 catchup success", "01 04:00 due success")
		c.ahead.Add(int64(-2 * time.Hour)) // the clock is set back
		time.Sleep(time.Hour)
		m.want(job.ScheduleID, "01 01:00 due success", "01 02:00 catchup success", "01 03:00 catchup success", "01 04:00 due success")
	})
}

// TestEndOfARunIsHandledAtOnce checks that the end of a target's run is processed by its event, not by polling.
func TestEndOfARunIsHandledAtOnce(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, m *sim, _ *bubbleClock) {
		m.target.lasts = func(Occurrence) (time.Duration, TargetState) {
			time.Sleep(time.Second)
			return 0, TargetState{Status: "success", Output: json.RawMessage(`{"ok":true}`)}
		}
		m.target.done = func(id uuid.UUID) { bus.Publish(m.db.Bus(), uuid.Nil, TargetEnded{id}) }
		job := m.create(CreateParams{Cadence: cronUTC("* * * * *"), Overlap: "queue"})
		time.Sleep(time.Minute + 1500*time.Millisecond)
		synctest.Wait()
		m.want(job.ScheduleID, "01 00:01 due success")
	})
}

// TestHangingTarget checks that a target that neither returns from Start nor reacts to cancel is
// closed after its time limit, and does not block the scheduler.
func TestHangingTarget(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, m *sim, _ *bubbleClock) {
		release := make(chan struct{})
		m.target.ignores = true
		m.target.onStart = func(o Occurrence) {
			if o.Name == "hangs" {
				<-release
			}
		}
		hangs := m.create(CreateParams{Name: "hangs", Cadence: cronUTC("1 * * * *"), MaxRunMs: 60_000, Retry: &Retry{0, 1, 1}})
		other := m.create(CreateParams{Name: "other", Cadence: cronUTC("*/2 * * * *")})
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		m.want(hangs.ScheduleID, "01 00:01 due failed/timeout")
		m.want(other.ScheduleID, "01 00:02 due success", "01 00:04 due success")
		close(release)
		synctest.Wait()
	})
}

// TestIdle checks that without a due time the scheduler only checks the clock.
func TestIdle(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, m *sim, _ *bubbleClock) {
		m.s.mu.Lock()
		lanes := len(m.s.lanes)
		m.s.mu.Unlock()
		time.Sleep(time.Hour)
		synctest.Wait()
		m.s.mu.Lock()
		defer m.s.mu.Unlock()
		if len(m.s.live) != 0 || len(m.s.targets) != 0 || len(m.s.outcomes) != 0 || len(m.s.lanes) != lanes || len(m.s.held) != 0 {
			t.Error("something grows")
		}
	})
}
