package cloudsync

import (
	"testing"

	"helix/backend/fault"
)

func TestLiveExchangeNeedsAGreetedConnection(t *testing.T) {
	t.Parallel()
	a, b, _ := connected(t)
	if a.afterKill().live(a.ctx) {
		t.Error("a device that has said nothing yet exchanged changes")
	}
	id := a.remember("sent with one round trip")
	a.now()
	a.edit(id, "and its edit")
	if !a.live(a.ctx) {
		t.Fatal("a change did not go out")
	}
	b.now()
	if got := one[string](b, `SELECT content FROM memories WHERE id = ?`, id); got != "and its edit" {
		t.Errorf("%q", got)
	}
	cursor := one[int64](a, `SELECT seq FROM sync_cursor`)
	if head := one[int64](b, `SELECT seq FROM sync_cursor`); cursor != head {
		t.Errorf("the cursor is at %d after its own push, the head at %d", cursor, head)
	}
	b.edit(id, "of the other")
	b.now()
	a.edit(id, "at the same time")
	if a.live(a.ctx) {
		t.Error("a stale row needs a merge first")
	}
	settleAll(a, b)
	same(t, a, b)
}

func TestLiveExchangeStopsWhilePausedAndForACopiedDevice(t *testing.T) {
	t.Parallel()
	a, _, dsn := connected(t)
	a.remember("before")
	a.now()
	must[StatusResult](t)(a.Pause(a.ctx, struct{}{}))
	id := a.remember("while paused")
	if a.live(a.ctx) {
		t.Error("it exchanged changes while paused")
	}
	must[StatusResult](t)(a.Resume(a.ctx, struct{}{}))
	site := one[int64](a, `SELECT site FROM sync_local`)
	if _, err := admin(t, dsn).Exec(t.Context(), `set role helix_owner; update public.sync_state s set last_ctr = last_ctr + 50 from app.device d where d.device_id = s.device_id and d.site = `+jsonText(site)); err != nil {
		t.Fatal(err)
	}
	if a.live(a.ctx) || one[bool](a, `SELECT sync_meta IS NOT NULL FROM memories WHERE id = ?`, id) {
		t.Error("a copy of this device has pushed, and it pushed all the same")
	}
	if _, err := a.Coordinate(a.ctx, CoordinateParams{}); err != nil && !fault.Is(err, fault.Unavailable) {
		t.Fatal(err)
	}
	if one[int64](a, `SELECT site FROM sync_local`) == site {
		t.Error("it did not register again")
	}
}
