package storage

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helix/backend/fault"
)

// loss is a way in which a database can get lost.
type loss struct {
	name   string
	lose   func(t *testing.T, path string)
	reason string
	bare   bool // no other file shows that there was data, but it is detected nevertheless
}

var losses = []loss{
	{"deleted", func(t *testing.T, path string) { must(t, os.Remove(path)) }, "missing", false},
	{"zero bytes", func(t *testing.T, path string) { must(t, os.Truncate(path, 0)) }, "missing", false},
	{"header only", func(t *testing.T, path string) { must(t, os.Truncate(path, 100)) }, "corrupt", true},
	{"no tables", func(t *testing.T, path string) {
		must(t, os.Remove(path))
		raw(t, path, `CREATE TABLE x (y); DROP TABLE x`)
	}, "missing", false},
	{"all tables empty", func(t *testing.T, path string) {
		must(t, os.Remove(path))
		putBlank(t, path)
	}, "missing", false},
	{"another program", func(t *testing.T, path string) {
		must(t, os.Remove(path))
		raw(t, path, `CREATE TABLE moz_places (id INTEGER PRIMARY KEY, url TEXT); INSERT INTO moz_places (url) VALUES ('x')`)
	}, "missing", true},
	{"tables dropped", func(t *testing.T, path string) {
		must(t, os.Remove(path))
		raw(t, path, `CREATE TABLE goose_db_version (id INTEGER PRIMARY KEY, version_id INTEGER, is_applied INTEGER)`)
	}, "missing", true},
	{"only the WAL is left", func(t *testing.T, path string) {
		must(t, os.WriteFile(path+"-wal", []byte("frames"), 0o600))
		must(t, os.Remove(path))
	}, "corrupt", true},
}

func raw(t *testing.T, path, script string) {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(path, nil, false))
	must(t, err)
	_, err = db.Exec(script)
	must(t, err)
	must(t, db.Close())
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return "missing"
	}
	must(t, err)
	return string(b)
}

// A database that lost its data starts in recovery mode and offers the backups; restoring one makes
// it complete again.
func TestLostDatabaseIsNotAFirstStart(t *testing.T) {
	t.Parallel()
	for _, l := range losses {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			seed(t, h.db, h.db.LocalUser().ID, 3)
			want := rows(t, h.db, toolTables...)
			b, err := h.s.Backup(h.ctx, BackupParams{})
			must(t, err)
			shut(t, h.db)
			l.lose(t, h.db.path)
			before := content(t, h.db.path)

			h = openHome(t, h.dir, h.root)
			rec := h.db.Recovery()
			if rec == nil || rec.Reason != l.reason || rec.Message == "" || len(rec.Problems) == 0 {
				t.Fatalf("recovery %+v", rec)
			}
			wantKind(t, h.db.Read(h.ctx, func(*Tx) error { return nil }), fault.Unavailable, rec.Message)
			if list, err := h.s.Backups(h.ctx, BackupsParams{}); err != nil || list.Total != 1 {
				t.Errorf("backups %+v, %v", list, err)
			}
			if l.reason == "missing" {
				_, err = h.s.Salvage(h.ctx, SalvageParams{AcceptLoss: true})
				wantKind(t, err, fault.Conflict, "has no data to salvage")
			}
			h.db.rescue.Wait()
			if content(t, h.db.path) != before {
				t.Error("the file changed")
			}
			shut(t, h.db)
			h = openHome(t, h.dir, h.root) // still the same at the next start
			if h.db.Recovery() == nil {
				t.Fatal("the second start takes it for new")
			}
			if _, err := h.s.Restore(h.ctx, RestoreParams{Path: b.Path}); err != nil || h.db.Recovery() != nil {
				t.Fatalf("restore: %v, %+v", err, h.db.Recovery())
			}
			sameRows(t, rows(t, h.db, toolTables...), want)
		})
	}
}

// One trace of any kind is enough, and without one an empty file is a first start.
func TestTracesOfEarlierData(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(t *testing.T, dir string){
		"audit head": func(t *testing.T, dir string) { must(t, os.WriteFile(filepath.Join(dir, "audit-head"), nil, 0o600)) },
		"a blob": func(t *testing.T, dir string) {
			_, err := newBlobs(filepath.Join(dir, "blobs"), nil).PutBytes(t.Context(), []byte("x"))
			must(t, err)
		},
		"a snapshot":    func(t *testing.T, dir string) { leaveFile(t, dir, "backups/pre-1-2-20260101T000000Z.db") },
		"replaced data": func(t *testing.T, dir string) { leaveFile(t, dir, "replaced-20260101T000000Z/helix.db") },
		"damaged data":  func(t *testing.T, dir string) { leaveFile(t, dir, "corrupt-20260101T000000Z/helix.db") },
		"nothing":       func(*testing.T, string) {},
		"nothing in a folder": func(t *testing.T, dir string) { // the disk was full
			must(t, os.Mkdir(filepath.Join(dir, "corrupt-20260101T000000Z"), 0o700))
			must(t, os.Mkdir(filepath.Join(dir, "corrupt-20260102T000000Z.partial"), 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, file := range []string{"absent", "empty"} {
				dir := t.TempDir()
				leave(t, dir)
				path := filepath.Join(dir, "helix.db")
				if file == "empty" {
					must(t, os.WriteFile(path, nil, 0o600))
				}
				db, err := Open(t.Context(), Options{Path: path, Keys: NewKeys(&memRoot{}), Traces: []string{filepath.Join(dir, "audit-head")}})
				must(t, err)
				if rec := db.Recovery(); (rec == nil) != strings.HasPrefix(name, "nothing") {
					t.Errorf("%s file: recovery %+v", file, rec)
				}
				shut(t, db)
			}
		})
	}
}

func leaveFile(t *testing.T, dir, name string) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, []byte("x"), 0o600))
}

// Choosing to start with no data creates an empty database, and the previous files are kept.
func TestStartNewKeepsPreviousFiles(t *testing.T) {
	t.Parallel()
	for _, l := range losses {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			_, err := h.s.StartNew(h.ctx, struct{}{})
			wantKind(t, err, fault.Conflict, "opens normally")
			_, err = h.db.Blobs().PutBytes(h.ctx, []byte("recording"))
			must(t, err)
			shut(t, h.db)
			l.lose(t, h.db.path)
			before := content(t, h.db.path)
			h = openHome(t, h.dir, h.root)
			if h.db.Recovery() == nil {
				t.Fatal("no recovery mode")
			}
			r, err := h.s.StartNew(h.ctx, struct{}{})
			if err != nil || h.db.Recovery() != nil {
				t.Fatalf("%v, %+v", err, h.db.Recovery())
			}
			if got := content(t, filepath.Join(r.ReplacedPath, "helix.db")); got != before {
				t.Errorf("kept %d bytes, want %d", len(got), len(before))
			}
			if dirSize(filepath.Join(r.ReplacedPath, "blobs")) == 0 {
				t.Error("the stored files were not kept: pruning would delete them")
			}
			seed(t, h.db, h.db.LocalUser().ID, 1)
			shut(t, h.db)
			h = openHome(t, h.dir, h.root)
			if h.db.Recovery() != nil || len(rows(t, h.db, "custom_tools")["custom_tools"]) != 1 {
				t.Fatalf("the new data is not there: %+v", h.db.Recovery())
			}
			if strings.Contains(strings.Join(h.db.traces(), "\n"), "audit") {
				t.Error("a trace that nobody named")
			}
		})
	}
}

// A call waits for background work, and is refused while a user's own operation is running.
func TestCallsWaitForBackgroundWork(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	begun, release, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		h.s.background(h.ctx, "check", func(context.Context) error { close(begun); <-release; return nil })
	}()
	<-begun
	checked := make(chan error, 1)
	go func() {
		_, err := h.s.Check(h.ctx, CheckParams{})
		checked <- err
	}()
	select {
	case err := <-checked:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	close(release)
	must(t, <-checked)
	<-ended
	_, done, err := h.s.exclusive(h.ctx, "backup")
	must(t, err)
	defer done(nil)
	_, err = h.s.Check(h.ctx, CheckParams{})
	wantKind(t, err, fault.Conflict, "Another backup")
	_, err = h.s.Prune(h.ctx, PruneParams{DryRun: true})
	must(t, err) // it only reads
}
