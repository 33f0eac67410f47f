package cloudsync

import (
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5"

	"helix/backend/cloudsync/hubtest"
	"helix/backend/storage"
)

// backUp copies the hub of the devices.
func backUp(t *testing.T, dsn string, devices ...*device) (backup string) {
	t.Helper()
	for _, d := range devices {
		if err := d.exclusive(d.ctx, d.hangUp); err != nil {
			t.Fatal(err)
		}
	}
	return hubtest.Copy(t, dsn)
}

// restore makes a copy of the hub the hub of the devices.
func restore(t *testing.T, backup string, devices ...*device) {
	t.Helper()
	c := must[*pgx.ConnConfig](t)(adminConfig(backup))
	for _, d := range devices {
		if err := d.exclusive(d.ctx, d.hangUp); err != nil {
			t.Fatal(err)
		}
		d.write(func(tx *storage.Tx) error {
			l, err := readLocal(tx)
			if err != nil {
				return err
			}
			l.hub.Database = c.Database
			return writeHub(tx, l.hub)
		})
	}
}

// A hub that was restored from a backup gets from the devices all that it lacks: new rows, newer
// versions and deletions. Sites that were assigned after the backup are not assigned again.
func TestRestoredHubGetsAgainWhatItLacks(t *testing.T) {
	t.Parallel()
	a, b, dsn := pair(t)
	edited, removed := a.remember("one two three"), a.remember("removed after the backup")
	a.exec(`INSERT INTO memory_tags (memory_id, user_id, tag) VALUES (?, ?, 'old')`, edited, a.db.LocalUser().ID)
	settleAll(a, b, a)
	backup := backUp(t, dsn, a, b)
	a.edit(edited, "one two three four")
	b.edit(edited, "zero one two three")
	settleAll(a, b)
	b.exec(`INSERT INTO memory_tags (memory_id, user_id, tag) VALUES (?, ?, 'new')`, edited, b.db.LocalUser().ID)
	b.exec(`UPDATE memories SET deleted_at = 5 WHERE id = ?`, removed)
	added := b.remember("added after the backup")
	a.exec(`UPDATE memories SET access_count = access_count + 3 WHERE id = ?`, edited)
	b.exec(`UPDATE memories SET access_count = access_count + 4 WHERE id = ?`, added)
	settleAll(b, a)
	a.exec(`UPDATE memories SET access_count = access_count + 3 WHERE id = ?`, added)
	late := newDevice(t)
	late.join(a)
	lateRow := late.remember("of a device that joined after the backup")
	late.now()
	settleAll(a, b, late)
	same(t, a, b, late)
	before := a.rows()
	lateSite := must[local](t)(late.local(late.ctx)).site
	restore(t, backup, a, b)
	for _, d := range []*device{a, b} { // both find what the hub lacks before either sends it
		must[CoordinateResult](t)(d.Coordinate(d.ctx, CoordinateParams{Action: "pull"}))
	}
	settleAll(a, b)
	settleAll(a, b)
	same(t, a, b)
	for k, v := range a.rows() {
		if before[k] != v {
			t.Errorf("%s\n  was %s\n  is  %s", k, before[k], v)
		}
	}
	c := newDevice(t)
	c.join(a)
	c.now()
	same(t, a, c)
	for _, id := range []any{edited, added, lateRow} {
		if n := one[int](c, `SELECT count(*) FROM memories WHERE id = ? AND deleted_at IS NULL`, id); n != 1 {
			t.Errorf("%d rows of %v", n, id)
		}
	}
	if n := one[int](c, `SELECT count(*) FROM memories WHERE id = ? AND deleted_at IS NULL`, removed); n != 0 {
		t.Error("a deleted row is back")
	}
	for _, d := range []*device{a, b, c} {
		if site := must[local](t)(d.local(d.ctx)).site; site == lateSite {
			t.Error("a site was assigned twice")
		}
		d.noDeadLetters()
	}
	var open struct{ Total int }
	if err := json.Unmarshal([]byte(jsonText(must[ConflictsResult](t)(a.Conflicts(a.ctx, ConflictsParams{})))), &open); err != nil || open.Total > 0 {
		t.Errorf("%d conflicts, %v", open.Total, err)
	}
}

// A hub that was restored from a backup gets the keys that were created after it, and the other devices get
// them from the hub.
func TestRestoredHubGetsNewerKeys(t *testing.T) {
	t.Parallel()
	a, b, dsn := pair(t)
	settleAll(a, b)
	backup := backUp(t, dsn, a, b)
	must[RotateKeyResult](t)(a.RotateKey(a.ctx, struct{}{}))
	must[RotateKeyResult](t)(a.RotateKey(a.ctx, struct{}{}))
	id := a.remember("written with a key that the hub lost")
	a.now()
	restore(t, backup, a, b)
	settleAll(a, b)
	settleAll(a, b)
	same(t, a, b)
	if got := b.text(id); got != "written with a key that the hub lost" {
		t.Errorf("%q", got)
	}
	must[RotateKeyResult](t)(b.RotateKey(b.ctx, struct{}{}))
	settleAll(b, a)
	for _, d := range []*device{a, b} {
		d.noDeadLetters()
		if l := must[local](t)(d.local(d.ctx)); l.keyVersion != 4 {
			t.Errorf("key version %d", l.keyVersion)
		}
	}
}
