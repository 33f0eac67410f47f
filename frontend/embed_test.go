package frontend

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/fstest"
)

func TestCompressedFilesAreServedAsTheirContent(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte("const answer = 42")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	web := unpacked{fstest.MapFS{
		"packed/.gitkeep":              {},
		"packed/assets/index.js.gz":    {Data: b.Bytes()},
		"packed/assets/damaged.css.gz": {Data: b.Bytes()[:b.Len()-9]},
	}}
	info, err := fs.Stat(web, "assets/index.js")
	if err != nil || info.Name() != "index.js" || info.Size() != 17 || !info.Mode().IsRegular() {
		t.Fatalf("%v, %v", info, err)
	}
	r := httptest.NewRequest(http.MethodGet, "/assets/index.js", nil)
	r.Header.Set("Range", "bytes=6-11")
	got := httptest.NewRecorder()
	http.ServeFileFS(got, r, web, "assets/index.js")
	if got.Code != http.StatusPartialContent || got.Body.String() != "answer" {
		t.Errorf("%d: %q", got.Code, got.Body)
	}
	for _, name := range []string{".gitkeep", "assets/index.js.gz", "assets/none.js", "index.html"} {
		if _, err := fs.Stat(web, name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := fs.ReadFile(web, "assets/damaged.css"); err == nil {
		t.Error("a damaged file was read")
	}
	if _, err := web.Open("../secret"); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a path outside: %v", err)
	}
	if info, err := fs.Stat(web, "."); err != nil || !info.IsDir() {
		t.Errorf("the root: %v, %v", info, err)
	}
}
