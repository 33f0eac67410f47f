package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/memory/search"
	"helix/backend/storage"
)

// act performs a random action. Items that are missing or were changed meanwhile are not an error.
func (b *bundle) act(ctx context.Context, r *rand.Rand, ids []string, tokens *[]string) error {
	id, some := ids[r.IntN(len(ids))], []string{ids[r.IntN(len(ids))], ids[r.IntN(len(ids))], ids[r.IntN(len(ids))]}
	text := fmt.Sprintf("%s %s %d", fruit[r.IntN(len(fruit))], fruit[r.IntN(len(fruit))], r.IntN(30))
	doc := UpsertParams{Source: UpsertSource{URI: fmt.Sprint("file:", r.IntN(3)), Title: text}, Tags: []string{fmt.Sprint("d", r.IntN(3))}}
	for i := range 1 + r.IntN(4) {
		doc.Chunks = append(doc.Chunks, UpsertChunk{Seq: int64(i), Text: fruit[r.IntN(len(fruit))] + fmt.Sprint(" part ", r.IntN(4))})
	}
	keep := func(token string, err error) error {
		if err == nil && token != "" {
			*tokens = append(*tokens, token)
		}
		return err
	}
	err := func() error {
		switch r.IntN(12) {
		case 0:
			x, err := b.Delete(ctx, IDsParams{IDs: some})
			return keep(x.UndoToken, err)
		case 1:
			x, err := b.Restore(ctx, IDsParams{IDs: some})
			return keep(x.UndoToken, err)
		case 2, 3:
			m, err := b.Get(ctx, GetParams{ID: id})
			if err != nil {
				return err
			}
			x, err := b.Update(ctx, UpdateParams{ID: id, Version: m.Version, Content: &text, Layer: ptr(r.IntN(8)), Tags: &[]string{fmt.Sprint("t", r.IntN(3))},
				OccurredAt: json.RawMessage([]string{"null", `"2024-02-29T10:00:00.5+02:00"`}[r.IntN(2)]), Metadata: json.RawMessage(`{"title":"` + text + `"}`)})
			return keep(x.UndoToken, err)
		case 4:
			x, err := b.Tag(ctx, TagParams{IDs: some, Add: []string{fmt.Sprint("t", r.IntN(3))}, Remove: []string{fmt.Sprint("t", r.IntN(3))}})
			return keep(x.UndoToken, err)
		case 5:
			x, err := b.Pin(ctx, PinParams{IDs: some, On: ptr(r.IntN(2) == 0)})
			return keep(x.UndoToken, err)
		case 6:
			x, err := b.SetSalience(ctx, SalienceParams{IDs: some, Tier: tierSalience[r.IntN(4)].tier})
			return keep(x.UndoToken, err)
		case 7:
			_, err := b.AddBatch(ctx, AddBatchParams{Items: []AddParams{{Content: text, Tags: []string{"batch"}}, {Content: ""}, {Content: text, Tags: []string{"twice"}}}})
			return err
		case 8:
			_, err := b.UpsertChunks(ctx, doc)
			return err
		case 9:
			l, err := b.ListDocuments(ctx, PageParams{})
			if err != nil || len(l.Documents) == 0 {
				return err
			}
			x, err := b.DeleteDocument(ctx, DocumentParams{DocumentID: l.Documents[r.IntN(len(l.Documents))].ID})
			return keep(x.UndoToken, err)
		case 10:
			x, err := b.SetUntrusted(ctx, TrustParams{Source: []string{"manual", "document"}[r.IntN(2)], Untrusted: r.IntN(2) == 0})
			return keep(x.UndoToken, err)
		}
		if len(*tokens) == 0 {
			_, err := b.Purge(ctx, IDsParams{IDs: []string{id}})
			return err
		}
		at := r.IntN(len(*tokens))
		_, err := b.Undo(ctx, UndoParams{UndoToken: (*tokens)[at]})
		return err
	}()
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Conflict) {
		return nil
	}
	return err
}

// answers returns the results of searches with filters, lists and counts.
func answers(t testing.TB, s *Service, ctx context.Context) (out []string) {
	t.Helper()
	r, no := rand.New(rand.NewPCG(8, 9)), false
	for i := range 60 {
		f, _ := randomFilters(r)
		if i%5 == 0 {
			f = nil
		}
		x := must(s.SearchEnhanced(ctx, search.EnhancedParams{Params: search.Params{Query: fruit[r.IntN(len(fruit))] + " part t1", Limit: 100, Filters: f, Priors: &no}, Facets: true}))(t)
		x.TookMs = 0
		out = append(out, marshal(t, f)+" "+marshal(t, x))
		l := must(s.List(ctx, ListParams{Filters: f, Limit: 200}))(t)
		out = append(out, marshal(t, l))
		if l.NextCursor == "" && int64(len(l.Items)) != l.Total {
			t.Errorf("%s: %d items, total %d", marshal(t, f), len(l.Items), l.Total)
		}
	}
	st := must(s.Stats(ctx, struct{}{}))(t)
	st.IndexBytes = 0
	return append(out, marshal(t, st), marshal(t, must(s.ListDocuments(ctx, PageParams{}))(t)), marshal(t, must(s.List(ctx, ListParams{Trash: true}))(t)))
}

// TestSearchDoesNotDrift performs concurrent random actions of two users: the incrementally updated
// state of search equals a newly loaded one.
func TestSearchDoesNotDrift(t *testing.T) {
	t.Parallel()
	for _, private := range []bool{false, true} {
		t.Run(fmt.Sprint("private ", private), func(t *testing.T) {
			t.Parallel()
			b := newBundle(t, Options{Private: private})
			answers(t, b.Service, b.ctx) // so that the state has to be updated
			var wg sync.WaitGroup
			for caller := range 6 {
				ctx := b.ctx
				if caller%2 == 1 {
					ctx = b.them
				}
				wg.Go(func() {
					r := rand.New(rand.NewPCG(uint64(caller), 7))
					var ids, tokens []string
					for i := range 10 {
						x, err := b.Add(ctx, AddParams{Content: fmt.Sprintf("%s of %d %d", fruit[i], caller%4, i), Tags: []string{"t1"}})
						if err != nil {
							t.Error(err)
							return
						}
						ids = append(ids, x.Item.ID.String())
					}
					for range fewer(80) {
						if err := b.act(ctx, r, ids, &tokens); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			fresh := New(b.db, Options{Private: private})
			t.Cleanup(func() { _ = fresh.Close() })
			for name, ctx := range map[string]context.Context{"mine": b.ctx, "theirs": b.them} {
				kept, anew := answers(t, b.Service, ctx), answers(t, fresh, ctx)
				for i := range kept {
					if kept[i] != anew[i] {
						t.Fatalf("%s, answer %d: kept up to date\n%s\nread anew\n%s", name, i, kept[i], anew[i])
					}
				}
			}
			rows := map[string]bool{}
			for kind, query := range map[string]string{
				KindMemory: `SELECT id FROM memories WHERE deleted_at IS NULL`,
				KindTurn:   `SELECT t.id FROM conversation_turns t JOIN conversations c ON c.id = t.conversation_id WHERE t.deleted_at IS NULL AND c.deleted_at IS NULL`,
				KindChunk:  `SELECT k.id FROM chunks k JOIN documents d ON d.id = k.document_id WHERE k.deleted_at IS NULL AND d.deleted_at IS NULL`,
			} {
				for _, id := range b.idsOf(t, query) {
					rows[kind+" "+id.String()] = true
				}
			}
			if found := b.findable(t); !private {
				if len(found) != len(rows) {
					t.Errorf("%d can be found, %d rows are there", len(found), len(rows))
				}
				for k := range rows {
					if !found[k] {
						t.Errorf("%s is not in the index of words", k)
					}
				}
			} else if n := b.number(t, `SELECT count(*) FROM search_items`); n != int64(len(rows)) || len(found) != 0 {
				t.Errorf("%d items for %d rows, %d in the index of words", n, len(rows), len(found))
			}
			for name, query := range map[string]string{
				"a revision of nothing":    `SELECT count(*) FROM memory_revisions r WHERE NOT EXISTS (SELECT 1 FROM memories m WHERE m.id = r.memory_id AND m.content <> '')`,
				"two forms of one version": `SELECT count(*) - count(DISTINCT memory_id || version) FROM memory_revisions`,
				"a tag of a purged memory": `SELECT count(*) FROM memory_tags g WHERE NOT EXISTS (SELECT 1 FROM memories m WHERE m.id = g.memory_id AND m.content <> '')`,
				"a wrong owner of an item": `SELECT count(*) FROM search_items i JOIN memories m ON m.id = i.item_id WHERE m.user_id <> i.user_id`,
				"a wrong hash of an item":  `SELECT count(*) FROM search_items i JOIN memories m ON m.id = i.item_id WHERE m.content_hash <> i.text_hash`,
				"a wrong place of an item": `SELECT count(*) FROM search_items i JOIN chunks k ON k.id = i.item_id WHERE k.seq <> i.seq`,
			} {
				if n := b.number(t, query); n != 0 {
					t.Errorf("%s: %d", name, n)
				}
			}
		})
	}
}

func (b *bundle) idsOf(t testing.TB, query string) (out []uuid.UUID) {
	t.Helper()
	if err := b.db.Read(b.ctx, func(tx *storage.Tx) (err error) {
		out, err = storage.Collect(tx.Select(query), storage.RowTo[uuid.UUID])
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return out
}
