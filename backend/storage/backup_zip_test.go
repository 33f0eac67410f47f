package storage

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helix/backend/fault"
	"helix/backend/testkit"
)

// goodBackup returns the entries of a valid backup, for tests that damage it.
func goodBackup(t *testing.T) (h *home, files map[string][]byte, m Manifest) {
	t.Helper()
	h = newHome(t)
	seed(t, h.db, h.db.LocalUser().ID, 3)
	_, err := h.db.Blobs().PutBytes(h.ctx, []byte("a blob"))
	must(t, err)
	b, err := h.s.Backup(h.ctx, BackupParams{})
	must(t, err)
	z, err := zip.OpenReader(b.Path)
	must(t, err)
	defer z.Close()
	files = map[string][]byte{}
	for _, f := range z.File {
		r, err := f.Open()
		must(t, err)
		files[f.Name], err = io.ReadAll(r)
		must(t, err)
	}
	must(t, json.Unmarshal(files[nameManifest], &m))
	delete(files, nameManifest)
	return h, files, m
}

func writeZip(t *testing.T, files map[string][]byte, m any) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, n := range slices.Sorted(maps.Keys(files)) {
		h := &zip.FileHeader{Name: strings.TrimSuffix(n, "#2"), Method: zip.Deflate}
		if n == nameDB { // as Backup does: a new database consists mostly of empty pages
			h.Method = zip.Store
		}
		e, err := w.CreateHeader(h)
		must(t, err)
		_, err = e.Write(files[n])
		must(t, err)
	}
	if m != nil {
		e, err := w.Create(nameManifest)
		must(t, err)
		must(t, json.NewEncoder(e).Encode(m))
	}
	must(t, w.Close())
	path := filepath.Join(t.TempDir(), "b.zip")
	must(t, os.WriteFile(path, b.Bytes(), 0o600))
	return path
}

func listed(m Manifest, name string, content []byte) Manifest {
	sum := sha256.Sum256(content)
	m.Files = append(slices.Clone(m.Files), ManifestFile{Path: name, SHA256: hex.EncodeToString(sum[:]), Size: int64(len(content))})
	return m
}

func TestBadBackupsAreRefused(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	h, good, m := goodBackup(t)
	before := rows(t, h.db, toolTables...)
	ls := func() string {
		es, err := os.ReadDir(h.dir)
		must(t, err)
		return fmt.Sprint(es)
	}
	was := ls()
	x := []byte("x")
	cases := map[string]struct {
		path  string
		entry string
	}{}
	add := func(name, entry string, change func(files map[string][]byte, m Manifest) (map[string][]byte, any)) {
		f, mm := change(maps.Clone(good), m)
		cases[name] = struct{ path, entry string }{writeZip(t, f, mm), entry}
	}
	type files = map[string][]byte
	add("no manifest", nameManifest, func(f files, m Manifest) (files, any) { return f, nil })
	add("manifest is no object", nameManifest, func(f files, m Manifest) (files, any) { return f, 7 })
	add("later format", nameManifest, func(f files, m Manifest) (files, any) { m.Format = 2; return f, m })
	for _, bad := range []string{"../x", "/etc/x", "a/../../x", `a\x`, "c:x", "a//x", "./x", "user/\x00"} {
		add("name "+bad, bad, func(f files, m Manifest) (files, any) { f[bad] = x; return f, listed(m, bad, x) })
	}
	add("slip only in the manifest", "../x", func(f files, m Manifest) (files, any) { return f, listed(m, "../x", x) })
	add("two of one name", "user/a", func(f files, m Manifest) (files, any) {
		f["user/a"], f["user/a#2"] = x, x
		return f, listed(m, "user/a", x)
	})
	add("not listed", "user/a", func(f files, m Manifest) (files, any) { f["user/a"] = x; return f, m })
	add("listed and missing", "", func(f files, m Manifest) (files, any) { return f, listed(m, "user/a", x) })
	add("no database", nameDB, func(f files, m Manifest) (files, any) {
		delete(f, nameDB)
		m.Files = slices.DeleteFunc(slices.Clone(m.Files), func(f ManifestFile) bool { return f.Path == nameDB })
		return f, m
	})
	add("wrong hash", nameDB, func(f files, m Manifest) (files, any) {
		f[nameDB] = bytes.Clone(f[nameDB])
		f[nameDB][5000] ^= 1
		return f, m
	})
	add("wrong size", nameDB, func(f files, m Manifest) (files, any) {
		m.Files = slices.Clone(m.Files)
		i := slices.IndexFunc(m.Files, func(f ManifestFile) bool { return f.Path == nameDB })
		m.Files[i].Size++
		return f, m
	})
	add("bomb", "user/zeros", func(f files, m Manifest) (files, any) {
		f["user/zeros"] = make([]byte, 64<<20)
		return f, listed(m, "user/zeros", f["user/zeros"])
	})
	add("beyond the disk", "user/huge", func(f files, m Manifest) (files, any) {
		m = listed(m, "user/huge", x)
		m.Files[len(m.Files)-1].Size = 1 << 60
		f["user/huge"] = x
		return f, m
	})
	add("database is text", nameDB, func(f files, m Manifest) (files, any) {
		f[nameDB] = []byte("hello")
		m.Files = slices.DeleteFunc(slices.Clone(m.Files), func(f ManifestFile) bool { return f.Path == nameDB })
		return f, listed(m, nameDB, f[nameDB])
	})
	add("database is damaged", nameDB, func(f files, m Manifest) (files, any) {
		f[nameDB] = bytes.Clone(f[nameDB])
		copy(f[nameDB][9*4096:], bytes.Repeat([]byte{0xee}, 20*4096))
		m.Files = slices.DeleteFunc(slices.Clone(m.Files), func(f ManifestFile) bool { return f.Path == nameDB })
		return f, listed(m, nameDB, f[nameDB])
	})
	whole := read(t, writeZip(t, good, m))
	for _, n := range []int{0, 1, 100, len(whole) / 2, len(whole) - 1} {
		p := filepath.Join(t.TempDir(), "cut.zip")
		must(t, os.WriteFile(p, whole[:n], 0o600))
		cases[fmt.Sprint("cut at ", n)] = struct{ path, entry string }{p, ""}
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		c := cases[name]
		_, err := h.s.Restore(h.ctx, RestoreParams{Path: c.path})
		if fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d, _ := fault.As(err).Details.(map[string]string); c.entry != "" && d["entry"] != c.entry {
			t.Errorf("%s: entry %q, want %q (%v)", name, d["entry"], c.entry, err)
		}
		v, err := h.s.VerifyBackup(h.ctx, VerifyBackupParams{Path: c.path})
		if err != nil || v.OK || len(v.Problems) != 1 {
			t.Errorf("%s: verify %+v, %v", name, v, err)
		}
	}
	if now := ls(); now != was {
		t.Errorf("the folder changed from %s to %s", was, now)
	}
	sameRows(t, rows(t, h.db, toolTables...), before)
	if r, err := h.s.Restore(h.ctx, RestoreParams{Path: writeZip(t, good, m)}); err != nil {
		t.Errorf("the good one: %+v, %v", r, err)
	}
}

func TestBackupOfManyEntries(t *testing.T) {
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	h, good, m := goodBackup(t)
	n := 2_000
	if long() {
		n = 100_000
	}
	sum := sha256.Sum256([]byte("x"))
	for i := range n {
		name := fmt.Sprintf("user/%d/%d", i%100, i)
		good[name] = []byte("x")
		m.Files = append(m.Files, ManifestFile{Path: name, SHA256: hex.EncodeToString(sum[:]), Size: 1})
	}
	z, err := openBackup(writeZip(t, good, m))
	must(t, err)
	defer z.close()
	if len(z.entries) != len(good)+1 {
		t.Fatalf("%d entries", len(z.entries))
	}
	_ = h
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"format":1,"files":[{"path":"helix.db","sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","size":0}]}`))
	f.Add([]byte(`{"format":1,"files":[{"path":"../helix.db","sha256":"","size":-1}]}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseManifest(b)
		if err != nil {
			if fault.KindOf(err) != fault.Invalid {
				t.Fatalf("%v", err)
			}
			return
		}
		for _, e := range m.Files {
			if !filepath.IsLocal(filepath.FromSlash(e.Path)) || e.Size < 0 {
				t.Fatalf("accepted %+v", e)
			}
		}
	})
}

func FuzzZip(f *testing.F) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	e, _ := w.Create(nameManifest)
	_, _ = e.Write([]byte(`{"format":1,"files":[]}`))
	_ = w.Close()
	f.Add(b.Bytes())
	f.Add([]byte("PK\x05\x06"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p := filepath.Join(t.TempDir(), "z.zip")
		must(t, os.WriteFile(p, b, 0o600))
		z, err := openBackup(p)
		if err == nil {
			z.close()
		}
	})
}
