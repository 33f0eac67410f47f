package cloudsync

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"helix/backend/fault"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

// remember inserts a memory and returns its id.
func (d *device) remember(text string) uuid.UUID {
	d.t.Helper()
	id := uuid.UUID(storage.NewID())
	d.write(func(tx *storage.Tx) error {
		_, err := tx.Exec(`INSERT INTO memories (id, user_id, content, content_hash, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?)`,
			id, d.db.LocalUser().ID, text, hashOf(storage.SyncedColumn{Hub: "bytea"}, text), tx.Now, tx.Now)
		return err
	})
	return id
}

func (d *device) edit(id uuid.UUID, text string) {
	d.t.Helper()
	d.exec(`UPDATE memories SET content = ?, content_hash = ?, updated_at = updated_at + 1 WHERE id = ?`, text, hashOf(storage.SyncedColumn{Hub: "bytea"}, text), id)
}

func settleAll(devices ...*device) {
	for range 2 {
		for _, d := range devices {
			d.now()
		}
	}
}

func TestOfflineEditsOfDifferentFieldsMerge(t *testing.T) {
	t.Parallel()
	a, b, _ := pair(t)
	id := a.remember("one two three\nfour\n")
	settleAll(a, b)
	a.edit(id, "1 two three\nfour\n")
	a.exec(`UPDATE memories SET access_count = access_count + 2 WHERE id = ?`, id)
	a.exec(`INSERT INTO memory_tags (memory_id, user_id, tag) VALUES (?, ?, 'a')`, id, a.db.LocalUser().ID)
	b.edit(id, "one two three\nfour\nfive\n")
	b.exec(`UPDATE memories SET access_count = access_count + 3, pinned = 1 WHERE id = ?`, id)
	b.exec(`INSERT INTO memory_tags (memory_id, user_id, tag) VALUES (?, ?, 'b')`, id, b.db.LocalUser().ID)
	settleAll(a, b)
	same(t, a, b)
	for _, d := range []*device{a, b} {
		if got := one[string](d, `SELECT content || access_count || pinned || (SELECT group_concat(tag ORDER BY tag) FROM memory_tags WHERE memory_id = id) FROM memories WHERE id = ?`, id); got != "1 two three\nfour\nfive\n51a,b" {
			t.Errorf("%q", got)
		}
		if hash := one[[]byte](d, `SELECT content_hash FROM memories WHERE id = ?`, id); !equal(hash, hashOf(storage.SyncedColumn{Hub: "bytea"}, "1 two three\nfour\nfive\n")) {
			t.Errorf("the hash is not that of the merged text")
		}
	}
	if got := must[ConflictsResult](t)(a.Service.Conflicts(a.ctx, ConflictsParams{})); got.Total != 0 {
		t.Errorf("%+v", got)
	}
	b.exec(`DELETE FROM memory_tags WHERE memory_id = ? AND tag = 'a'`, id) // removing a tag that both know
	a.exec(`UPDATE memories SET salience = 70 WHERE id = ?`, id)
	settleAll(a, b)
	same(t, a, b)
	if got := one[string](a, `SELECT group_concat(tag) FROM memory_tags WHERE memory_id = ?`, id); got != "b" {
		t.Errorf("tags %q", got)
	}
}

func TestConflictKeepsBothValuesUntilResolved(t *testing.T) {
	t.Parallel()
	a, b, _ := pair(t)
	id := a.remember("the key is red")
	settleAll(a, b)
	a.edit(id, "the key is blue")
	b.edit(id, "the key is green")
	settleAll(a, b)
	same(t, a, b)
	var c ConflictInfo
	for _, d := range []*device{a, b} {
		got := must[ConflictsResult](t)(d.Service.Conflicts(d.ctx, ConflictsParams{}))
		if got.Total != 1 {
			t.Fatalf("%+v", got)
		}
		c = got.Conflicts[0]
		values := string(c.Mine) + string(c.Theirs)
		if string(c.Base) != `"the key is red"` || !strings.Contains(values, "blue") || !strings.Contains(values, "green") || c.Field != "content" || c.RowID != id {
			t.Errorf("%+v", c)
		}
	}
	_, err := a.Resolve(a.ctx, ResolveParams{ConflictID: c.ID, Choice: "neither"})
	if !fault.Is(err, fault.Invalid) {
		t.Errorf("%v", err)
	}
	must[ResolveResult](t)(a.Resolve(a.ctx, ResolveParams{ConflictID: c.ID, Choice: "merged", Value: []byte(`"the keys are blue and green"`)}))
	settleAll(a, b)
	same(t, a, b)
	for _, d := range []*device{a, b} {
		if got := one[string](d, `SELECT content FROM memories WHERE id = ?`, id); got != "the keys are blue and green" {
			t.Errorf("%q", got)
		}
		if got := must[ConflictsResult](t)(d.Service.Conflicts(d.ctx, ConflictsParams{})); got.Total != 0 {
			t.Errorf("still open: %+v", got)
		}
		if _, err := d.Resolve(d.ctx, ResolveParams{ConflictID: c.ID, Choice: "mine"}); !fault.Is(err, fault.Conflict) {
			t.Errorf("resolved twice: %v", err)
		}
	}
}

// A denial that was lifted and set again wins over lifting it elsewhere, also if another change of the item
// arrived in between.
func TestDenialSetAgainWins(t *testing.T) {
	t.Parallel()
	a, b, _ := pair(t)
	id := uuid.UUID(storage.NewID())
	a.exec(`INSERT INTO schedules (id, user_id, name, target_kind, target_id, cadence, timezone, is_enabled, created_at, updated_at) VALUES (?, ?, 's', 'tool', ?, '{}', 'UTC', 0, 1, 1)`, id, a.db.LocalUser().ID, storage.NewID())
	settleAll(a, b)
	enable := func(d *device, v int) { d.exec(`UPDATE schedules SET is_enabled = ? WHERE id = ?`, v, id) }
	enable(a, 1)
	enable(a, 0)
	b.exec(`UPDATE schedules SET name = 'renamed' WHERE id = ?`, id)
	b.now()
	must[CoordinateResult](t)(a.Coordinate(a.ctx, CoordinateParams{Action: "pull"}))
	enable(b, 1)
	settleAll(b, a)
	same(t, a, b)
	if got := one[string](b, `SELECT name || is_enabled FROM schedules WHERE id = ?`, id); got != "renamed0" {
		t.Errorf("%q", got)
	}
}

func TestDeletedRowsDoNotComeBack(t *testing.T) {
	t.Parallel()
	a, b, _ := pair(t)
	gone, edited, both := a.remember("gone"), a.remember("edited"), a.remember("both")
	settleAll(a, b)
	b.exec(`UPDATE memories SET access_count = access_count + 1 WHERE id = ?`, gone) // use is not an edit
	b.edit(edited, "edited there")
	for _, id := range []uuid.UUID{gone, edited, both} {
		a.exec(`UPDATE memories SET deleted_at = 5 WHERE id = ?`, id)
	}
	b.exec(`UPDATE memories SET deleted_at = 6 WHERE id = ?`, both)
	a.now()
	settleAll(b, a)
	same(t, a, b)
	for id, want := range map[uuid.UUID]bool{gone: true, edited: false, both: true} {
		if got := one[bool](b, `SELECT deleted_at IS NOT NULL FROM memories WHERE id = ?`, id); got != want {
			t.Errorf("%s: deleted %v, want %v", one[string](b, `SELECT content FROM memories WHERE id = ?`, id), got, want)
		}
	}
	got := must[ConflictsResult](t)(a.Service.Conflicts(a.ctx, ConflictsParams{}))
	if got.Total != 1 || got.Conflicts[0].Kind != "delete_edit" || got.Conflicts[0].RowID != edited {
		t.Fatalf("%+v", got)
	}
	choice := "mine" // the side that deleted
	if string(got.Conflicts[0].Mine) == "null" {
		choice = "theirs"
	}
	must[ResolveResult](t)(a.Resolve(a.ctx, ResolveParams{ConflictID: got.Conflicts[0].ID, Choice: choice}))
	settleAll(a, b)
	same(t, a, b)
	if !one[bool](b, `SELECT deleted_at IS NOT NULL FROM memories WHERE id = ?`, edited) {
		t.Error("it was not deleted after all")
	}
}

// reopened returns the device after its process was killed; only the database remains.
func (d *device) reopened() *device {
	next := &device{Service: New(d.db, storage.NewSecrets(d.db), Options{Version: "test"}), t: d.t}
	d.t.Cleanup(func() { _ = next.Close() })
	next.identify()
	return next
}

// sendOnly pushes the outbox and stops before it stores the answers.
func (d *device) sendOnly() {
	d.t.Helper()
	if err := d.exclusive(d.ctx, func() error {
		c, _, err := d.open(d.ctx)
		if err != nil {
			return err
		}
		if _, err := d.packageChanges(d.ctx); err != nil {
			return err
		}
		batch, err := d.nextBatch(d.ctx)
		if err != nil {
			return err
		}
		_, _, err = direct{d.Service, c}.send(d.ctx, batch)
		return err
	}); err != nil {
		d.t.Fatal(err)
	}
}

func TestKillBetweenPushAndAnswerHasItsEffectOnce(t *testing.T) {
	t.Parallel()
	a, b, dsn := pair(t)
	id := a.remember("count")
	settleAll(a, b)
	a.exec(`UPDATE memories SET access_count = access_count + 5 WHERE id = ?`, id)
	a.sendOnly()
	a = a.reopened()
	r := a.now() // sends a version that the hub already has
	if r.Merged != 0 || one[int](a, `SELECT count(*) FROM sync_outbox`) != 0 {
		t.Errorf("%+v", r)
	}
	a.exec(`UPDATE memories SET access_count = access_count + 5 WHERE id = ?`, id)
	a.sendOnly()
	b.now()
	b.exec(`UPDATE memories SET access_count = access_count + 7, salience = 90 WHERE id = ?`, id) // based on a version that a does not know to be stored
	b.now()
	a = a.reopened()
	a.exec(`UPDATE memories SET access_count = access_count + 11 WHERE id = ?`, id)
	settleAll(a, b)
	same(t, a, b)
	if n := one[int](b, `SELECT access_count FROM memories WHERE id = ?`, id); n != 28 {
		t.Errorf("%d, want 28", n)
	}
	var n int
	if err := admin(t, dsn).QueryRow(t.Context(), `select access_count from public.memories where id = $1`, id).Scan(&n); err != nil || n != 28 {
		t.Errorf("the hub has %d, %v", n, err)
	}
}

func TestLostConnectionIsAState(t *testing.T) {
	t.Parallel()
	a, b, dsn := pair(t)
	c := admin(t, dsn)
	must[any](t)(nil, func() error {
		_, err := c.Exec(t.Context(), `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`)
		return err
	}())
	id := a.remember("after the loss")
	if _, err := a.Coordinate(a.ctx, CoordinateParams{}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("%v", err)
	}
	if st := must[StatusResult](t)(a.Status(a.ctx, struct{}{})); st.State != Offline || st.Error == "" || st.QueueLength != 1 {
		t.Errorf("%+v", st)
	}
	a.now()
	_, _ = b.Coordinate(b.ctx, CoordinateParams{}) // finds that its connection is lost
	b.now()
	if one[int](b, `SELECT count(*) FROM memories WHERE id = ?`, id) != 1 {
		t.Error("the change is lost")
	}
}

func TestClockOfAnotherDayIsCorrected(t *testing.T) {
	t.Parallel()
	a, b, _ := pair(t)
	id := a.remember("time")
	settleAll(a, b)
	day := int64(24*time.Hour/time.Millisecond) << 16
	a.edit(id, "time of a") // a's clock is a day ahead
	a.exec(`UPDATE change_log SET hlc = hlc + ?`, day)
	a.exec(`UPDATE sync_local SET hlc_high = hlc_high + ?`, day)
	settleAll(a, b)
	if got := one[string](b, `SELECT content FROM memories WHERE id = ?`, id); got != "time of a" {
		t.Fatalf("%q", got)
	}
	b.edit(id, "time of b")
	settleAll(b, a)
	same(t, a, b)
	if got := one[string](a, `SELECT content FROM memories WHERE id = ?`, id); got != "time of b" {
		t.Errorf("%q", got)
	}
	a.edit(id, "a again")
	settleAll(a, b)
	same(t, a, b)
}

func TestPoisonRowHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	a, b, _ := pair(t)
	var good []uuid.UUID
	for range 5 {
		good = append(good, a.remember("good"))
	}
	bad := a.remember("bad")
	a.exec(`UPDATE memories SET source_ref = 'nul' || char(0) WHERE id = ?`, bad) // PostgreSQL rejects such a text
	good = append(good, a.remember("good too"))
	r := a.now()
	if r.Pushed != len(good) || r.DeadLetters != 1 {
		t.Errorf("%+v", r)
	}
	b.now()
	if n := one[int](b, `SELECT count(*) FROM memories WHERE content LIKE 'good%'`); n != len(good) {
		t.Errorf("%d of %d", n, len(good))
	}
	list := must[DeadLettersResult](t)(a.Service.DeadLetters(a.ctx, struct{}{})).DeadLetters
	if len(list) != 1 || list[0].RowID != bad || list[0].Direction != "out" || list[0].Title != "bad" {
		t.Fatalf("%+v", list)
	}
	must[struct{}](t)(a.RetryDeadLetter(a.ctx, RetryParams{list[0].ID}))
	if r := a.now(); r.DeadLetters != 1 {
		t.Errorf("%+v", r)
	}
	a.exec(`UPDATE memories SET source_ref = 'repaired' WHERE id = ?`, bad)
	settleAll(a, b)
	same(t, a, b)
	a.noDeadLetters()
}

// A row that the hub rejects once, as it does when it removes the device while it stores the row, is sent again.
func TestRowRejectedOnceIsNoDeadLetter(t *testing.T) {
	t.Parallel()
	a, b, dsn := pair(t)
	if _, err := admin(t, dsn).Exec(t.Context(), `create sequence public.tries; grant usage on sequence public.tries to public;
		create function public.reject_once() returns trigger language plpgsql as $$ begin
			if nextval('public.tries') = 1 then raise exception 'no' using errcode = '42501'; end if;
			return new;
		end $$;
		create trigger reject_once before insert on public.memories for each row execute function public.reject_once()`); err != nil {
		t.Fatal(err)
	}
	a.remember("rejected once")
	if r := a.now(); r.Pushed != 1 || r.DeadLetters != 0 {
		t.Errorf("%+v", r)
	}
	settleAll(a, b)
	same(t, a, b)
}

// A row that arrives before its parent is stored once the parent has arrived.
func TestChildWaitsForItsParent(t *testing.T) {
	t.Parallel()
	a, b, dsn := pair(t)
	var parent, child uuid.UUID
	a.write(func(tx *storage.Tx) error {
		parent, child = storage.NewID(), storage.NewID()
		if _, err := tx.Exec(`INSERT INTO documents (id, user_id, source_uri, content_hash, created_at, updated_at) VALUES (?, ?, 'x', zeroblob(32), 1, 1)`, parent, a.db.LocalUser().ID); err != nil {
			return err
		}
		_, err := tx.Exec(`INSERT INTO chunks (id, document_id, user_id, seq, content, content_hash, created_at, updated_at) VALUES (?, ?, ?, 0, 'part', zeroblob(32), 1, 1)`, child, parent, a.db.LocalUser().ID)
		return err
	})
	a.now()
	c := admin(t, dsn)
	exec := func(q string) {
		t.Helper()
		if _, err := c.Exec(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	exec(`create table public.held as select * from public.documents; alter table public.documents disable trigger user; delete from public.documents`)
	b.now()
	if n := one[int](b, `SELECT count(*) FROM chunks`); n != 0 || one[int](b, `SELECT count(*) FROM sync_dead_letter`) != 1 {
		t.Errorf("%d chunks", n)
	}
	exec(`insert into public.documents select * from public.held; alter table public.documents enable trigger user; insert into public.sync_change_log select user_id, seq + 1000, batch + 1000, table_name, row_id, operation, dot, hlc, device_id from public.sync_change_log where table_name = 'documents'; update public.sync_head set seq = seq + 1000`)
	b.now()
	b.noDeadLetters()
	if one[int](b, `SELECT count(*) FROM chunks`) != 1 {
		t.Error("the chunk did not come")
	}
}

// A copy of the data folder becomes a separate device; neither copy loses an edit.
func TestCopiedDataFolderRegistersAgain(t *testing.T) {
	testkit.SkipRaced(t, "one goroutine")
	t.Parallel()
	dir, root := t.TempDir(), storagetest.NewRoot()
	path := filepath.Join(dir, "helix.db")
	storagetest.Blank(t, path)
	db, err := storage.Open(t.Context(), storage.Options{Path: path, Keys: storage.NewKeys(root)})
	if err != nil {
		t.Fatal(err)
	}
	first := New(db, storage.NewSecrets(db), Options{})
	a := &device{Service: first, t: t}
	a.identify()
	a.setUp(newHub(t))
	id := a.remember("one")
	a.now()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	data := must[[]byte](t)(os.ReadFile(path)) // the database is closed, so the file is complete
	twin := filepath.Join(t.TempDir(), "helix.db")
	if err := os.WriteFile(twin, data, 0o600); err != nil {
		t.Fatal(err)
	}
	a, b := openDevice(t, storagetest.OpenAt(t, path, root)), openDevice(t, storagetest.OpenAt(t, twin, root))
	a.edit(id, "one of a")
	ofA, ofB := a.remember("a"), b.remember("b")
	a.now()
	b.exec(`UPDATE memories SET salience = 99 WHERE id = ?`, id)
	settleAll(b, a)
	same(t, a, b)
	if one[int](a, `SELECT count(*) FROM memories WHERE id IN (?, ?)`, ofA, ofB) != 2 || one[string](b, `SELECT content || salience FROM memories WHERE id = ?`, id) != "one of a99.0" {
		t.Errorf("%v", a.rows())
	}
	if x, y := one[int](a, `SELECT site FROM sync_local`), one[int](b, `SELECT site FROM sync_local`); x == y {
		t.Errorf("both are site %d", x)
	}
}

func collectText(ctx context.Context, c *pgx.Conn, query string) ([]string, error) {
	rows, err := c.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// If two devices give two tools the same name, both tools are kept, and all devices rename the same
// one.
func TestSameNameOnTwoDevicesKeepsBothItems(t *testing.T) {
	t.Parallel()
	a, b, _ := pair(t)
	add := func(d *device, name string, id uuid.UUID) uuid.UUID {
		d.exec(`INSERT INTO custom_tools (id, user_id, name, code, definition_hash, created_at, updated_at) VALUES (?, ?, ?, '', zeroblob(32), 1, 1)`, id, d.db.LocalUser().ID, name)
		return id
	}
	first, second := add(a, "Counter", storage.NewID()), add(b, "Counter", storage.NewID())
	settleAll(a, b, a)
	same(t, a, b)
	a.noDeadLetters()
	for id, want := range map[uuid.UUID]string{first: "Counter", second: "Counter (2)"} {
		if got := one[string](a, `SELECT name FROM custom_tools WHERE id = ?`, id); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	third := add(a, "Other", storage.NewID())
	add(b, "other", uuid.UUID{1}) // arrived first
	settleAll(a, b, a)
	same(t, a, b)
	if got := one[string](b, `SELECT name FROM custom_tools WHERE id = ?`, third); got != "Other (2)" {
		t.Errorf("%q", got)
	}
}

// Tools from API descriptions have names of another form, and one that is revoked keeps its name from nobody.
func TestSameNameOfToolsFromAPIDescriptions(t *testing.T) {
	t.Parallel()
	a, b, _ := pair(t)
	add := func(d *device, name, status string) uuid.UUID {
		id := uuid.UUID(storage.NewID())
		d.exec(`INSERT INTO tool_manifest (id, user_id, name, version, description, source_type, source_location, status, execution_type, execution_timeout, manifest, definition_hash, created_at, updated_at)
			VALUES (?, ?, ?, '1.0.0', '', 'local', '', ?, 'http', 30, '{}', zeroblob(32), 1, 1)`, id, d.db.LocalUser().ID, name, status)
		return id
	}
	long := strings.Repeat("n", 62)
	revoked, first, second := add(a, "notes", "revoked"), add(a, "notes", "active"), add(b, "notes", "pending_approval")
	third, fourth := add(a, long+"-", "active"), add(b, long+"-", "active")
	settleAll(a, b, a)
	same(t, a, b)
	a.noDeadLetters()
	for id, want := range map[uuid.UUID]string{revoked: "notes", first: "notes", second: "notes-2", third: long + "-", fourth: long[:61] + "-2"} {
		if got := one[string](b, `SELECT name FROM tool_manifest WHERE id = ?`, id); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
