package memory

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"helix/backend/fault"
	"helix/backend/storage"
)

// exported reads the blob of an export.
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

	if _, r := b.exported(t, ExportParams{Filters: &Filters{Kinds: []string{KindTurn}, TagsAny: []string{"CHAT"}}}); r.Items != 2 {
		t.Errorf("%d turns", r.Items)
	}
	if _, r := b.exported(t, ExportParams{Filters: &Filters{TagsAll: []string{"x y"}}}); r.Items != 1 {
		t.Errorf("%d items with the tag", r.Items)
	}
	if text, r := b.exported(t, ExportParams{Filters: &Filters{Types: []string{"procedural"}}}); r.Items != 0 || text != "" {
		t.Errorf("%d items", r.Items)
	}
	for _, p := range []ExportParams{{Format: "pdf"}, {Filters: &Filters{Types: []string{"dream"}}}} {
		if _, err := b.Export(b.ctx, p); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	// An export can be imported again.
	text, _ = b.exported(t, ExportParams{Filters: &Filters{Kinds: []string{KindMemory}}})
	ref := must(b.db.Blobs().PutBytes(b.ctx, []byte(text)))(t)
	if p := must(b.ImportPreview(b.ctx, ImportParams{BlobID: ref.String()}))(t); p.Format != "jsonl" || p.Items != 1 || len(p.Warnings) != 0 {
		t.Errorf("as an import it is %+v", p)
	}
}

// TestMarkdownExportHasNothingTwice exports a document whose parts overlap, with characters of
// every length.
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
