// Command audit measures backend/audit and backend/permission against their peers in one
// run: the same insert without a chain through the same driver, git fsck over a history with
// as many commits as the log has entries, and casbin on Node with an equal policy. It prints one
// line per measurement: name, value, unit, ratio to the peer, peer, separated by tabs. -n sets the
// number of entries in the big log.
package main

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helixbench/figures"
)

type bench struct {
	dir  string
	n    int
	db   *storage.DB
	log  *audit.Service
	ctx  context.Context
	user uuid.UUID
	runs []uuid.UUID
}

func main() {
	n := flag.Int("n", 1_000_000, "entries of the big log, commits of the git history")
	only := flag.String("only", "", "run the measures whose name contains this")
	dir := flag.String("dir", "", "folder for the files; default: a temporary one")
	flag.Parse()
	if path := os.Getenv("HELIX_BENCH_VERIFY"); path != "" {
		verifyChild(path)
		return
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	b := &bench{dir: *dir, n: *n}
	if b.dir == "" {
		d, err := os.MkdirTemp("", "helix-bench-audit-")
		check(err)
		defer os.RemoveAll(d)
		b.dir = d
	}
	b.open()
	defer b.db.Close()
	for _, m := range []struct {
		name string
		fn   func()
	}{
		{"append", b.append}, {"size", b.size}, {"decide", b.decide}, {"preview", b.preview}, {"list", b.list}, {"verify", b.verify},
	} {
		if *only == "" || strings.Contains(m.name, *only) {
			m.fn()
		}
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func (b *bench) open() {
	var err error
	b.db, err = storage.Open(context.Background(), storage.Options{Path: filepath.Join(b.dir, "helix.db"), Keys: storage.NewKeys(storagetest.NewRoot())})
	check(err)
	b.log = audit.New(b.db, audit.Options{})
	b.user = b.db.LocalUser().ID
	b.ctx = identity.With(context.Background(), identity.Identity{User: b.user, Session: uuid.New(), Scopes: identity.Admin, Client: identity.ClientTerminal, Pipe: "memory"})
	for range 20000 {
		b.runs = append(b.runs, storage.NewID())
	}
}

var actions = []string{audit.Start, audit.PermissionCheck, audit.NetworkCall, audit.ResourceAccess, audit.Complete}

var subjects = func() (out []string) {
	for range 200 {
		out = append(out, uuid.NewString())
	}
	return out
}()

// entry returns the i-th entry of a generated but typical log: runs of five entries.
func (b *bench) entry(i int) audit.Entry {
	e := audit.Entry{User: b.user, ActorKind: "user", ActorID: b.user.String(), Action: actions[i%5], SubjectKind: "tool", SubjectID: subjects[(i/5)%len(subjects)], RunID: b.runs[(i/5)%len(b.runs)]}
	if i%997 == 1 {
		e.Outcome = audit.Denied
	}
	e.Details = map[string]any{"capability": "network:https", "resource": "api.example.com", "bytes": i, "micros": 1250}
	return e
}

const plainSchema = `
CREATE TABLE plain_log (seq INTEGER PRIMARY KEY, id BLOB NOT NULL CHECK (length(id) = 16), user_id BLOB NOT NULL CHECK (length(user_id) = 16), device_id BLOB NOT NULL CHECK (length(device_id) = 16),
  at INTEGER NOT NULL, actor_kind TEXT NOT NULL, actor_id TEXT NOT NULL, action TEXT NOT NULL CHECK (length(action) BETWEEN 1 AND 64), subject_kind TEXT NOT NULL, subject_id TEXT NOT NULL, outcome TEXT NOT NULL,
  run_id BLOB CHECK (length(run_id) = 16), details_hash BLOB NOT NULL CHECK (length(details_hash) = 32), prev_hash BLOB NOT NULL CHECK (length(prev_hash) = 32), hash BLOB NOT NULL CHECK (length(hash) = 32)) STRICT;
CREATE INDEX plain_log_user ON plain_log (user_id);
CREATE INDEX plain_log_action ON plain_log (action);
CREATE INDEX plain_log_subject ON plain_log (subject_id) WHERE subject_id <> '';
CREATE INDEX plain_log_run ON plain_log (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX plain_log_outcome ON plain_log (outcome) WHERE outcome <> 'ok';
CREATE TABLE plain_details (seq INTEGER PRIMARY KEY, details TEXT NOT NULL CHECK (json_valid(details) AND length(CAST(details AS BLOB)) <= 8192)) STRICT`

// append measures an entry inside a transaction against the same two inserts without chain, hash
// and redaction, alternating; then entries in transactions of their own.
func (b *bench) append() {
	check(b.db.Write(b.ctx, func(tx *storage.Tx) error {
		for _, q := range strings.Split(plainSchema, ";") {
			if _, err := tx.Exec(q); err != nil {
				return err
			}
		}
		return nil
	}))
	const rounds, each = 40, 250
	var ours, plain []float64
	seq := 0
	zero := [32]byte{1}
	dev := b.db.Device().ID
	for range rounds {
		check(b.db.Write(b.ctx, func(tx *storage.Tx) error {
			for i := range each {
				e := b.entry(i)
				at := time.Now()
				if err := audit.Append(tx, e); err != nil {
					return err
				}
				ours = append(ours, micros(at))
			}
			return nil
		}))
		check(b.db.Write(b.ctx, func(tx *storage.Tx) error {
			for i := range each {
				e := b.entry(i)
				seq++
				at := time.Now()
				if _, err := tx.Exec(`INSERT INTO plain_log (seq, id, user_id, device_id, at, actor_kind, actor_id, action, subject_kind, subject_id, outcome, run_id, details_hash, prev_hash, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
					seq, storage.NewID(), e.User, dev, tx.Now, e.ActorKind, e.ActorID, e.Action, e.SubjectKind, e.SubjectID, "ok", e.RunID, zero, zero, zero); err != nil {
					return err
				}
				if _, err := tx.Exec(`INSERT INTO plain_details (seq, details) VALUES (?, ?)`, seq, `{"bytes":123,"capability":"network:https","micros":1250,"resource":"api.example.com"}`); err != nil {
					return err
				}
				plain = append(plain, micros(at))
			}
			return nil
		}))
	}
	o, p := median(ours), median(plain)
	figures.Print("append.tx", o, "µs median", o/p, "plain insert")
	figures.Print("append.tx.plain", p, "µs median", 0, "")
	var alone []float64
	for i := range 1000 {
		e := b.entry(i)
		at := time.Now()
		check(b.log.Record(b.ctx, e))
		alone = append(alone, micros(at))
	}
	figures.Print("append.alone.p95", quantile(alone, 0.95)/1000, "ms", 0, "")
	f := b.fsync()
	figures.Print("append.alone.p95.of_fsync", quantile(f, 0.95)/1000, "ms", quantile(alone, 0.95)/quantile(f, 0.95), "write 4 KiB + fsync")
}

// fsync measures one durable write of a page on this disk.
func (b *bench) fsync() (out []float64) {
	f, err := os.Create(filepath.Join(b.dir, "fsync"))
	check(err)
	defer f.Close()
	page := make([]byte, 4096)
	for range 300 {
		at := time.Now()
		_, err := f.Write(page)
		check(err)
		check(f.Sync())
		out = append(out, micros(at))
	}
	return out
}

// size measures the disk space of an entry without details, indexes included.
func (b *bench) size() {
	path := filepath.Join(b.dir, "size.db")
	db, err := storage.Open(context.Background(), storage.Options{Path: path, Keys: storage.NewKeys(storagetest.NewRoot())})
	check(err)
	defer db.Close()
	pages := func() (n int64) {
		check(db.Read(b.ctx, func(tx *storage.Tx) error {
			return tx.QueryRow(`SELECT page_count * page_size FROM pragma_page_count, pragma_page_size`).Scan(&n)
		}))
		return n
	}
	audit.New(db, audit.Options{})
	const n = 50000
	before := pages()
	for at := 0; at < n; at += 5000 {
		check(db.Write(b.ctx, func(tx *storage.Tx) error {
			for i := at; i < at+5000; i++ {
				e := b.entry(i)
				e.Details = nil
				if err := audit.Append(tx, e); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	figures.Print("entry.size", float64(pages()-before)/n, "B", 0, "")
}

// fill extends the log to n entries and signs it.
func (b *bench) fill(n int) {
	var have int
	check(b.db.Read(b.ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT coalesce(max(seq), 0) FROM audit_log`).Scan(&have)
	}))
	for have < n {
		check(b.db.Write(b.ctx, func(tx *storage.Tx) error {
			for i := 0; i < 5000 && have < n; i++ {
				if err := audit.Append(tx, b.entry(have)); err != nil {
					return err
				}
				have++
			}
			return nil
		}))
	}
	check(b.log.Sign(b.ctx))
}

// list measures a page of audit.list at n entries for every filter, and reports the slowest.
func (b *bench) list() {
	b.fill(b.n)
	mid := time.Now().Add(-time.Second)
	worst := 0.0
	for _, f := range []struct {
		name string
		p    audit.ListParams
	}{
		{"none", audit.ListParams{}}, {"subject", audit.ListParams{SubjectID: subjects[3]}}, {"subject_none", audit.ListParams{SubjectID: "x"}}, {"run", audit.ListParams{RunID: &b.runs[7]}},
		{"denied", audit.ListParams{Outcome: audit.Denied}}, {"ok", audit.ListParams{Outcome: audit.OK}}, {"action", audit.ListParams{Actions: []string{audit.NetworkCall}}}, {"action_none", audit.ListParams{Actions: []string{"x"}}},
		{"actions_rare", audit.ListParams{Actions: []string{"grant.created", "grant.revoked"}}}, {"text_common", audit.ListParams{Text: "example.com"}}, {"text_none", audit.ListParams{Text: "no such words"}},
		{"from_to", audit.ListParams{From: &time.Time{}, To: &mid}}, {"deep", audit.ListParams{Before: int64(b.n / 2), Outcome: audit.Denied, SubjectID: subjects[9]}}, {"action_and_outcome", audit.ListParams{Actions: []string{audit.Complete}, Outcome: audit.Denied}},
	} {
		f.p.Limit = 100
		var times []float64
		for range 20 {
			at := time.Now()
			_, err := b.log.List(b.ctx, f.p)
			check(err)
			times = append(times, micros(at)/1000)
		}
		worst = max(worst, quantile(times, 0.95))
		figures.Print("list.page."+f.name, quantile(times, 0.95), "ms p95", 0, "")
	}
	figures.Print("list.page.worst", worst, "ms p95", 0, "")
}

func micros(since time.Time) float64 { return float64(time.Since(since).Nanoseconds()) / 1000 }

func median(v []float64) float64 { return quantile(v, 0.5) }

func quantile(v []float64, q float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[min(len(v)-1, int(q*float64(len(v))))]
}
