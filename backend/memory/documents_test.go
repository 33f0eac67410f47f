package memory

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/memory/search"
	"helix/backend/storage"
)

// chunks returns a request with the given texts.
func chunks(uri string, texts ...string) UpsertParams {
	p := UpsertParams{Source: UpsertSource{URI: uri}, Chunks: []UpsertChunk{}}
	for i, text := range texts {
		p.Chunks = append(p.Chunks, UpsertChunk{Seq: int64(i), Text: text})
	}
	return p
}

func (b *bundle) upsert(t testing.TB, p UpsertParams) UpsertResult {
	t.Helper()
	return must(b.UpsertChunks(b.ctx, p))(t)
}

// parts returns the texts of the parts of a document in order, and their ids by text.
func (b *bundle) parts(t testing.TB, id uuid.UUID) (texts []string, ids map[string]uuid.UUID) {
	t.Helper()
	ids = map[string]uuid.UUID{}
	view := must(b.Document(b.ctx, DocumentViewParams{ID: id, Limit: 200}))(t)
	for _, c := range view.Chunks {
		texts = append(texts, c.Text)
		ids[c.Text] = c.ID
	}
	return texts, ids
}

func TestUpsertChunksKeepsWhatDidNotChange(t *testing.T) {
	t.Parallel()
	model := newWordsModel("words@1", 32)
	b := newBundle(t, Options{Embedder: model})
	first := b.upsert(t, chunks("note://garden", "apples in the orchard", "a bench of oak", "roses along the wall", "apples in the orchard"))
	if first.Added != 4 || first.Kept != 0 || first.Removed != 0 || first.Embedded != 4 {
		t.Fatalf("first: %+v", first)
	}
	if n := model.texts.Load(); n != 3 {
		t.Errorf("%d texts were embedded for 3 different ones", n)
	}
	if b.number(t, `SELECT count(*) FROM embedding_jobs`) != 0 || b.index().Len() != 4 {
		t.Errorf("%d vectors in the index", b.index().Len())
	}
	_, before := b.parts(t, first.DocumentID)
	// One part is removed, one added, and the others are reordered.
	second := b.upsert(t, chunks("note://garden", "roses along the wall", "a pond with carps", "apples in the orchard", "a bench of oak"))
	if second.DocumentID != first.DocumentID || second.Added != 1 || second.Kept != 3 || second.Removed != 1 || second.Embedded != 1 {
		t.Fatalf("second: %+v", second)
	}
	texts, after := b.parts(t, first.DocumentID)
	if want := []string{"roses along the wall", "a pond with carps", "apples in the orchard", "a bench of oak"}; !slices.Equal(texts, want) {
		t.Errorf("texts %q", texts)
	}
	for _, kept := range []string{"roses along the wall", "a bench of oak"} {
		if before[kept] != after[kept] {
			t.Errorf("%q has another id", kept)
		}
	}
	if n := model.texts.Load(); n != 4 {
		t.Errorf("%d texts were embedded after one new one", n)
	}
	if n := len(b.findable(t)); n != 4 || b.index().Len() != 4 {
		t.Errorf("%d by words and %d by meaning", n, b.index().Len())
	}
	if id, _ := b.nearest(t, "carps pond"); id != after["a pond with carps"] {
		t.Errorf("found %v", id)
	}
	// The removed part is a tombstone without text and vector.
	if n := b.number(t, `SELECT count(*) FROM chunks WHERE deleted_at IS NOT NULL AND content = ''`); n != 1 {
		t.Errorf("%d tombstones", n)
	}
	if n := b.number(t, `SELECT count(*) FROM item_vectors`); n != 4 {
		t.Errorf("%d vectors", n)
	}
	// An identical request writes nothing.
	at := b.number(t, `SELECT max(updated_at) FROM documents`)
	third := b.upsert(t, chunks("note://garden", texts...))
	if third.Added+third.Removed != 0 || third.Kept != 4 || b.number(t, `SELECT max(updated_at) FROM documents`) != at {
		t.Errorf("third: %+v", third)
	}
	// A new title is indexed with all parts; ids and vectors are kept.
	p := chunks("note://garden", texts...)
	p.Source.Title, p.Tags = "Gardening diary", []string{" Home ", "home"}
	if r := b.upsert(t, p); r.Kept != 4 || r.Added != 0 {
		t.Errorf("with a title: %+v", r)
	}
	if n := b.number(t, `SELECT count(*) FROM search_fts WHERE search_fts MATCH 'title:diary'`); n != 4 {
		t.Errorf("%d parts are found by the title", n)
	}
	if _, last := b.parts(t, first.DocumentID); last["a bench of oak"] != before["a bench of oak"] || b.index().Len() != 4 || model.texts.Load() != 5 { // plus one query
		t.Errorf("ids or vectors changed; %d texts embedded", model.texts.Load())
	}
	d := must(b.ListDocuments(b.ctx, PageParams{Query: "DIARY"}))(t)
	if d.Total != 1 || len(d.Documents) != 1 || d.Documents[0].Chunks != 4 || !slices.Equal(d.Documents[0].Tags, []string{"home"}) || !d.Documents[0].Untrusted {
		t.Errorf("list: %+v", d)
	}
}

// Any document can be changed into any other; the parts that both have keep their ids.
func TestUpsertChunksProperty(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	r := rand.New(rand.NewPCG(7, 7))
	var id uuid.UUID
	known := map[string][]uuid.UUID{}
	for round := range fewer(64) {
		var texts []string
		p := UpsertParams{Source: UpsertSource{URI: "doc"}}
		for _, seq := range r.Perm(20)[:1+r.IntN(14)] {
			text := fmt.Sprintf("text %d", r.IntN(16))
			p.Chunks = append(p.Chunks, UpsertChunk{Seq: int64(seq), Text: text})
		}
		res := b.upsert(t, p)
		if id != uuid.Nil && res.DocumentID != id {
			t.Fatal("the document has another id")
		}
		id = res.DocumentID
		slices.SortFunc(p.Chunks, func(a, b UpsertChunk) int { return int(a.Seq - b.Seq) })
		view := must(b.Document(b.ctx, DocumentViewParams{ID: id, Limit: 200}))(t)
		now := map[string][]uuid.UUID{}
		for i, c := range view.Chunks {
			texts = append(texts, c.Text)
			if i >= len(p.Chunks) || c.Seq != p.Chunks[i].Seq || c.Text != p.Chunks[i].Text {
				t.Fatalf("round %d: part %d is %d %q", round, i, c.Seq, c.Text)
			}
			now[c.Text] = append(now[c.Text], c.ID)
		}
		if len(texts) != len(p.Chunks) || len(b.findable(t)) != len(texts) {
			t.Fatalf("round %d: %d parts of %d, %d findable", round, len(texts), len(p.Chunks), len(b.findable(t)))
		}
		kept := 0
		for text, ids := range now {
			same := 0
			for _, x := range ids {
				if slices.Contains(known[text], x) {
					same++
				}
			}
			if same != min(len(ids), len(known[text])) {
				t.Fatalf("round %d: %q kept %d ids of %d", round, text, same, min(len(ids), len(known[text])))
			}
			kept += same
		}
		if res.Kept != kept || res.Added != len(texts)-kept {
			t.Fatalf("round %d: %+v with %d kept", round, res, kept)
		}
		known = now
	}
}

func TestUpsertTextIsCutHere(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	text := "# Journal\n\n## May\n\n" + strings.Repeat("We walked to the sea and back. ", 60) + "\n\n## June\n\nRain all month, 🌧 and no 🌞.\n"
	sum := sha256.Sum256([]byte(text))
	p := UpsertParams{Source: UpsertSource{URI: "file:///notes/journal.md", ContentHash: hex.EncodeToString(sum[:])}, Text: &text}
	r := b.upsert(t, p)
	view := must(b.Document(b.ctx, DocumentViewParams{ID: r.DocumentID}))(t)
	if view.Document.Title != "journal.md" || view.Document.SourceURI != p.Source.URI || view.Total != int64(r.Added) || r.Added < 4 {
		t.Errorf("document %+v of %d", view.Document, r.Added)
	}
	last := view.Chunks[len(view.Chunks)-1]
	if view.Chunks[0].Heading != "Journal › May" || last.Heading != "Journal › June" {
		t.Errorf("headings %q and %q", view.Chunks[0].Heading, last.Heading)
	}
	units := len([]rune(text)) + 2 // two characters are outside of the BMP
	if *last.EndOffset != int64(units-1) {
		t.Errorf("the last part ends at %d of %d", *last.EndOffset, units)
	}
	if again := b.upsert(t, p); again.Added+again.Removed != 0 || again.Kept != r.Added {
		t.Errorf("again: %+v", again)
	}
	changed := strings.Replace(text, "Rain all month", "Sun all month", 1)
	p.Text, p.Source.ContentHash = &changed, ""
	if r := b.upsert(t, p); r.Added != 1 || r.Removed != 1 {
		t.Errorf("one section changed: %+v", r)
	}
}

func TestDocumentReader(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	p := UpsertParams{Source: UpsertSource{URI: "book", Title: "A book", Mime: "text/plain"}}
	for i := range 300 {
		p.Chunks = append(p.Chunks, UpsertChunk{Seq: int64(i * 2), Text: fmt.Sprintf("page %d", i), Heading: "H"})
	}
	r := b.upsert(t, p)
	for _, c := range []struct {
		around        *int64
		limit, offset int
		first, n      int
	}{
		{nil, 0, 0, 0, 50}, {nil, 10, 290, 290, 10}, {nil, 10, 299, 299, 1}, {ptr[int64](200), 11, 0, 95, 11}, {ptr[int64](0), 5, 0, 0, 5}, {ptr[int64](598), 6, 0, 294, 6}, {ptr[int64](9999), 6, 0, 294, 6},
	} {
		v := must(b.Document(b.ctx, DocumentViewParams{ID: r.DocumentID, AroundSeq: c.around, Limit: c.limit, Offset: c.offset}))(t)
		if v.Total != 300 || v.Offset != c.first || len(v.Chunks) != c.n || v.Chunks[0].Text != fmt.Sprintf("page %d", c.first) {
			t.Errorf("%+v: offset %d, %d chunks, first %q", c, v.Offset, len(v.Chunks), v.Chunks[0].Text)
		}
	}
	_, err := b.Document(b.them, DocumentViewParams{ID: r.DocumentID})
	wantKind(t, err, fault.NotFound, "Document not found.")
	_, err = b.Document(b.ctx, DocumentViewParams{ID: r.DocumentID, Limit: 201})
	wantKind(t, err, fault.Invalid, "limit")
	if d := must(b.ListDocuments(b.them, PageParams{}))(t); d.Total != 0 || d.Documents == nil {
		t.Errorf("somebody else sees %+v", d)
	}
	// The same source of another user is another document.
	theirs := must(b.UpsertChunks(b.them, chunks("book", "theirs")))(t)
	if theirs.DocumentID == r.DocumentID || theirs.Added != 1 {
		t.Errorf("theirs: %+v", theirs)
	}
	_, err = b.DeleteDocument(b.them, DocumentParams{DocumentID: r.DocumentID})
	wantKind(t, err, fault.NotFound, "Document not found.")
}

func TestDeleteDocumentAndUndo(t *testing.T) {
	t.Parallel()
	model := newWordsModel("words@1", 32)
	b := newBundle(t, Options{Embedder: model})
	events := news[Changed](t, b)
	r := b.upsert(t, chunks("memo", "the first part", "the second part"))
	_, ids := b.parts(t, r.DocumentID)
	gone := must(b.DeleteDocument(b.ctx, DocumentParams{DocumentID: r.DocumentID}))(t)
	if gone.Count != 1 || gone.UndoToken == "" || len(b.findable(t)) != 0 || b.index().Len() != 0 {
		t.Fatalf("%+v; %d findable, %d vectors", gone, len(b.findable(t)), b.index().Len())
	}
	_, err := b.Document(b.ctx, DocumentViewParams{ID: r.DocumentID})
	wantKind(t, err, fault.NotFound, "Document not found.")
	_, err = b.DeleteDocument(b.ctx, DocumentParams{DocumentID: r.DocumentID})
	wantKind(t, err, fault.NotFound, "Document not found.")
	if d := must(b.ListDocuments(b.ctx, PageParams{}))(t); d.Total != 0 {
		t.Errorf("list: %+v", d)
	}
	if d := must(b.ListDocuments(b.ctx, PageParams{Trash: true}))(t); d.Total != 1 || d.Documents[0].DeletedAt == nil {
		t.Errorf("trash: %+v", d)
	}
	before := model.texts.Load()
	if u := must(b.Undo(b.ctx, UndoParams{UndoToken: gone.UndoToken}))(t); u.Count != 1 {
		t.Errorf("undo: %+v", u)
	}
	if _, back := b.parts(t, r.DocumentID); back["the first part"] != ids["the first part"] || len(b.findable(t)) != 2 {
		t.Errorf("parts %v, before %v", back, ids)
	}
	if b.index().Len() != 2 || model.texts.Load() != before {
		t.Errorf("%d vectors, %d texts embedded again", b.index().Len(), model.texts.Load()-before)
	}
	var ops []string
	for _, e := range events() {
		if !slices.Equal(e.IDs, []uuid.UUID{r.DocumentID}) {
			t.Errorf("event %+v", e)
		}
		ops = append(ops, e.Op)
	}
	if !slices.Equal(ops, []string{"documents", "delete", "restore"}) {
		t.Errorf("events %q", ops)
	}
	// If its source provides a document in the trash again, it is restored.
	must(b.DeleteDocument(b.ctx, DocumentParams{DocumentID: r.DocumentID}))(t)
	if again := b.upsert(t, chunks("memo", "the first part", "another part")); again.DocumentID != r.DocumentID || again.Kept != 1 || again.Added != 1 || again.Removed != 1 {
		t.Errorf("again: %+v", again)
	}
	if len(b.findable(t)) != 2 || b.index().Len() != 2 {
		t.Errorf("%d findable, %d vectors", len(b.findable(t)), b.index().Len())
	}
}

func TestUpsertRefuses(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	text := func(s string) UpsertParams { return UpsertParams{Source: UpsertSource{URI: "u"}, Text: &s} }
	with := func(fn func(*UpsertParams)) UpsertParams { p := chunks("u", "a", "b"); fn(&p); return p }
	for name, c := range map[string]struct {
		p    UpsertParams
		want string
	}{
		"no uri":        {with(func(p *UpsertParams) { p.Source.URI = " " }), "source.uri"},
		"long uri":      {with(func(p *UpsertParams) { p.Source.URI = strings.Repeat("u", 5000) }), "source.uri"},
		"bad hash":      {with(func(p *UpsertParams) { p.Source.ContentHash = "abc" }), "source.contentHash"},
		"both":          {with(func(p *UpsertParams) { p.Text = ptr("x") }), "either chunks or text"},
		"neither":       {UpsertParams{Source: UpsertSource{URI: "u"}}, "either chunks or text"},
		"no chunk":      {UpsertParams{Source: UpsertSource{URI: "u"}, Chunks: []UpsertChunk{}}, "chunks: must have 1"},
		"empty text":    {text(" \n "), "must not be blank"},
		"long text":     {text(strings.Repeat("x ", 5<<20)), "8 MiB"},
		"empty chunk":   {chunks("u", "a", " "), "chunks[1].text"},
		"long chunk":    {chunks("u", strings.Repeat("x", 65<<10)), "chunks[0].text"},
		"negative seq":  {with(func(p *UpsertParams) { p.Chunks[0].Seq = -1 }), "chunks[0].seq"},
		"twice the seq": {with(func(p *UpsertParams) { p.Chunks[1].Seq = 0 }), "chunks[1].seq"},
		"offsets":       {with(func(p *UpsertParams) { p.Chunks[1].StartOffset, p.Chunks[1].EndOffset = ptr[int64](5), ptr[int64](4) }), "chunks[1]"},
		"metadata":      {with(func(p *UpsertParams) { p.Chunks[1].Metadata = json.RawMessage(`[1]`) }), "chunks[1].metadata"},
		"long tag":      {with(func(p *UpsertParams) { p.Tags = []string{strings.Repeat("t", 65)} }), "tag"},
	} {
		_, err := b.UpsertChunks(b.ctx, c.p)
		if f := fault.As(err); err == nil || f.Kind != fault.Invalid || !strings.Contains(f.Message, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := b.number(t, `SELECT count(*) FROM documents`); n != 0 {
		t.Errorf("%d documents", n)
	}
}

// If the model fails, the text is stored anyway and its jobs are queued.
func TestUpsertWithoutVectors(t *testing.T) {
	t.Parallel()
	model := newWordsModel("words@1", 32)
	model.fail = func([]string) error { return fault.Unavailablef("Not now.") }
	b := newBundle(t, Options{Embedder: model})
	r := b.upsert(t, chunks("u", "one part", "another part"))
	if r.Added != 2 || r.Embedded != 0 || len(b.findable(t)) != 2 || b.number(t, `SELECT count(*) FROM embedding_jobs`) != 2 {
		t.Errorf("%+v", r)
	}
	model.set(func(m *wordsModel) { m.fail = nil })
	if err := b.EmbedPending(b.ctx); err != nil || b.index().Len() != 2 {
		t.Errorf("%d vectors, %v", b.index().Len(), err)
	}
	if _, err := b.UpsertChunks(canceled(), chunks("v", "x")); err == nil {
		t.Error("a canceled call stored something")
	}
}

// After a failure at any step of the transaction the document is unchanged.
func TestUpsertIsOneTransaction(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{Embedder: newWordsModel("words@1", 16)})
	old := []string{"alpha", "beta", "gamma", "delta"}
	r := b.upsert(t, chunks("u", old...))
	_, before := b.parts(t, r.DocumentID)
	halt := errors.New("halt")
	for _, trigger := range []string{
		`BEFORE UPDATE ON documents`, `BEFORE INSERT ON chunks`, `BEFORE UPDATE OF deleted_at ON chunks`, `BEFORE UPDATE OF seq ON chunks`, `BEFORE INSERT ON search_items`, `BEFORE DELETE ON search_items`,
		`BEFORE DELETE ON item_vectors`, `BEFORE INSERT ON item_vectors`,
	} {
		err := b.db.Write(b.ctx, func(tx *storage.Tx) error {
			if _, err := tx.Exec(`CREATE TEMP TRIGGER stop_here ` + strings.Replace(trigger, " ON ", " ON main.", 1) + ` BEGIN SELECT RAISE(ABORT, 'halt'); END`); err != nil {
				t.Fatal(err)
			}
			d := must(documentOf(b.db.LocalUser().ID, chunks("u", "delta", "epsilon", "alpha")))(t)
			d.model, d.vectors = "words@1", map[[32]byte][]float32{textHash("epsilon"): make([]float32, 16)}
			if _, err := b.upsertDocument(tx, d); err == nil {
				t.Errorf("%s: nothing was stopped", trigger)
			}
			if _, err := tx.Exec(`DROP TRIGGER stop_here`); err != nil {
				t.Fatal(err)
			}
			return halt
		})
		if !errors.Is(err, halt) {
			t.Fatalf("%s: %v", trigger, err)
		}
		texts, after := b.parts(t, r.DocumentID)
		if !slices.Equal(texts, old) || after["alpha"] != before["alpha"] || len(b.findable(t)) != 4 || b.index().Len() != 4 {
			t.Errorf("%s: %q", trigger, texts)
		}
	}
}

func TestTitlesInAnyCase(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	must(b.UpsertChunks(b.ctx, UpsertParams{Source: UpsertSource{URI: "file:///Übersicht.txt", Title: "Été à la mer"}, Text: ptr("some text")}))(t)
	c := b.conversation(t, "c", "D1:1", "hello there")
	b.exec(t, `UPDATE conversations SET title = 'ЛЕТО у моря' WHERE id = ?`, c.ID)
	for query, want := range map[string][2]int64{
		"été": {1, 0}, "ÉTÉ À": {1, 0}, "E\u0301te\u0301": {1, 0}, "übersicht": {1, 0}, "MER": {1, 0}, "%": {0, 0}, " лето ": {0, 1}, "МОРЯ": {0, 1}, "hiver": {0, 0}, " ": {1, 1},
	} {
		d := must(b.ListDocuments(b.ctx, PageParams{Query: query}))(t)
		c := must(b.Conversations(b.ctx, PageParams{Query: query}))(t)
		if got := [2]int64{d.Total, c.Total}; got != want || len(d.Documents) != int(d.Total) || len(c.Conversations) != int(c.Total) {
			t.Errorf("%q: %v, want %v", query, got, want)
		}
		if r := must(b.ListDocuments(b.them, PageParams{Query: query}))(t); r.Total != 0 {
			t.Errorf("%q: another user sees %d", query, r.Total)
		}
	}
}

// TestDocumentsHoldNoNUL stores texts with characters that Postgres rejects; offsets remain valid.
func TestDocumentsHoldNoNUL(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	d := must(b.UpsertChunks(b.ctx, UpsertParams{Source: UpsertSource{URI: "file:\x00a", Title: "a\x00b"}, Text: ptr("first\x00word and more")}))(t)
	v := must(b.Document(b.ctx, DocumentViewParams{ID: d.DocumentID}))(t)
	if c := v.Chunks[0]; c.Text != "first\ufffdword and more" || *c.EndOffset != 19 || v.Document.Title != "a\ufffdb" || v.Document.SourceURI != "file:\ufffda" {
		t.Errorf("%s", marshal(t, v))
	}
	if r := must(b.Search(b.ctx, search.Params{Query: "word"}))(t); len(r.Results) != 1 {
		t.Errorf("%d hits", len(r.Results))
	}
	for _, p := range []UpsertParams{{Text: ptr("\u200b \x00")}, {Chunks: []UpsertChunk{{Text: "\ufeff"}}}} {
		p.Source.URI = "file:b"
		_, err := b.UpsertChunks(b.ctx, p)
		wantKind(t, err, fault.Invalid, "must not be blank")
	}
}
