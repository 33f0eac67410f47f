package tools

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"helix/backend/lifecycle"
	"helix/backend/storage"
	"helix/backend/testkit"
)

// TestFolderExchangedWhileReading repeatedly replaces a granted folder by a link to another one
// while a tool reads in it: the tool gets the folder's file or a refusal.
func TestFolderExchangedWhileReading(t *testing.T) {
	t.Parallel()
	testkit.SkipRaced(t, "one goroutine, and slow under it")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(dir, "own")
	b := setup(t, func(o *Options) { o.Own = []string{own} })
	notes, sub, aside, out := filepath.Join(dir, "notes"), filepath.Join(dir, "notes", "sub"), filepath.Join(dir, "notes", "aside"), filepath.Join(dir, "notes", "out")
	for d, text := range map[string]string{sub: "inside", own: "outside"} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, "a.txt"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(own, out); err != nil {
		t.Skip("no symbolic links here")
	}
	tool := b.create(t, CreateParams{Capabilities: []string{"filesystem:read(" + notes + "/**)"}, Code: `
		const seen = {};
		const begun = Date.now();
		for (let i = 0; i < 300 && Date.now() < begun + 10000; i++) { // a busy machine does fewer
			let what;
			try { what = await helix.fs.readText(params.p); } catch (e) { what = "refused"; }
			seen[what] = (seen[what] || 0) + 1;
		}
		return seen;`})
	params := string(lifecycle.Text(map[string]any{"p": filepath.Join(sub, "a.txt")}))
	b.run(t, tool, params) // asks for the one file
	b.allow(t, tool, "always")
	if err := b.db.Write(b.ctx, func(tx *storage.Tx) error { // as if the person had allowed the folder
		_, err := tx.Exec(`UPDATE capability_grants SET resource = ?`, notes+"/**")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if r := b.run(t, tool, params); !strings.Contains(string(r.Output), "inside") {
		t.Fatalf("%s %s", r.Output, r.Error)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			for _, move := range [][2]string{{sub, aside}, {out, sub}, {sub, out}, {aside, sub}} {
				if err := os.Rename(move[0], move[1]); err != nil {
					t.Error(err)
					return
				}
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	r := b.run(t, tool, params)
	close(stop)
	wg.Wait()
	if !r.Success || strings.Contains(string(r.Output), "outside") {
		t.Fatalf("%s %s", r.Output, r.Error)
	}
	t.Log(string(r.Output))
}

// TestOneTimeGrantOpensExactlyTheFile reads with a one-time grant: it is used up without another
// decision, and the file must be opened as carefully.
func TestOneTimeGrantOpensExactlyTheFile(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(dir, "own")
	b := setup(t, func(o *Options) { o.Own = []string{own} })
	file, key := filepath.Join(dir, "a.txt"), filepath.Join(own, "key")
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{file: "inside", key: "outside"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tool := b.create(t, CreateParams{Capabilities: []string{"filesystem:read(" + file + ")"}, Code: `return await helix.fs.readText(params.p)`})
	p := string(lifecycle.Text(map[string]any{"p": file}))
	for _, want := range []string{`"inside"`, "null"} {
		if _, err := b.Execute(b.ctx, ExecuteParams{ToolID: &tool.ID, Params: []byte(p)}); err == nil {
			t.Fatal("the run began without a grant")
		}
		b.allow(t, tool, "once")
		if want == "null" { // replaced after the person answered
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(key, file); err != nil {
				t.Skip("no symbolic links here")
			}
		}
		r, err := b.Execute(b.ctx, ExecuteParams{ToolID: &tool.ID, Params: []byte(p)})
		if string(r.Output) != want && err == nil {
			t.Errorf("got %s (%s), want %s", r.Output, r.Error, want)
		}
	}
}

// TestOwnStateFolderCanBeRead reads a file that a tool wrote below a folder that tools
// otherwise cannot read.
func TestOwnStateFolderCanBeRead(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) { o.Own = []string{filepath.Dir(o.StateDir)} })
	tool := b.create(t, CreateParams{SandboxProfile: "permissive", Capabilities: []string{"state(1KiB)", "filesystem:read($STATE/**)"},
		Code: `await helix.fs.writeText("a/b.txt", "mine"); return [await helix.fs.readText("$STATE/a/b.txt"), (await helix.fs.list("$STATE/a")).map(e => e.name)]`})
	if _, err := b.Execute(b.ctx, ExecuteParams{ToolID: &tool.ID}); err == nil {
		t.Fatal("the run began without a grant")
	}
	b.allow(t, tool, "always")
	for range 2 { // reading the file, and listing the folder
		b.run(t, tool, "")
		b.allow(t, tool, "always")
	}
	if r := b.run(t, tool, ""); string(r.Output) != `["mine",["b.txt"]]` {
		t.Fatalf("%s %s", r.Output, r.Error)
	}
}
