package cloudsync

import (
	"testing"

	"github.com/google/uuid"
)

// A device that was away while the hub removed tombstones copies everything again, and rows that
// only this device has survive.
func TestDeviceBehindHorizonCopiesAgainAndLosesNothing(t *testing.T) {
	t.Parallel()
	a, b, dsn := pair(t)
	removed, edited, kept := a.remember("removed meanwhile"), a.remember("one two three"), a.remember("untouched")
	settleAll(a, b)
	a.now()
	a.exec(`UPDATE memories SET deleted_at = 5 WHERE id = ?`, removed)
	a.edit(edited, "one two 3")
	a.now()
	conn := admin(t, dsn)
	exec := func(q string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), q, args...); err != nil {
			t.Fatal(err)
		}
	}
	forget := func() { a.exec(`UPDATE sync_cursor SET pruned_at = NULL`) }
	count := func() (n int) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), `select count(*) from public.memories`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	forget()
	a.now()
	if count() != 3 {
		t.Fatal("a tombstone was removed that a device does not know")
	}
	l := must[local](t)(b.local(b.ctx))
	exec(`update public.sync_state set last_seen = now() - interval '91 days' where device_id = $1`, l.hub.Device)
	forget()
	a.now()
	if count() != 3 {
		t.Fatal("a tombstone of today was removed")
	}
	exec(`update public.sync_change_log set created_at = now() - interval '31 days'`)
	forget()
	a.now()
	a.now()
	forget()
	a.now()
	if count() != 2 {
		t.Fatal("the tombstone is still there")
	}
	b.edit(edited, "1 two three")
	only := b.remember("only on b")
	settleAll(b, a, b)
	same(t, a, b)
	for _, d := range []*device{a, b} {
		d.noDeadLetters()
		for id, want := range map[uuid.UUID]string{edited: "1 two 3", only: "only on b", kept: "untouched"} {
			if got := d.text(id); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
	}
	if b.text(removed) != "removed meanwhile" {
		t.Error("content that existed only there is gone")
	}
	if one[bool](b, `SELECT copying FROM sync_cursor`) {
		t.Error("it copies on")
	}
	if r := b.now(); r.Pulled+r.Pushed != 0 {
		t.Errorf("%+v", r)
	}
}

// A device that rejoins a hub counts nothing twice and does not restore deleted rows.
func TestJoiningAgainGoesOn(t *testing.T) {
	t.Parallel()
	a, b, _ := pair(t)
	counted, deleted := a.remember("counted"), a.remember("deleted meanwhile")
	a.exec(`UPDATE memories SET access_count = 7 WHERE id = ?`, counted)
	settleAll(a, b)
	b.exec(`UPDATE memories SET access_count = access_count + 2 WHERE id = ?`, counted)
	b.sendOnly() // the answer is lost
	must[struct{}](t)(b.Disconnect(b.ctx, struct{}{}))
	b.exec(`UPDATE memories SET access_count = access_count + 4, salience = 91 WHERE id = ?`, counted)
	fresh := b.remember("made without a hub")
	b.exec(`DELETE FROM change_log`) // like pruning while there is no hub
	a.exec(`UPDATE memories SET deleted_at = 5 WHERE id = ?`, deleted)
	a.edit(counted, "counted, edited by a")
	a.now()
	b.join(a)
	settleAll(b, a)
	same(t, a, b)
	if got := one[string](a, `SELECT content || ' ' || access_count || ' ' || salience FROM memories WHERE id = ?`, counted); got != "counted, edited by a 13 91.0" {
		t.Errorf("%q", got)
	}
	if !one[bool](b, `SELECT deleted_at IS NOT NULL FROM memories WHERE id = ?`, deleted) || a.text(fresh) == "" {
		t.Error("a deletion or a new row did not arrive")
	}
	if r := must[ConflictsResult](t)(a.Service.Conflicts(a.ctx, ConflictsParams{Status: "all"})); r.Total != 0 {
		t.Errorf("%+v", r)
	}
}

// A device that is too old to write to the hub still reads from it, and keeps its changes.
func TestHubThatTakesNoOldWritersIsReadOnly(t *testing.T) {
	t.Parallel()
	a, b, dsn := pair(t)
	id := a.remember("of a")
	a.now()
	if _, err := admin(t, dsn).Exec(t.Context(), `update app.hub set min_write = 2`); err != nil {
		t.Fatal(err)
	}
	mine := b.remember("of b")
	_, err := b.Coordinate(b.ctx, CoordinateParams{})
	if err == nil || b.text(id) != "of a" {
		t.Errorf("%v", err)
	}
	if st := must[StatusResult](t)(b.Status(b.ctx, struct{}{})); st.State != Failed || st.QueueLength != 1 {
		t.Errorf("%+v", st)
	}
	if _, err := admin(t, dsn).Exec(t.Context(), `update app.hub set min_write = 1`); err != nil {
		t.Fatal(err)
	}
	settleAll(b, a)
	if a.text(mine) != "of b" {
		t.Error("the change is lost")
	}
}

func TestDeviceWhosePositionWentBackCopiesAgain(t *testing.T) {
	t.Parallel()
	a, b, _ := connected(t)
	for range 3 {
		a.remember("a note")
		settleAll(a, b)
	}
	again := func() bool {
		t.Helper()
		var again bool
		must[struct{}](t)(struct{}{}, b.exclusive(b.ctx, func() error {
			_, l, err := b.open(b.ctx)
			if err == nil {
				again, err = b.checkHorizon(b.ctx, l)
			}
			return err
		}))
		return again
	}
	if again() {
		t.Error("a device that has everything copies again")
	}
	b.exec(`UPDATE sync_cursor SET seq = 1`)
	if !again() {
		t.Error("the hub may have removed tombstones that it has lost")
	}
	settleAll(b, a)
	same(t, a, b)
}
