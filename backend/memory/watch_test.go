package memory

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/pause"
	"helix/backend/storage"
	"helix/backend/testkit"
)

// vault is a watched folder of notes, and the memory that it is imported to.
type vault struct {
	*bundle
	t   *testing.T
	dir string
	id  WatchParams
}

func newVault(t *testing.T, o Options, notes ...string) *vault {
	t.Helper()
	v := &vault{bundle: newBundle(t, o), t: t, dir: t.TempDir()}
	v.watch.settle = 0
	for _, n := range notes {
		name, text, _ := strings.Cut(n, "=")
		v.write(name, text)
	}
	w := must(v.WatchAdd(v.ctx, WatchAddParams{Path: v.dir}))(t)
	v.id = WatchParams{WatchID: w.WatchID}
	return v
}

func (v *vault) write(name, text string) {
	v.t.Helper()
	file := filepath.Join(v.dir, name)
	if err := cmp.Or(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		v.t.Fatal(err)
	}
}

func (v *vault) remove(name string) {
	v.t.Helper()
	if err := os.RemoveAll(filepath.Join(v.dir, name)); err != nil {
		v.t.Fatal(err)
	}
}

// scan scans the folder until no change is settling and no import is running.
func (v *vault) scan() WatchedFolder {
	v.t.Helper()
	var w WatchedFolder
	until(v.t, "the folder", func() bool {
		settling, err := v.scanFolders(v.t.Context())
		if err != nil {
			v.t.Fatal(err)
		}
		w = v.folder(v.ctx)
		return !settling && w.State != "importing"
	})
	return w
}

func (v *vault) folder(ctx context.Context) WatchedFolder {
	v.t.Helper()
	all := must(v.WatchList(ctx, struct{}{}))(v.t).Folders
	i := slices.IndexFunc(all, func(w WatchedFolder) bool { return w.WatchID == v.id.WatchID })
	if i < 0 {
		v.t.Fatal("the folder is not listed")
	}
	return all[i]
}

// titles returns the titles of the documents, or of those in the trash.
func (v *vault) titles(ctx context.Context, trash bool) string {
	v.t.Helper()
	var out []string
	for _, d := range must(v.ListDocuments(ctx, PageParams{Limit: 200, Trash: trash}))(v.t).Documents {
		out = append(out, d.Title)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (v *vault) want(what string, w WatchedFolder, state, live, trash string) {
	v.t.Helper()
	if got := v.titles(v.ctx, false); w.State != state || got != live {
		v.t.Errorf("%s: %s (%s) with %q; want %s with %q", what, w.State, w.Message, got, state, live)
	}
	if got := v.titles(v.ctx, true); got != trash {
		v.t.Errorf("%s: the trash has %q, want %q", what, got, trash)
	}
}

// TestWatchedFolderFollowsItsNotes edits, adds, renames and deletes notes. Each import reads only
// the changed ones.
func TestWatchedFolderFollowsItsNotes(t *testing.T) {
	t.Parallel()
	v := newVault(t, Options{}, "boiler.md=# Boiler\n\nServiced in March.", "people/Rosa.md=The plumber.", "notes.txt=no Markdown", ".obsidian/x.md=hidden")
	w := v.scan()
	v.want("at first", w, "watching", "Rosa boiler", "")
	if w.Files != 2 || w.Format != "markdown" || !w.Untrusted || w.LastImport == nil || w.LastImport.Added != 2 || w.LastImport.Read != 2 {
		t.Errorf("at first: %+v, %+v", w, w.LastImport)
	}
	first := w.LastImport.JobID
	if w = v.scan(); w.LastImport.JobID != first {
		t.Error("nothing changed, and it was imported again")
	}

	v.write("boiler.md", "# Boiler\n\nServiced in April.")
	v.write("people/Ben.md", "The electrician.")
	w = v.scan()
	v.want("an edit and a new note", w, "watching", "Ben Rosa boiler", "")
	if w.LastImport.Added != 1 || w.LastImport.Updated != 1 || w.LastImport.Read != 2 {
		t.Errorf("an edit and a new note: %+v", w.LastImport)
	}
	if v.finds(t, "april") != 1 || v.finds(t, "march") != 0 {
		t.Error("the edit is not what is found")
	}

	if err := os.Rename(filepath.Join(v.dir, "people/Rosa.md"), filepath.Join(v.dir, "Rosa (plumber).md")); err != nil {
		t.Fatal(err)
	}
	w = v.scan()
	v.want("a renamed note", w, "watching", "Ben Rosa (plumber) boiler", "Rosa")
	if w.Trashed != 1 || w.Files != 3 {
		t.Errorf("a renamed note: %+v", w)
	}

	v.remove("boiler.md")
	v.want("a deleted note", v.scan(), "watching", "Ben Rosa (plumber)", "Rosa boiler")
	if v.finds(t, "april") != 0 {
		t.Error("a deleted note is found")
	}
	v.write("boiler.md", "# Boiler\n\nServiced in April.")
	v.want("a note that is back", v.scan(), "watching", "Ben Rosa (plumber) boiler", "Rosa")
	if v.finds(t, "april") != 1 {
		t.Error("a note that is back is not found")
	}
}

// TestTouchedNotesAreNotImported changes only the modification time of a note.
func TestTouchedNotesAreNotImported(t *testing.T) {
	t.Parallel()
	v := newVault(t, Options{}, "a.md=one", "b.md=two")
	first := v.scan().LastImport.JobID
	file := filepath.Join(v.dir, "a.md")
	st, err := os.Stat(file)
	if err == nil {
		err = os.Chtimes(file, st.ModTime().Add(1e9), st.ModTime().Add(1e9))
	}
	if err != nil {
		t.Fatal(err)
	}
	if w := v.scan(); w.State != "watching" || w.LastImport.JobID != first {
		t.Errorf("a note that was touched: %+v", w)
	}
}

// TestChangesAreImportedOnceTheyHaveSettled writes between two scans.
func TestChangesAreImportedOnceTheyHaveSettled(t *testing.T) {
	t.Parallel()
	v := newVault(t, Options{})
	for _, text := range []string{"o", "on", "one"} {
		v.write("a.md", text)
		if settling := must(v.scanFolders(t.Context()))(t); !settling || v.folder(v.ctx).LastImport != nil {
			t.Fatalf("%q was imported while it was written", text)
		}
	}
	w := v.scan()
	v.want("when it had settled", w, "watching", "a", "")
	if w.LastImport.Added != 1 {
		t.Errorf("%+v", w.LastImport)
	}
}

// TestFolderThatVanishesRemovesNothing unmounts a drive: its mount point is empty or missing.
func TestFolderThatVanishesRemovesNothing(t *testing.T) {
	t.Parallel()
	v := newVault(t, Options{}, "a.md=one", "sub/b.md=two")
	v.scan()
	away := v.dir + ".away"
	if err := os.Rename(v.dir, away); err != nil {
		t.Fatal(err)
	}
	w := v.scan()
	v.want("gone", w, "missing", "a b", "")
	if !strings.Contains(w.Message, "not found") {
		t.Errorf("message %q", w.Message)
	}
	if err := os.Mkdir(v.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	v.want("empty", v.scan(), "missing", "a b", "")
	if err := cmp.Or(os.Remove(v.dir), os.WriteFile(v.dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	v.want("a file", v.scan(), "missing", "a b", "")
	if err := cmp.Or(os.Remove(v.dir), os.Rename(away, v.dir)); err != nil {
		t.Fatal(err)
	}
	v.want("connected again", v.scan(), "watching", "a b", "")
	// The state of the target of a broken link is unknown.
	if err := cmp.Or(os.Remove(filepath.Join(v.dir, "a.md")), os.Symlink("/nowhere", filepath.Join(v.dir, "a.md"))); err != nil {
		t.Fatal(err)
	}
	v.want("a note that can't be read", v.scan(), "watching", "a b", "")
}

// TestNotesThatAPersonDeletedStayInTheTrash edits a note whose document is in the trash.
func TestNotesThatAPersonDeletedStayInTheTrash(t *testing.T) {
	t.Parallel()
	v := newVault(t, Options{}, "a.md=one", "b.md=two")
	v.scan()
	for _, d := range must(v.ListDocuments(v.ctx, PageParams{}))(t).Documents {
		if d.Title == "a" {
			must(v.DeleteDocument(v.ctx, DocumentParams{DocumentID: d.ID}))(t)
		}
	}
	v.write("a.md", "one more")
	v.want("edited", v.scan(), "watching", "b", "a")
	v.remove("a.md")
	v.want("deleted", v.scan(), "watching", "b", "a")
	v.write("a.md", "one more")
	v.want("back", v.scan(), "watching", "b", "a")
}

// TestNoteComesBackAfterItsDocumentWasPurged restores a file after the trash has been emptied.
func TestNoteComesBackAfterItsDocumentWasPurged(t *testing.T) {
	t.Parallel()
	v := newVault(t, Options{}, "a.md=one about herons", "b.md=two")
	v.scan()
	v.remove("a.md")
	v.scan()
	gone := must(v.ListDocuments(v.ctx, PageParams{Trash: true}))(t).Documents
	must(v.Purge(v.ctx, IDsParams{IDs: []string{gone[0].ID.String()}}))(t)
	v.write("a.md", "one about herons")
	v.want("back", v.scan(), "watching", "a b", "")
	if v.finds(t, "herons") != 1 {
		t.Error("it is not found")
	}
}

// TestLongNotesGoAndComeBackAsAWhole uses a note of several documents.
func TestLongNotesGoAndComeBackAsAWhole(t *testing.T) {
	t.Parallel()
	testkit.SkipRaced(t, "one goroutine, and slow under it")
	v := newVault(t, Options{}, "long.md="+strings.Repeat("A line about the garden.\n", 30_000), "long.md#2.md=another note", "long.md.md=and another")
	v.scan()
	all := v.titles(v.ctx, false)
	if n := len(must(v.ListDocuments(v.ctx, PageParams{}))(t).Documents); n != 5 {
		t.Fatalf("%d documents: %s", n, all)
	}
	v.remove("long.md")
	v.want("gone", v.scan(), "watching", "long.md long.md#2", "long long (2) long (3)")
	v.write("long.md", strings.Repeat("A line about the garden.\n", 30_000))
	v.want("back", v.scan(), "watching", all, "")
}

// TestFailedImportIsTriedAgainWithTheNextChange makes an import fail. It is not retried
// automatically, but when the person requests it and when something else changes.
func TestFailedImportIsTriedAgainWithTheNextChange(t *testing.T) {
	t.Parallel()
	v := newVault(t, Options{}, "a.md=one", "b.md=two")
	fail := func() {
		t.Helper()
		v.exec(t, `UPDATE memory_imports SET status = 'failed', counters = json_set(counters, '$.message', 'The disk is gone.')`)
		v.exec(t, `UPDATE watched_folders SET state = 'importing'`)
	}
	first := v.scan().LastImport.JobID
	fail()
	w := v.scan()
	second := w.LastImport.JobID
	if w.State != "watching" || second == first { // retried, because more has changed since
		fail()
		w = v.scan()
	}
	if w = v.scan(); w.State != "failed" || w.Message != "The disk is gone." {
		t.Fatalf("after the failure: %+v", w)
	}
	failed := w.LastImport.JobID
	if w = v.scan(); w.LastImport.JobID != failed {
		t.Error("the same changes were tried again")
	}
	must(v.WatchResume(v.ctx, v.id))(t)
	if w = v.scan(); w.State != "watching" || w.LastImport.JobID == failed || w.LastImport.Skipped != 2 {
		t.Errorf("resumed: %+v, %+v", w, w.LastImport)
	}
	fail()
	v.scan()
	v.write("c.md", "three")
	if w = v.scan(); w.State != "watching" || w.LastImport.Added != 1 {
		t.Errorf("the next change: %+v, %+v", w, w.LastImport)
	}
}

// TestPausedFoldersAreLeftAlone changes notes while the folder, and then all background work, is paused.
func TestPausedFoldersAreLeftAlone(t *testing.T) {
	t.Parallel()
	hold := must(pause.Open("", bus.New()))(t)
	v := newVault(t, Options{Pause: hold}, "a.md=one")
	v.scan()
	if w := must(v.WatchPause(v.ctx, v.id))(t); w.State != "paused" {
		t.Errorf("paused: %+v", w)
	}
	v.remove("a.md")
	v.write("b.md", "two")
	v.want("paused", v.scan(), "paused", "a", "")
	hold.Set(pause.Person, true)
	must(v.WatchResume(v.ctx, v.id))(t)
	w := v.scan()
	v.want("all work paused", w, "paused", "a", "")
	if w.Message == "" {
		t.Error("it doesn't say why")
	}
	hold.Set(pause.Person, false)
	v.want("continued", v.scan(), "watching", "b", "a")
}

// TestFoldersOfTwoUsersAreApart has two people watch the same folder; one of them stops.
func TestFoldersOfTwoUsersAreApart(t *testing.T) {
	t.Parallel()
	v := newVault(t, Options{}, "a.md=one")
	v.scan()
	theirs := must(v.WatchAdd(v.them, WatchAddParams{Path: v.dir, Tags: []string{"theirs"}}))(t)
	for name, call := range map[string]func(context.Context, WatchParams) (WatchedFolder, error){"pause": v.WatchPause, "resume": v.WatchResume, "remove": v.WatchRemove} {
		if _, err := call(v.ctx, WatchParams{WatchID: theirs.WatchID}); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s of somebody else's: %v", name, err)
		}
	}
	until(t, "their import", func() bool {
		v.scan()
		return v.titles(v.them, false) == "a"
	})
	if n := len(must(v.WatchList(v.ctx, struct{}{}))(t).Folders); n != 1 {
		t.Errorf("%d folders are listed", n)
	}
	must(v.WatchRemove(v.ctx, v.id))(t)
	v.id.WatchID = theirs.WatchID
	v.remove("a.md")
	v.write("b.md", "two")
	until(t, "their change", func() bool {
		for settling := true; settling; {
			settling = must(v.scanFolders(t.Context()))(t)
		}
		return v.folder(v.them).State == "watching" && v.titles(v.them, false) == "b"
	})
	if got := v.titles(v.ctx, false); got != "a" {
		t.Errorf("after its folder was removed the first user has %q", got)
	}
}

// TestWatchedImportsSurviveARestart closes the service as soon as an import of a change has started.
func TestWatchedImportsSurviveARestart(t *testing.T) {
	t.Parallel()
	v := newVault(t, Options{}, "a.md=one", "b.md=two")
	for settling := true; settling; {
		settling = must(v.scanFolders(t.Context()))(t)
	}
	v.bundle = v.reopen(t, Options{})
	v.watch.settle = 0
	defer v.running(t)()
	until(t, "the import", func() bool { return v.folder(v.ctx).State == "watching" })
	v.want("after the restart", v.folder(v.ctx), "watching", "a b", "")
}

func TestInvalidWatchedFoldersAreRejected(t *testing.T) {
	t.Parallel()
	v := newVault(t, Options{}, "a.md=one", "sub/b.md=two")
	for name, c := range map[string]struct {
		p    WatchAddParams
		kind fault.Kind
	}{
		"a file":                    {WatchAddParams{Path: filepath.Join(t.TempDir(), "x")}, fault.NotFound},
		"a relative path":           {WatchAddParams{Path: "notes"}, fault.Invalid},
		"no path":                   {WatchAddParams{}, fault.Invalid},
		"a format of conversations": {WatchAddParams{Path: t.TempDir(), Format: "chatgpt"}, fault.Invalid},
		"the same folder":           {WatchAddParams{Path: v.dir + "/"}, fault.Conflict},
		"a folder in it":            {WatchAddParams{Path: filepath.Join(v.dir, "sub")}, fault.Conflict},
		"the folder above":          {WatchAddParams{Path: filepath.Dir(v.dir)}, fault.Conflict},
	} {
		if _, err := v.WatchAdd(v.ctx, c.p); !fault.Is(err, c.kind) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := v.WatchAdd(v.ctx, WatchAddParams{Path: filepath.Join(v.dir, "a.md")}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a note: %v", err)
	}
}

// TestWatchedFoldersAreAudited adds a folder, imports it and removes it.
func TestWatchedFoldersAreAudited(t *testing.T) {
	t.Parallel()
	var got []string
	v := newVault(t, Options{Audit: func(_ *storage.Tx, e audit.Entry) error {
		got = append(got, e.Action)
		return nil
	}}, "a.md=one")
	v.scan()
	must(v.WatchRemove(v.ctx, v.id))(t)
	if want := []string{"memory.watch_added", "import.completed", "memory.watch_removed"}; !slices.Equal(got, want) {
		t.Errorf("audited %q, want %q", got, want)
	}
	if n := must(v.Imports(v.ctx, PageParams{}))(t).Total; n != 0 {
		t.Errorf("%d imports of a watched folder are among those that a person started", n)
	}
}
