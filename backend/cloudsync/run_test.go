package cloudsync

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"helix/backend/bus"
)

// running starts Run, and stops it when the test ends.
func (d *device) running() {
	d.t.Helper()
	ctx, cancel := context.WithCancel(d.ctx)
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	d.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			d.t.Error(err)
		}
	})
}

// until waits for rows from other devices until done returns true.
func (d *device) until(done func() bool) {
	d.t.Helper()
	came := make(chan struct{}, 100)
	defer bus.Subscribe(d.db.Bus(), func(uuid.UUID, Applied) { came <- struct{}{} })()
	for !done() {
		select {
		case <-came:
		case <-d.ctx.Done():
			d.t.Fatal("the rows did not come")
		}
	}
}

func TestRunningDevicesSeeEachOthersChanges(t *testing.T) {
	t.Parallel()
	a, b, _ := connected(t)
	a.running()
	b.running()
	for range 3 {
		id := a.remember("live")
		b.until(func() bool { return one[int](b, `SELECT count(*) FROM memories WHERE id = ?`, id) == 1 })
		b.edit(id, "seen")
		a.until(func() bool { return one[string](a, `SELECT content FROM memories WHERE id = ?`, id) == "seen" })
	}
	if st := must[StatusResult](t)(a.Status(a.ctx, struct{}{})); st.State != Live || !st.IsOnline {
		t.Errorf("%+v", st)
	}
}

// Run returns no error without a hub, or if the hub is unreachable.
func TestRunWithoutHubIsNoError(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	if st := must[StatusResult](t)(d.Status(d.ctx, struct{}{})); st.State != Off {
		t.Errorf("%+v", st)
	}
	ctx, cancel := context.WithCancel(d.ctx)
	cancel()
	if err := d.Run(ctx); err != nil {
		t.Error(err)
	}
}
