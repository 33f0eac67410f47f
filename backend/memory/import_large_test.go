package memory

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"helix/backend/fault"
	"helix/backend/memory/importer"
	"helix/backend/storage"
	"helix/backend/testkit"
)

// largeZip writes a small archive with a single text of 100 MiB, most of it a line without words.
func largeZip(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "large.zip")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	w, err := z.Create("memories.jsonl")
	if err == nil {
		_, err = fmt.Fprintln(w, `{"content":"the first line"}`)
	}
	block := bytes.Repeat([]byte(" "), 1<<20)
	for i := 0; i < 100 && err == nil; i++ {
		_, err = w.Write(block)
	}
	if err == nil {
		_, err = fmt.Fprintln(w, "\n"+`{"content":"the last line"}`)
	}
	if err = errors.Join(err, z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLargeArchiveNeedsAConfirmation(t *testing.T) {
	t.Parallel()
	testkit.SkipRaced(t, "one goroutine, and slow under it")
	b := newBundle(t, Options{})
	e := b.ends(t)
	p := ImportParams{Path: largeZip(t)}
	for name, call := range map[string]func() error{
		"preview": func() error { _, err := b.ImportPreview(b.ctx, p); return err },
		"import":  func() error { _, err := b.Import(b.ctx, p); return err },
	} {
		err := call()
		wantKind(t, err, fault.Limit, "Nothing was imported")
		d, ok := fault.As(err).Details.(importer.Large)
		if !ok || d.Code != importer.CodeLarge || d.Files != 1 || d.UnpackedBytes < 100<<20 || d.PackedBytes > 1<<20 {
			t.Errorf("%s: the details are %+v", name, fault.As(err).Details)
		}
	}
	if jobs := must(b.Imports(b.ctx, PageParams{}))(t); jobs.Total != 0 {
		t.Errorf("%d imports were begun", jobs.Total)
	}
	p.AllowLarge = true
	if v := must(b.ImportPreview(b.ctx, p))(t); v.Items == 0 {
		t.Errorf("preview: %+v", v)
	}
	st := e.await(t, must(b.Import(b.ctx, p))(t).JobID)
	if st.Status != "completed" || st.Added != 2 {
		t.Errorf("import: %+v", st)
	}
	// The option is stored with the job and used after a restart.
	var kept bool
	err := b.db.Read(b.ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT json_extract(options, '$.allowLarge') FROM memory_imports WHERE id = ?`, st.JobID).Scan(&kept)
	})
	if err != nil || !kept {
		t.Errorf("the job does not keep the answer: %v", err)
	}
}
