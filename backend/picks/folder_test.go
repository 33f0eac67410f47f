package picks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helix/backend/fault"
)

type file struct{ path, text string }

// form returns what a browser sends for a folder, with the paths as given.
func form(t *testing.T, files ...file) (body *bytes.Buffer, contentType string) {
	t.Helper()
	body = &bytes.Buffer{}
	w := multipart.NewWriter(body)
	for _, f := range files {
		p, err := w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {`form-data; name="file"; filename="` + f.path + `"`}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Write([]byte(f.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return body, w.FormDataContentType()
}

func (u *uploader) sendFolder(name string, files ...file) (sent uploaded, err error) {
	u.t.Helper()
	body, kind := form(u.t, files...)
	r := u.request(u.me, http.MethodPost, "folder=true&name="+name, body)
	r.Header.Set("Content-Type", kind)
	w := httptest.NewRecorder()
	if err := u.Post(w, r); err != nil {
		return sent, err
	}
	return sent, json.Unmarshal(w.Body.Bytes(), &sent)
}

func TestUploadedFolderHasItsFilesUnderTheirPaths(t *testing.T) {
	t.Parallel()
	u := newUploader(t)
	sent, err := u.sendFolder("vault", file{"a.md", "one"}, file{"deep/er/ü und #.md", "two"}, file{"empty.md", ""})
	if err != nil || sent.Name != "vault" || sent.Size != 6 {
		t.Fatalf("sent %+v, %v", sent, err)
	}
	dir, err := u.picks.Resolve(u.me, sent.Token, false)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a.md": "one", "deep/er/ü und #.md": "two", "empty.md": ""} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if err := u.Delete(httptest.NewRecorder(), u.request(u.me, http.MethodDelete, "token="+sent.Token, nil)); err != nil || len(u.files()) != 0 {
		t.Errorf("after its deletion: %v, left %v", err, u.files())
	}
}

// TestPathsOutsideTheFolderAreRefused tries paths that could leave the folder, replace a file in it
// or have another meaning on another system. Nothing of such a folder is stored, and nothing is
// written beside it.
func TestPathsOutsideTheFolderAreRefused(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"", ".", "..", "../evil", "a/../../evil", "a/..", "./a", "a/./b", "/etc/passwd", "//server/share", "a//b", "a/", "/",
		`..\\evil`, `a\\..\\..\\evil`, `C:\\evil`, "C:/evil", "C:evil", "a:stream", "nul\x00.md", "a\x00/../b",
		".hidden", "a/.git/config", ".ssh/authorized_keys", strings.Repeat("d/", 40) + "x", strings.Repeat("n", 300), strings.Repeat("long/", 300) + "x",
		"%2e%2e/../evil", "\xff\xfe", "a/\xc3\x28",
	} {
		u := newUploader(t)
		u.dir = filepath.Join(u.dir, "uploads") // alone in its folder
		if err := os.Mkdir(u.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		_, err := u.sendFolder("vault", file{"good.md", "good"}, file{path, "evil"})
		if !fault.Is(err, fault.Invalid) || len(u.files()) != 0 {
			t.Errorf("%q: %v, left %v", path, err, u.files())
		}
		beside, err := os.ReadDir(filepath.Dir(u.dir))
		if err != nil || len(beside) != 1 {
			t.Errorf("%q: beside the folder is %v, %v", path, beside, err)
		}
	}
	for _, twice := range [][]file{{{"a.md", "1"}, {"a.md", "2"}}, {{"a", "1"}, {"a/b", "2"}}, {{"a/b", "1"}, {"a", "2"}}} {
		u := newUploader(t)
		if _, err := u.sendFolder("vault", twice...); !fault.Is(err, fault.Invalid) || len(u.files()) != 0 {
			t.Errorf("%v: %v, left %v", twice, err, u.files())
		}
	}
}

func TestFoldersAboveTheLimitsAreRefused(t *testing.T) {
	t.Parallel()
	u := newUploader(t)
	u.max, u.maxFiles = 100, 3
	for name, files := range map[string][]file{
		"bytes of one file":  {{"a", strings.Repeat("x", 101)}},
		"bytes of all files": {{"a", strings.Repeat("x", 60)}, {"b", strings.Repeat("x", 41)}},
		"files":              {{"a", ""}, {"b", ""}, {"c", ""}, {"d", ""}},
	} {
		if _, err := u.sendFolder("vault", files...); !fault.Is(err, fault.Limit) || len(u.files()) != 0 {
			t.Errorf("%s: %v, left %v", name, err, u.files())
		}
	}
	if _, err := u.sendFolder("vault", file{"a", strings.Repeat("x", 60)}, file{"b", strings.Repeat("x", 40)}, file{"c", ""}); err != nil {
		t.Errorf("at the limits: %v", err)
	}
}

func TestFolderUploadsThatAreNotFormsAreRefused(t *testing.T) {
	t.Parallel()
	u := newUploader(t)
	body, kind := form(t, file{"a.md", "one"}, file{"b.md", "two"})
	for name, c := range map[string]struct{ kind, body string }{
		"not a form":  {"application/octet-stream", "x"},
		"no boundary": {"multipart/form-data", body.String()},
		"cut off":     {kind, body.String()[:body.Len()-20]},
		"no file":     {kind, body.String()[body.Len()-len(kind)+len("multipart/form-data; boundary=")-6:]},
		"empty":       {kind, ""},
	} {
		r := u.request(u.me, http.MethodPost, "folder=true&name=vault", strings.NewReader(c.body))
		r.Header.Set("Content-Type", c.kind)
		if err := u.Post(httptest.NewRecorder(), r); !fault.Is(err, fault.Invalid) || len(u.files()) != 0 {
			t.Errorf("%s: %v, left %v", name, err, u.files())
		}
	}
}

// TestUnfinishedFolderIsRemovedAtTheNextStart leaves what a killed process leaves: a folder that
// was still being received, and one that nobody imported.
func TestUnfinishedFolderIsRemovedAtTheNextStart(t *testing.T) {
	t.Parallel()
	u := newUploader(t)
	if _, err := u.sendFolder("vault", file{"sub/a.md", "one"}); err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(u.dir, "upload-123", "sub")
	if err := os.MkdirAll(half, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(half, "b.md"), []byte("tw"), 0o600); err != nil {
		t.Fatal(err)
	}
	again := NewUploads(u.dir, New("", ""), func(context.Context, string) (bool, error) { return false, nil }, u.log)
	again.Sweep(t.Context())
	if left := u.files(); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// TestFilesOfAnUploadedFolderCannotBeReachedThroughLinks checks that an upload contains no links,
// and a token does not follow one that was added.
func TestFilesOfAnUploadedFolderCannotBeReachedThroughLinks(t *testing.T) {
	t.Parallel()
	u := newUploader(t)
	sent, err := u.sendFolder("vault", file{"sub/a.md", "one"})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := u.picks.Resolve(u.me, sent.Token, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d.Type()&^fs.ModeDir != 0 {
			return fmt.Errorf("%s is %v", path, d.Type())
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	if err := os.Symlink("/etc", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	if _, err := u.picks.Resolve(u.me, sent.Token+"/out/passwd", false); !fault.Is(err, fault.Denied) {
		t.Errorf("a link was followed: %v", err)
	}
}
