package importer

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGolden(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ file, format string }{
		{"chatgpt.json", ChatGPT},
		{"claude.json", Claude},
		{"locomo.json", LoCoMo},
		{"memories.jsonl", JSONL},
		{"plain.txt", Text},
		{"vault/Bread.md", Markdown},
	} {
		t.Run(c.file, func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(filepath.Join("testdata", filepath.FromSlash(c.file)))
			if err != nil {
				t.Fatal(err)
			}
			for _, format := range []string{Auto, c.format} { // the name must not matter
				r, err := Open(bytesOf("upload", string(data)), Options{Format: format})
				if err != nil {
					t.Fatal(err)
				}
				if r.Format() != c.format {
					t.Errorf("found %q", r.Format())
				}
				_ = r.Close()
			}
			got, err := readAll(t, Source{Path: filepath.Join("testdata", filepath.FromSlash(c.file))}, Options{Zone: berlin(t)})
			if err != nil {
				t.Fatal(err)
			}
			golden(t, strings.ReplaceAll(c.file, "/", "_")+".golden", dump(got))
		})
	}
}

// vault copies the example to a folder with links that lead out of it and back into it.
func vault(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "vault"), os.DirFS(filepath.Join("testdata", "vault"))); err != nil {
		t.Fatal(err)
	}
	secret := file(t, dir, "secret.md", "Outside of the vault.")
	dir = filepath.Join(dir, "vault")
	for link, to := range map[string]string{"Out.md": secret, "Rel.md": "../secret.md", "Nothing.md": "nowhere.md", "In.md": "Dash.md", "Round": "."} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Skip("this system has no symbolic links: ", err)
		}
	}
	return dir
}

func TestGoldenVault(t *testing.T) {
	t.Parallel()
	got, err := readAll(t, Source{Path: vault(t)}, Options{Zone: berlin(t)})
	if err != nil {
		t.Fatal(err)
	}
	text := dump(got)
	golden(t, "vault.golden", text)
	for _, never := range []string{"Outside of", "gone", "hidden", "Round/"} {
		if strings.Contains(text, never) {
			t.Errorf("%q was read", never)
		}
	}
}

// zipOf returns an archive of pairs of name and content.
func zipOf(t testing.TB, pairs ...string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(pairs); i += 2 {
		w, err := z.Create(pairs[i])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(pairs[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestZipIsReadInPlace(t *testing.T) {
	t.Parallel()
	export, err := os.ReadFile(filepath.Join("testdata", "chatgpt.json"))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := readAll(t, bytesOf("", string(export)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	archive := zipOf(t, "user.json", `{"id":"u"}`, "chat.html", "<html>", "export/conversations.json", string(export), "__MACOSX/._x.json", "junk")
	packed, err := readAll(t, bytesOf("export.zip", archive), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range packed {
		if packed[i].Problem != nil {
			if packed[i].Problem.File != "export/conversations.json" {
				t.Errorf("problem in %q", packed[i].Problem.File)
			}
			packed[i].Problem.File = ""
		}
	}
	if a, b := dump(plain), dump(packed); a != b {
		t.Errorf("zip:\n%s\nplain:\n%s", b, a)
	}
}

func TestZipNamesThatLeadOut(t *testing.T) {
	t.Parallel()
	archive := zipOf(t, "../up.md", "# Up", "/abs.md", "# Abs", "a/../../b.md", "# B", `c\..\d.md`, "# D", "C:/e.md", "# E",
		"inner.zip", zipOf(t, "deep.md", "# Deep"), "INNER.ZIP", "PK\x03\x04", "good.md", "# Good", "good.md", "# Twice", ".hidden/x.md", "# Hidden")
	got, err := readAll(t, bytesOf("v.zip", archive), Options{})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "zip_names.golden", dump(got))
}

// TestLongFirstLine checks that a list of memories is recognized even if its first line is
// too long to be read.
func TestLongFirstLine(t *testing.T) {
	t.Parallel()
	long := `{"id":"x","content":"` + strings.Repeat("a ", MaxRecord) + "\"}\n"
	path := filepath.Join(t.TempDir(), "x.jsonl")
	if err := os.WriteFile(path, []byte(long+`{"content":"short"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Open(Source{Path: path}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	a, err1 := r.Next(t.Context())
	b, err2 := r.Next(t.Context())
	if r.Format() != JSONL || err1 != nil || err2 != nil || a.Problem == nil || b.Memory == nil || b.Memory.Content != "short" {
		t.Errorf("%s: %+v (%v), %+v (%v)", r.Format(), a, err1, b, err2)
	}
}
