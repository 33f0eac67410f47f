package memory

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"helix/backend/fault"
	"helix/backend/memory/search"
	"helix/backend/storage"
)

// exported returns the content of an export.
func (b *bundle) exported(t testing.TB, p ExportParams) (string, ExportResult) {
	t.Helper()
	r := must(b.Export(b.ctx, p))(t)
	sum, err := hex.DecodeString(r.BlobID)
	if err != nil {
		t.Fatal(err)
	}
	f := must(b.db.Blobs().Open(storage.Ref{SHA256: [32]byte(sum), Size: r.Size}))(t)
	defer f.Close()
	text := must(io.ReadAll(f))(t)
	if int64(len(text)) != r.Size {
		t.Errorf("%d bytes, said %d", len(text), r.Size)
	}
	return string(text), r
}

func TestExport(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	m := must(b.Add(b.ctx, AddParams{Content: "a memory\nof two lines", Tags: []string{"x y"}, Layer: ptr(3), Metadata: json.RawMessage(`{"title":"The title"}`)}))(t).Item
	b.conversation(t, "c", "D1:1", "hello there", "D1:2", "good day")
	long := strings.Repeat("One sentence of the document stands here. ", 60)
	must(b.UpsertChunks(b.ctx, UpsertParams{Source: UpsertSource{URI: "file:///doc.txt", Title: "Doc"}, Text: &long}))(t)
	gone := b.add(t, "gone")
	must(b.Delete(b.ctx, IDsParams{IDs: []string{gone.ID.String()}}))(t)
	must(b.Add(b.them, AddParams{Content: "theirs"}))(t)

	text, r := b.exported(t, ExportParams{})
	kinds := map[string]int{}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		var l exportLine
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		kinds[l.Kind]++
		if l.Kind == KindMemory && (l.ID != m.ID || l.Content != m.Content || l.Layer != 3 || l.Title != "The title") {
			t.Errorf("%+v", l)
		}
		if l.Kind == KindTurn && (l.ParentID == nil || l.Seq == nil || l.TurnID == "" || l.Speaker != "Ann" || l.OccurredAt == nil) {
			t.Errorf("%+v", l)
		}
	}
	if kinds[KindMemory] != 1 || kinds[KindTurn] != 2 || kinds[KindChunk] < 2 || r.Items != int64(3+kinds[KindChunk]) || strings.Contains(text, "theirs") || strings.Contains(text, "gone") {
		t.Errorf("%v, %+v", kinds, r)
	}

	text, _ = b.exported(t, ExportParams{Format: "markdown"})
	for _, part := range []string{"## The title\n\n*episodic · manual · #x-y*\n\na memory\nof two lines", "## A talk", "**Ann** (2023-05-08T13:56:00Z): hello there", "## Doc"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
	if n := strings.Count(text, "One sentence of the document stands here."); n != 60 {
		t.Errorf("the document has %d sentences, want 60", n)
	}

	if _, r := b.exported(t, ExportParams{Filters: &search.Filters{Kinds: []string{KindTurn}, TagsAny: []string{"CHAT"}}}); r.Items != 2 {
		t.Errorf("%d turns", r.Items)
	}
	if _, r := b.exported(t, ExportParams{Filters: &search.Filters{TagsAll: []string{"x y"}}}); r.Items != 1 {
		t.Errorf("%d items with the tag", r.Items)
	}
	if text, r := b.exported(t, ExportParams{Filters: &search.Filters{Types: []string{"procedural"}}}); r.Items != 0 || text != "" {
		t.Errorf("%d items", r.Items)
	}
	for _, p := range []ExportParams{{Format: "pdf"}, {Filters: &search.Filters{Types: []string{"dream"}}}} {
		if _, err := b.Export(b.ctx, p); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	// An export can be imported.
	text, _ = b.exported(t, ExportParams{Filters: &search.Filters{Kinds: []string{KindMemory}}})
	ref := must(b.db.Blobs().PutBytes(b.ctx, []byte(text)))(t)
	if p := must(b.ImportPreview(b.ctx, ImportParams{BlobID: ref.String()}))(t); p.Format != "jsonl" || p.Items != 1 || len(p.Warnings) != 0 {
		t.Errorf("as an import it is %+v", p)
	}
}

// TestMarkdownExportHasNothingTwice exports a document with overlapping parts and
// characters of every length.
func TestMarkdownExportHasNothingTwice(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	var text strings.Builder
	for i := range 60 {
		fmt.Fprintf(&text, "Satz %02d über größere Häuser 🏠 und 日本 steht hier. ", i)
	}
	must(b.UpsertChunks(b.ctx, UpsertParams{Source: UpsertSource{URI: "file:///doc.txt", Title: "Doc"}, Text: ptr(text.String())}))(t)
	out, r := b.exported(t, ExportParams{Format: "markdown"})
	for i := range 60 {
		if n := strings.Count(out, fmt.Sprintf("Satz %02d ", i)); n != 1 {
			t.Errorf("sentence %d is there %d times in %d parts", i, n, r.Items)
		}
	}
}

// TestExportComesBack imports an export where it was made, which changes nothing, and into another
// store, whose export is then equal.
func TestExportComesBack(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	when := time.Date(2024, 3, 9, 8, 7, 6, 0, time.UTC)
	must(b.Add(b.ctx, AddParams{Content: "a memory\nof two lines 🍆", Tags: []string{"x y"}, Layer: ptr(3), Type: "semantic", Pinned: true, SalienceTier: "low",
		OccurredAt: &when, Metadata: json.RawMessage(`{"title":"The title"}`)}))(t)
	must(b.Add(b.ctx, AddParams{Content: "of the greatest weight", SalienceTier: "critical"}))(t)
	b.imported(t, ImportParams{Path: must(filepath.Abs(filepath.Join("importer", "testdata", "chatgpt.json")))(t), Tags: []string{"old"}, Layer: 2})
	b.conversation(t, "c", "D1:1", "hello there", "D1:2", "good day")
	long := "# Häuser\n\n" + strings.Repeat("Ein Satz über Häuser 🏠 steht hier. ", 90) + "\n\n## Gärten\n\n" + strings.Repeat("Und einer über Gärten. ", 40)
	must(b.UpsertChunks(b.ctx, UpsertParams{Source: UpsertSource{URI: "file:///doc.md", Title: "Doc", Mime: "text/markdown"}, Text: &long, Tags: []string{"green"}}))(t)
	text, r := b.exported(t, ExportParams{})
	path := writeFile(t, t.TempDir(), "export.jsonl", text)

	before := must(b.Stats(b.ctx, struct{}{}))(t)
	if st := b.imported(t, ImportParams{Path: path}); st.Added != 0 || st.Updated != 0 || st.Failed != 0 || st.Skipped == 0 {
		t.Errorf("where it was made: %+v", st)
	}
	if again, _ := b.exported(t, ExportParams{}); again != text {
		t.Error("the import changed the store that was exported")
	}
	if after := must(b.Stats(b.ctx, struct{}{}))(t); marshal(t, after.ByType) != marshal(t, before.ByType) {
		t.Errorf("%v, before %v", after.ByType, before.ByType)
	}

	newer := "The house was sold."
	must(b.UpsertChunks(b.ctx, UpsertParams{Source: UpsertSource{URI: "file:///doc.md"}, Text: &newer}))(t)
	changed, _ := b.exported(t, ExportParams{})
	b.imported(t, ImportParams{Path: path})
	if still, _ := b.exported(t, ExportParams{}); still != changed || !strings.Contains(still, newer) {
		t.Error("an older export replaced what is newer")
	}

	other := newBundle(t, Options{})
	first := other.imported(t, ImportParams{Path: path})
	if first.Status != "completed" || first.Failed != 0 || first.Updated != 0 || first.Skipped != 0 {
		t.Fatalf("another store: %+v", first)
	}
	if st := other.imported(t, ImportParams{Path: path}); st.Added != 0 || st.Updated != 0 || st.Skipped != first.Added {
		t.Errorf("a second time: %+v, first %+v", st, first)
	}
	back, r2 := other.exported(t, ExportParams{})
	if r.Items != r2.Items {
		t.Errorf("%d items came back of %d", r2.Items, r.Items)
	}
	if x, y := comparable(t, text), comparable(t, back); x != y {
		t.Errorf("exported\n%s\nand came back\n%s", x, y)
	}
}

// comparable returns an export without the fields that another store sets anew: ids, storage times,
// trust, and the origin of memories. Critical becomes high.
func comparable(t testing.TB, text string) string {
	t.Helper()
	var out []string
	for line := range strings.Lines(text) {
		var l map[string]any
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"id", "createdAt", "parentId", "untrusted"} {
			delete(l, key)
		}
		if l["kind"] == KindMemory {
			delete(l, "source")
			delete(l, "sourceRef")
			if l["salienceTier"] == "critical" {
				l["salienceTier"] = "high"
			}
			if m, ok := l["metadata"].(map[string]any); ok {
				if delete(m, "imported"); len(m) == 0 {
					delete(l, "metadata")
				}
			}
		}
		out = append(out, marshal(t, l))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// TestOffsetsOfEvidence checks that the offsets select the quoted text.
func TestOffsetsOfEvidence(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Options{})
	text := "🍆 été aubergine"
	b.add(t, text)
	r := must(b.Search(b.ctx, search.Params{Query: "aubergine"}))(t)
	if len(r.Results) != 1 || *r.Results[0].Evidence[0].StartOffset != 0 || *r.Results[0].Evidence[0].EndOffset != 16 {
		t.Errorf("%s", marshal(t, r.Results))
	}
}
