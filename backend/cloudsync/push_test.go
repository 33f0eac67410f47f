package cloudsync

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/cloudsync/hubtest"
	"helix/backend/testkit"
)

// Many rows are sent in bulk, with the same result as a few rows.
func TestManyRowsArriveAsFewDo(t *testing.T) {
	testkit.SkipRaced(t, "one goroutine")
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	a, b, _ := pair(t)
	a.fill(bulkStatement+20, r) // packaged and sent in bulk
	odd := "tab\tquote\" back\\slash\nline\r\x01 ümlaut hx1.looks.encrypted \\N"
	id := a.remember(odd)
	a.exec(`INSERT INTO memory_tags (memory_id, user_id, tag) VALUES (?, ?, ?)`, id, a.db.LocalUser().ID, `a "tag"`)
	got := a.now()
	if got.Pushed < 2*callRows || got.DeadLetters > 0 {
		t.Errorf("%+v", got)
	}
	b.now()
	b.noDeadLetters()
	same(t, a, b)
	if got := one[string](b, `SELECT content FROM memories WHERE id = ?`, id); got != odd {
		t.Errorf("%q", got)
	}
	a.exec(`UPDATE memories SET salience = 71, access_count = access_count + 3`)
	b.exec(`UPDATE memories SET pinned = 1, access_count = access_count + 4`)
	settleAll(a, b)
	same(t, a, b)
	if n := one[int](a, `SELECT count(*) FROM memories WHERE salience <> 71 OR pinned <> 1 OR access_count < 7`); n > 0 {
		t.Errorf("%d memories lack a change", n)
	}
	if n := one[int](a, `SELECT (SELECT count(*) FROM sync_outbox) + (SELECT count(*) FROM change_log) + (SELECT count(*) FROM sync_base)`); n > 0 {
		t.Errorf("%d entries are left", n)
	}
}

// A row that the hub rejects does not delay the rest of its batch, nor does a lost answer.
func TestPoisonRowAndLostAnswerInABulkPush(t *testing.T) {
	testkit.SkipRaced(t, "one goroutine")
	t.Parallel()
	a, b, dsn := pair(t)
	for i := range callRows + 5 {
		a.remember(fmt.Sprint("its answer is lost ", i))
	}
	a.sendOnly()
	var poison uuid.UUID
	for i := range 2*callRows + 7 {
		if id := a.remember(fmt.Sprint("row ", i)); i == callRows {
			poison = id
		}
	}
	if _, err := admin(t, dsn).Exec(t.Context(), fmt.Sprintf(`alter table public.memories add constraint poison check (id <> '%s')`, poison)); err != nil {
		t.Fatal(err)
	}
	got := a.now()
	if got.DeadLetters != 1 {
		t.Errorf("%+v", got)
	}
	b.now()
	if n := one[int](b, `SELECT count(*) FROM memories`); n != 3*callRows+11 {
		t.Errorf("%d rows came", n)
	}
	if n := one[int](a, `SELECT count(*) FROM sync_dead_letter WHERE direction = 'out' AND row_id = ?`, poison); n != 1 {
		t.Error("the poison row is not in the dead letters")
	}
}

// The data was copied while many new rows were packaged. Their counts stay in sync_base until the hub has
// the rows; later it would be taken for their last common version, and each edit for a conflict.
func TestManyNewRowsOfACopyLeaveNoBase(t *testing.T) {
	t.Parallel()
	a, b, _ := pair(t)
	var id uuid.UUID
	for i := range callRows + 1 {
		id = a.remember(fmt.Sprint("the key is red ", i))
	}
	must[int](t)(a.packageChanges(a.ctx))
	a.exec(`UPDATE sync_local SET epoch = randomblob(16)`) // the hub registers it again
	settleAll(a, b)
	if n := one[int](a, `SELECT count(*) FROM sync_base`); n > 0 {
		t.Errorf("%d rows have a base", n)
	}
	a.edit(id, "the key is blue")
	b.exec(`UPDATE memories SET salience = 71 WHERE id = ?`, id)
	settleAll(b, a)
	same(t, a, b)
	if got := must[ConflictsResult](t)(a.Service.Conflicts(a.ctx, ConflictsParams{Status: "all"})); got.Total != 0 {
		t.Errorf("conflicts in what one device wrote: %+v", got.Conflicts)
	}
}

// A version holds all changes of its row, so it has the stamps of all, even those behind more changes
// of other rows than are packaged at once.
func TestChangesOfARowFarApartBothConflict(t *testing.T) {
	t.Parallel()
	a, b, _ := pair(t)
	id := a.remember("the key is red")
	settleAll(a, b)
	a.exec(`UPDATE memories SET salience = 71 WHERE id = ?`, id)
	a.exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO change_log (tbl, row_id, op, fields, hlc, txn, at) SELECT 'memories', randomblob(16), 'U', 1, 1, 1, 1 FROM n`, packagedEntries)
	a.edit(id, "the key is blue")
	b.edit(id, "the key is green")
	a.sendOnly()
	settleAll(b, a)
	same(t, a, b)
	got := must[ConflictsResult](t)(a.Service.Conflicts(a.ctx, ConflictsParams{}))
	if got.Total != 1 || got.Conflicts[0].Field != "content" {
		t.Errorf("the text is %q, and these are the conflicts: %+v", one[string](a, `SELECT content FROM memories WHERE id = ?`, id), got.Conflicts)
	}
}

// A device whose rows arrive slowly keeps no other device from pushing.
func TestSlowPushHoldsNoLock(t *testing.T) {
	testkit.SkipRaced(t, "one device")
	t.Parallel()
	dsn := newHub(t)
	hub := admin(t, dsn)
	proxy := hubtest.NewProxy(t, int(hub.Config().Port))
	a := newDevice(t)
	a.setUp(strings.Replace(dsn, fmt.Sprint(":", hub.Config().Port), fmt.Sprint(":", proxy.Port()), 1))
	a.now()
	id := a.remember(strings.Repeat("long ", 100_000))
	stopped := false
	proxy.BreakAfter(300_000, func() { // in the midst of the row
		stopped = true
		if _, err := hub.Exec(t.Context(), `select from public.sync_head for update nowait`); err != nil {
			t.Errorf("while rows arrive: %v", err)
		}
	})
	if _, err := a.Coordinate(a.ctx, CoordinateParams{}); err == nil || !stopped {
		t.Errorf("the push was not interrupted: %v", err)
	}
	proxy.Heal()
	a.now()
	if n := must[[]string](t)(collectText(t.Context(), hub, `select id::text from public.memories`)); len(n) != 1 || n[0] != id.String() {
		t.Errorf("the hub has %q", n)
	}
}
