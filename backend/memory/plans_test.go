package memory

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/memory/search"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

var _ = flag.Bool("update", false, "write the golden files")

// The frequent operations of people, agents and imports.
func TestQueryPlans(t *testing.T) {
	t.Parallel()
	testkit.SkipRaced(t, "one goroutine, and slow under it")
	b := newBundle(t, Options{Embedder: newWordsModel("words-1", 16), VectorDir: t.TempDir()})
	e := b.ends(t)
	plans := storagetest.RecordPlans(t, b.db)

	kept := b.add(t, "Anna planted tomatoes behind the house", "garden")
	b.add(t, "Anna planted tomatoes behind the house", "summer") // a duplicate
	gone := b.add(t, "the old fence fell over in the storm", "garden")
	lost := b.add(t, "the neighbor lent us a ladder")
	must(b.AddBatch(b.ctx, AddBatchParams{Items: []AddParams{{Content: "two kinds of beans", Tags: []string{"garden"}}, {Content: "water in the evening"}}}))(t)
	must(b.Get(b.ctx, GetParams{ID: kept.ID.String(), Touch: true}))(t)
	for _, sort := range []string{"recent", "occurred", "salience", "retention"} {
		p := must(b.List(b.ctx, ListParams{Sort: sort, Limit: 1}))(t)
		must(b.List(b.ctx, ListParams{Sort: sort, Limit: 1, Cursor: p.NextCursor}))(t)
	}
	now := time.Now()
	must(b.List(b.ctx, ListParams{Filters: &search.Filters{TagsAll: []string{"garden"}, Types: []string{"episodic"}, From: &now}}))(t)
	edited := must(b.Update(b.ctx, UpdateParams{ID: kept.ID.String(), Version: b.get(t, kept.ID).Version, Content: ptr("Anna planted tomatoes beside the house")}))(t)
	must(b.Undo(b.ctx, UndoParams{UndoToken: edited.UndoToken}))(t)
	must(b.History(b.ctx, HistoryParams{ID: kept.ID.String()}))(t)
	must(b.Tag(b.ctx, TagParams{ID: kept.ID.String(), Add: []string{"food"}, Remove: []string{"summer"}}))(t)
	must(b.Pin(b.ctx, PinParams{ID: kept.ID.String()}))(t)
	must(b.SetSalience(b.ctx, SalienceParams{ID: kept.ID.String(), Tier: "high"}))(t)
	if err := b.cite(kept.ID); err != nil {
		t.Fatal(err)
	}

	text := "A document about soil.\n\nIt has two parts."
	doc := must(b.UpsertChunks(b.ctx, UpsertParams{Source: UpsertSource{URI: "file:///soil"}, Text: &text}))(t)
	text += " And one more."
	must(b.UpsertChunks(b.ctx, UpsertParams{Source: UpsertSource{URI: "file:///soil"}, Text: &text}))(t)
	must(b.ListDocuments(b.ctx, PageParams{}))(t)
	must(b.Document(b.ctx, DocumentViewParams{ID: doc.DocumentID}))(t)

	dir := t.TempDir()
	for name, text := range map[string]string{
		"memories.jsonl": `{"content": "a line of its own", "tags": ["x"]}` + "\n" + `{"id": "7", "content": "a line with a number"}` + "\n",
		"note.md":        "---\ntags: [garden]\n---\n# Compost\n\nTurn it twice a year.\n",
		"locomo.json":    `[{"sample_id": "s", "conversation": {"speaker_a": "Ann", "speaker_b": "Bo", "session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": [{"speaker": "Ann", "dia_id": "D1:1", "text": "We went to the market"}, {"speaker": "Bo", "dia_id": "D1:2", "text": "I bought plums"}]}}]`,
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		must(b.ImportPreview(b.ctx, ImportParams{Path: path}))(t)
		for range 2 { // the second run finds all records stored
			job := must(b.Import(b.ctx, ImportParams{Path: path}))(t)
			if st := e.await(t, job.JobID); st.Status != "completed" || st.Read == 0 {
				t.Fatalf("%s: %+v", name, st)
			}
		}
	}
	must(b.Imports(b.ctx, PageParams{}))(t)
	conversations := must(b.Conversations(b.ctx, PageParams{}))(t).Conversations
	must(b.Conversation(b.ctx, ConversationParams{ID: conversations[0].ID, AroundSeq: ptr(int64(1))}))(t)
	must(b.SetUntrusted(b.ctx, TrustParams{ConversationID: &conversations[0].ID}))(t)

	if err := b.EmbedPending(b.ctx); err != nil {
		t.Fatal(err)
	}
	must(b.EmbeddingStatus(b.ctx, struct{}{}))(t)
	hits := must(b.Search(b.ctx, search.Params{Query: "tomatoes beside the house"}))(t)
	if len(hits.Results) == 0 {
		t.Fatal("nothing was found")
	}
	must(b.Search(b.ctx, search.Params{Query: "plums", Filters: &search.Filters{TagsAny: []string{"garden"}, From: &now, Sources: []string{"manual"}}}))(t)
	enhanced := must(b.SearchEnhanced(b.ctx, search.EnhancedParams{Params: search.Params{Query: "market"}, GroupBy: "conversation"}))(t)
	must(b.Related(b.ctx, search.RelatedParams{ID: kept.ID.String()}))(t)
	if err := b.LogRecall(b.ctx, "s1", append(hits.Results, enhanced.Results...)); err != nil {
		t.Fatal(err)
	}
	b.shown(t, ShownTool, "what a tool said")
	agent := identity.With(t.Context(), identity.Identity{User: identity.UserID(b.ctx), Session: uuid.New(), Scopes: identity.Write.Closed(), Client: identity.ClientProgram, Label: "test", Pipe: "agent"})
	must(b.Add(agent, AddParams{Content: "the agent stores a sentence of its own", Metadata: json.RawMessage(`{"a":1}`)}))(t)
	must(b.Stats(b.ctx, struct{}{}))(t)

	must(b.Delete(b.ctx, IDsParams{IDs: []string{gone.ID.String(), lost.ID.String()}}))(t)
	must(b.List(b.ctx, ListParams{Trash: true}))(t)
	must(b.Restore(b.ctx, IDsParams{IDs: []string{gone.ID.String()}}))(t)
	must(b.Purge(b.ctx, IDsParams{IDs: []string{lost.ID.String()}}))(t)
	must(b.DeleteDocument(b.ctx, DocumentParams{DocumentID: doc.DocumentID}))(t)
	must(b.DeleteConversation(b.ctx, ConversationIDParams{ID: conversations[0].ID}))(t)
	if err := b.cleanup(b.ctx, time.Now().Add(90*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	const (
		page  = "reads one page in the order of the index"
		few   = "a user has few of them"
		undo  = "rows live for ten minutes"
		start = "checks at the start, once, that nothing is missing"
	)
	plans.Check(t, []storagetest.Scan{
		{SQL: "FROM memories m WHERE m.user_id = ? AND m.deleted_at IS NULL ORDER BY", Reason: page},
		{SQL: "FROM conversations WHERE user_id = ? AND deleted_at IS NULL ORDER BY started_at DESC", Reason: page},
		{SQL: "FROM documents WHERE user_id = ? AND deleted_at IS NULL ORDER BY updated_at DESC", Reason: page},
		{SQL: "FROM memory_imports WHERE user_id = ? AND options ->> '$.watch' IS NULL ORDER BY created_at DESC", Reason: page},
		{SQL: "SELECT count(*) FROM memories m WHERE m.user_id = ? AND m.deleted_at IS NULL", Reason: "counts the entries of a narrow index for the length of the list"},
		{SQL: "SELECT count(*) FROM conversations", Reason: "counts for the length of the list; " + few},
		{SQL: "SELECT count(*) FROM documents WHERE user_id", Reason: "counts for the length of the list; " + few},
		{SQL: "SELECT count(*) FROM memory_imports", Reason: few},
		{SQL: "FROM memory_imports WHERE user_id = ? AND status IN", Reason: few},
		{SQL: "DELETE FROM memory_undo WHERE created_at < ?", Reason: undo},
		{SQL: "DELETE FROM memory_undo WHERE user_id = ? AND act = ?", Reason: undo},
		{SQL: "DELETE FROM recall_log WHERE at < ?", Reason: "hourly, and the log holds one day"},
		{SQL: "SELECT EXISTS (SELECT 1 FROM (SELECT", Reason: start},
		{SQL: "SELECT (SELECT count(*) FROM search_items), (SELECT count(*) FROM search_fts_docsize)", Reason: start},
		{SQL: "FROM embedding_jobs WHERE user_id = ?1 AND model_id = ?2", Reason: "counts for the progress that a person watches"},
		{SQL: "FROM embedding_jobs j JOIN search_items i ON i.item = j.item JOIN item_vectors", Reason: "reads what waits for its vector, not what has it"},
		{SQL: "SELECT count(*) > (SELECT count(*) FROM search_items) / 100", Reason: "counts the entries of an index at most twice a second"},
		{SQL: "FROM search_fts_data", Reason: "the size of the word index, for the statistics that a person asks for"},
	})
}
