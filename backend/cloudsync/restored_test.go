package cloudsync

import (
	"encoding/json"
	"fmt"
	"slices"
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

// knows makes a hub know the epoch of a device, as if the last hello was before the backup.
func knows(t *testing.T, dsn string, d *device) local {
	t.Helper()
	l := must[local](t)(d.local(d.ctx))
	if _, err := admin(t, dsn).Exec(t.Context(), `set role helix_owner; update public.sync_state set epoch = '`+l.epoch.String()+`' where device_id = '`+l.hub.Device.String()+`'`); err != nil {
		t.Fatal(err)
	}
	return l
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

// A device read entries after its last hello, a hub that was restored to the moment between the two knows its epoch,
// and the feed has grown again beyond its position.
func TestEntriesReadSinceTheHelloBeforeABackupAreSent(t *testing.T) {
	t.Parallel()
	a, b, dsn := pair(t)
	c := newDevice(t)
	c.join(a)
	a.remember("in the backup")
	settleAll(a, b, c)
	backup := backUp(t, dsn, a, b, c)
	lost := a.remember("read by b, then lost by the hub")
	a.now()
	b.now()
	restore(t, backup, b, c)
	l := knows(t, backup, b)
	for i := range 10 {
		c.remember(fmt.Sprint("after the restore ", i))
	}
	c.now()
	settleAll(b, c)
	same(t, b, c)
	if c.text(lost) == "" || one[int](b, `SELECT count(*) FROM memories`) != 12 {
		t.Errorf("%q, %d items", c.text(lost), one[int](b, `SELECT count(*) FROM memories`))
	}
	if now := must[local](t)(b.local(b.ctx)); now.site != l.site {
		t.Error("it registered again")
	}
}

// Another device wrote a row after the hub was restored, before the device whose newer version the hub lost is back.
// No edit is lost, whether or not the row has been edited since.
func TestEditsOnBothSidesOfARestoreAreKept(t *testing.T) {
	t.Parallel()
	a, b, dsn := pair(t)
	fields, text, later, gone := a.remember("one"), a.remember("red"), a.remember("red"), a.remember("kept")
	a.exec(`INSERT INTO memory_tags (memory_id, user_id, tag) VALUES (?, ?, 'old')`, fields, a.db.LocalUser().ID)
	settleAll(a, b)
	backup := backUp(t, dsn, a, b)
	a.edit(fields, "two")
	a.exec(`INSERT INTO memory_tags (memory_id, user_id, tag) VALUES (?, ?, 'new')`, fields, a.db.LocalUser().ID)
	a.exec(`UPDATE memories SET access_count = access_count + 2 WHERE id = ?`, fields)
	a.edit(text, "blue")
	a.edit(later, "blue")
	a.edit(gone, "edited")
	a.now() // the hub loses these
	restore(t, backup, a, b)
	b.exec(`UPDATE memories SET pinned = 1, access_count = access_count + 3 WHERE id = ?`, fields)
	b.edit(text, "green")
	b.exec(`UPDATE memories SET pinned = 1 WHERE id = ?`, later)
	b.exec(`UPDATE memories SET deleted_at = 5 WHERE id = ?`, gone)
	b.now()
	a.exec(`UPDATE memories SET salience = 71 WHERE id = ?`, later) // not sent yet
	settleAll(a, b)
	settleAll(a, b)
	same(t, a, b)
	for _, d := range []*device{a, b} {
		d.noDeadLetters()
		if got := one[string](d, `SELECT content || pinned || access_count || (SELECT group_concat(tag ORDER BY tag) FROM memory_tags WHERE memory_id = id) FROM memories WHERE id = ?`, fields); got != "two15new,old" {
			t.Errorf("%q", got)
		}
		if got := one[string](d, `SELECT content || pinned || cast(salience AS INTEGER) FROM memories WHERE id = ?`, later); got != "blue171" {
			t.Errorf("%q", got)
		}
		if got := one[string](d, `SELECT content || (deleted_at IS NULL) FROM memories WHERE id = ?`, gone); got != "edited1" {
			t.Errorf("%q", got)
		}
	}
	var of []string
	for _, c := range must[ConflictsResult](t)(b.Service.Conflicts(b.ctx, ConflictsParams{})).Conflicts {
		of = append(of, fmt.Sprint(c.RowID == text || c.RowID == gone, " ", c.Field))
	}
	if slices.Sort(of); fmt.Sprint(of) != "[true content true deleted_at]" {
		t.Errorf("%v", of)
	}
}

// A device rotated the key, and the hub was then restored from a backup before that. Another device rotates the key
// before the first is back, so there are two keys of one version.
func TestKeysOfOneVersionAfterARestore(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]bool{"the hub knows the device": true, "it registers again": false} {
		t.Run(name, func(t *testing.T) { keysOfOneVersion(t, known) })
	}
}

func keysOfOneVersion(t *testing.T, known bool) {
	a, b, dsn := pair(t)
	id := a.remember("before")
	settleAll(a, b)
	backup := backUp(t, dsn, a, b)
	must[RotateKeyResult](t)(a.RotateKey(a.ctx, struct{}{}))
	must[RotateKeyResult](t)(a.RotateKey(a.ctx, struct{}{}))
	a.edit(id, "written with a key that the hub lost")
	a.now()
	a.now() // tells the hub its position
	a.remember("packaged with that key")
	must[int](t)(a.packageChanges(a.ctx))
	restore(t, backup, a, b)
	if known {
		knows(t, backup, a)
	}
	must[RotateKeyResult](t)(b.RotateKey(b.ctx, struct{}{}))
	b.remember("written with the other key of that version")
	b.now()
	settleAll(a, b)
	settleAll(a, b)
	a.remember("after both")
	b.remember("after both, too")
	settleAll(a, b)
	c := newDevice(t)
	c.join(b)
	settleAll(c, a, b)
	same(t, a, b, c)
	for _, d := range []*device{a, b, c} {
		d.noDeadLetters()
		if l := must[local](t)(d.local(d.ctx)); l.keyVersion != 3 {
			t.Errorf("key version %d", l.keyVersion)
		}
	}
	if n := one[int](c, `SELECT count(*) FROM memories`); n != 5 || c.text(id) != "written with a key that the hub lost" {
		t.Errorf("%d items, %q", n, c.text(id))
	}
}
