package cli

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"helix/backend/fault"
	"helix/backend/memory"
	"helix/backend/memory/search"
)

// TestMemoryCommands adds, finds, changes and deletes memories without a running Helix.
func TestMemoryCommands(t *testing.T) {
	t.Parallel()
	dir := dataFolder(t)
	data := filepath.Join(dir, "data")
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	with := func(stdin string, code int, args ...string) result {
		t.Helper()
		r := helix(t, data, stdin, append([]string{"memory"}, args...)...)
		if r.code != code {
			t.Errorf("%v: exit %d, want %d: %s%s", args, r.code, code, r.stdout, r.stderr)
		}
		return r
	}
	do := func(code int, args ...string) result { t.Helper(); return with("", code, args...) }
	decode := func(r result, v any) {
		t.Helper()
		if err := json.Unmarshal([]byte(r.stdout), v); err != nil {
			t.Fatalf("%v: %s", err, r.stdout)
		}
	}

	id := strings.TrimSpace(do(0, "add", "The spare key is with Nora.", "--tag", "home", "--at", "2024-02").stdout)
	if r := with("The spare key is with Nora.\n", 0, "add", "-"); strings.TrimSpace(r.stdout) != id || !strings.Contains(r.stderr, "already exists") {
		t.Errorf("the same from standard input: %+v", r)
	}
	with("", 2, "add", "-")
	with(strings.Repeat("long ", 20000), 2, "add")
	do(2, "add", "x", "--layer", "9")
	do(2, "add", "x", "--layer", "0")
	do(2, "import", dir, "--layer", "0")
	do(2, "search", "spare", "-k", "0")
	if r := with("\ufeffThe spare key is with Nora.\r\n", 0, "add", "-"); strings.TrimSpace(r.stdout) != id {
		t.Errorf("the same with a byte order mark: %+v", r)
	}
	moment := "2024-03-01T08:00:00.5Z"
	at := strings.TrimSpace(do(0, "add", "A moment.", "--at", moment).stdout)
	if r := do(0, "list", "--from", moment, "--to", moment); !strings.Contains(r.stdout, at) {
		t.Errorf("list of a moment: %s", r.stdout)
	}
	with("not this\n", 2, "edit", at, "--text", "")
	do(0, "rm", at)
	do(2, "add", "x", "--type", "tragic")
	do(2, "add", "x", "--at", "soon")
	do(2, "list", "--from", "soon")
	if r := do(0, "list", "--from", "2024-02-01", "--to", "2024-02"); !strings.Contains(r.stdout, id) {
		t.Errorf("list of February: %s", r.stdout)
	}
	if r := do(0, "list", "--to", "2023"); r.stdout != "" {
		t.Errorf("list until 2023: %s", r.stdout)
	}
	if r := do(0, "search", "spare", "key"); !strings.Contains(r.stdout, "Nora") || !strings.Contains(r.stdout, id) {
		t.Errorf("search: %+v", r)
	}
	var found search.Result
	if decode(do(0, "search", "spare key", "--mode", "keyword", "--json"), &found); len(found.Results) != 1 || found.Mode != "keyword" {
		t.Errorf("search: %+v", found)
	}
	if r := do(0, "search", "spare key", "--explain"); !strings.Contains(r.stdout, "score ") {
		t.Errorf("explained: %s", r.stdout)
	}
	do(0, "search", `AND OR NEAR( " * ^ : -`)
	do(0, "edit", id, "--text", "The spare key is with Ilan.", "--add-tag", "keys", "--drop-tag", "home")
	if r := do(0, "show", id); !strings.Contains(r.stdout, "Ilan") || !strings.Contains(r.stdout, "keys") || strings.Contains(r.stdout, "home") {
		t.Errorf("show: %s", r.stdout)
	}
	do(0, "edit", id, "--at", "")
	if r := do(0, "list", "--to", "2030"); strings.Contains(r.stdout, id) {
		t.Errorf("its time was not taken away: %s", r.stdout)
	}
	if r := do(0, "history", id); !strings.Contains(r.stdout, "Nora") {
		t.Errorf("history: %s", r.stdout)
	}
	do(0, "pin", id)
	do(0, "pin", id, "--off")
	token := regexp.MustCompile(`undo (\S+)`).FindStringSubmatch(do(0, "rm", id).stderr)
	if token == nil {
		t.Fatal("rm prints no token")
	}
	if r := do(0, "search", "spare key", "--mode", "keyword"); strings.Contains(r.stdout, id) {
		t.Errorf("what was deleted is found: %s", r.stdout)
	}
	if r := do(0, "list", "--trash"); !strings.Contains(r.stdout, id) {
		t.Errorf("trash: %s", r.stdout)
	}
	do(0, "undo", token[1])
	do(0, "rm", id)
	do(0, "restore", id)
	out := filepath.Join(dir, "out.jsonl")
	do(0, "export", "-o", out)
	if b, err := os.ReadFile(out); err != nil || !bytes.Contains(b, []byte("Ilan")) {
		t.Errorf("export: %s, %v", b, err)
	}
	do(0, "rm", id)
	do(4, "rm", id, "--purge")
	do(0, "rm", id, "--purge", "--yes")
	do(3, "show", id)
	do(3, "show", "01999999-0000-7000-8000-000000000000")
	do(3, "conversations", "01999999-0000-7000-8000-000000000000")
	do(2, "documents", "nobody")
	do(2, "show", id+"#x")

	good := write("good.jsonl", `{"content":"One."}`+"\n"+`{"content":7}`+"\n"+`{"content":"Two."}`+"\n")
	if r := do(0, "import", good); !strings.Contains(r.stdout, "2 added") || !strings.Contains(r.stdout, "1 unreadable") || !strings.Contains(r.stderr, "line 2") {
		t.Errorf("import with a bad record: %+v", r)
	}
	var st memory.ImportStatus
	if decode(do(0, "import", good, "--json", "--no-embed"), &st); st.Added != 0 || st.Status != "completed" {
		t.Errorf("again: %+v", st)
	}
	do(1, "import", write("bad.jsonl", `{"content":7}`+"\n"), "--format", "jsonl")
	if r := helix(t, data, "", "memory", "import", filepath.Join(dir, "none.json")); r.code != 3 && r.code != 2 {
		t.Errorf("no such file: %+v", r)
	}
	if r := do(0, "imports"); strings.Count(r.stdout, "good.jsonl") != 2 {
		t.Errorf("imports: %s", r.stdout)
	}
	if r := do(0, "stats"); !strings.Contains(r.stdout, "memories:") {
		t.Errorf("stats: %s", r.stdout)
	}
	do(2, "bench-locomo", dir, "--weights", "1,2")
}

// Ctrl-C ends an import; what it has stored is kept, and the same command imports the rest.
func TestMemoryImportCanceled(t *testing.T) {
	t.Parallel()
	dir := dataFolder(t)
	data, file := filepath.Join(dir, "data"), filepath.Join(dir, "many.jsonl")
	const lines = 20_000
	var b bytes.Buffer
	for i := range lines {
		fmt.Fprintf(&b, "{\"content\":\"Line %d of a long list.\"}\n", i)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var errs lockedBuffer
	ended := make(chan int, 1)
	go func() {
		ended <- Main(ctx, []string{"--data-dir", data, "memory", "import", file, "--no-embed"}, Env{Stdin: strings.NewReader(""), Stdout: &bytes.Buffer{}, Stderr: &errs, Keyring: noKeyring{}, Worker: worker})
	}()
	if errs.wait(t, regexp.MustCompile(`[1-9]\d %`)) == "" {
		t.Fatalf("no progress: %s", errs.String())
	}
	stop()
	select {
	case code := <-ended:
		if code == 0 {
			t.Skip("the import was faster than Ctrl-C")
		}
		if code != 130 || !strings.Contains(errs.String(), "What was imported is kept") {
			t.Errorf("exit %d: %s", code, errs.String())
		}
	case <-time.After(5 * time.Minute):
		t.Fatal("Ctrl-C did not end it")
	}
	var n memory.Stats
	if r := helix(t, data, "", "--json", "memory", "stats"); json.Unmarshal([]byte(r.stdout), &n) != nil || n.Memories == 0 || n.Memories >= lines {
		t.Errorf("kept %d of %d: %s", n.Memories, lines, r.stderr)
	}
}

// An existing file is not changed until the new one is complete.
func TestSaveFile(t *testing.T) {
	t.Parallel()
	dir := dataFolder(t)
	path := filepath.Join(dir, "a file.jsonl")
	broken := io.MultiReader(strings.NewReader("half"), iotest.ErrReader(io.ErrUnexpectedEOF))
	for _, want := range []string{"first", "second"} {
		if err := saveFile(path, strings.NewReader(want)); err != nil {
			t.Fatal(err)
		}
		if err := saveFile(path, broken); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("a broken source: %v", err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != want {
			t.Errorf("the file has %q, %v, want %q", b, err, want)
		}
	}
	if runtime.GOOS != "windows" {
		link := filepath.Join(dir, "link")
		if err := os.Symlink(path, link); err != nil {
			t.Fatal(err)
		}
		if err := saveFile(link, strings.NewReader("third")); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("the link is %v, %v", info, err)
		}
		if err := saveFile(os.DevNull, strings.NewReader("nothing")); err != nil {
			t.Error(err)
		}
	}
	if b, err := os.ReadFile(path); err != nil || runtime.GOOS != "windows" && string(b) != "third" {
		t.Errorf("the file has %q, %v", b, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".helix-export-*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := saveFile(filepath.Join(dir, "none", "x"), strings.NewReader("x")); !fault.Is(err, fault.Invalid) {
		t.Errorf("no such folder: %v", err)
	}
}

func TestImportAsksAboutALargeArchive(t *testing.T) {
	t.Parallel()
	dir := dataFolder(t)
	data, path := filepath.Join(dir, "data"), filepath.Join(dir, "large.zip")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	w, err := z.Create("note.txt")
	if err == nil {
		_, err = w.Write(append([]byte("a note"), bytes.Repeat([]byte(" "), 70<<20)...))
	}
	if err = errors.Join(err, z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"import", path}, {"import", path, "--dry-run"}} {
		r := helix(t, data, "", append([]string{"memory"}, args...)...)
		if r.code != 5 || !strings.Contains(r.stderr, "would unpack to at least 70.0 MiB. Nothing was imported.") || !strings.Contains(r.stderr, "--allow-large") {
			t.Errorf("%q: %+v", args, r)
		}
	}
	if r := helix(t, data, "", "memory", "import", path, "--allow-large", "--no-embed"); r.code != 0 || !strings.Contains(r.stdout, "1 added") {
		t.Errorf("allowed: %+v", r)
	}
}
