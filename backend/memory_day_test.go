package backend

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helix/backend/fault"
	"helix/backend/gateway"
	"helix/backend/memory"
	"helix/backend/memory/search"
	"helix/backend/storage"
)

// overSocket returns a pipe that calls the memory methods over a socket.
func overSocket(t *testing.T, b *Backend) *memoryPipe {
	t.Helper()
	return &memoryPipe{Backend: b, t: t, name: "socket", do: b.session(t).try, called: map[string]bool{}}
}

var dayTurns = []string{
	"We had dinner at the Blue Heron before we moved to Lisbon, it was the best fish I ever ate.",
	"That sounds lovely. Do you want to remember what you ordered?",
	"The sea bass with fennel. And the waiter was called Anselmo.",
	"Noted: sea bass with fennel, served by Anselmo.",
	"My sister starts her new job at the hospital on Monday.",
	"I hope her first week as a nurse goes well.",
}

// meaning searches by meaning only, with words that are not in the text.
func (p *memoryPipe) meaning(query string) []search.Hit {
	p.t.Helper()
	var r search.Result
	p.call("memory.search", search.Params{Query: query, Mode: "vector", Limit: 3}, &r)
	if r.Degraded != "" {
		p.t.Errorf("search by meaning is %s", r.Degraded)
	}
	return r.Results
}

func has(hits []search.Hit, text string) bool {
	return slices.ContainsFunc(hits, func(h search.Hit) bool { return strings.Contains(h.Snippet, text) })
}

// A day with memory: a history is imported, found with other words, corrected, and is complete
// after a restart, after the loss of the vector files, and in a restored backup.
func TestMemoryDayOfUse(t *testing.T) {
	t.Parallel()
	o := testOptions(t.TempDir())
	backup := filepath.Join(t.TempDir(), "day.zip")
	var note memory.Item
	var meaning bool
	corrected := "Dentist appointment moved to Thursday at nine."
	t.Run("first day", func(t *testing.T) {
		p := overSocket(t, startWith(t, o))
		if st := p.importFile(memory.ImportParams{Path: talk(t, "Before the move", dayTurns...), Tags: []string{"chats"}}); st.Added != int64(len(dayTurns)) {
			t.Fatalf("import: %+v", st)
		}
		if hits := p.search("memory.search", "fennel bass"); !has(hits, "sea bass with fennel") {
			t.Errorf("by words: %q", snippets(hits))
		}
		if meaning = p.embedded(); meaning {
			if hits := p.meaning("which restaurant did we like"); !has(hits, "Blue Heron") {
				t.Errorf("by meaning: %q", snippets(hits))
			}
		} else {
			t.Log("this build has no sentence encoder: run make models")
		}
		var made memory.AddResult
		p.call("memory.add", memory.AddParams{Content: "Dentist appointment on Wednesday at nine."}, &made)
		p.call("memory.update", memory.UpdateParams{ID: made.Item.ID.String(), Version: made.Item.Version, Content: &corrected}, &note)
		p.embedded()
		p.call("storage.backup", storage.BackupParams{Path: backup}, nil)
		var n memory.CountResult
		p.call("memory.delete", memory.IDsParams{IDs: []string{note.ID.String()}}, &n)
	})
	z, err := zip.OpenReader(backup)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range z.File {
		if strings.Contains(f.Name, "vector") {
			t.Errorf("the backup holds %s, which can be made again", f.Name)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	t.Run("second day", func(t *testing.T) {
		p := overSocket(t, startWith(t, o))
		if hits := p.search("memory.search", "dentist"); has(hits, "Dentist") {
			t.Errorf("what was deleted is found after a restart: %q", snippets(hits))
		}
		if meaning {
			var st memory.EmbeddingStatus
			if p.call("memory.embedding_status", none{}, &st); st.Queued != 0 || st.Ready < int64(len(dayTurns)) {
				t.Errorf("vectors were lost: %+v", st)
			}
			if hits := p.meaning("a relative begins to work as a nurse"); !has(hits, "sister") && !has(hits, "nurse") {
				t.Errorf("by meaning: %q", snippets(hits))
			}
		}
	})
	if err := os.RemoveAll(filepath.Join(o.DataDir, "data", "vectors")); err != nil {
		t.Fatal(err)
	}
	t.Run("without vector files", func(t *testing.T) {
		p := overSocket(t, startWith(t, o))
		if meaning && p.embedded() {
			if hits := p.meaning("which restaurant did we like"); !has(hits, "Blue Heron") {
				t.Errorf("by meaning: %q", snippets(hits))
			}
		}
		(&remote{t, p.session(t).c}).whenFree("storage.restore", storage.RestoreParams{Path: backup})
		p.do = p.session(t).try
		var item memory.Item
		if p.call("memory.get", memory.GetParams{ID: note.ID.String()}, &item); item.Content != corrected || item.Version != note.Version {
			t.Errorf("after the restore: %+v", item)
		}
		if hits := p.search("memory.search", "dentist thursday"); !has(hits, corrected) {
			t.Errorf("after the restore, by words: %q", snippets(hits))
		}
		if meaning && p.embedded() {
			if hits := p.meaning("visit to get my teeth checked"); !has(hits, corrected) {
				t.Errorf("after the restore, by meaning: %q", snippets(hits))
			}
		}
	})
}

// An import from an export of another installation can be found like anything else.
func TestMemoryFromAnExport(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "export")
	p := overSocket(t, start(t))
	p.importFile(memory.ImportParams{Path: talk(t, "Before the move", dayTurns...)})
	text := "# Bees\n\nThe hives stand behind the orchard.\n"
	p.call("memory.upsert_chunks", memory.UpsertParams{Source: memory.UpsertSource{URI: "note:bees", Title: "Bees"}, Text: &text}, nil)
	p.call("memory.add", memory.AddParams{Content: "The bee suit hangs in the cellar."}, nil)
	(&remote{t, p.session(t).c}).whenFree("storage.export", storage.ExportParams{Dir: dir})
	p = overSocket(t, start(t))
	p.search("memory.search", "hives")
	(&remote{t, p.session(t).c}).whenFree("storage.import", storage.ImportParams{Dir: dir})
	for query, want := range map[string]string{"hives orchard": "The hives stand", "bee suit": "in the cellar", "fennel bass": "sea bass with fennel"} {
		if hits := p.search("memory.search", query); !has(hits, want) {
			t.Errorf("%s: %q", query, snippets(hits))
		}
	}
	if p.embedded() {
		if hits := p.meaning("which restaurant did we like"); !has(hits, "Blue Heron") {
			t.Errorf("by meaning: %q", snippets(hits))
		}
	}
}

// Another program with fewer permissions than the person cannot import files.
func TestMemoryImportPaths(t *testing.T) {
	t.Parallel()
	b := start(t)
	file := talk(t, "Private", "The door code is 4711.")
	var made gateway.NewToken
	b.session(t).call("tokens.create", gateway.TokenParams{Name: "helper", Scopes: []string{"read", "write"}}, &made)
	c, err := gateway.Dial(t.Context(), gateway.ClientOptions{URL: b.Gateway.URL(), Token: made.Token, Scopes: []string{"read", "write"}, Client: gateway.ClientInfo{ID: "helper"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	helper := &remote{t, c}
	for _, method := range []string{"memory.import", "memory.import_preview"} {
		for _, path := range []string{file, filepath.Dir(file), "/etc/passwd", "pick:0000", "pick:" + strings.Repeat("0", 32) + "/../x"} {
			if err := helper.try(method, memory.ImportParams{Path: path}, nil); !fault.Is(err, fault.Denied) {
				t.Errorf("%s of %s: %v", method, path, err)
			}
		}
	}
	helper.call("memory.add", memory.AddParams{Content: "A text of its own."}, nil)
	// Nor can it declare that its texts are the person's own.
	own := false
	for _, method := range []string{"memory.import", "memory.import_preview"} {
		if err := helper.try(method, memory.ImportParams{BlobID: strings.Repeat("0", 64), Untrusted: &own}, nil); !fault.Is(err, fault.Denied) {
			t.Errorf("%s of trusted text: %v", method, err)
		}
	}
	if err := helper.try("memory.set_untrusted", memory.TrustParams{Source: "manual"}, nil); !fault.Is(err, fault.Denied) {
		t.Errorf("memory.set_untrusted: %v", err)
	}
	if err := b.session(t).try("memory.import", memory.ImportParams{Path: "relative.json"}, nil); !fault.Is(err, fault.Invalid) {
		t.Errorf("a relative path: %v", err)
	}
}

// Remembered texts are in the database and in files that the person requested, and nowhere else: no
// log, no audit entry and no vector file contains a word.
func TestMemoryTextStaysInTheDatabase(t *testing.T) {
	t.Parallel()
	a := attack(t)
	const word = "Quittenbrotrezept"
	p := overSocket(t, a.Backend)
	file := talk(t, "About "+word, "Where is the "+word+"?", "In the drawer with the "+word+".")
	if st := p.importFile(memory.ImportParams{Path: file}); st.Added != 2 {
		t.Fatalf("import: %+v", st)
	}
	broken := filepath.Join(t.TempDir(), "broken.jsonl")
	lines := `{"content":"` + word + ` one"}` + "\n" + `{"content":["` + word + `"],` + "\n" + word + "\n" + `{"content":"` + word + ` two","layer":99}` + "\n"
	if err := os.WriteFile(broken, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	p.importFile(memory.ImportParams{Path: broken, Format: "jsonl"})
	var made memory.AddResult
	p.call("memory.add", memory.AddParams{Content: "The " + word + " is from my grandmother.", Tags: []string{strings.ToLower(word)}}, &made)
	text := "The " + word + " was my grandmother's."
	p.call("memory.update", memory.UpdateParams{ID: made.Item.ID.String(), Version: made.Item.Version, Content: &text}, nil)
	for _, query := range []string{word, `"` + word + `" AND (`, word + " \x00 NEAR/"} {
		p.search("memory.search", query)
	}
	for _, bad := range []memory.AddParams{{Content: word, Type: word}, {Content: strings.Repeat(word+" ", 8000)}, {Content: word, Tags: []string{strings.Repeat(word, 20)}}} {
		if err := p.do("memory.add", bad, nil); err == nil {
			t.Error("a bad memory was taken")
		}
	}
	p.embedded()
	var n memory.CountResult
	p.call("memory.delete", memory.IDsParams{IDs: []string{made.Item.ID.String()}}, &n)
	p.call("memory.undo", memory.UndoParams{UndoToken: n.UndoToken}, &n)
	a.log.Info("a line of the log")
	logs := 0
	err := filepath.WalkDir(a.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), "helix.db") {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		content, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		if strings.HasSuffix(d.Name(), ".log") {
			logs++
		}
		if bytes.Contains(bytes.ToLower(content), []byte(strings.ToLower(word))) {
			t.Errorf("%s holds a remembered word", strings.TrimPrefix(path, a.dir))
		}
		return nil
	})
	if err != nil || logs == 0 {
		t.Errorf("%d logs were read, %v", logs, err)
	}
	for _, method := range []string{"audit.list", "system.status", "services.list", "config.get"} {
		params := map[string]any{}
		if method == "audit.list" {
			params["limit"] = 100
		}
		var r any
		p.call(method, params, &r)
		if bytes.Contains(bytes.ToLower(raw(t, r)), []byte(strings.ToLower(word))) {
			t.Errorf("%s tells a remembered word", method)
		}
	}
}
