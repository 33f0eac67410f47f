package memory

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/memory/search"
	"helix/backend/storage"
)

// TestTwoUsers calls every method for items of another user: they do not exist, lists are empty,
// and nothing changes.
func TestTwoUsers(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	m := b.add(t, "mine alone", "secret")
	c := b.conversation(t, "c", "D1:1", "hello alone")
	d := must(b.UpsertChunks(b.ctx, UpsertParams{Source: UpsertSource{URI: "file:x"}, Text: ptr("a text alone")}))(t)
	trashed := b.add(t, "in the trash")
	undo := must(b.Delete(b.ctx, IDsParams{IDs: []string{trashed.ID.String()}}))(t).UndoToken
	id, ids := m.ID.String(), IDsParams{IDs: []string{m.ID.String(), trashed.ID.String(), c.ID.String(), d.DocumentID.String()}}
	before := b.picture(t)
	for name, call := range map[string]func(context.Context) error{
		"get": func(ctx context.Context) error { _, err := b.Get(ctx, GetParams{ID: id, Touch: true}); return err },
		"update": func(ctx context.Context) error {
			_, err := b.Update(ctx, UpdateParams{ID: id, Version: 1, Content: ptr("x")})
			return err
		},
		"delete":  func(ctx context.Context) error { _, err := b.Delete(ctx, ids); return err },
		"restore": func(ctx context.Context) error { _, err := b.Restore(ctx, ids); return err },
		"purge":   func(ctx context.Context) error { _, err := b.Purge(ctx, ids); return err },
		"undo":    func(ctx context.Context) error { _, err := b.Undo(ctx, UndoParams{UndoToken: undo}); return err },
		"pin":     func(ctx context.Context) error { _, err := b.Pin(ctx, PinParams{ID: id}); return err },
		"salience": func(ctx context.Context) error {
			_, err := b.SetSalience(ctx, SalienceParams{ID: id, Tier: "low"})
			return err
		},
		"tag": func(ctx context.Context) error {
			_, err := b.Tag(ctx, TagParams{ID: id, Add: []string{"x"}})
			return err
		},
		"history": func(ctx context.Context) error { _, err := b.History(ctx, HistoryParams{ID: id}); return err },
		"related": func(ctx context.Context) error { _, err := b.Related(ctx, search.RelatedParams{ID: id}); return err },
		"document": func(ctx context.Context) error {
			_, err := b.Document(ctx, DocumentViewParams{ID: d.DocumentID})
			return err
		},
		"delete document": func(ctx context.Context) error {
			_, err := b.DeleteDocument(ctx, DocumentParams{DocumentID: d.DocumentID})
			return err
		},
		"conversation": func(ctx context.Context) error {
			_, err := b.Conversation(ctx, ConversationParams{ID: c.ID})
			return err
		},
		"delete conversation": func(ctx context.Context) error {
			_, err := b.DeleteConversation(ctx, ConversationIDParams{ID: c.ID})
			return err
		},
		"trust conversation": func(ctx context.Context) error {
			_, err := b.SetUntrusted(ctx, TrustParams{ConversationID: &c.ID, Untrusted: true})
			return err
		},
		"trust document": func(ctx context.Context) error {
			_, err := b.SetUntrusted(ctx, TrustParams{DocumentID: &d.DocumentID, Untrusted: true})
			return err
		},
		"import status": func(ctx context.Context) error { _, err := b.ImportStatus(ctx, JobParams{JobID: m.ID}); return err },
		"import cancel": func(ctx context.Context) error { _, err := b.ImportCancel(ctx, JobParams{JobID: m.ID}); return err },
	} {
		if err := call(b.them); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", name, err)
		}
		if err := call(context.Background()); !fault.Is(err, fault.NotFound) { // without a caller
			t.Errorf("%s by nobody: %v", name, err)
		}
	}
	for name, total := range map[string]func(context.Context) (int64, error){
		"list": func(ctx context.Context) (int64, error) {
			r, err := b.List(ctx, ListParams{})
			return r.Total + int64(len(r.Items)), err
		},
		"trash": func(ctx context.Context) (int64, error) {
			r, err := b.List(ctx, ListParams{Trash: true})
			return r.Total, err
		},
		"tag": func(ctx context.Context) (int64, error) {
			r, err := b.List(ctx, ListParams{Filters: &search.Filters{TagsAny: []string{"secret"}}})
			return r.Total, err
		},
		"conversations": func(ctx context.Context) (int64, error) {
			r, err := b.Conversations(ctx, PageParams{})
			return r.Total, err
		},
		"documents": func(ctx context.Context) (int64, error) {
			r, err := b.ListDocuments(ctx, PageParams{})
			return r.Total, err
		},
		"imports": func(ctx context.Context) (int64, error) { r, err := b.Imports(ctx, PageParams{}); return r.Total, err },
		"search": func(ctx context.Context) (int64, error) {
			r, err := b.Search(ctx, search.Params{Query: "alone"})
			return int64(len(r.Results)), err
		},
		"search enhanced": func(ctx context.Context) (int64, error) {
			r, err := b.SearchEnhanced(ctx, search.EnhancedParams{Params: search.Params{Query: "alone"}})
			return int64(len(r.Results)), err
		},
		"stats": func(ctx context.Context) (int64, error) {
			r, err := b.Stats(ctx, struct{}{})
			return r.Total + r.Trash + int64(len(r.Tags)), err
		},
		"export": func(ctx context.Context) (int64, error) { r, err := b.Export(ctx, ExportParams{}); return r.Items, err },
		"trust": func(ctx context.Context) (int64, error) {
			r, err := b.SetUntrusted(ctx, TrustParams{Source: "manual", Untrusted: true})
			return int64(r.Count), err
		},
	} {
		if n, err := total(b.them); n != 0 || err != nil {
			t.Errorf("%s gives %d, %v", name, n, err)
		}
	}
	if after := b.picture(t); after != before {
		t.Errorf("something changed:\n%s\nwas\n%s", after, before)
	}
	// A call with own and other users' ids affects only the own ones.
	own := must(b.Add(b.them, AddParams{Content: "theirs"}))(t).Item
	if r := must(b.Delete(b.them, IDsParams{IDs: []string{id, own.ID.String()}}))(t); r.Count != 1 || b.picture(t) != before {
		t.Errorf("%+v", r)
	}
}

// TestAllTablesAreOfUsers searches all tables for rows without a user.
func TestAllTablesAreOfUsers(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	m := b.add(t, "one", "tag")
	must(b.Update(b.ctx, UpdateParams{ID: m.ID.String(), Version: 1, Content: ptr("two")}))(t)
	b.conversation(t, "c", "D1:1", "hello")
	must(b.UpsertChunks(b.ctx, UpsertParams{Source: UpsertSource{URI: "file:x"}, Text: ptr("a text")}))(t)
	b.recall(t, m)
	user := b.db.LocalUser().ID
	for _, table := range []string{"memories", "memory_tags", "memory_revisions", "conversations", "conversation_turns", "documents", "chunks", "search_items", "recall_log", "memory_undo"} {
		err := b.db.Read(b.ctx, func(tx *storage.Tx) error {
			var all, own int
			var first uuid.UUID
			if err := tx.QueryRow(fmt.Sprintf(`SELECT count(*), sum(user_id = ?), max(user_id) FROM %s`, table), user).Scan(&all, &own, &first); err != nil {
				return err
			}
			if all == 0 || own != all {
				t.Errorf("%s: %d rows, %d of the user", table, all, own)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", table, err)
		}
	}
}

// TestTwoUsersWithTheSameTexts stores equal items for two users: each has their own, and actions of
// one do not affect the other's.
func TestTwoUsersWithTheSameTexts(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	file := ImportParams{Path: writeFile(t, t.TempDir(), "c.json", "["+chat("c", "Dinner", "a=Alpha", "b=Bravo")+"]")}
	text := "the spare key hangs behind the blue door of the shed"
	type own struct {
		m   Item
		doc uuid.UUID
	}
	both := map[context.Context]own{}
	for _, ctx := range []context.Context{b.ctx, b.them} {
		r := must(b.AddBatch(ctx, AddBatchParams{Items: []AddParams{{Content: text, Tags: []string{"key"}}}}))(t).Items[0]
		d := must(b.UpsertChunks(ctx, UpsertParams{Source: UpsertSource{URI: "file:x"}, Text: ptr("a page")}))(t)
		if r.Deduplicated || d.Added != 1 || d.Kept != 0 {
			t.Errorf("%+v, %+v", r, d)
		}
		as := *b
		as.ctx = ctx
		if st := as.imported(t, file); st.Added != 2 || st.Skipped != 0 {
			t.Errorf("import: %+v", st)
		}
		both[ctx] = own{*r.Item, d.DocumentID}
	}
	if both[b.ctx].m.ID == both[b.them].m.ID || both[b.ctx].doc == both[b.them].doc {
		t.Fatal("they share rows")
	}
	// The recall log of one user does not apply to the other.
	if err := b.LogRecall(b.ctx, "s", must(b.Search(b.ctx, search.Params{Query: text}))(t).Results); err != nil {
		t.Fatal(err)
	}
	if r := must(b.Add(b.them, AddParams{Content: text, Source: "agent", Dedupe: ptr(false)}))(t); r.Item == nil {
		t.Error("the other's recall stopped a text")
	}
	theirs := must(b.Stats(b.them, struct{}{}))(t)
	must(b.Purge(b.ctx, IDsParams{IDs: []string{both[b.ctx].m.ID.String()}}))(t)
	must(b.DeleteDocument(b.ctx, DocumentParams{DocumentID: both[b.ctx].doc}))(t)
	for _, c := range must(b.Conversations(b.ctx, PageParams{}))(t).Conversations {
		must(b.DeleteConversation(b.ctx, ConversationIDParams{ID: c.ID}))(t)
	}
	must(b.UpsertChunks(b.ctx, UpsertParams{Source: UpsertSource{URI: "file:x"}, Text: ptr("another page")}))(t)
	now := must(b.Stats(b.them, struct{}{}))(t)
	theirs.IndexBytes, now.IndexBytes = 0, 0
	if x, y := marshal(t, theirs), marshal(t, now); x != y {
		t.Errorf("the other has\n%s\nand had\n%s", y, x)
	}
	for query, want := range map[string]int{"spare key": 2, "alpha": 1, "page": 1, "another": 0} {
		if n := len(must(b.Search(b.them, search.Params{Query: query, Mode: search.ModeKeyword}))(t).Results); n != want {
			t.Errorf("%q finds %d, want %d", query, n, want)
		}
	}
}
