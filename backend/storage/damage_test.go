package storage

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"helix/backend/fault"
)

// unclean returns a database that was never closed: its file, its WAL with committed changes and
// the index of the WAL.
func unclean(t *testing.T) (dir string, root *memRoot, want map[string][]string) {
	t.Helper()
	h := newHome(t)
	seed(t, h.db, h.db.LocalUser().ID, 60)
	must(t, h.db.checkpoint(h.ctx))
	seed(t, h.db, h.db.LocalUser().ID, 60)
	seed(t, h.db, h.db.LocalUser().ID, 1)
	want = rows(t, h.db, toolTables...)
	dir = t.TempDir()
	for _, ext := range []string{"", "-wal", "-shm"} {
		must(t, copyFile(filepath.Join(dir, "helix.db"+ext), h.db.path+ext))
	}
	return dir, h.root, want
}

// corruption is one way to damage files; it returns a description.
type corruption struct {
	name string
	do   func(t *testing.T, r *rand.Rand, path string) string
	wal  bool // it needs the WAL of an unclean stop
}

func edit(t *testing.T, path string, fn func(b []byte) []byte) {
	t.Helper()
	must(t, os.WriteFile(path, fn(read(t, path)), 0o600))
}

func onPage(r *rand.Rand, b []byte) (page []byte, no int) {
	no = r.IntN(len(b) / pageSize)
	return b[no*pageSize : (no+1)*pageSize], no + 1
}

var corruptions = []corruption{
	{"header byte", func(t *testing.T, r *rand.Rand, path string) (did string) {
		edit(t, path, func(b []byte) []byte {
			i := r.IntN(100)
			b[i] ^= byte(1 + r.IntN(255))
			did = fmt.Sprint("byte ", i)
			return b
		})
		return did
	}, false},
	{"bit flip", func(t *testing.T, r *rand.Rand, path string) (did string) {
		edit(t, path, func(b []byte) []byte {
			i := r.IntN(len(b))
			b[i] ^= 1 << r.IntN(8)
			did = fmt.Sprintf("byte %d of page %d", i%pageSize, i/pageSize+1)
			return b
		})
		return did
	}, false},
	{"zeroed pages", func(t *testing.T, r *rand.Rand, path string) (did string) {
		edit(t, path, func(b []byte) []byte {
			for range 1 + r.IntN(4) {
				p, no := onPage(r, b)
				clear(p)
				did += fmt.Sprint(no, " ")
			}
			return b
		})
		return did
	}, false},
	{"swapped pages", func(t *testing.T, r *rand.Rand, path string) (did string) {
		edit(t, path, func(b []byte) []byte {
			p, i := onPage(r, b)
			q, j := onPage(r, b)
			c := bytes.Clone(p)
			copy(p, q)
			copy(q, c)
			did = fmt.Sprint(i, " and ", j)
			return b
		})
		return did
	}, false},
	{"cut file", func(t *testing.T, r *rand.Rand, path string) string {
		size := fileSize(path)
		to := 1 + r.Int64N(size-1)
		must(t, os.Truncate(path, to))
		return fmt.Sprintf("%d of %d bytes", to, size)
	}, false},
	{"damaged WAL", func(t *testing.T, r *rand.Rand, path string) (did string) {
		edit(t, path+"-wal", func(b []byte) []byte {
			i := r.IntN(len(b))
			b[i] ^= 1 << r.IntN(8)
			did = fmt.Sprintf("byte %d of %d", i, len(b))
			return b
		})
		return did
	}, true},
	{"cut WAL", func(t *testing.T, r *rand.Rand, path string) string {
		to := r.Int64N(fileSize(path + "-wal"))
		must(t, os.Truncate(path+"-wal", to))
		return fmt.Sprint(to, " bytes")
	}, true},
	{"missing WAL", func(t *testing.T, _ *rand.Rand, path string) string {
		must(t, os.Remove(path+"-wal"))
		return ""
	}, true},
}

// Whatever happens to the files, nothing is lost silently: all rows exist, or recovery mode reports
// the damage, and salvage counts what it keeps. SQLite cannot detect a flipped bit inside a value,
// because it has no checksums; it may change that value and nothing else.
func TestDamageIsNeverSilent(t *testing.T) {
	t.Parallel()
	cases := 5 * len(corruptions)
	if long() {
		cases = 500
	}
	dir, root, want := unclean(t)
	whole := t.TempDir() // the same data after a clean stop
	for _, ext := range []string{"", "-wal", "-shm"} {
		must(t, copyFile(filepath.Join(whole, "helix.db"+ext), filepath.Join(dir, "helix.db"+ext)))
	}
	shut(t, openWith(t, filepath.Join(whole, "helix.db"), root))
	for i := range cases {
		c := corruptions[i%len(corruptions)]
		t.Run(fmt.Sprintf("%s %d", c.name, i), func(t *testing.T) {
			t.Parallel()
			work, from, exts := filepath.Join(t.TempDir(), "d"), whole, []string{""}
			if c.wal {
				from, exts = dir, []string{"", "-wal", "-shm"}
			}
			must(t, os.MkdirAll(work, 0o700))
			for _, ext := range exts {
				must(t, copyFile(filepath.Join(work, "helix.db"+ext), filepath.Join(from, "helix.db"+ext)))
			}
			did := c.do(t, rand.New(rand.NewPCG(uint64(i), 3)), filepath.Join(work, "helix.db"))
			h := openHome(t, work, root)
			if h.db.Recovery() == nil {
				_, err := h.s.Check(h.ctx, CheckParams{Full: true})
				if err != nil && fault.KindOf(err) != fault.Unavailable {
					t.Fatalf("%s: check: %v", did, err)
				}
			}
			h.db.rescue.Wait()
			if h.db.Recovery() == nil {
				if n := missing(want, rows(t, h.db, toolTables...)); n > 1 || n == 1 && c.name != "bit flip" && c.name != "zeroed pages" {
					t.Fatalf("%s: %d rows are not there or differ, and nobody says so", did, n)
				}
				return
			}
			r, err := h.s.Salvage(h.ctx, SalvageParams{})
			if fault.Is(err, fault.Conflict) && r.Empty && c.name == "cut file" {
				return // nothing can be read, and nothing was replaced
			}
			if err != nil {
				t.Fatalf("%s: %v", did, err)
			}
			if r.Applied == r.Incomplete {
				t.Fatalf("%s: %+v", did, r)
			}
			if !r.Applied {
				if h.db.Recovery() == nil {
					t.Fatalf("%s: less data was put in place without asking", did)
				}
				r, err = h.s.Salvage(h.ctx, SalvageParams{AcceptLoss: true})
				must(t, err)
			}
			got := rows(t, h.db, toolTables...)
			n := missing(want, got)
			if n > 0 && !r.Incomplete && c.name != "bit flip" {
				t.Errorf("%s: %d rows are missing or differ, and salvage says %+v", did, n, r)
			}
			if c.name == "header byte" && n > 0 {
				t.Errorf("%s: %d rows lost to a byte of the header, %+v", did, n, r)
			}
			for _, row := range r.Tables {
				if slices.Contains(toolTables, row.Table) && int(row.Kept) != len(got[row.Table]) {
					t.Errorf("%s: %+v, and there are %d", did, row, len(got[row.Table]))
				}
			}
			t.Logf("%s: %d missing, %d pages lost", did, n, r.LostPages)
			seed(t, h.db, h.db.LocalUser().ID, 1)
		})
	}
}

// missing returns the number of rows in want that are not unchanged in got.
func missing(want, got map[string][]string) (n int) {
	for table, list := range want {
		for _, row := range list {
			if !slices.Contains(got[table], row) {
				n++
			}
		}
	}
	return n
}

// A flipped bit in any byte of the header loses no row.
func TestSalvageNeedsNoHeader(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	seed(t, h.db, h.db.LocalUser().ID, 400)
	want := rows(t, h.db, toolTables...)
	shut(t, h.db)
	b := read(t, h.db.path)
	b[0] ^= 1
	must(t, os.WriteFile(h.db.path, b, 0o600))
	h = openHome(t, h.dir, h.root)
	r, err := h.s.Salvage(h.ctx, SalvageParams{})
	if err != nil || !r.Applied || r.Incomplete || h.db.Recovery() != nil {
		t.Fatalf("%+v, %v", r, err)
	}
	sameRows(t, rows(t, h.db, toolTables...), want)
}
