package skills

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/skills/machine"
	"helix/backend/storage"
)

func TestRunQueue(t *testing.T) {
	t.Parallel()
	b := newFixture(t, func(o *Options) { o.Limits.Live, o.Limits.Queued = 3, 5 })
	free := make(chan struct{})
	var now, most atomic.Int64
	b.h.on("hold", func(ctx context.Context, _ Call) (json.RawMessage, error) {
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		select {
		case <-free:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return nil, nil
	})
	skill := skillText(step("a", "hold", ""))
	var ids []uuid.UUID
	for range 8 {
		ids = append(ids, b.async(skill, `{}`))
	}
	if _, err := b.s.ExecuteComposite(b.ctx, ExecuteParams{Skill: skill, Async: true}); !fault.Is(err, fault.Limit) {
		t.Fatal(err)
	}
	for i, id := range ids {
		want := machine.Running
		if i >= 3 {
			want = machine.Queued
		}
		b.until(id, is(want))
	}
	if c, err := b.s.Cancel(b.ctx, CancelParams{ExecutionID: ids[7]}); err != nil || c.Status != machine.Cancelled {
		t.Fatal(c, err)
	}
	b.replay(ids[7])
	// A restart preserves the queue.
	b.until(ids[2], func(Execution) bool { return b.h.made("hold") == 3 })
	b.s.Close()
	b.s = b.service(func(o *Options) { o.Limits.Live, o.Limits.Queued = 3, 5 })
	b.start(b.s)
	for _, id := range ids[:3] {
		b.until(id, is(machine.Waiting))
		if _, err := b.answer(id, "a", machine.TryAgain); err != nil {
			t.Fatal(err)
		}
	}
	close(free)
	for _, id := range ids[:7] {
		b.until(id, is(machine.Completed))
		b.replay(id)
	}
	if most.Load() > 3 {
		t.Fatalf("%d at once", most.Load())
	}
	b.until(ids[0], func(Execution) bool {
		b.s.mu.Lock()
		defer b.s.mu.Unlock()
		return len(b.s.live) == 0 && len(b.s.queues) == 0
	})
}

// TestRunEnqueued checks that a run enqueued by a schedule starts only when the schedule starts it,
// even after a restart, because it may be queued there.
func TestRunEnqueued(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	var id uuid.UUID
	err := b.db.Write(b.ctx, func(tx *storage.Tx) (err error) {
		id, err = b.s.EnqueueTx(tx, Enqueue{Skill: skillText(step("a", "ok", "")), Trigger: "schedule"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	b.s.Close()
	b.s = b.service()
	b.s.resume(b.ctx)
	b.s.mu.Lock()
	waiting := len(b.s.queues) + len(b.s.live)
	b.s.mu.Unlock()
	if x := b.until(id, is(machine.Queued)); waiting > 0 || b.h.made("ok") > 0 {
		t.Fatalf("it began by itself: %+v", x)
	}
	b.s.Begin(id)
	b.until(id, is(machine.Completed))
}
