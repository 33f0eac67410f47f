package memory

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/memory/search"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

// privateBundle returns a bundle with a database in dir.
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

// filesWith returns the files below dir that contain a word.
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

// lifeOf stores a text in every way that stores texts, and returns its memory.
func (b *bundle) lifeOf(t *testing.T, word string) Item {
	t.Helper()
	m := b.add(t, "first the "+word+" of a memory", "tag")
	u := must(b.Update(b.ctx, UpdateParams{ID: m.ID.String(), Version: 1, Content: ptr("then the " + word + " of an edit")}))(t)
	gone := b.add(t, "a "+word+" in the trash")
	must(b.Delete(b.ctx, IDsParams{IDs: []string{gone.ID.String()}}))(t)
	b.conversation(t, "c "+fmt.Sprint(b.o.Private), "D1:1", "we talked of the "+word)
	must(b.UpsertChunks(b.ctx, UpsertParams{Source: UpsertSource{URI: "file:x", Title: "x"}, Text: ptr("A document on the " + word + " too.")}))(t)
	b.recall(t, u.Item)
	b.shown(t, ShownPrompt, "never speak of the "+word+" to anybody")
	return u.Item
}

// databaseWith returns the files of the database that contain a word.
func databaseWith(t *testing.T, dir, word string) []string {
	t.Helper()
	return slices.DeleteFunc(filesWith(t, dir, word), func(name string) bool { return !strings.HasPrefix(name, "helix.db") })
}

// former leaves a word in deleted texts: purged, replaced by a shorter or a longer one, and so long
// that they had pages of their own.
func (b *bundle) former(t *testing.T, word string) {
	t.Helper()
	for i := range 12 {
		text := strings.Repeat(fmt.Sprint("the ", word, " ", i, " "), 1+i%3*300)
		gone := b.add(t, text)
		must(b.Delete(b.ctx, IDsParams{IDs: []string{gone.ID.String()}}))(t)
		must(b.Purge(b.ctx, IDsParams{IDs: []string{gone.ID.String()}}))(t)
		for _, text := range []string{text + "again", "short"} {
			must(b.UpsertChunks(b.ctx, UpsertParams{Source: UpsertSource{URI: fmt.Sprint("file:", i), Title: "x"}, Text: ptr(text)}))(t)
		}
		b.conversation(t, fmt.Sprint("of ", i), "D1:1", text)
	}
	if err := b.db.Write(b.ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE conversation_turns SET content = 'short'`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// wholeOf checks that everything stored by lifeOf exists and is readable.
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
	if r := must(b.Search(b.ctx, search.Params{Query: word}))(t); len(r.Results) != 3 {
		t.Errorf("search finds %d things", len(r.Results))
	}
	if text, _ := b.exported(t, ExportParams{}); strings.Count(text, word) != 3 {
		t.Errorf("the export has the word %d times", strings.Count(text, word))
	}
}

// TestPrivateTextsAreSealed searches all files for a word in all kinds of texts, while they are in
// use and after closing.
func TestPrivateTextsAreSealed(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
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

// TestPrivateStorageIsSwitched enables private storage for existing texts, and disables it again.
func TestPrivateStorageIsSwitched(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	const word = "archaeopteryx"
	dir, root := t.TempDir(), storagetest.NewRoot()
	storagetest.Blank(t, filepath.Join(dir, "helix.db"))
	b := privateBundle(t, dir, root, false)
	if err := b.sealAll(b.ctx); err != nil { // nothing to do, as at each start
		t.Fatal(err)
	}
	b.former(t, "pterodactyl")
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
		b.wholeOf(t, m, word) // before the conversion
		if err := b.sealAll(b.ctx); err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{word, "pterodactyl"} {
			if found := databaseWith(t, dir, word); private && len(found) > 0 {
				t.Errorf("%s is in %v", word, found)
			}
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

// TestAnotherDatabaseIsSealed replaces the database by one with plain texts while texts are sealed.
func TestAnotherDatabaseIsSealed(t *testing.T) {
	t.Parallel()
	dir, root := t.TempDir(), storagetest.NewRoot()
	storagetest.Blank(t, filepath.Join(dir, "helix.db"))
	b := privateBundle(t, dir, root, true)
	m := b.add(t, "a text of this database")
	ctx, stop := context.WithCancel(b.ctx)
	var wg sync.WaitGroup
	wg.Go(func() { _ = b.runSealing(ctx) })
	defer wg.Wait()
	defer stop()
	sealed := func() bool {
		return b.count(t, `SELECT count(*) FROM meta WHERE key = ? AND value = 'true'`, sealedMark) == 1
	}
	until(t, "the first look", sealed)
	if err := b.db.Write(b.ctx, func(tx *storage.Tx) error {
		if _, err := tx.Exec(`DELETE FROM meta WHERE key = ?`, sealedMark); err != nil {
			return err
		}
		_, err := tx.Exec(`UPDATE memories SET content = 'a text of another' WHERE id = ?`, m.ID)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	bus.Publish(b.bus(t), uuid.Nil, storage.Replaced{})
	until(t, "the texts of the other database", sealed)
	if n := b.count(t, `SELECT count(*) FROM memories WHERE typeof(content) = 'text'`); n != 0 || b.get(t, m.ID).Content != "a text of another" {
		t.Errorf("%d texts are plain; the memory says %q", n, b.get(t, m.ID).Content)
	}
}
