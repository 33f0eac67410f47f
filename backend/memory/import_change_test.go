package memory

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/memory/importer/importertest"
	"helix/backend/memory/search"
	"helix/backend/storage"
	"helix/backend/testkit"
)

// chat returns a ChatGPT conversation from id=text messages.
func chat(id, title string, turns ...string) string {
	mapping, last := map[string]any{}, ""
	for i, t := range turns {
		key, text, _ := strings.Cut(t, "=")
		role := []string{"user", "assistant"}[i%2]
		mapping[key] = map[string]any{"id": key, "parent": last, "message": map[string]any{"id": key, "author": map[string]any{"role": role},
			"create_time": 1683547000 + i, "content": map[string]any{"content_type": "text", "parts": []string{text}}}}
		last = key
	}
	b, _ := json.Marshal(map[string]any{"conversation_id": id, "title": title, "create_time": 1683547000, "current_node": last, "mapping": mapping})
	return string(b)
}

// turnsOf returns the turns of the only conversation, in order.
func (b *bundle) turnsOf(t testing.TB) (out []string) {
	t.Helper()
	err := b.db.Read(b.ctx, func(tx *storage.Tx) error {
		rows, err := tx.Query(`SELECT seq, external_id, content FROM conversation_turns WHERE deleted_at IS NULL ORDER BY seq`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var seq int
			var id, text string
			if err := rows.Scan(&seq, &id, &text); err != nil {
				return err
			}
			out = append(out, fmt.Sprintf("%d %s=%s", seq, id, text))
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// finds returns the number of search results for a word.
func (b *bundle) finds(t testing.TB, word string) int64 {
	t.Helper()
	return b.count(t, `SELECT count(*) FROM search_fts WHERE search_fts MATCH ?`, word)
}

func TestConversationThatGrewAndBranched(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	path := filepath.Join(t.TempDir(), "conversations.json")
	write := func(conversations ...string) ImportParams {
		writeFile(t, filepath.Dir(path), "conversations.json", "["+strings.Join(conversations, ",")+"]")
		return ImportParams{Path: path}
	}
	wantCounts(t, b.imported(t, write(chat("c", "Dinner", "a=Alpha", "b=Bravo", "c=Charlie", "d=Delta"))), "completed", 4, 4, 0, 0, 0)
	before := b.ids(t)

	wantCounts(t, b.imported(t, write(chat("c", "Dinner", "a=Alpha", "b=Bravo", "c=Charlie", "d=Delta", "e=Echo", "f=Foxtrot"))), "completed", 6, 2, 0, 4, 0)
	if after := b.ids(t); !slices.Equal(after[:4], before) {
		t.Error("turns that did not change have other ids")
	}
	// The second message was edited: another branch is visible, and it is shorter.
	wantCounts(t, b.imported(t, write(chat("c", "Dinner", "a=Alpha", "b2=Bravissimo", "c2=Casablanca"))), "completed", 3, 0, 2, 1, 0)
	if got, want := b.turnsOf(t), []string{"0 a=Alpha", "1 b2=Bravissimo", "2 c2=Casablanca"}; !slices.Equal(got, want) {
		t.Errorf("turns %q, want %q", got, want)
	}
	for word, n := range map[string]int64{"alpha": 1, "bravo": 0, "bravissimo": 1, "charlie": 0, "delta": 0, "echo": 0, "dinner": 1} {
		if got := b.finds(t, word); got != n {
			t.Errorf("%q finds %d, want %d", word, got, n)
		}
	}
	b.wantTurns(t, 3)
	// A new title is indexed even if no turn has changed.
	wantCounts(t, b.imported(t, write(chat("c", "Supper", "a=Alpha", "b2=Bravissimo", "c2=Casablanca"))), "completed", 3, 0, 0, 3, 0)
	if b.finds(t, "supper") != 1 || b.finds(t, "dinner") != 0 {
		t.Error("the new title is not what is found")
	}
	if n := b.count(t, `SELECT count(*) FROM conversations`); n != 1 {
		t.Errorf("%d conversations", n)
	}
}

func (b *bundle) ids(t testing.TB) (out []uuid.UUID) {
	t.Helper()
	err := b.db.Read(b.ctx, func(tx *storage.Tx) error {
		rows, err := tx.Query(`SELECT id FROM conversation_turns WHERE deleted_at IS NULL ORDER BY conversation_id, seq`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id uuid.UUID
			if err := rows.Scan(&id); err != nil {
				return err
			}
			out = append(out, id)
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDeletedRecordsStayDeletedAfterAnImport(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	dir := t.TempDir()
	p := ImportParams{Path: writeFile(t, dir, "c.json", "["+chat("c", "Dinner", "a=Alpha", "b=Bravo")+"]")}
	b.imported(t, p)
	var id uuid.UUID
	if err := b.db.Read(b.ctx, func(tx *storage.Tx) error { return tx.QueryRow(`SELECT id FROM conversations`).Scan(&id) }); err != nil {
		t.Fatal(err)
	}
	must(b.DeleteConversation(b.ctx, ConversationIDParams{ID: id}))(t)
	st := b.imported(t, p)
	wantCounts(t, st, "completed", 2, 0, 0, 2, 0)
	if st.Message == "" || b.finds(t, "alpha") != 0 {
		t.Errorf("an import brought back what was deleted: %+v", st)
	}
	notes := ImportParams{Path: writeFile(t, dir, "v/n.md", "# Note\n\nA kestrel.")}
	b.imported(t, notes)
	if err := b.db.Read(b.ctx, func(tx *storage.Tx) error { return tx.QueryRow(`SELECT id FROM documents`).Scan(&id) }); err != nil {
		t.Fatal(err)
	}
	must(b.DeleteDocument(b.ctx, DocumentParams{DocumentID: id}))(t)
	wantCounts(t, b.imported(t, notes), "completed", 1, 0, 0, 1, 0)
	if b.finds(t, "kestrel") != 0 {
		t.Error("an import brought back a document that was deleted")
	}
}

func TestImportMemories(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	dir := t.TempDir()
	path := writeFile(t, dir, "m.jsonl", `{"id":"rye-bread-1","content":"Rye bread.","tags":["Food"],"type":"semantic","layer":2,"occurredAt":"2023-05-08T13:56:00Z"}
{"content":"Without an id."}
not json
{"id":1,"content":"A short id."}
`)
	st := b.imported(t, ImportParams{Path: path, Tags: []string{"Import"}, Layer: 3})
	wantCounts(t, st, "completed", 4, 3, 0, 0, 1)
	if len(st.Errors) != 1 || st.Errors[0].Line != 3 {
		t.Errorf("errors: %+v", st.Errors)
	}
	list := must(b.List(b.ctx, ListParams{Filters: &search.Filters{TagsAll: []string{"food", "import"}}}))(t)
	if len(list.Items) != 1 {
		t.Fatalf("%+v", list)
	}
	m := list.Items[0]
	if m.Content != "Rye bread." || m.Type != "semantic" || m.Layer != 2 || !m.Untrusted || m.Source != "jsonl" || m.OccurredAt == nil {
		t.Errorf("%+v", m)
	}
	if all := must(b.List(b.ctx, ListParams{Filters: &search.Filters{Layers: []int{3}}}))(t); all.Total != 2 {
		t.Errorf("%d memories got the layer of the import", all.Total)
	}
	wantCounts(t, b.imported(t, ImportParams{Path: path, Tags: []string{"Import"}, Layer: 3}), "completed", 4, 0, 0, 3, 1)

	// The person's own edit is kept until the record in the file changes.
	text := "Rye bread, toasted."
	must(b.Update(b.ctx, UpdateParams{ID: m.ID.String(), Version: m.Version, Content: &text}))(t)
	wantCounts(t, b.imported(t, ImportParams{Path: path, Tags: []string{"Import"}, Layer: 3}), "completed", 4, 0, 0, 3, 1)
	if got := b.get(t, m.ID).Content; got != text {
		t.Errorf("the edit is gone: %q", got)
	}
	writeFile(t, dir, "m.jsonl", `{"id":"rye-bread-1","content":"Rye bread with caraway.","type":"semantic"}`)
	wantCounts(t, b.imported(t, ImportParams{Path: path}), "completed", 1, 0, 1, 0, 0)
	if got := b.get(t, m.ID); got.Content != "Rye bread with caraway." || got.Version != 3 {
		t.Errorf("%+v", got)
	}
	history := must(b.History(b.ctx, HistoryParams{ID: m.ID.String()}))(t)
	if len(history.Revisions) != 2 || history.Revisions[0].Content != text || history.Revisions[0].Origin != "import" {
		t.Errorf("%+v", history.Revisions)
	}
	// Another file may use the same numbers as ids.
	other := writeFile(t, dir, "other.jsonl", `{"id":1,"content":"Another file."}`)
	wantCounts(t, b.imported(t, ImportParams{Path: other}), "completed", 1, 1, 0, 0, 0)
	// Too long for a memory: becomes a document.
	long := writeFile(t, dir, "long.jsonl", `{"id":"long-text-1","content":"`+strings.Repeat("zugzwang ", 9000)+`"}`)
	wantCounts(t, b.imported(t, ImportParams{Path: long}), "completed", 1, 1, 0, 0, 0)
	wantCounts(t, b.imported(t, ImportParams{Path: long}), "completed", 1, 0, 0, 1, 0)
	if n := b.count(t, `SELECT count(*) FROM documents WHERE source = 'jsonl'`); n != 1 {
		t.Errorf("%d documents", n)
	}
}

func TestImportedMemoriesAreListedInTheOrderOfTheFile(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	var text strings.Builder
	for i := range 60 {
		fmt.Fprintf(&text, "{\"content\":\"Note %d.\"}\n", i)
	}
	b.imported(t, ImportParams{Path: writeFile(t, t.TempDir(), "notes.jsonl", text.String())})
	for i, m := range must(b.List(b.ctx, ListParams{Limit: 100}))(t).Items {
		if want := fmt.Sprintf("Note %d.", 59-i); m.Content != want {
			t.Fatalf("place %d: %q in place of %q", i, m.Content, want)
		}
	}
}

func TestImportVault(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{Zone: func() string { return "Europe/Berlin" }})
	dir := filepath.Join(t.TempDir(), "My vault #1")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("importer", "testdata", "vault"))); err != nil {
		t.Fatal(err)
	}
	p := ImportParams{Path: dir, Tags: []string{"Vault"}}
	st := b.imported(t, p)
	wantCounts(t, st, "completed", 6, 6, 0, 0, 0)
	docs := must(b.ListDocuments(b.ctx, PageParams{}))(t)
	i := slices.IndexFunc(docs.Documents, func(d Document) bool { return d.Title == "Rye bread" })
	if i < 0 {
		t.Fatalf("%+v", docs)
	}
	d := docs.Documents[i]
	if want := []string{"2023a", "baking/rye", "food", "inside", "vault", "winter"}; !slices.Equal(d.Tags, want) || !d.Untrusted || d.Source != "markdown" ||
		d.OccurredAt == nil || d.OccurredAt.UTC().Format("2006-01-02T15:04") != "2023-05-07T22:00" {
		t.Errorf("%+v", d)
	}
	view := must(b.Document(b.ctx, DocumentViewParams{ID: d.ID}))(t)
	if !slices.ContainsFunc(view.Chunks, func(c Chunk) bool { return strings.Contains(c.Heading, "Dough") }) {
		t.Errorf("no chunk has its heading: %+v", view.Chunks)
	}
	wantCounts(t, b.imported(t, p), "completed", 6, 0, 0, 6, 0)
	writeFile(t, dir, "Trips/Lisbon.md", "# Lisbon\n\nWe ate cuttlefish.\n")
	if err := os.Remove(filepath.Join(dir, "Dash.md")); err != nil {
		t.Fatal(err)
	}
	st = b.imported(t, p)
	wantCounts(t, st, "completed", 5, 0, 1, 4, 0)
	if !slices.Equal(st.Vanished, []string{"Dash.md"}) {
		t.Errorf("vanished: %q", st.Vanished)
	}
	if b.finds(t, "cuttlefish") != 1 || b.finds(t, "tasca") != 0 || b.finds(t, "rule") != 1 {
		t.Error("what is found is not what the vault says")
	}
}

func TestPreviewAndDryRunChangeNothing(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	dir := t.TempDir()
	path := writeFile(t, dir, "c.json", "["+chat("c", "Dinner", "a=Alpha", "b=Bravo")+","+chat("d", "Lunch", "e=Echo", "f=Foxtrot")+`, 5]`)
	look := func() PreviewResult { return must(b.ImportPreview(b.ctx, ImportParams{Path: path}))(t) }
	v := look()
	if v.Format != "chatgpt" || v.Conversations != 2 || v.Items != 4 || v.Duplicates != 0 || len(v.Samples) != 2 || len(v.Warnings) != 1 || v.DateRange == nil || v.Partial {
		t.Errorf("%+v", v)
	}
	if s := v.Samples[0]; s.Kind != "turn" || s.Title != "Dinner" || s.Text != "Alpha" || s.Speaker != "You" || s.OccurredAt == nil {
		t.Errorf("%+v", s)
	}
	st := b.imported(t, ImportParams{Path: path, DryRun: true})
	wantCounts(t, st, "completed", 5, 4, 0, 0, 1)
	if !st.DryRun || b.count(t, `SELECT (SELECT count(*) FROM conversations) + (SELECT count(*) FROM search_items)`) != 0 {
		t.Error("a dry run has stored something")
	}
	b.imported(t, ImportParams{Path: path})
	if v := look(); v.Duplicates != 4 {
		t.Errorf("%d duplicates", v.Duplicates)
	}
	for name, content := range map[string]string{"m.jsonl": `{"content":"Rye bread."}`, "n.md": "# Note\n\nText."} {
		p := ImportParams{Path: writeFile(t, dir, name, content)}
		wantCounts(t, b.imported(t, ImportParams{Path: p.Path, DryRun: true}), "completed", 1, 1, 0, 0, 0)
		b.imported(t, p)
		wantCounts(t, b.imported(t, ImportParams{Path: p.Path, DryRun: true}), "completed", 1, 0, 0, 1, 0)
		if v := must(b.ImportPreview(b.ctx, p))(t); v.Duplicates != 1 || v.Items != 1 {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestBrokenExportKeepsWhatCameBefore(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	whole := "[" + chat("c", "Dinner", "a=Alpha", "b=Bravo") + "," + chat("d", "Lunch", "e=Echo", "f=Foxtrot") + "]"
	cut := whole[:len(whole)-20]
	dir := t.TempDir()
	path := writeFile(t, dir, "conversations.json", cut)
	st := b.imported(t, ImportParams{Path: path})
	wantCounts(t, st, "failed", 2, 2, 0, 0, 0)
	want := fmt.Sprintf("conversations.json ends unexpectedly at byte %d", len(cut))
	if st.Message != want || len(st.Errors) != 1 || st.Errors[0].Message != want {
		t.Errorf("%+v", st)
	}
	b.wantTurns(t, 2)
	writeFile(t, dir, "conversations.json", whole)
	wantCounts(t, b.imported(t, ImportParams{Path: path}), "completed", 4, 2, 0, 2, 0)
}

func TestImportRefusals(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	dir := t.TempDir()
	good := writeFile(t, dir, "m.jsonl", `{"content":"x"}`)
	for name, c := range map[string]struct {
		p    ImportParams
		kind fault.Kind
	}{
		"nothing":  {ImportParams{}, fault.Invalid},
		"both":     {ImportParams{Path: good, BlobID: "x"}, fault.Invalid},
		"relative": {ImportParams{Path: "m.jsonl"}, fault.Invalid},
		"missing":  {ImportParams{Path: filepath.Join(dir, "x")}, fault.NotFound},
		"format":   {ImportParams{Path: good, Format: "docx"}, fault.Invalid},
		"layer":    {ImportParams{Path: good, Layer: 8}, fault.Invalid},
		"type":     {ImportParams{Path: good, Type: "dream"}, fault.Invalid},
		"tags":     {ImportParams{Path: good, Tags: []string{strings.Repeat("x", 65)}}, fault.Invalid},
		"blob":     {ImportParams{BlobID: "zz"}, fault.Invalid},
		"no blob":  {ImportParams{BlobID: strings.Repeat("ab", 32)}, fault.NotFound},
	} {
		if _, err := b.Import(b.ctx, c.p); !fault.Is(err, c.kind) {
			t.Errorf("import of %s: %v", name, err)
		}
		if _, err := b.ImportPreview(b.ctx, c.p); !fault.Is(err, c.kind) {
			t.Errorf("preview of %s: %v", name, err)
		}
	}
	if n := b.count(t, `SELECT count(*) FROM memory_imports`); n != 0 {
		t.Errorf("%d jobs", n)
	}
	e := b.ends(t)
	job := must(b.Import(b.ctx, ImportParams{Path: good}))(t)
	e.await(t, job.JobID)
	if _, err := b.ImportStatus(b.them, JobParams(job)); !fault.Is(err, fault.NotFound) {
		t.Errorf("somebody else reads the job: %v", err)
	}
	if _, err := b.ImportCancel(b.them, JobParams(job)); !fault.Is(err, fault.NotFound) {
		t.Errorf("somebody else cancels the job: %v", err)
	}
	if jobs := must(b.Imports(b.them, PageParams{}))(t); jobs.Total != 0 || len(jobs.Jobs) != 0 {
		t.Errorf("somebody else lists the job: %+v", jobs)
	}
	if jobs := must(b.Imports(b.ctx, PageParams{}))(t); jobs.Total != 1 || len(jobs.Jobs) != 1 || jobs.Jobs[0].Status != "completed" {
		t.Errorf("%+v", jobs)
	}
}

func TestImportOfABlob(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	ref, err := b.db.Blobs().PutBytes(b.ctx, []byte("["+chat("c", "Dinner", "a=Alpha", "b=Bravo")+"]"))
	if err != nil {
		t.Fatal(err)
	}
	p := ImportParams{BlobID: ref.String(), Name: "conversations.json"}
	st := b.imported(t, p)
	wantCounts(t, st, "completed", 2, 2, 0, 0, 0)
	if st.Path != "conversations.json" {
		t.Errorf("path %q", st.Path)
	}
}

func TestTurnsThatAreVeryLong(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	b := newBundle(t, Options{})
	text := strings.Repeat("word ", 20_000) + "zugzwang"
	p := ImportParams{Path: writeFile(t, t.TempDir(), "c.json", "["+chat("c", "Dinner", "a=Alpha", "b="+text)+"]")}
	wantCounts(t, b.imported(t, p), "completed", 2, 2, 0, 0, 0)
	if b.finds(t, "zugzwang") != 1 {
		t.Error("the end of a long turn is not found")
	}
	if n := b.count(t, `SELECT max(length(content)) FROM conversation_turns`); n > maxContent {
		t.Errorf("a turn of %d bytes", n)
	}
	wantCounts(t, b.imported(t, p), "completed", 2, 0, 0, 2, 0)
}

// A divided text loses its last part when it becomes shorter.
func TestTextThatShrank(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	b := newBundle(t, Options{})
	dir := t.TempDir()
	long := strings.Repeat("A sentence that fills the file. ", 9000) + "Zugzwang."
	p := ImportParams{Path: writeFile(t, dir, "long.txt", long)}
	wantCounts(t, b.imported(t, p), "completed", 2, 2, 0, 0, 0)
	if b.finds(t, "zugzwang") != 1 {
		t.Error("the end of the text is not found")
	}
	writeFile(t, dir, "long.txt", "A sentence. ")
	b.imported(t, p)
	if b.finds(t, "zugzwang") != 0 || b.finds(t, "sentence") != 1 {
		t.Error("what is no longer in the file is found")
	}
	writeFile(t, dir, "long.txt", long)
	b.imported(t, p)
	if b.finds(t, "zugzwang") != 1 {
		t.Error("the text that grew again is not found")
	}
}

func TestImportIsPrivate(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{Private: true})
	path, wrote := export(t, importertest.Options{Conversations: 2})
	n := int64(wrote.Turns)
	wantCounts(t, b.imported(t, ImportParams{Path: path}), "completed", n, n, 0, 0, 0)
	if c := b.count(t, `SELECT count(*) FROM conversation_turns WHERE typeof(content) = 'text'`); c != 0 {
		t.Errorf("%d turns are not sealed", c)
	}
}
