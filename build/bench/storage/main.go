// Command storage measures backend/storage against its peers in one run: mattn/go-sqlite3
// (cgo) with the same schema and pragmas, the sqlite3 command line tool, and cp. It prints one line
// per measurement: name, value, unit, ratio to the peer, peer, separated by tabs.
// HELIX_BENCH_FULL=1 or -full uses 1 GiB files as the goals say; otherwise they have 128 MiB.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"helix/backend/storage"
)

type bench struct {
	dir  string
	size int64 // of the big file, in bytes
	only string
	ctx  context.Context
}

func main() {
	full := flag.Bool("full", os.Getenv("HELIX_BENCH_FULL") == "1", "files of 1 GiB")
	only := flag.String("only", "", "run the measures whose name contains this")
	dir := flag.String("dir", "", "folder for the files; default: a temporary one")
	flag.Parse()
	if path := os.Getenv("HELIX_BENCH_RSS"); path != "" {
		measureRSS(path)
		return
	}
	if !hasFTS5() {
		rerun()
		return
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	b := &bench{dir: *dir, size: 128 << 20, only: *only, ctx: context.Background()}
	if *full {
		b.size = 1 << 30
	}
	if b.dir == "" {
		d, err := os.MkdirTemp("", "helix-bench-storage-")
		check(err)
		defer os.RemoveAll(d)
		b.dir = d
	}
	for _, m := range []struct {
		name string
		fn   func()
	}{
		{"durable", b.durable}, {"bulk", b.bulk}, {"point", b.point}, {"mixed", b.mixed}, {"fts", b.fts},
		{"capture", b.capture}, {"seal", b.seal}, {"files", b.files}, {"memory", b.memory},
	} {
		if b.only == "" || strings.Contains(m.name, b.only) {
			m.fn()
		}
	}
}

// hasFTS5 reports whether the cgo peer was built with full-text search, which takes a tag.
func hasFTS5() bool {
	db, err := sql.Open("sqlite3", ":memory:")
	check(err)
	defer db.Close()
	_, err = db.Exec(`CREATE VIRTUAL TABLE t USING fts5(x)`)
	return err == nil
}

// rerun starts this program again with the build tag that the peer needs.
func rerun() {
	if os.Getenv("HELIX_BENCH_RERUN") != "" {
		check(errors.New("the peer has no FTS5, even with its build tag"))
	}
	cmd := exec.Command("go", append([]string{"run", "-tags", "sqlite_fts5", "./storage"}, os.Args[1:]...)...)
	cmd.Env = append(os.Environ(), "HELIX_BENCH_RERUN=1", "CGO_ENABLED=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	check(cmd.Run())
}

func check(err error) {
	if err != nil {
		_, file, line, _ := runtime.Caller(1)
		fmt.Fprintf(os.Stderr, "%s:%d: %v\n", filepath.Base(file), line, err)
		os.Exit(1)
	}
}

// median returns the median of xs.
func median(xs []float64) float64 {
	xs = slices.Clone(xs)
	slices.Sort(xs)
	return xs[len(xs)/2]
}

// versus runs ours and theirs alternating, so that a busy moment affects both, and returns the
// medians.
func versus(n int, ours, theirs func() float64) (a, b float64) {
	var as, bs []float64
	for range n {
		as = append(as, ours())
		bs = append(bs, theirs())
	}
	return median(as), median(bs)
}

// rate runs fn for about d and returns the number of calls per second.
func rate(d time.Duration, fn func(i int)) float64 {
	begin, n := time.Now(), 0
	for time.Since(begin) < d {
		fn(n)
		n++
	}
	return float64(n) / time.Since(begin).Seconds()
}

func took(fn func()) float64 {
	t := time.Now()
	fn()
	return time.Since(t).Seconds()
}

// ours opens a new Helix database.
func (b *bench) ours(name string) *storage.DB {
	dir, err := os.MkdirTemp(b.dir, name)
	check(err)
	return b.oursAt(filepath.Join(dir, "helix.db"))
}

func (b *bench) oursAt(path string) *storage.DB {
	db, err := storage.Open(b.ctx, storage.Options{Path: path, Keys: storage.NewKeys(&memRoot{})})
	check(err)
	return db
}

// memRoot is a root key in memory.
type memRoot struct{ key []byte }

func (r *memRoot) Candidates() [][]byte {
	if r.key == nil {
		return nil
	}
	return [][]byte{r.key}
}
func (r *memRoot) Create(context.Context) ([]byte, error) {
	r.key = make([]byte, storage.RootKeySize)
	return r.key, nil
}
func (r *memRoot) Replace(_ context.Context, key []byte) error { r.key = key; return nil }
func (r *memRoot) Place([]byte) string                         { return "memory" }

// theirs opens a new database of the peer with the same pragmas: one writer, a pool of readers.
func (b *bench) theirs(name string) (writer, readers *sql.DB) {
	dir, err := os.MkdirTemp(b.dir, name)
	check(err)
	return theirsAt(filepath.Join(dir, "peer.db"))
}

func theirsAt(path string) (writer, readers *sql.DB) {
	dsn := "file:" + path + "?_journal_mode=WAL&_synchronous=FULL&_foreign_keys=on&_busy_timeout=5000&_auto_vacuum=incremental"
	writer = sql.OpenDB(connector{dsn + "&_txlock=immediate&_cache_size=-65536", []string{"PRAGMA temp_store=MEMORY", "PRAGMA journal_size_limit=67108864", "PRAGMA trusted_schema=OFF", "PRAGMA cell_size_check=ON"}})
	writer.SetMaxOpenConns(1)
	check(writer.Ping())
	readers = sql.OpenDB(connector{dsn + "&_cache_size=-8192&_query_only=true", []string{"PRAGMA temp_store=MEMORY", "PRAGMA trusted_schema=OFF", "PRAGMA cell_size_check=ON"}})
	readers.SetMaxOpenConns(8)
	readers.SetMaxIdleConns(8)
	return writer, readers
}

// plain opens a new database with the driver that storage uses, but without storage.
func (b *bench) plain(name string) *sql.DB {
	dir, err := os.MkdirTemp(b.dir, name)
	check(err)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "plain.db")+"?_txlock=immediate&_pragma=auto_vacuum(INCREMENTAL)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(ON)&_pragma=cache_size(-65536)&_pragma=temp_store(MEMORY)&_pragma=cell_size_check(ON)")
	check(err)
	db.SetMaxOpenConns(1)
	return db
}

const tables = `
CREATE TABLE bench_rows (
    id         BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id    BLOB NOT NULL,
    title      TEXT NOT NULL,
    body       TEXT NOT NULL,
    n          INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX bench_rows_user ON bench_rows (user_id, updated_at);
CREATE TABLE bench_docs (rowid INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT;
CREATE VIRTUAL TABLE bench_fts USING fts5(text, content='bench_docs', content_rowid='rowid');
`

func (b *bench) pair(name string) (o *storage.DB, w, r *sql.DB) {
	o = b.ours(name)
	check(o.Write(b.ctx, func(tx *storage.Tx) error { _, err := tx.Exec(tables); return err }))
	w, r = b.theirs(name)
	_, err := w.Exec(tables)
	check(err)
	return o, w, r
}
