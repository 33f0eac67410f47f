package cloudsync

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"helix/backend/fault"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

// If the disk is full while a page is stored, the cursor does not move.
func TestFullDiskWhileApplyingKeepsCursor(t *testing.T) {
	t.Parallel()
	a, b, _ := pair(t)
	settleAll(a, b)
	for range 40 {
		a.remember(strings.Repeat("long text ", 2000))
	}
	a.now()
	limit := func(pages int) {
		if err := b.db.Write(b.ctx, func(tx *storage.Tx) error {
			_, err := tx.Exec(fmt.Sprintf(`PRAGMA max_page_count = %d`, pages))
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	cursor := one[int64](b, `SELECT seq FROM sync_cursor`)
	limit(one[int](b, `PRAGMA page_count`) + 20)
	_, err := b.Coordinate(b.ctx, CoordinateParams{})
	if !fault.Is(err, fault.Limit) {
		t.Errorf("%v", err)
	}
	if n := one[int64](b, `SELECT seq FROM sync_cursor`); n != cursor || one[int](b, `SELECT count(*) FROM memories`) != 0 {
		t.Errorf("cursor %d, was %d", n, cursor)
	}
	if st := must[StatusResult](t)(b.Status(b.ctx, struct{}{})); st.State != Failed || !strings.Contains(st.Error, "full") {
		t.Errorf("%+v", st)
	}
	limit(1 << 30)
	b.now()
	same(t, a, b)
}

func TestParallelIncrementsOfACounterAllCount(t *testing.T) {
	t.Parallel()
	a, b, _ := connected(t)
	devices := []*device{a, b}
	for len(devices) < 5 {
		d := newDevice(t)
		d.join(a)
		devices = append(devices, d)
	}
	id := a.remember("counted")
	settleAll(devices...)
	var g errgroup.Group
	for _, d := range devices {
		for range 2 { // one increments while the other exchanges
			g.Go(func() error {
				for n := range 10 {
					if err := d.db.Write(d.ctx, func(tx *storage.Tx) error {
						_, err := tx.Exec(`UPDATE memories SET access_count = access_count + 1 WHERE id = ?`, id)
						return err
					}); err != nil {
						return err
					}
					if n%3 == 0 {
						if _, err := d.exchange(d.ctx, ""); err != nil {
							return err
						}
					}
				}
				return nil
			})
		}
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	settleAll(devices...)
	for i, d := range devices {
		if n := one[int](d, `SELECT access_count FROM memories WHERE id = ?`, id); n != 100 {
			t.Errorf("device %d counted %d, want 100", i, n)
		}
	}
}

// While eight devices write concurrently, a device that follows the feed misses nothing.
func TestFeedOfEightWritersHasNoGap(t *testing.T) {
	t.Parallel()
	a, reader, dsn := connected(t)
	writers := []*device{a}
	for len(writers) < 8 {
		d := newDevice(t)
		d.join(a)
		writers = append(writers, d)
	}
	const rounds = 6
	var wg sync.WaitGroup
	ended := make(chan struct{})
	for _, d := range writers {
		wg.Go(func() {
			for range rounds {
				d.remember("row")
				d.remember("another row")
				if _, err := d.exchange(d.ctx, "push"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	go func() {
		wg.Wait()
		close(ended)
	}()
	for over := false; !over; {
		select {
		case <-ended:
			over = true // one more round, for the last writes
		default:
		}
		if _, err := reader.exchange(reader.ctx, "pull"); err != nil {
			t.Error(err)
		}
	}
	if n := one[int](reader, `SELECT count(*) FROM memories`); n != 8*rounds*2 {
		t.Errorf("%d rows, want %d", n, 8*rounds*2)
	}
	var entries, head int
	if err := admin(t, dsn).QueryRow(t.Context(), `select (select count(*) from public.sync_change_log), (select seq from public.sync_head)`).Scan(&entries, &head); err != nil || entries != head {
		t.Errorf("%d entries up to %d, %v", entries, head, err)
	}
}

// Devices that write the same rows, but visit the tables in another order, do not deadlock.
func TestCrossedTablesDoNotDeadlock(t *testing.T) {
	t.Parallel()
	a, b, dsn := connected(t)
	a.exec(`INSERT INTO documents (id, user_id, source_uri, content_hash, created_at, updated_at) VALUES (?, ?, 'x', zeroblob(32), 1, 1)`, storage.NewID(), a.db.LocalUser().ID)
	a.remember("row")
	a.now()
	b.now()
	var wg sync.WaitGroup
	for i, d := range []*device{a, b} {
		tables := []string{"documents", "memories"}
		if i == 1 {
			tables[0], tables[1] = tables[1], tables[0]
		}
		wg.Go(func() {
			for range 15 {
				if err := d.exclusive(d.ctx, func() error {
					c, l, err := d.open(d.ctx)
					if err != nil {
						return err
					}
					return touch(d.ctx, c, &l, tables)
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var n int
	if err := admin(t, dsn).QueryRow(t.Context(), `select deadlocks from pg_stat_database where datname = current_database()`).Scan(&n); err != nil || n > 0 {
		t.Errorf("%d deadlocks, %v", n, err)
	}
}

// touch rewrites one row of each table in one transaction.
func touch(ctx context.Context, c *pgx.Conn, l *local, tables []string) error {
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `select sync.lock()`); err != nil {
			return err
		}
		for _, t := range tables {
			l.ctr++
			if _, err := tx.Exec(ctx, `update public.`+t+` set prev_dot = dot, dot = $1, hub_device_id = $2`, int64(newDot(l.site, l.ctr)), l.hub.Device); err != nil {
				return err
			}
		}
		return nil
	})
}

// copyOf opens a copy of the data of d as a second device, and d itself again.
func copyOf(t *testing.T, path string, root *storagetest.Root) (a, b *device) {
	t.Helper()
	data := must[[]byte](t)(os.ReadFile(path)) // the database is closed, so the file is complete
	twin := filepath.Join(t.TempDir(), "helix.db")
	if err := os.WriteFile(twin, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return openDevice(t, storagetest.OpenAt(t, path, root)), openDevice(t, storagetest.OpenAt(t, twin, root))
}

// Two copies of one data folder are connected at the same time. Both hold the same packaged change,
// and each has a change of its own. Nothing is lost or counted twice.
func TestCopiesConnectedAtOnce(t *testing.T) {
	testkit.SkipRaced(t, "one goroutine")
	t.Parallel()
	for _, pushFirst := range []bool{false, true} {
		path, root := filepath.Join(t.TempDir(), "helix.db"), storagetest.NewRoot()
		storagetest.Blank(t, path)
		db, err := storage.Open(t.Context(), storage.Options{Path: path, Keys: storage.NewKeys(root)})
		if err != nil {
			t.Fatal(err)
		}
		d := &device{Service: New(db, storage.NewSecrets(db), Options{}), t: t}
		d.identify()
		d.setUp(newHub(t))
		known := d.remember("known to the hub")
		d.now()
		fresh := d.remember("packaged, not sent")
		for _, id := range []uuid.UUID{known, fresh} {
			d.exec(`UPDATE memories SET access_count = access_count + 5 WHERE id = ?`, id)
		}
		if _, err := d.packageChanges(d.ctx); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		a, b := copyOf(t, path, root)
		greet := func(d *device) {
			t.Helper()
			if err := d.exclusive(d.ctx, func() error { _, _, err := d.open(d.ctx); return err }); err != nil {
				t.Fatal(err)
			}
		}
		greet(a)
		if pushFirst {
			a.now()
		}
		greet(b)
		a.edit(known, "edited on a")
		b.exec(`UPDATE memories SET salience = 77 WHERE id = ?`, known)
		for _, x := range []*device{a, b} {
			x.exec(`UPDATE memories SET access_count = access_count + 1 WHERE id = ?`, fresh)
		}
		for range 3 {
			for _, x := range []*device{a, b} {
				if _, err := x.Coordinate(x.ctx, CoordinateParams{}); err != nil && !fault.Is(err, fault.Unavailable) {
					t.Fatal(err)
				}
			}
		}
		settleAll(a, b)
		same(t, a, b)
		if got := one[string](a, `SELECT content || ' ' || access_count || ' ' || salience FROM memories WHERE id = ?`, known); got != "edited on a 5 77.0" {
			t.Errorf("push first %v: %q", pushFirst, got)
		}
		if n := one[int](b, `SELECT access_count FROM memories WHERE id = ?`, fresh); n != 7 {
			t.Errorf("push first %v: counted %d, want 7", pushFirst, n)
		}
		if x, y := one[int](a, `SELECT site FROM sync_local`), one[int](b, `SELECT site FROM sync_local`); x == y {
			t.Errorf("both are site %d", x)
		}
	}
}

// newer upgrades d to a version of Helix with one more column.
func (d *device) newer() {
	d.t.Helper()
	d.exec(`ALTER TABLE memories ADD COLUMN future TEXT`)
	d.load()
}

// captureFuture makes the triggers of memories capture the column of newer. Opening the database restores
// those of this version.
func (d *device) captureFuture() {
	d.t.Helper()
	const bit, log = 1 << 40, "INSERT OR ROLLBACK INTO change_log"
	change := func(trigger string, edit func(sql string) string) {
		d.t.Helper()
		sql := d.trigger(trigger)
		d.exec(`DROP TRIGGER ` + trigger)
		d.exec(edit(sql))
	}
	var logged string
	change("sync_memories_insert", func(sql string) string {
		all := regexp.MustCompile(`'I', (\d+),`).FindStringSubmatch(sql)
		logged = strings.Replace(sql[strings.Index(sql, log):], all[0], fmt.Sprintf("'U', %d,", bit), 1)
		n := must[int](d.t)(strconv.Atoi(all[1]))
		return strings.Replace(sql, all[0], fmt.Sprintf("'I', %d,", n|bit), 1)
	})
	change("sync_memories_update", func(sql string) string {
		sql = strings.Replace(sql, "json_object(", "json_object('future', OLD.future, ", 1)
		base := sql[strings.Index(sql, "INSERT INTO sync_base"):strings.Index(sql, log)]
		d.exec("CREATE TEMP TRIGGER sync_memories_future AFTER UPDATE OF future ON memories WHEN NEW.future IS NOT OLD.future BEGIN " + base + logged)
		return sql
	})
	for _, op := range []string{"insert", "update", "delete"} {
		change("sync_memory_tags_"+op, func(sql string) string {
			return strings.Replace(sql, "json_object(", "json_object('future', p.future, ", 1)
		})
	}
	d.load()
}

// trigger returns the SQL that creates a capture trigger, "" if there is none.
func (d *device) trigger(name string) (sql string) {
	d.t.Helper()
	if err := d.db.Write(d.ctx, func(tx *storage.Tx) error { // they belong to the connection that writes
		return tx.QueryRow(`SELECT coalesce(max(replace(sql, 'CREATE TRIGGER', 'CREATE TEMP TRIGGER')), '') FROM temp.sqlite_schema WHERE name = ?`, name).Scan(&sql)
	}); err != nil {
		d.t.Fatal(err)
	}
	return sql
}

// load loads the tables with the columns that newer added, if it did.
func (d *device) load() {
	d.t.Helper()
	if err := d.loadTables(d.ctx); err != nil {
		d.t.Fatal(err)
	}
	if one[int](d, `SELECT count(*) FROM pragma_table_info('memories') WHERE name = 'future'`) > 0 {
		for i, t := range d.tables {
			d.tables[i] = t.newer()
		}
		if d.trigger("sync_memories_future") == "" {
			d.captureFuture()
		}
	}
}

func (t table) newer() table {
	if _, has := t.column("future"); t.Table == "memories" && !has {
		t.columns = append(slices.Clone(t.columns), storage.SyncedColumn{SyncedField: storage.SyncedField{No: 40, Name: "future", Merge: storage.LWW}, Hub: "text"})
	}
	return t
}

// upgradeHub adds the column of newer to a hub.
func upgradeHub(t testing.TB, dsn string) {
	t.Helper()
	must[pgconn.CommandTag](t)(admin(t, dsn).Exec(t.Context(), `alter table public.memories add column if not exists future text; select sync.define_push('memories')`))
}

// Devices with two versions of Helix share a hub. A column that the older version lacks survives
// its edits, both before and after the hub has the column.
func TestColumnOfLaterVersionSurvivesOlderDevices(t *testing.T) {
	t.Parallel()
	for _, hubKnows := range []bool{false, true} {
		older, x, dsn := pair(t)
		y := newDevice(t)
		y.join(older)
		x.newer()
		y.newer()
		conn := admin(t, dsn)
		if hubKnows {
			upgradeHub(t, dsn)
		}
		future := func(d *device, id uuid.UUID) string {
			return one[string](d, `SELECT coalesce(future, '') FROM memories WHERE id = ?`, id)
		}
		id := older.remember("one two three")
		settleAll(older, x, y)
		x.exec(`UPDATE memories SET future = 'first' WHERE id = ?`, id)
		settleAll(x, older)
		older.edit(id, "one two 3") // sends the unknown column back unchanged
		settleAll(older, y)
		if got := future(y, id); got != "first" {
			t.Errorf("hub knows %v: %q", hubKnows, got)
		}
		x.exec(`UPDATE memories SET future = 'second' WHERE id = ?`, id) // concurrently
		older.edit(id, "1 two 3")
		settleAll(older, x, y, older)
		if !hubKnows {
			upgradeHub(t, dsn)
		}
		older.exec(`UPDATE memories SET salience = 71 WHERE id = ?`, id)
		settleAll(older, x, y)
		if a, b := future(x, id), future(y, id); a != "second" || b != "second" {
			t.Errorf("hub knows %v: %q, %q", hubKnows, a, b)
		}
		y.exec(`UPDATE memories SET future = 'third' WHERE id = ?`, id)
		settleAll(y, older, x)
		var column string
		if err := conn.QueryRow(t.Context(), `select future from public.memories where id = $1 and not extra ? 'future'`, id).Scan(&column); err != nil || column != "third" || future(x, id) != "third" {
			t.Errorf("hub knows %v: %q on the hub, %q, %v", hubKnows, column, future(x, id), err)
		}
		for _, d := range []*device{older, x, y} {
			if got := d.text(id); got != "1 two 3" {
				t.Errorf("%q", got)
			}
			d.noDeadLetters()
		}
	}
}

// A device that is upgraded gets the values that it ignored before, also of rows that it is about to
// send, and does not overwrite them.
func TestUpgradedDeviceGetsWhatItIgnored(t *testing.T) {
	t.Parallel()
	for _, position := range []bool{true, false} { // without one, its first exchange was interrupted
		upgradedDeviceGetsWhatItIgnored(t, position)
	}
}

func upgradedDeviceGetsWhatItIgnored(t *testing.T, position bool) {
	a, b, dsn := pair(t)
	a.newer()
	ids := []uuid.UUID{a.remember("clean"), a.remember("edited before"), a.remember("edited after"), a.remember("written on both")}
	a.exec(`UPDATE memories SET future = 'of a'`)
	settleAll(a, b)
	edit := func(id uuid.UUID) { b.exec(`UPDATE memories SET salience = 71 WHERE id = ?`, id) }
	edit(ids[1])
	if !position {
		b.exec(`UPDATE sync_cursor SET seq = 0`)
	}
	b.newer()
	edit(ids[2])
	b.exec(`UPDATE memories SET future = 'of b' WHERE id = ?`, ids[3])
	must[CoordinateResult](t)(b.Coordinate(b.ctx, CoordinateParams{Action: "push"}))
	upgradeHub(t, dsn)
	settleAll(a, b)
	for i, id := range ids {
		want := []string{"of a 50", "of a 71", "of a 71", "of b 50"}[i]
		for _, d := range []*device{a, b} {
			if got := one[string](d, `SELECT coalesce(future, '') || ' ' || cast(salience AS INTEGER) FROM memories WHERE id = ?`, id); got != want {
				t.Errorf("position %v, row %d: %q, want %q", position, i, got, want)
			}
		}
	}
	same(t, a, b)
}

// A batch keeps columns that its stage lacks: those of an older device, and those that the hub got after
// the stage was made.
func TestBatchKeepsColumnsThatItsStageLacks(t *testing.T) {
	t.Parallel()
	a, b, dsn := pair(t)
	a.newer()
	id := a.remember("in a batch")
	a.exec(`UPDATE memories SET future = 'of a' WHERE id = ?`, id)
	settleAll(a, b)
	batch := func(d *device, what string) {
		for range callRows {
			d.remember("filler")
		}
		d.exec(`UPDATE memories SET salience = salience + 1`)
		d.exec(what)
		d.now()
		d.exec(`UPDATE memories SET salience = salience + 1`) // now all are known to the hub
		d.now()
	}
	batch(a, `UPDATE memories SET layer = 1`) // makes the stage of a
	upgradeHub(t, dsn)
	settleAll(b)
	batch(b, `UPDATE memories SET layer = 2`)
	var future string
	stored := func() string {
		if err := admin(t, dsn).QueryRow(t.Context(), `select coalesce(future, '') || extra::text from public.memories where id = $1`, id).Scan(&future); err != nil {
			t.Fatal(err)
		}
		return future
	}
	if got := stored(); got != "of a{}" {
		t.Errorf("%q after a batch of an older device", got)
	}
	a.now()
	batch(a, `UPDATE memories SET future = 'of a again'`)
	if got := stored(); got != "of a again{}" {
		t.Errorf("%q after a batch of an older stage", got)
	}
	b.newer()
	settleAll(a, b, a)
	same(t, a, b)
	if got := one[string](b, `SELECT future FROM memories WHERE id = ?`, id); got != "of a again" {
		t.Errorf("%q", got)
	}
}

// A connection cannot send after another connection of the same device has completed hello, because
// both would assign the same version numbers.
func TestPushOfFormerEpochIsRefused(t *testing.T) {
	t.Parallel()
	a, _, _ := pair(t)
	id := a.remember("known")
	a.now()
	a.exec(`UPDATE memories SET access_count = access_count + 1 WHERE id = ?`, id)
	if err := a.exclusive(a.ctx, func() error { _, _, err := a.open(a.ctx); return err }); err != nil {
		t.Fatal(err)
	}
	if _, err := a.packageChanges(a.ctx); err != nil {
		t.Fatal(err)
	}
	batch := must[[]sent](t)(a.nextBatch(a.ctx))
	a.reopened().now() // a second process with the same data
	_, _, err := direct{a.Service, a.conn}.send(a.ctx, batch)
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != copyActive {
		t.Errorf("%v", err)
	}
}

// Two copies complete hello one after the other, each with a packaged change of the same row.
// Neither mistakes the other's version for its own.
func TestCopiesWithOneVersionNumberKeepBothEdits(t *testing.T) {
	testkit.SkipRaced(t, "one goroutine")
	t.Parallel()
	path, root := filepath.Join(t.TempDir(), "helix.db"), storagetest.NewRoot()
	storagetest.Blank(t, path)
	db, err := storage.Open(t.Context(), storage.Options{Path: path, Keys: storage.NewKeys(root)})
	if err != nil {
		t.Fatal(err)
	}
	d := &device{Service: New(db, storage.NewSecrets(db), Options{}), t: t}
	d.identify()
	d.setUp(newHub(t))
	id := d.remember("known")
	d.now()
	if err := errors.Join(d.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}
	a, b := copyOf(t, path, root)
	for _, x := range []*device{a, b} {
		x.exec(`UPDATE memories SET access_count = access_count + 1 WHERE id = ?`, id)
		if err := x.exclusive(x.ctx, func() error { _, _, err := x.open(x.ctx); return err }); err != nil {
			t.Fatal(err)
		}
		if _, err := x.packageChanges(x.ctx); err != nil {
			t.Fatal(err)
		}
	}
	settleAll(b, a, b)
	same(t, a, b)
	if n := one[int](a, `SELECT access_count FROM memories WHERE id = ?`, id); n != 2 {
		t.Errorf("counted %d, want 2", n)
	}
}

// A copy of the data holds a packaged counter. The original packages the same additions again,
// together with a subtraction, because another device had changed the row. Nothing is counted twice.
func TestCopyOfAPackagedCounterCountsOnce(t *testing.T) {
	testkit.SkipRaced(t, "one goroutine")
	t.Parallel()
	path, root := filepath.Join(t.TempDir(), "helix.db"), storagetest.NewRoot()
	storagetest.Blank(t, path)
	db, err := storage.Open(t.Context(), storage.Options{Path: path, Keys: storage.NewKeys(root)})
	if err != nil {
		t.Fatal(err)
	}
	d := &device{Service: New(db, storage.NewSecrets(db), Options{}), t: t}
	d.identify()
	d.setUp(newHub(t))
	id := d.remember("counted")
	d.now()
	other := newDevice(t)
	other.join(d)
	settleAll(d, other)
	add := func(x *device, n int) {
		x.exec(`UPDATE memories SET access_count = access_count + ? WHERE id = ?`, n, id)
	}
	add(d, 3)
	if _, err := d.packageChanges(d.ctx); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}
	a, b := copyOf(t, path, root)
	other.edit(id, "counted by others")
	other.now()
	add(a, -1)
	a.now()
	add(b, 10)
	settleAll(b, other, a)
	same(t, a, b, other)
	if n := one[int](a, `SELECT access_count FROM memories WHERE id = ?`, id); n != 3-1+10 {
		t.Errorf("counted %d, want 12", n)
	}
}
