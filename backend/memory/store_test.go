package memory

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
)

// bundle is a service on a new database with two users.
type bundle struct {
	*Service
	db   *storage.DB
	ctx  context.Context // of the local user
	them context.Context // of another user
}

func newBundle(t testing.TB, o Options) *bundle {
	t.Helper()
	db := storagetest.Open(t)
	s := New(db, o)
	s.previewFor, s.embedUpsertFor = time.Hour, time.Hour // a busy machine takes long
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return &bundle{Service: s, db: db, ctx: storagetest.Ctx(t, db), them: storagetest.OtherUser(t, db)}
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// add stores a text and returns its memory.
func (b *bundle) add(t testing.TB, text string, tags ...string) Item {
	t.Helper()
	r := must(b.Add(b.ctx, AddParams{Content: text, Tags: tags}))(t)
	if r.Item == nil {
		t.Fatalf("%q was not stored", text)
	}
	return *r.Item
}

func (b *bundle) get(t testing.TB, id uuid.UUID) Item {
	t.Helper()
	return must(b.Get(b.ctx, GetParams{ID: id.String()}))(t)
}

// findable returns the kinds and ids of everything that search can find.
func (b *bundle) findable(t testing.TB) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	err := b.db.Read(b.ctx, func(tx *storage.Tx) error {
		rows, err := tx.Query(`SELECT i.kind, i.item_id FROM search_items i JOIN search_fts f ON f.rowid = i.item`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var kind string
			var id uuid.UUID
			if err := rows.Scan(&kind, &id); err != nil {
				return err
			}
			out[kind+" "+id.String()] = true
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func wantKind(t testing.TB, err error, kind fault.Kind, message string) {
	t.Helper()
	f := fault.As(err)
	if f == nil || f.Kind != kind || !strings.Contains(f.Message, message) {
		t.Fatalf("error %v, want %s with %q", err, kind, message)
	}
}

func ptr[T any](v T) *T { return &v }

func TestLifeOfAMemory(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	at := time.Date(2023, 5, 8, 13, 56, 0, 123456789, time.FixedZone("", 2*3600))
	r := must(b.Add(b.ctx, AddParams{
		Content: "  Caf\u0065\u0301 by the sea \n", Type: "semantic", Layer: ptr(3), Tags: []string{" Food ", "food", "Spain"}, OccurredAt: &at,
		SalienceTier: "critical", Pinned: true, Source: "note", SourceRef: "x", Metadata: json.RawMessage(`{ "title": "Café" }`),
	}))(t)
	m := *r.Item
	if m.Content != "Café by the sea" || m.Type != "semantic" || m.Layer != 3 || !slices.Equal(m.Tags, []string{"food", "spain"}) || m.Salience != 100 || !m.Pinned ||
		m.Title != "Café" || m.Version != 1 || m.Untrusted || !m.OccurredAt.Equal(at.Truncate(time.Microsecond)) || r.Deduplicated {
		t.Fatalf("stored %+v", m)
	}
	for _, id := range []string{m.ID.String(), strings.ReplaceAll(m.ID.String(), "-", ""), "note-" + m.ID.String()} {
		if got := must(b.Get(b.ctx, GetParams{ID: id}))(t); !same(got, m) {
			t.Fatalf("by %s: %+v, want %+v", id, got, m)
		}
	}
	u := must(b.Update(b.ctx, UpdateParams{ID: m.ID.String(), Version: 1, Content: ptr("Café by the lake"), Tags: ptr([]string{"food"}), Layer: ptr(0)}))(t)
	if u.Content != "Café by the lake" || u.Version != 2 || u.Layer != 0 || !slices.Equal(u.Tags, []string{"food"}) || u.AccessCount != 1 || u.LastReinforcedAt == nil || u.UndoToken == "" {
		t.Fatalf("updated %+v", u)
	}
	h := must(b.History(b.ctx, HistoryParams{ID: m.ID.String()}))(t)
	if len(h.Revisions) != 1 || h.Revisions[0].Content != m.Content || h.Revisions[0].Version != 1 || h.Revisions[0].Origin != "person" || !slices.Equal(h.Revisions[0].Tags, m.Tags) {
		t.Fatalf("history %+v", h)
	}
	d := must(b.Delete(b.ctx, IDsParams{IDs: []string{m.ID.String()}}))(t)
	if d.Count != 1 || d.UndoToken == "" || len(b.findable(t)) != 0 {
		t.Fatalf("deleted %+v, found %v", d, b.findable(t))
	}
	_, err := b.Get(b.ctx, GetParams{ID: m.ID.String()})
	wantKind(t, err, fault.NotFound, "Memory not found.")
	if l := must(b.List(b.ctx, ListParams{Trash: true}))(t); l.Total != 1 || l.Items[0].ID != m.ID || l.Items[0].DeletedAt == nil {
		t.Fatalf("trash %+v", l)
	}
	must(b.Restore(b.ctx, IDsParams{IDs: []string{m.ID.String()}}))(t)
	back := b.get(t, m.ID)
	if back.UpdatedAt = u.UpdatedAt; !same(back, u.Item) {
		t.Fatalf("restored %+v, want %+v", back, u.Item)
	}
	must(b.Purge(b.ctx, IDsParams{IDs: []string{m.ID.String()}}))(t)
	if _, err := b.Restore(b.ctx, IDsParams{IDs: []string{m.ID.String()}}); !fault.Is(err, fault.NotFound) {
		t.Fatalf("a purged memory came back: %v", err)
	}
}

// same compares the wire forms of items.
func same(a, b Item) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}
