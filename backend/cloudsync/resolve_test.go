package cloudsync

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/storage"
)

// conflicted creates a conflict about the text of a memory that both devices have. a wrote first.
func conflicted(t *testing.T, a, b *device, mine, theirs string) (id uuid.UUID, c ConflictInfo) {
	t.Helper()
	id = a.remember("the key is red")
	settleAll(a, b)
	a.edit(id, mine)
	b.edit(id, theirs)
	settleAll(a, b)
	return id, a.oneConflict()
}

func (d *device) oneConflict() ConflictInfo {
	d.t.Helper()
	got := must[ConflictsResult](d.t)(d.Service.Conflicts(d.ctx, ConflictsParams{}))
	if got.Total != 1 {
		d.t.Fatalf("%d conflicts: %+v", got.Total, got.Conflicts)
	}
	return got.Conflicts[0]
}

func TestConflictNamesDevicesTimesAndWhatIsShown(t *testing.T) {
	t.Parallel()
	a, b, _ := pair(t)
	devices := must[DevicesResult](t)(a.Devices(a.ctx, struct{}{})).Devices
	must[struct{}](t)(a.Rename(a.ctx, RenameParams{ID: devices[1].ID, Name: "laptop"}))
	begin := time.Now().Add(-time.Second)
	_, c := conflicted(t, a, b, "the key is blue", "the key is green")
	must[DevicesResult](t)(b.Devices(b.ctx, struct{}{})) // updates the name
	// Mine is always the value of the calling device, whichever device merged the two.
	if other := b.oneConflict(); string(other.Mine) != string(c.Theirs) || string(other.Theirs) != string(c.Mine) || other.MineDevice != "laptop" {
		t.Errorf("%+v", other)
	}
	if string(c.Mine) != `"the key is blue"` || c.MineDevice != "first" || c.TheirsDevice != "laptop" || c.FieldType != "text" || c.Suggested == "" || !c.CanKeepBoth {
		t.Errorf("%+v", c)
	}
	for _, at := range []*time.Time{c.MineAt, c.TheirsAt} {
		if at == nil || at.Before(begin) || at.After(time.Now().Add(time.Second)) {
			t.Errorf("written at %v", at)
		}
	}
	if st := must[StatusResult](t)(b.Status(b.ctx, struct{}{})); st.Devices != 2 || st.LastChange == nil || st.Conflicts != 1 || st.Problem != "" {
		t.Errorf("%+v", st)
	}
	_, err := a.Rename(a.ctx, RenameParams{ID: uuid.New(), Name: "nobody's"})
	if !fault.Is(err, fault.NotFound) {
		t.Errorf("%v", err)
	}
	if _, err := a.Rename(a.ctx, RenameParams{ID: devices[1].ID, Name: " "}); !fault.Is(err, fault.Invalid) {
		t.Errorf("%v", err)
	}
}

func TestKeepBothMakesASecondItemOnAllDevices(t *testing.T) {
	t.Parallel()
	a, b, _ := pair(t)
	id, c := conflicted(t, a, b, "the key is blue", "the key is green")
	a.exec(`INSERT INTO memory_tags (memory_id, user_id, tag) VALUES (?, ?, 'home')`, id, a.db.LocalUser().ID)
	a.exec(`UPDATE memories SET access_count = 5 WHERE id = ?`, id)
	r := must[ResolveResult](t)(a.Resolve(a.ctx, ResolveParams{ConflictID: c.ID, Choice: "both"}))
	if r.NewRowID == nil || *r.NewRowID == id || r.NewRowID.Version() != 7 {
		t.Fatalf("%+v", r)
	}
	if n := one[int](a, `SELECT count(*) FROM sync_base WHERE row_id = ?`, *r.NewRowID); n > 0 {
		t.Error("the new item has a base, as if the hub had it")
	}
	settleAll(a, b)
	same(t, a, b)
	b.noDeadLetters()
	if got := must[ConflictsResult](t)(b.Service.Conflicts(b.ctx, ConflictsParams{Status: "resolved"})); got.Conflicts[0].Resolution != "both" {
		t.Errorf("%+v", got)
	}
	for want, row := range map[string]uuid.UUID{"the key is blue5home": id, "the key is green0home": *r.NewRowID} {
		if got := one[string](b, `SELECT content || access_count || (SELECT group_concat(tag) FROM memory_tags WHERE memory_id = id) FROM memories WHERE id = ?`, row); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	must[ResolveResult](t)(a.UndoResolve(a.ctx, UndoResolveParams{r.UndoToken}))
	settleAll(a, b)
	same(t, a, b)
	if n := one[int](b, `SELECT count(*) FROM memories WHERE deleted_at IS NULL`); n != 1 || b.oneConflict().ID != c.ID {
		t.Errorf("%d memories after undo", n)
	}
}

func TestDefinitionsOfAToolCanBothBeKept(t *testing.T) {
	t.Parallel()
	a, b, _ := pair(t)
	id := uuid.UUID(storage.NewID())
	name := strings.Repeat("n", 60)
	a.exec(`INSERT INTO custom_tools (id, user_id, name, code, definition_hash, created_at, updated_at) VALUES (?, ?, ?, 'one', zeroblob(32), 1, 1)`, id, a.db.LocalUser().ID, name)
	settleAll(a, b)
	hash := func(text string) any { return hashOf(storage.SyncedColumn{Hub: "bytea"}, text) }
	a.exec(`UPDATE custom_tools SET code = 'two', definition_hash = ?, updated_at = 2 WHERE id = ?`, hash("two"), id)
	b.exec(`UPDATE custom_tools SET code = 'three', definition_hash = ?, updated_at = 2 WHERE id = ?`, hash("three"), id)
	settleAll(a, b)
	c := a.oneConflict()
	if c.FieldType != "definition" || !strings.Contains(string(c.Mine), `"code":"two"`) {
		t.Fatalf("%+v %s", c, c.Mine)
	}
	for choice, want := range map[string]string{"theirs": "three", "mine": "two"} {
		r := must[ResolveResult](t)(a.Resolve(a.ctx, ResolveParams{ConflictID: c.ID, Choice: choice}))
		if got := one[string](a, `SELECT code FROM custom_tools WHERE id = ? AND definition_hash = ?`, id, hash(want)); got != want {
			t.Errorf("%s: %q", choice, got)
		}
		must[ResolveResult](t)(a.UndoResolve(a.ctx, UndoResolveParams{r.UndoToken}))
	}
	r := must[ResolveResult](t)(a.Resolve(a.ctx, ResolveParams{ConflictID: c.ID, Choice: "both"}))
	settleAll(a, b)
	same(t, a, b)
	b.noDeadLetters()
	if got := one[string](b, `SELECT name || code FROM custom_tools WHERE id = ?`, *r.NewRowID); !strings.HasSuffix(got, "n (copy from "+c.TheirsDevice+")three") {
		t.Errorf("%q", got)
	}
}

// One call resolves all conflicts, in transactions of a limited size, and one token undoes them.
func TestManyConflictsAreResolvedAndUndoneAtOnce(t *testing.T) {
	t.Parallel()
	a, b, _ := pair(t)
	const n = 2*resolveBatch + 30
	var ids []uuid.UUID
	for i := range n {
		ids = append(ids, a.remember(fmt.Sprint("red ", i)))
	}
	settleAll(a, b)
	for i, id := range ids {
		a.edit(id, fmt.Sprint("blue ", i))
		if i > 0 {
			b.edit(id, fmt.Sprint("green ", i))
		}
	}
	b.exec(`UPDATE memories SET deleted_at = 5 WHERE id = ?`, ids[0]) // there can't be two of it
	settleAll(a, b)
	count := func(d *device, color string) int {
		return one[int](d, `SELECT count(*) FROM memories WHERE deleted_at IS NULL AND content LIKE ?`, color+" %")
	}
	open := func(d *device) int {
		return must[ConflictsResult](t)(d.Service.Conflicts(d.ctx, ConflictsParams{})).Total
	}
	if open(a) != n {
		t.Fatalf("%d conflicts", open(a))
	}
	for _, bad := range []ResolveParams{
		{Choice: "mine"}, {Choice: "mine", All: true, ConflictID: ids[0]}, {Choice: "mine", ConflictID: ids[0], TableName: "memories"},
		{Choice: "merged", All: true, Value: json.RawMessage(`"x"`)},
	} {
		if _, err := a.Resolve(a.ctx, bad); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if r := must[ResolveResult](t)(a.Resolve(a.ctx, ResolveParams{All: true, TableName: "schedules", Choice: "mine"})); r.Resolved+r.Skipped != 0 || r.UndoToken != "" {
		t.Errorf("%+v", r)
	}
	r := must[ResolveResult](t)(a.Resolve(a.ctx, ResolveParams{All: true, Choice: "both"}))
	if r.Resolved != n-1 || r.Skipped != 1 || open(a) != 1 || count(a, "green") != n-1 || count(a, "blue") != n {
		t.Errorf("%+v, %d open, %d green, %d blue", r, open(a), count(a, "green"), count(a, "blue"))
	}
	a.edit(ids[7], "edited since")
	if r := must[ResolveResult](t)(a.UndoResolve(a.ctx, UndoResolveParams{r.UndoToken})); r.Resolved != n-2 || r.Skipped != 1 || open(a) != n-1 || count(a, "green")+count(a, "blue") != n {
		t.Errorf("undo: %+v, %d open, %d items", r, open(a), count(a, "green")+count(a, "blue"))
	}

	if r := must[ResolveResult](t)(a.Resolve(a.ctx, ResolveParams{All: true, Choice: "mine", Limit: 1})); r.Resolved < 1 || r.Resolved > resolveBatch || open(a) != n-1-r.Resolved {
		t.Errorf("%+v, %d open", r, open(a))
	} else {
		must[ResolveResult](t)(a.UndoResolve(a.ctx, UndoResolveParams{r.UndoToken}))
	}

	// A canceled call keeps what it has resolved.
	ctx, cancel := context.WithCancel(a.ctx)
	defer bus.Subscribe(a.db.Bus(), func(uuid.UUID, ConflictsChanged) { cancel() })()
	if _, err := a.Resolve(ctx, ResolveParams{All: true, TableName: "memories", Choice: "theirs"}); err == nil || open(a) != n-1-resolveBatch {
		t.Errorf("%v, %d open", err, open(a))
	}
	var list []uuid.UUID
	for _, c := range must[ConflictsResult](t)(a.Service.Conflicts(a.ctx, ConflictsParams{Limit: 3})).Conflicts {
		list = append(list, c.ID)
	}
	left := open(a)
	if r := must[ResolveResult](t)(a.Resolve(a.ctx, ResolveParams{ConflictIDs: append(list, uuid.New()), Choice: "mine"})); r.Resolved != 3 || r.Skipped != 1 || open(a) != left-3 {
		t.Errorf("%+v, %d open", r, open(a))
	}
	settleAll(a, b)
	same(t, a, b)
	if open(b) != left-3 {
		t.Errorf("%d open on the other device", open(b))
	}
}

func TestUndoRefusesWhatHasChangedSince(t *testing.T) {
	t.Parallel()
	a, b, _ := pair(t)
	id, c := conflicted(t, a, b, "the key is blue", "the key is green")
	r := must[ResolveResult](t)(a.Resolve(a.ctx, ResolveParams{ConflictID: c.ID, Choice: "theirs"}))
	if got := one[string](a, `SELECT state FROM memory_undo`); strings.Contains(got, "key is") {
		t.Errorf("plain text in the undo: %s", got)
	}
	settleAll(a, b)
	if _, err := b.Resolve(b.ctx, ResolveParams{ConflictID: c.ID, Choice: "mine"}); !fault.Is(err, fault.Conflict) || !strings.Contains(fault.As(err).Message, "on first") {
		t.Errorf("%v", err)
	}
	a.edit(id, "the key is gone")
	if _, err := a.UndoResolve(a.ctx, UndoResolveParams{r.UndoToken}); !fault.Is(err, fault.Conflict) {
		t.Errorf("%v", err)
	}
	if _, err := a.UndoResolve(a.ctx, UndoResolveParams{"nothing"}); !fault.Is(err, fault.NotFound) {
		t.Errorf("%v", err)
	}
}

func TestDeleteAgainstEditCanBeDeletedAfterAll(t *testing.T) {
	t.Parallel()
	a, b, _ := pair(t)
	id := a.remember("the key is red")
	settleAll(a, b)
	a.exec(`UPDATE memories SET deleted_at = ?, updated_at = updated_at + 1 WHERE id = ?`, time.Now(), id)
	b.edit(id, "the key is green")
	settleAll(a, b)
	c := a.oneConflict()
	if c.FieldType != "deleted" || c.Suggested != "theirs" || c.CanKeepBoth || c.ItemText != "the key is green" {
		t.Errorf("%+v", c)
	}
	if _, err := a.Resolve(a.ctx, ResolveParams{ConflictID: c.ID, Choice: "both"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("%v", err)
	}
	must[ResolveResult](t)(a.Resolve(a.ctx, ResolveParams{ConflictID: c.ID, Choice: "mine"}))
	settleAll(a, b)
	same(t, a, b)
	if n := one[int](b, `SELECT count(*) FROM memories WHERE deleted_at IS NULL`); n != 0 {
		t.Error("it was to be deleted after all")
	}
}

func TestDiscardedItemIsInAFile(t *testing.T) {
	t.Parallel()
	a, b, _ := pair(t)
	a.o.Exports = t.TempDir() + "/exports"
	bad := a.remember("the key is red")
	a.exec(`UPDATE memories SET source_ref = 'nul' || char(0) WHERE id = ?`, bad) // PostgreSQL rejects such a text
	a.now()
	list := must[DeadLettersResult](t)(a.Service.DeadLetters(a.ctx, struct{}{})).DeadLetters
	r := must[DiscardResult](t)(a.DiscardDeadLetter(a.ctx, RetryParams{list[0].ID}))
	text := must[[]byte](t)(os.ReadFile(r.Path))
	var file discarded
	if err := json.Unmarshal(text, &file); err != nil || file.Values["content"] != "the key is red" || file.RowID != bad || !strings.Contains(string(file.Payload), "hx1.") {
		t.Errorf("%v %s", err, text)
	}
	a.noDeadLetters()
	if _, err := a.DiscardDeadLetter(a.ctx, RetryParams{list[0].ID}); !fault.Is(err, fault.NotFound) {
		t.Errorf("%v", err)
	}
	a.exec(`UPDATE memories SET source_ref = 'repaired' WHERE id = ?`, bad)
	settleAll(a, b)
	same(t, a, b)
	a.o.Exports = "/dev/null/exports"
	a.exec(`UPDATE memories SET source_ref = 'nul' || char(0) WHERE id = ?`, bad)
	a.now()
	list = must[DeadLettersResult](t)(a.Service.DeadLetters(a.ctx, struct{}{})).DeadLetters
	if _, err := a.DiscardDeadLetter(a.ctx, RetryParams{list[0].ID}); err == nil || one[int](a, `SELECT count(*) FROM sync_dead_letter`) != 1 {
		t.Errorf("discarded without a file: %v", err)
	}
}

func TestProblemsAreNamed(t *testing.T) {
	t.Parallel()
	a, b, _ := pair(t)
	devices := must[DevicesResult](t)(a.Devices(a.ctx, struct{}{})).Devices
	must[struct{}](t)(a.Revoke(a.ctx, RevokeParams{devices[1].ID}))
	for range 2 { // the first finds that its connection is closed
		if _, err := b.Coordinate(b.ctx, CoordinateParams{}); err == nil {
			t.Error("a removed device may sync")
		}
	}
	a.write(func(tx *storage.Tx) error { return a.secrets.DeleteTx(tx, keySecret) })
	if _, err := a.Coordinate(a.ctx, CoordinateParams{}); !fault.Is(err, fault.Denied) {
		t.Errorf("%v", err)
	}
	for d, want := range map[*device]Problem{a: ProblemKey, b: ProblemRemoved} {
		if st := must[StatusResult](t)(d.Status(d.ctx, struct{}{})); st.Problem != want || st.Error == "" {
			t.Errorf("%+v, want %s", st, want)
		}
	}
	must[struct{}](t)(b.Disconnect(b.ctx, struct{}{}))
	if st := must[StatusResult](t)(b.Status(b.ctx, struct{}{})); st.State != Off || st.Problem != "" {
		t.Errorf("%+v", st)
	}
}
