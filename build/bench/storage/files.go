package main

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing/fstest"
	"time"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/storage"
	"helixbench/figures"
)

// big creates a closed database of about size bytes with rows of one kilobyte.
func (b *bench) big(size int64) string {
	o := b.ours("big")
	path := b.pathOf(o)
	check(o.Write(b.ctx, func(tx *storage.Tx) error { _, err := tx.Exec(tables); return err }))
	rng := rand.New(rand.NewPCG(6, 6))
	text := func() string {
		var s strings.Builder
		for s.Len() < 900 {
			s.WriteString(strconv.FormatUint(rng.Uint64(), 36))
			s.WriteByte(' ')
		}
		return s.String()
	}
	for n := int64(0); n < size; {
		check(o.Write(b.ctx, func(tx *storage.Tx) error {
			q := upsertSQL(perStatement)
			for range 400 {
				args := make([]any, 0, 7*perStatement)
				for range perStatement {
					r := row(storage.NewID(), 0)
					t := text()
					r[3] = t
					n += int64(len(t)) + 170
					args = append(args, r...)
				}
				if _, err := tx.Exec(q, args...); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	check(o.Close())
	return path
}

// pathOf returns the path of the file according to SQLite.
func (b *bench) pathOf(o *storage.DB) (path string) {
	check(o.Read(b.ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&path)
	}))
	return path
}

func run(name string, args ...string) {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		check(fmt.Errorf("%s %v: %w: %s", name, args, err, out))
	}
}

func mib(path string) float64 {
	fi, err := os.Stat(path)
	check(err)
	return float64(fi.Size()) / (1 << 20)
}

// files measures open, backup and migration of the big file.
func (b *bench) files() {
	path := b.big(b.size)
	label := fmt.Sprintf("%.0fMiB", mib(path))
	b.open(path, label)
	b.backup(path, label)
	b.migrate(path, label)
}

func (b *bench) open(path, label string) {
	var xs []float64
	for range 9 {
		var o *storage.DB
		xs = append(xs, 1000*took(func() { o = b.oursAt(path) }))
		check(o.Close())
	}
	figures.Print("open_clean_"+label, median(xs), "ms", 0, "-")
}

// backup measures a backup while another goroutine writes without a pause. The peer copies an idle
// file.
func (b *bench) backup(path, label string) {
	dst := filepath.Join(b.dir, "copy.db")
	var ours, theirs, p99s []float64
	for range 3 {
		theirs = append(theirs, took(func() { run("sqlite3", path, ".backup "+dst) }))
		check(os.Remove(dst))
		o := b.oursAt(path)
		s := storage.NewService(o, storage.ServiceOptions{BackupDir: filepath.Join(b.dir, "backups")})
		ctx := identity.With(b.ctx, identity.Identity{User: o.LocalUser().ID, Client: identity.ClientTerminal})
		stop, done := make(chan struct{}), make(chan []float64)
		go func() {
			var lat []float64
			for i := 0; ; i++ {
				select {
				case <-stop:
					done <- lat
					return
				default:
				}
				lat = append(lat, 1000*took(func() {
					check(o.Write(b.ctx, func(tx *storage.Tx) error { _, err := tx.Exec(insertOne, row(storage.NewID(), i)...); return err }))
				}))
			}
		}()
		var r storage.BackupResult
		ours = append(ours, took(func() {
			var err error
			r, err = s.Backup(ctx, storage.BackupParams{})
			check(err)
		}))
		close(stop)
		lat := <-done
		slices.Sort(lat)
		p99s = append(p99s, lat[len(lat)*99/100])
		check(o.Close())
		check(os.Remove(r.Path))
	}
	figures.Print("backup_while_writing_"+label, median(ours), "s", median(ours)/median(theirs), "sqlite3 .backup")
	figures.Print("writer_p99_during_backup", median(p99s), "ms", 0, "-")
}

// migrate adds one column to the big file by the full procedure.
func (b *bench) migrate(path, label string) {
	var ours, theirs []float64
	for i := range 3 {
		cp := filepath.Join(b.dir, "cp.db")
		theirs = append(theirs, took(func() {
			run("cp", path, cp)
			run("sqlite3", cp, "pragma integrity_check")
		}))
		check(os.Remove(cp))
		dir, err := os.MkdirTemp(b.dir, "migrate")
		check(err)
		work := filepath.Join(dir, "helix.db")
		run("cp", path, work)
		ours = append(ours, took(func() {
			o, err := storage.Open(b.ctx, storage.Options{Path: work, Migrations: oneMore(i), Progress: trace()})
			check(err)
			if o.Recovery() != nil {
				check(fmt.Errorf("recovery: %+v", o.Recovery()))
			}
			check(o.Close())
		}))
		check(os.RemoveAll(dir))
	}
	figures.Print("migrate_one_column_"+label, median(ours), "s", median(ours)/median(theirs), "cp + integrity_check")
}

// trace prints the steps of a migration if HELIX_BENCH_TRACE is set.
func trace() func(string, int64, int64) {
	if os.Getenv("HELIX_BENCH_TRACE") == "" {
		return nil
	}
	begin, last := time.Now(), ""
	return func(step string, done, total int64) {
		if step != last || done == total {
			fmt.Fprintf(os.Stderr, "%8.3f s %s %d/%d\n", time.Since(begin).Seconds(), step, done, total)
			last = step
		}
	}
}

// oneMore returns the program's migrations and one that adds a column; the bench tables are created
// by a migration too, so that the schema is the expected one.
func oneMore(i int) fs.FS {
	m := fstest.MapFS{}
	dir := os.DirFS(filepath.Join("..", "..", "backend", "storage", "migrations"))
	names, err := fs.Glob(dir, "*.sql")
	check(err)
	for _, n := range names {
		text, err := fs.ReadFile(dir, n)
		check(err)
		m[n] = &fstest.MapFile{Data: text}
	}
	m["9001_bench.sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\n" + strings.NewReplacer("CREATE TABLE ", "CREATE TABLE IF NOT EXISTS ", "CREATE INDEX ", "CREATE INDEX IF NOT EXISTS ", "CREATE VIRTUAL TABLE ", "CREATE VIRTUAL TABLE IF NOT EXISTS ").Replace(tables))}
	m["9002_column.sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\nALTER TABLE bench_rows ADD COLUMN extra TEXT;")}
	return m
}

// memory measures the resident set of a process that opens, reads and writes files of two sizes.
func (b *bench) memory() {
	for _, size := range []int64{10 << 20, b.size} {
		path := b.big(size)
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "HELIX_BENCH_RSS="+path)
		out, err := cmd.Output()
		check(err)
		kb, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
		check(err)
		figures.Print(fmt.Sprintf("rss_%.0fMiB", mib(path)), kb/1024, "MiB", 0, "-")
	}
}

// measureRSS is the child of memory: it works for a moment and prints its peak in KiB.
func measureRSS(path string) {
	ctx := context.Background()
	o, err := storage.Open(ctx, storage.Options{Path: path})
	check(err)
	var ids []uuid.UUID
	check(o.Read(ctx, func(tx *storage.Tx) error {
		rows, err := tx.Query(`SELECT id FROM bench_rows ORDER BY id LIMIT 20000`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id uuid.UUID
			if err := rows.Scan(&id); err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return rows.Err()
	}))
	end := time.Now().Add(3 * time.Second)
	for i := 0; time.Now().Before(end); i++ {
		check(o.Write(ctx, func(tx *storage.Tx) error {
			_, err := tx.Exec(`UPDATE bench_rows SET n = n + 1 WHERE id = ?`, ids[i%len(ids)])
			return err
		}))
		check(o.Read(ctx, func(tx *storage.Tx) error {
			var n int
			return tx.QueryRow(`SELECT n FROM bench_rows WHERE id = ?`, ids[(i*7)%len(ids)]).Scan(&n)
		}))
	}
	status, err := os.ReadFile("/proc/self/status")
	check(err)
	for l := range strings.Lines(string(status)) {
		if f := strings.Fields(l); len(f) > 1 && f[0] == "VmHWM:" {
			fmt.Println(f[1])
		}
	}
	check(o.Close())
}
