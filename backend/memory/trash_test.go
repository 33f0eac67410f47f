package memory

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/testkit"
)

// TestUndoRoundTrip performs random actions and undoes each of them: afterwards everything is as
// before, in the rows and in search.
func TestUndoRoundTrip(t *testing.T) {
	t.Parallel()
	rounds := 60
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			b := newBundle(t, Options{})
			r := rand.New(rand.NewPCG(seed, 5))
			var ids []string
			for i := range 8 {
				ids = append(ids, b.add(t, fmt.Sprintf("memory %d", i), fmt.Sprintf("t%d", i), "all").ID.String())
			}
			conv := b.conversation(t, "c", "D1:1", "hello there", "D1:2", "good day")
			doc := must(b.UpsertChunks(b.ctx, UpsertParams{Source: UpsertSource{URI: "file:x"}, Text: ptr("a text")}))(t).DocumentID
			for round := range rounds {
				some := slices.Clone(ids)
				r.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
				some = some[:1+r.IntN(4)]
				before, token := b.picture(t), ""
				version := int64(0)
				if m, err := b.Get(b.ctx, GetParams{ID: some[0]}); err == nil {
					version = m.Version
				}
				act := r.IntN(8)
				var err error
				switch act {
				case 0:
					var x CountResult
					x, err = b.Delete(b.ctx, IDsParams{IDs: some})
					token = x.UndoToken
				case 1:
					var x UpdateResult
					x, err = b.Update(b.ctx, UpdateParams{ID: some[0], Version: version, Content: ptr(fmt.Sprintf("edited %d", round)), Type: ptr(memoryTypes[r.IntN(3)]), Layer: ptr(r.IntN(8)),
						Tags: ptr([]string{fmt.Sprint("n", r.IntN(3)), "all"}), SalienceTier: ptr(tierSalience[r.IntN(4)].tier),
						OccurredAt: json.RawMessage([]string{"null", `"2024-02-29T10:00:00+02:00"`}[r.IntN(2)]), Metadata: json.RawMessage(fmt.Sprintf(`{"title":"T%d"}`, round))})
					token = x.UndoToken
				case 2:
					var x ItemsResult
					x, err = b.Pin(b.ctx, PinParams{IDs: some, On: ptr(r.IntN(2) == 0)})
					token = x.UndoToken
				case 3:
					var x ItemsResult
					x, err = b.Tag(b.ctx, TagParams{IDs: some, Add: []string{fmt.Sprint("n", r.IntN(5))}, Remove: []string{"all", fmt.Sprint("t", r.IntN(8))}})
					token = x.UndoToken
				case 4:
					var x ItemsResult
					x, err = b.SetSalience(b.ctx, SalienceParams{IDs: some, Tier: tierSalience[r.IntN(4)].tier})
					token = x.UndoToken
				case 5:
					var x CountResult
					x, err = b.DeleteConversation(b.ctx, ConversationIDParams{ID: conv.ID})
					token = x.UndoToken
				case 6:
					var x CountResult
					x, err = b.SetUntrusted(b.ctx, TrustParams{Source: []string{"manual", "chatgpt"}[r.IntN(2)], Untrusted: r.IntN(2) == 0})
					token = x.UndoToken
				case 7:
					var x CountResult
					x, err = b.DeleteDocument(b.ctx, DocumentParams{DocumentID: doc})
					token = x.UndoToken
				}
				if err != nil {
					t.Fatalf("act %d: %v", act, err)
				}
				if token == "" { // nothing changed
					continue
				}
				if after := b.picture(t); after == before {
					t.Fatalf("act %d changed nothing", act)
				}
				if u := must(b.Undo(b.ctx, UndoParams{UndoToken: token}))(t); u.Count == 0 {
					t.Fatalf("act %d: nothing undone", act)
				}
				if after := b.picture(t); after != before {
					t.Fatalf("act %d is not undone:\n%s\nwas\n%s", act, after, before)
				}
				_, err = b.Undo(b.ctx, UndoParams{UndoToken: token})
				wantKind(t, err, fault.NotFound, "can no longer be undone")
			}
		})
	}
}

// picture returns what a person sees of their memories and conversations, and the content of
// search, without versions and usage counts, which every action increments.
func (b *bundle) picture(t testing.TB) string {
	t.Helper()
	items := must(b.List(b.ctx, ListParams{Limit: 200}))(t).Items
	for i := range items {
		m := &items[i]
		m.Version, m.UpdatedAt, m.AccessCount, m.LastAccessed, m.LastReinforcedAt = 0, time.Time{}, 0, nil, nil
	}
	out := struct {
		Items         []Item
		Conversations []Conversation
		Found         []string
		Trash         int64
	}{Items: items, Conversations: must(b.Conversations(b.ctx, PageParams{}))(t).Conversations, Trash: must(b.List(b.ctx, ListParams{Trash: true}))(t).Total}
	for k := range b.findable(t) {
		out.Found = append(out.Found, k)
	}
	slices.Sort(out.Found)
	text, err := json.MarshalIndent(out, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestUndoAfterALaterChange(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	m := b.add(t, "first", "a")
	id := m.ID.String()
	edit := must(b.Update(b.ctx, UpdateParams{ID: id, Version: 1, Content: ptr("second"), Type: ptr("semantic")}))(t)
	must(b.Update(b.ctx, UpdateParams{ID: id, Version: 2, Content: ptr("third")}))(t)
	_, err := b.Undo(b.ctx, UndoParams{UndoToken: edit.UndoToken})
	wantKind(t, err, fault.Conflict, "")
	if got := b.get(t, m.ID); got.Content != "third" {
		t.Fatalf("the later edit was lost: %q", got.Content)
	}
	pin := must(b.Pin(b.ctx, PinParams{ID: id}))(t)
	must(b.Pin(b.ctx, PinParams{ID: id, On: ptr(false)}))(t)
	_, err = b.Undo(b.ctx, UndoParams{UndoToken: pin.UndoToken})
	wantKind(t, err, fault.Conflict, "changed again")
	// Of two changes of tags each undoes only its own.
	one := must(b.Tag(b.ctx, TagParams{ID: id, Add: []string{"b"}, Remove: []string{"a"}}))(t)
	must(b.Tag(b.ctx, TagParams{ID: id, Add: []string{"c"}}))(t)
	must(b.Undo(b.ctx, UndoParams{UndoToken: one.UndoToken}))(t)
	if got := b.get(t, m.ID); !slices.Equal(got.Tags, []string{"a", "c"}) {
		t.Fatalf("tags %v", got.Tags)
	}
}

func TestUndoTokensEnd(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	m := b.add(t, "first")
	d := must(b.Delete(b.ctx, IDsParams{IDs: []string{m.ID.String()}}))(t)
	_, err := b.Undo(b.them, UndoParams{UndoToken: d.UndoToken})
	wantKind(t, err, fault.NotFound, "can no longer be undone")
	b.exec(t, `UPDATE memory_undo SET created_at = created_at - ?`, 10*time.Minute.Microseconds()+1)
	_, err = b.Undo(b.ctx, UndoParams{UndoToken: d.UndoToken})
	wantKind(t, err, fault.NotFound, "can no longer be undone")
	if got := must(b.Restore(b.ctx, IDsParams{IDs: []string{"note-" + m.ID.String()}}))(t); got.Count != 1 {
		t.Fatalf("%+v", got)
	}
}

func (b *bundle) exec(t testing.TB, query string, args ...any) {
	t.Helper()
	if err := b.db.Write(b.ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(query, args...)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// TestTrashIsEmptiedAfter30Days checks that older items, also of another user, become tombstones
// without text, and that nothing else changes.
func TestTrashIsEmptiedAfter30Days(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	const secret = "zebrafish"
	old, fresh, kept := b.add(t, "old "+secret, "tag"), b.add(t, "fresh"), b.add(t, "kept")
	must(b.Update(b.ctx, UpdateParams{ID: old.ID.String(), Version: 1, Content: ptr("older " + secret)}))(t)
	theirs := *must(b.Add(b.them, AddParams{Content: "their " + secret}))(t).Item
	conv := b.conversation(t, "c1", "D1:1", "talk of "+secret)
	must(b.DeleteConversation(b.ctx, ConversationIDParams{ID: conv.ID}))(t)
	must(b.Delete(b.ctx, IDsParams{IDs: []string{old.ID.String(), fresh.ID.String()}}))(t)
	must(b.Delete(b.them, IDsParams{IDs: []string{theirs.ID.String()}}))(t)
	month := trashAge.Microseconds() + 1
	b.exec(t, `UPDATE memories SET deleted_at = deleted_at - ? WHERE id IN (?, ?)`, month, old.ID, theirs.ID)
	b.exec(t, `UPDATE conversations SET deleted_at = deleted_at - ?`, month)
	if err := b.cleanup(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	for table, column := range map[string]string{"memories": "content", "memory_revisions": "content", "conversation_turns": "content"} {
		if n := b.count(t, `SELECT count(*) FROM `+table+` WHERE `+column+` LIKE '%`+secret+`%'`); n != 0 {
			t.Errorf("%d rows of %s still have the text", n, table)
		}
	}
	if n := b.count(t, `SELECT count(*) FROM memories WHERE content = '' AND deleted_at IS NOT NULL`); n != 2 {
		t.Errorf("%d tombstones, want 2", n)
	}
	if n := b.count(t, `SELECT count(*) FROM memory_tags`); n != 0 {
		t.Errorf("%d tags", n)
	}
	trash := must(b.List(b.ctx, ListParams{Trash: true}))(t)
	if trash.Total != 1 || trash.Items[0].ID != fresh.ID {
		t.Errorf("trash %+v", trash)
	}
	if c := must(b.Conversations(b.ctx, PageParams{Trash: true}))(t); c.Total != 0 {
		t.Errorf("conversations in the trash: %+v", c)
	}
	if got := b.get(t, kept.ID); got.Content != "kept" {
		t.Errorf("%+v", got)
	}
	_, err := b.Restore(b.ctx, IDsParams{IDs: []string{old.ID.String(), conv.ID.String()}})
	wantKind(t, err, fault.NotFound, "")

	// The setting determines the period.
	b.o.TrashAge = func() time.Duration { return time.Hour }
	if err := b.cleanup(t.Context(), time.Now().Add(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if trash := must(b.List(b.ctx, ListParams{Trash: true}))(t); trash.Total != 0 {
		t.Errorf("trash %+v", trash)
	}
}

// TestVectorsOfRemovedRowsAreForgotten deletes a row directly in the database.
func TestVectorsOfRemovedRowsAreForgotten(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	gone, kept := b.add(t, "gone"), b.add(t, "kept")
	for _, m := range []Item{gone, kept} {
		b.exec(t, `INSERT INTO item_vectors (item_kind, item_id, model_id, user_id, dims, text_hash, vector) SELECT 'memory', id, 'x', user_id, 1, content_hash, x'00000000' FROM memories WHERE id = ?`, m.ID)
	}
	if err := b.db.Write(b.ctx, func(tx *storage.Tx) error {
		return tx.WithoutCapture(func() error {
			_, err := tx.Exec(`DELETE FROM memories WHERE id = ?`, gone.ID)
			return err
		})
	}); err != nil {
		t.Fatal(err)
	}
	if err := b.dropLostVectors(b.ctx); err != nil {
		t.Fatal(err)
	}
	if n, m := b.count(t, `SELECT count(*) FROM item_vectors`), b.count(t, `SELECT count(*) FROM item_vectors WHERE item_id = ?`, kept.ID); n != 1 || m != 1 {
		t.Errorf("%d vectors, %d of what is kept", n, m)
	}
}

func TestRestoreOfConversations(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	b := newBundle(t, Options{})
	c := b.conversation(t, "c1", "D1:1", "hello", "D1:2", "there")
	all := b.findable(t)
	must(b.DeleteConversation(b.ctx, ConversationIDParams{ID: c.ID}))(t)
	if n := len(b.findable(t)); n != 0 {
		t.Fatalf("%d things are found", n)
	}
	_, err := b.Conversation(b.ctx, ConversationParams{ID: c.ID})
	wantKind(t, err, fault.NotFound, "Conversation not found.")
	if l := must(b.Conversations(b.ctx, PageParams{Trash: true}))(t); l.Total != 1 || l.Conversations[0].Turns != 2 || l.Conversations[0].DeletedAt == nil {
		t.Fatalf("trash %+v", l)
	}
	if r := must(b.Restore(b.ctx, IDsParams{IDs: []string{c.ID.String()}}))(t); r.Count != 1 || len(b.findable(t)) != len(all) {
		t.Fatalf("%+v, found %v", r, b.findable(t))
	}
	must(b.DeleteConversation(b.ctx, ConversationIDParams{ID: c.ID}))(t)
	if r := must(b.Purge(b.ctx, IDsParams{IDs: []string{c.ID.String()}}))(t); r.Count != 1 || b.count(t, `SELECT count(*) FROM conversation_turns`) != 0 {
		t.Fatalf("%+v", r)
	}
}

func TestConversationPages(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	var turns []string
	for i := range 120 {
		turns = append(turns, fmt.Sprintf("D1:%d", i+1), fmt.Sprintf("turn %d", i))
	}
	c := b.conversation(t, "c1", turns...)
	for _, x := range []struct {
		p           ConversationParams
		first, last int64
	}{
		{ConversationParams{}, 0, 49}, {ConversationParams{Offset: 100}, 100, 119}, {ConversationParams{AroundSeq: ptr(int64(60)), Limit: 11}, 55, 65},
		{ConversationParams{AroundSeq: ptr(int64(1)), Limit: 10}, 0, 9}, {ConversationParams{AroundSeq: ptr(int64(119)), Limit: 10}, 110, 119},
	} {
		x.p.ID = c.ID
		r := must(b.Conversation(b.ctx, x.p))(t)
		if r.Total != 120 || r.Turns[0].Seq != x.first || r.Turns[len(r.Turns)-1].Seq != x.last || int64(r.Offset) != x.first || r.Turns[0].TurnID != fmt.Sprintf("D1:%d", x.first+1) {
			t.Errorf("%+v: %d to %d of %d", x.p, r.Turns[0].Seq, r.Turns[len(r.Turns)-1].Seq, r.Total)
		}
	}
	if l := must(b.Conversations(b.ctx, PageParams{Query: "TALK", From: ptr(c.StartedAt.Add(-time.Hour)), To: ptr(c.StartedAt.Add(time.Hour))}))(t); l.Total != 1 || l.Conversations[0].Turns != 120 {
		t.Errorf("%+v", l)
	}
	if l := must(b.Conversations(b.ctx, PageParams{Query: "walk"}))(t); l.Total != 0 {
		t.Errorf("%+v", l)
	}
}

// TestChangedEvents expects one event per action, after its commit, with at most 100 ids.
func TestChangedEvents(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	b := newBundle(t, Options{})
	var got []Changed
	user := identity.UserID(b.ctx)
	var bb *bus.Bus
	if err := b.db.Read(b.ctx, func(tx *storage.Tx) error { bb = tx.Bus(); return nil }); err != nil {
		t.Fatal(err)
	}
	defer bus.Subscribe(bb, func(u uuid.UUID, e Changed) {
		if u == user {
			got = append(got, e)
		}
	})()
	var items []AddParams
	for i := range 150 {
		items = append(items, AddParams{Content: fmt.Sprint("memory ", i)})
	}
	r := must(b.AddBatch(b.ctx, AddBatchParams{Items: items}))(t)
	var ids []string
	for _, i := range r.Items {
		ids = append(ids, i.Item.ID.String())
	}
	adds := len(got)
	must(b.Delete(b.ctx, IDsParams{IDs: ids}))(t)
	must(b.Restore(b.ctx, IDsParams{IDs: ids[:2]}))(t)
	must(b.Purge(b.ctx, IDsParams{IDs: ids[:1]}))(t)
	must(b.Add(b.them, AddParams{Content: "theirs"}))(t)
	ops := []string{}
	for _, e := range got[adds:] {
		ops = append(ops, fmt.Sprintf("%s %d %v", e.Op, len(e.IDs), e.Many))
	}
	if want := "delete 100 true, restore 2 false, purge 1 false"; strings.Join(ops, ", ") != want || adds == 0 || adds > 2 {
		t.Fatalf("%d events of adding, then %v, want %s", adds, ops, want)
	}
}

// TestRestoreOfAllKindsIsUndone restores a memory, a conversation and a document at once and undoes
// that with one token.
func TestRestoreOfAllKindsIsUndone(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	b := newBundle(t, Options{})
	m, c := b.add(t, "a memory"), b.conversation(t, "c", "D1:1", "hello there")
	d := must(b.UpsertChunks(b.ctx, UpsertParams{Source: UpsertSource{URI: "file:///a.txt"}, Text: ptr("some text")}))(t).DocumentID
	must(b.Delete(b.ctx, IDsParams{IDs: []string{m.ID.String()}}))(t)
	must(b.DeleteConversation(b.ctx, ConversationIDParams{ID: c.ID}))(t)
	old := must(b.DeleteDocument(b.ctx, DocumentParams{DocumentID: d}))(t)
	trashed := b.picture(t)
	all := IDsParams{IDs: []string{d.String(), c.ID.String(), m.ID.String()}}
	r := must(b.Restore(b.ctx, all))(t)
	if n := len(b.findable(t)); r.Count != 3 || n != 3 {
		t.Fatalf("%+v, %d can be found", r, n)
	}
	if u := must(b.Undo(b.ctx, UndoParams{UndoToken: r.UndoToken}))(t); u.Count != 3 || b.picture(t) != trashed {
		t.Errorf("%+v\n%s\nwant\n%s", u, b.picture(t), trashed)
	}
	// The document was deleted again since, so the first token does not apply.
	_, err := b.Undo(b.ctx, UndoParams{UndoToken: old.UndoToken})
	wantKind(t, err, fault.Conflict, "changed again")
	if r := must(b.Restore(b.ctx, IDsParams{IDs: []string{d.String()}}))(t); r.Count != 1 || r.UndoToken == "" {
		t.Errorf("%+v", r)
	}
}

// TestUndoWhenTheTextIsNotKept makes so many edits that the revision needed by an undo no longer exists.
func TestUndoWhenTheTextIsNotKept(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	m := b.add(t, "the first text")
	edit := must(b.Update(b.ctx, UpdateParams{ID: m.ID.String(), Version: 1, Content: ptr("the second text")}))(t)
	for v := edit.Version; v < edit.Version+keptRevisions; v++ {
		must(b.Update(b.ctx, UpdateParams{ID: m.ID.String(), Version: v, Layer: ptr(int(v % 7))}))(t)
	}
	_, err := b.Undo(b.ctx, UndoParams{UndoToken: edit.UndoToken})
	wantKind(t, err, fault.Conflict, "")
	if got := b.get(t, m.ID); got.Content != "the second text" {
		t.Errorf("it says %q", got.Content)
	}
}

func TestPurgedItemsAreNotInTheTrash(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	source := UpsertParams{Source: UpsertSource{URI: "file:///a.txt"}, Text: ptr("some text")}
	d := must(b.UpsertChunks(b.ctx, source))(t).DocumentID
	must(b.DeleteDocument(b.ctx, DocumentParams{DocumentID: d}))(t)
	trash := func() int64 {
		r := must(b.ListDocuments(b.ctx, PageParams{Trash: true}))(t)
		if int(r.Total) != len(r.Documents) {
			t.Errorf("%+v", r)
		}
		return r.Total
	}
	if n := trash(); n != 1 {
		t.Fatalf("%d documents in the trash, want 1", n)
	}
	must(b.Purge(b.ctx, IDsParams{IDs: []string{d.String()}}))(t)
	if n := trash(); n != 0 {
		t.Errorf("%d documents in the trash, want none", n)
	}
	if r := must(b.UpsertChunks(b.ctx, source))(t); r.Added != 1 || len(b.findable(t)) != 1 {
		t.Errorf("stored again: %+v", r)
	}
}

// TestPurgeLeavesNoWord edits and purges a memory: none of its texts is in any table.
func TestPurgeLeavesNoWord(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	m := *must(b.Add(b.ctx, AddParams{Content: "quokka text", Tags: []string{"quokka tag"}, Metadata: json.RawMessage(`{"title":"quokka title"}`), SourceRef: "quokka ref"}))(t).Item
	must(b.Update(b.ctx, UpdateParams{ID: m.ID.String(), Version: 1, Content: ptr("quokka second"), Tags: &[]string{"quokka other"}, Metadata: json.RawMessage(`{"title":"quokka new"}`)}))(t)
	b.recall(t, b.get(t, m.ID))
	must(b.Purge(b.ctx, IDsParams{IDs: []string{m.ID.String()}}))(t)
	for _, c := range []string{"memories.content", "memories.metadata", "memories.source_ref", "memory_tags.tag", "memory_revisions.content", "memory_revisions.tags", "memory_undo.state"} {
		table, column, _ := strings.Cut(c, ".")
		if n := b.number(t, `SELECT count(*) FROM `+table+` WHERE `+column+` LIKE '%quokka%'`); n != 0 {
			t.Errorf("%s still says it", c)
		}
	}
	if n := b.number(t, `SELECT (SELECT count(*) FROM recall_log) + (SELECT count(*) FROM search_items) + (SELECT count(*) FROM search_fts('quokka'))`); n != 0 {
		t.Errorf("%d traces", n)
	}
}

// TestPurgedRecordsStayAway imports a file again after its memories were purged.
func TestPurgedRecordsStayAway(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	file := ImportParams{Path: writeFile(t, t.TempDir(), "x.jsonl", `{"id":"a1","content":"first of them"}`+"\n"+`{"id":"a2","content":"second of them"}`+"\n")}
	b.imported(t, file)
	items := must(b.List(b.ctx, ListParams{}))(t).Items
	must(b.Purge(b.ctx, IDsParams{IDs: []string{items[0].ID.String()}}))(t)
	wantCounts(t, b.imported(t, file), "completed", 2, 0, 0, 2, 0)
	if got := must(b.List(b.ctx, ListParams{}))(t); got.Total != 1 || got.Items[0].ID != items[1].ID {
		t.Errorf("%+v", got.Items)
	}
}
