package memory

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helix/backend/storage"
	"helix/backend/storage/storagetest"
)

// privateBundle is a bundle over a database in dir.
func privateBundle(t *testing.T, dir string, root storage.Root, private bool) *bundle {
	t.Helper()
	db := storagetest.OpenAt(t, filepath.Join(dir, "helix.db"), root)
	b := &bundle{Service: New(db, Options{Private: private}), db: db, ctx: storagetest.Ctx(t, db)}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func (b *bundle) shut(t *testing.T) {
	t.Helper()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.db.Close(); err != nil {
		t.Fatal(err)
	}
}

// filesWith are the files below dir that hold a word.
func filesWith(t *testing.T, dir, word string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(bytes.ToLower(b), []byte(word)) {
			found = append(found, filepath.Base(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// lifeOf does with a text whatever stores texts, and gives its memory.
func (b *bundle) lifeOf(t *testing.T, word string) Item {
	t.Helper()
	m := b.add(t, "first the "+word+" of a memory", "tag")
	u := must(b.Update(b.ctx, UpdateParams{ID: m.ID.String(), Version: 1, Content: ptr("then the " + word + " of an edit")}))(t)
	gone := b.add(t, "a "+word+" in the trash")
	must(b.Delete(b.ctx, IDsParams{IDs: []string{gone.ID.String()}}))(t)
	b.conversation(t, "c "+fmt.Sprint(b.o.Private), "D1:1", "we talked of the "+word)
	must(b.UpsertChunks(b.ctx, UpsertParams{Source: UpsertSource{URI: "file:x", Title: "x"}, Text: ptr("A document on the " + word + " too.")}))(t)
	b.recall(t, u.Item)
	if err := b.LogShown(b.ctx, "s", "prompt", "never speak of the "+word+" to anybody"); err != nil {
		t.Fatal(err)
	}
	return u.Item
}

// wholeOf checks that all that lifeOf did is there and readable.
func (b *bundle) wholeOf(t *testing.T, m Item, word string) {
	t.Helper()
	if got := b.get(t, m.ID); got.Content != "then the "+word+" of an edit" {
		t.Errorf("the memory says %q", got.Content)
	}
	if h := must(b.History(b.ctx, HistoryParams{ID: m.ID.String()}))(t); len(h.Revisions) != 1 || h.Revisions[0].Content != "first the "+word+" of a memory" {
		t.Errorf("history %+v", h)
	}
	if l := must(b.List(b.ctx, ListParams{Trash: true}))(t); l.Total != 1 || l.Items[0].Content != "a "+word+" in the trash" {
		t.Errorf("trash %+v", l)
	}
	c := must(b.Conversations(b.ctx, PageParams{}))(t).Conversations[0]
	if r := must(b.Conversation(b.ctx, ConversationParams{ID: c.ID}))(t); r.Turns[0].Text != "we talked of the "+word {
		t.Errorf("turn %+v", r.Turns)
	}
	d := must(b.ListDocuments(b.ctx, PageParams{}))(t).Documents[0]
	if r := must(b.Document(b.ctx, DocumentViewParams{ID: d.ID}))(t); r.Chunks[0].Text != "A document on the "+word+" too." {
		t.Errorf("chunk %+v", r.Chunks)
	}
	if r := b.agentAdd(t, "Never speak of the "+word); !r.Deduplicated {
		t.Error("the recall is forgotten")
	}
	if r := must(b.Search(b.ctx, SearchParams{Query: word}))(t); len(r.Results) != 3 {
		t.Errorf("search finds %d things", len(r.Results))
	}
	if text, _ := b.exported(t, ExportParams{}); strings.Count(text, word) != 3 {
		t.Errorf("the export has the word %d times", strings.Count(text, word))
	}
}

// TestPrivateTextsAreSealed looks for a word of all kinds of texts in all files, while they are
// in use and after the end.
func TestPrivateTextsAreSealed(t *testing.T) {
	t.Parallel()
	const word = "quetzalcoatlus"
	dir, root := t.TempDir(), storagetest.NewRoot()
	storagetest.Blank(t, filepath.Join(dir, "helix.db"))
	b := privateBundle(t, dir, root, true)
	m := b.lifeOf(t, word)
	if found := filesWith(t, dir, word); len(found) > 0 {
		t.Errorf("the word is in %v", found)
	}
	b.shut(t)
	if found := filesWith(t, dir, word); len(found) > 0 {
		t.Errorf("after the end the word is in %v", found)
	}
	b = privateBundle(t, dir, root, true)
	b.wholeOf(t, m, word)
	if _, err := b.db.Keys().Rotate(b.ctx, struct{}{}); err != nil {
		t.Fatal(err)
	}
	b.wholeOf(t, m, word)
}

// TestPrivateStorageIsSwitched turns private storage on for texts that are there, and off again.
func TestPrivateStorageIsSwitched(t *testing.T) {
	t.Parallel()
	const word = "archaeopteryx"
	dir, root := t.TempDir(), storagetest.NewRoot()
	storagetest.Blank(t, filepath.Join(dir, "helix.db"))
	b := privateBundle(t, dir, root, false)
	m := b.lifeOf(t, word)
	for i := range 2*sealedBatch + 7 {
		b.add(t, fmt.Sprint("filler ", i))
	}
	log := b.count(t, `SELECT max(seq) FROM change_log`)
	b.shut(t)
	forms := func(typ string) (n int64) {
		for _, c := range storage.Sealed {
			if c.Private {
				n += b.count(t, fmt.Sprintf(`SELECT count(*) FROM %s WHERE typeof(%s) = ? AND %s <> ''`, c.Table, c.Column, c.Column), typ)
			}
		}
		return n
	}
	for _, private := range []bool{true, false, true} {
		b = privateBundle(t, dir, root, private)
		b.wholeOf(t, m, word) // before it is done
		if err := b.sealAll(b.ctx); err != nil {
			t.Fatal(err)
		}
		plain, sealed := forms("text"), forms("blob")
		if private && plain != 0 || !private && sealed != 0 || plain+sealed < 2*sealedBatch {
			t.Errorf("private %v: %d texts are plain and %d are sealed", private, plain, sealed)
		}
		b.wholeOf(t, m, word)
		if n := b.count(t, `SELECT max(seq) FROM change_log`); n != log {
			t.Errorf("private %v: %d changes were captured", private, n-log)
		}
		b.shut(t)
	}
}
