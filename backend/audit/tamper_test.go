package audit

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

// specimen is a log that is created once and changed in copies: three segments, two users, erased
// details, details erased by retention and a pruned segment.
type specimen struct {
	dir   string
	root  *storagetest.Root
	heads map[string][]byte // head files of other times and places
	older []byte            // the database two segments earlier
	first int64             // the first entry that was not pruned
	last  int64
}

func (sp *specimen) path(name string) string { return filepath.Join(sp.dir, name) }

func makeSpecimen(t *testing.T) *specimen {
	t.Helper()
	sp := &specimen{dir: t.TempDir(), root: storagetest.NewRoot(), heads: map[string][]byte{}}
	storagetest.Blank(t, sp.path("helix.db"))
	now := time.Now()
	db, err := storage.Open(context.Background(), storage.Options{Path: sp.path("helix.db"), Keys: storage.NewKeys(sp.root)})
	if err != nil {
		t.Fatal(err)
	}
	s := New(db, Options{HeadFile: sp.path("audit-head"), SegmentEntries: 8, Now: func() time.Time { return now }, EntryDays: func() int { return 400 }, DetailsDays: func() int { return 90 }})
	e := &env{t, db, s, storagetest.Ctx(t, db)}
	other := storagetest.OtherUser(t, db)
	sign := func() {
		t.Helper()
		if err := s.Sign(e.ctx); err != nil {
			t.Fatal(err)
		}
	}
	e.many(16)
	sign()
	now = now.AddDate(0, 0, 500)
	if err := s.Prune(e.ctx); err != nil { // prunes the first segments and records it
		t.Fatal(err)
	}
	now = now.AddDate(0, 0, -500)
	run := storage.NewID()
	e.append(Entry{Action: Start, SubjectKind: "tool", SubjectID: "a", RunID: run, Details: "one"}, Entry{Action: Complete, SubjectKind: "tool", SubjectID: "a", RunID: run, Details: "two"})
	if err := s.Record(other, Entry{Action: Start, SubjectKind: "tool", SubjectID: "theirs", RunID: storage.NewID(), Details: "three"}, Entry{Action: Complete, SubjectKind: "tool", SubjectID: "theirs", Outcome: Denied}); err != nil {
		t.Fatal(err)
	}
	sign()
	sp.heads["old copy"] = e.head()
	e.many(7)
	if _, err := s.EraseDetails(e.ctx, EraseParams{SubjectID: "t3"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.EraseDetails(other, EraseParams{SubjectID: "theirs"}); err != nil {
		t.Fatal(err)
	}
	sign()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if sp.older, err = os.ReadFile(sp.path("helix.db")); err != nil {
		t.Fatal(err)
	}
	e = sp.open(t)
	e.many(5)
	if err := e.s.Record(identity.With(e.ctx, identity.Identity{User: identity.UserID(other), Scopes: identity.Admin, Client: identity.ClientWindow}), Entry{Action: Start, SubjectKind: "tool", SubjectID: "later", Details: "four"}); err != nil {
		t.Fatal(err)
	}
	e.many(3)
	if err := e.s.Sign(e.ctx); err != nil {
		t.Fatal(err)
	}
	rep := e.verify()
	if !rep.OK || rep.PrunedThrough == 0 || rep.Unsigned != 0 || rep.Erased == 0 {
		t.Fatalf("the specimen: %+v", rep)
	}
	sp.first, sp.last = rep.PrunedThrough+1, rep.SignedThrough
	sp.heads["present"] = e.head()
	e.close()
	foreign := setup(t, Options{HeadFile: filepath.Join(t.TempDir(), "head")})
	foreign.many(3)
	if err := foreign.s.Sign(foreign.ctx); err != nil {
		t.Fatal(err)
	}
	sp.heads["another device's"] = foreign.head()
	return sp
}

func (e *env) head() []byte {
	e.t.Helper()
	b, err := os.ReadFile(e.s.o.HeadFile)
	if err != nil {
		e.t.Fatal(err)
	}
	return b
}

func (e *env) close() {
	e.t.Helper()
	if err := e.db.Close(); err != nil {
		e.t.Fatal(err)
	}
}

// open opens the log like a start of Helix, before anything is written.
func (sp *specimen) open(t *testing.T) *env {
	t.Helper()
	db, err := storage.Open(context.Background(), storage.Options{Path: sp.path("helix.db"), Keys: storage.NewKeys(sp.root)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return &env{t, db, New(db, Options{HeadFile: sp.path("audit-head"), SegmentEntries: 8}), storagetest.Ctx(t, db)}
}

// copyTo copies the specimen to another folder.
func (sp *specimen) copyTo(t *testing.T) *specimen {
	t.Helper()
	c := *sp
	c.dir = t.TempDir()
	for _, n := range []string{"helix.db", "audit-head"} {
		b, err := os.ReadFile(sp.path(n))
		if err == nil {
			err = os.WriteFile(c.path(n), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return &c
}

// alter changes the file like someone with a database tool: without triggers, and without constraints.
func (sp *specimen) alter(t *testing.T, statements ...string) {
	t.Helper()
	if len(statements) == 0 {
		return
	}
	db, err := sql.Open("sqlite", sp.path("helix.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, table := range []string{"audit_log", "audit_details", "audit_segments", "audit_pruning"} {
		statements = append([]string{
			`CREATE TABLE loose AS SELECT * FROM ` + table, `DROP TABLE ` + table, `ALTER TABLE loose RENAME TO ` + table,
		}, statements...)
	}
	for _, q := range append(append([]string{`PRAGMA legacy_alter_table = ON`}, statements...), `CREATE INDEX audit_log_action ON audit_log (action)`) {
		if _, err := db.Exec(q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
}

// tampering is one change and the problem code that must be reported for it; "" is any.
type tampering struct {
	name    string
	problem string
	sql     []string
	head    []byte // an empty one deletes it
	noHead  bool
	file    []byte // the whole database
}

var auditTables = map[string][]string{
	"audit_log":      {"seq", "id", "user_id", "device_id", "at", "actor_kind", "actor_id", "action", "subject_kind", "subject_id", "outcome", "run_id", "details_hash", "prev_hash", "hash"},
	"audit_details":  {"seq", "details"},
	"audit_segments": {"device_id", "no", "first_seq", "last_seq", "count", "first_prev", "last_hash", "root", "public_key", "signature", "signed_at"},
}

// notHashed lists the columns that verification does not cover, with the reason. There are none.
var notHashed = map[string]string{}

// strange returns a different value of the same kind.
func strange(column string) string {
	switch column {
	case "seq", "at", "no", "first_seq", "last_seq", "count", "signed_at":
		return column + ` + 1000`
	case "id", "user_id", "device_id", "run_id":
		return `x'0190f1c27b7c70008000000000000001'`
	case "details_hash", "prev_hash", "hash", "first_prev", "last_hash", "root", "public_key":
		return `x'` + strings.Repeat("ab", 32) + `'`
	case "signature":
		return `x'` + strings.Repeat("ab", 64) + `'`
	case "details":
		return `'{"i":99}'`
	}
	return `'other'`
}

// tamperings returns the test cases: every column of every audit table × every change, every row ×
// every move, each table, and the head file.
func tamperings(sp *specimen) (out []tampering) {
	key := map[string]string{"audit_log": "seq", "audit_details": "seq", "audit_segments": "no"}
	for table, columns := range auditTables {
		k := key[table]
		row := `(SELECT ` + k + ` FROM ` + table + ` ORDER BY ` + k + ` LIMIT 1 OFFSET 2)`
		next := `(SELECT ` + k + ` FROM ` + table + ` ORDER BY ` + k + ` LIMIT 1 OFFSET 3)`
		pin := []string{`CREATE TEMP TABLE pin AS SELECT ` + row + ` AS a, ` + next + ` AS b`}
		at := func(q ...string) []string { return append(slices.Clone(pin), q...) }
		for _, c := range columns {
			if notHashed[table+"."+c] != "" {
				continue
			}
			set := func(name, value string) {
				out = append(out, tampering{name: table + "." + c + " " + name, sql: at(`UPDATE ` + table + ` SET ` + c + ` = ` + value + ` WHERE ` + k + ` = (SELECT a FROM pin)`)})
			}
			set("null", "NULL")
			set("another value", strange(c))
			set("shorter", `CASE typeof(`+c+`) WHEN 'integer' THEN `+c+` - 1 WHEN 'blob' THEN substr(`+c+`, 1, length(`+c+`) - 1) ELSE substr(`+c+`, 2) || '!' END`)
			set("longer", `CASE typeof(`+c+`) WHEN 'integer' THEN `+c+` + 1 WHEN 'blob' THEN CAST(`+c+` || x'00' AS BLOB) ELSE `+c+` || ' ' END`)
			set("zero", `CASE typeof(`+c+`) WHEN 'integer' THEN 0 WHEN 'blob' THEN zeroblob(length(`+c+`)) WHEN 'null' THEN zeroblob(16) ELSE '' END || ''`)
			// Swap the values of two adjacent rows, if they differ.
			out = append(out, tampering{name: table + "." + c + " swapped", sql: at(
				`CREATE TEMP TABLE two AS SELECT `+k+` AS k, `+c+` AS v FROM `+table+` WHERE `+k+` IN (SELECT a FROM pin UNION SELECT b FROM pin)`,
				`UPDATE `+table+` SET `+c+` = (SELECT v FROM two WHERE two.k <> `+table+`.`+k+`) WHERE `+k+` IN (SELECT k FROM two)`)})
			// All rows of the table at once.
			out = append(out, tampering{name: table + "." + c + " everywhere", sql: []string{`UPDATE ` + table + ` SET ` + c + ` = ` + strange(c)}})
		}
		list := strings.Join(columns, ", ")
		others := strings.Join(slices.DeleteFunc(slices.Clone(columns), func(c string) bool { return c == k }), ", ")
		for n := range 40 {
			pick := fmt.Sprintf(`(SELECT %s FROM %s ORDER BY %s LIMIT 1 OFFSET %d)`, k, table, k, n)
			there := []string{`CREATE TEMP TABLE pin AS SELECT ` + pick + ` AS a`}
			add := func(name string, q string) {
				out = append(out, tampering{name: fmt.Sprintf("%s row %d %s", table, n, name), sql: append(slices.Clone(there), q)})
			}
			add("deleted", `DELETE FROM `+table+` WHERE `+k+` = (SELECT a FROM pin)`)
			add("twice", `INSERT INTO `+table+` SELECT * FROM `+table+` WHERE `+k+` = (SELECT a FROM pin)`)
			add("inserted again at the end", `INSERT INTO `+table+` (`+list+`) SELECT `+strings.Replace(list, k, `(SELECT max(`+k+`) + 1 FROM `+table+`)`, 1)+` FROM `+table+` WHERE `+k+` = (SELECT a FROM pin)`)
			add("inserted before all", `INSERT INTO `+table+` (`+list+`) SELECT `+strings.Replace(list, k, `(SELECT min(`+k+`) - 1 FROM `+table+`)`, 1)+` FROM `+table+` WHERE `+k+` = (SELECT a FROM pin)`)
			add("all behind it deleted", `DELETE FROM `+table+` WHERE `+k+` >= (SELECT a FROM pin)`)
			add("all up to it deleted", `DELETE FROM `+table+` WHERE `+k+` <= (SELECT a FROM pin)`)
			out = append(out, tampering{name: fmt.Sprintf("%s row %d swapped with the next", table, n), sql: []string{
				`CREATE TEMP TABLE two AS SELECT *, row_number() OVER (ORDER BY ` + k + `) AS n FROM (SELECT * FROM ` + table + ` ORDER BY ` + k + fmt.Sprintf(` LIMIT 2 OFFSET %d)`, n),
				`UPDATE ` + table + ` SET (` + others + `) = (SELECT ` + others + ` FROM two WHERE two.` + k + ` <> ` + table + `.` + k + `) WHERE ` + k + ` IN (SELECT ` + k + ` FROM two) AND (SELECT count(*) FROM two) = 2`,
			}})
		}
		out = append(out, tampering{name: table + " emptied", sql: []string{`DELETE FROM ` + table}})
	}
	wipe := []string{`DELETE FROM audit_log`, `DELETE FROM audit_details`, `DELETE FROM audit_segments`}
	out = append(out,
		tampering{name: "everything emptied", problem: ProblemTruncated, sql: wipe},
		tampering{name: "everything emptied, and the head with it", problem: ProblemTruncated, sql: wipe, noHead: true},
		tampering{name: "everything emptied, and said to be new", problem: ProblemTruncated, sql: append(slices.Clone(wipe), `INSERT INTO meta (key, value) VALUES ('audit.new', '`+strings.Repeat("00", 64)+`')`), noHead: true},
		tampering{name: "segments emptied, and the head with it", sql: []string{`DELETE FROM audit_segments`}, noHead: true},
		tampering{name: "a stranger's user for all of somebody", problem: ProblemHash, sql: []string{`UPDATE audit_log SET user_id = x'0190f1c27b7c70008000000000000001' WHERE subject_id = 'theirs'`}},
		tampering{name: "a stranger's device for an entry", problem: ProblemHash, sql: []string{`UPDATE audit_log SET device_id = x'0190f1c27b7c70008000000000000001' WHERE subject_id = 'a'`}},
		tampering{name: "details of another user changed", problem: ProblemHash, sql: []string{`UPDATE audit_details SET details = '"five"' WHERE details = '"four"'`}},
		tampering{name: "details of another user deleted", problem: ProblemDetails, sql: []string{`DELETE FROM audit_details WHERE details = '"four"'`}},
		tampering{name: "all details deleted", problem: ProblemDetails, sql: []string{`DELETE FROM audit_details`}},
		tampering{name: "details for an entry that is not there", problem: ProblemExtra, sql: []string{`INSERT INTO audit_details (seq, details) VALUES (9999, '{}')`}},
		tampering{name: "pruning left open", problem: ProblemExtra, sql: []string{`INSERT INTO audit_pruning (one, through) VALUES (1, 1)`}},
		tampering{name: "a segment more", problem: "", sql: []string{fmt.Sprintf(`INSERT INTO audit_segments SELECT device_id, no + 1, last_seq + 1, last_seq + 1, 1, last_hash, last_hash, root, public_key, signature, signed_at FROM audit_segments WHERE last_seq = %d`, sp.last)}},
		tampering{name: "the device's key in the table", problem: "", sql: []string{`UPDATE device_keys SET public_key = x'` + strings.Repeat("ab", 32) + `'`, `UPDATE audit_segments SET public_key = x'` + strings.Repeat("ab", 32) + `'`}},
		tampering{name: "an older copy of the database", problem: ProblemTruncated, file: sp.older},
		tampering{name: "an older copy of the database, and no head", problem: ProblemHeadMissing, file: sp.older, noHead: true},
		tampering{name: "head missing", problem: ProblemHeadMissing, noHead: true},
		tampering{name: "head empty", problem: ProblemHeadEmpty, head: []byte{}},
		tampering{name: "head blank", problem: ProblemHeadEmpty, head: []byte("\n \n")},
		tampering{name: "head garbage", problem: ProblemHeadUnreadable, head: []byte("\x00\x01{")},
		tampering{name: "head null", problem: ProblemHeadUnreadable, head: []byte("{}")},
		tampering{name: "head old copy", problem: ProblemHeadOld, head: sp.heads["old copy"]},
		tampering{name: "head of another device", problem: ProblemHeadForeign, head: sp.heads["another device's"]},
		tampering{name: "head cut", problem: ProblemHeadUnreadable, head: sp.heads["present"][:len(sp.heads["present"])/2]},
		tampering{name: "head made from a segment", problem: ProblemHeadOld, head: withoutSignature(sp.heads["present"])},
		tampering{name: "head said to be replaced", problem: ProblemHeadUnreadable, head: bytes.Replace(sp.heads["present"], []byte(`"headSignature"`), []byte(`"replacing": true, "headSignature"`), 1)},
	)
	for i, l := range bytes.SplitAfter(sp.heads["present"], []byte("\n")) {
		if bytes.Contains(l, []byte(`": `)) {
			out = append(out, tampering{name: fmt.Sprintf("head without line %d", i), problem: "", head: bytes.Replace(sp.heads["present"], l, nil, 1)})
		}
	}
	slices.SortFunc(out, func(a, b tampering) int { return strings.Compare(a.name, b.name) })
	return out
}

// withoutSignature returns the head as written by an earlier version, which anyone can create from
// a segment of the log.
func withoutSignature(b []byte) []byte {
	var h Head
	if err := json.Unmarshal(b, &h); err != nil {
		panic(err)
	}
	h.HeadSignature = ""
	b, _ = json.Marshal(h)
	return b
}

// tamperBench is an open copy of the specimen that is restored after each change.
type tamperBench struct {
	*env
	sp *specimen
}

var looseTables = []string{"audit_log", "audit_details", "audit_segments", "audit_pruning"}

func (sp *specimen) workshop(t *testing.T) *tamperBench {
	t.Helper()
	c := sp.copyTo(t)
	var keep []string
	for _, table := range looseTables {
		keep = append(keep, `CREATE TABLE whole_`+table+` AS SELECT * FROM `+table)
	}
	c.alter(t, keep...)
	return &tamperBench{c.open(t), c}
}

func (w *tamperBench) exec(statements ...string) {
	w.t.Helper()
	if err := w.db.Write(context.Background(), func(tx *storage.Tx) error {
		for _, q := range statements {
			if _, err := tx.Exec(q); err != nil {
				return fmt.Errorf("%s: %w", q, err)
			}
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *tamperBench) apply(c tampering) {
	w.t.Helper()
	w.exec(append(slices.Clone(c.sql), `DROP TABLE IF EXISTS temp.pin`, `DROP TABLE IF EXISTS temp.two`)...)
	head := w.sp.path("audit-head")
	var err error
	if c.noHead {
		err = os.RemoveAll(head)
	} else if c.head != nil {
		err = os.WriteFile(head, c.head, 0o600)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// altered reports whether anything differs from the specimen, because some changes have no effect.
func (w *tamperBench) altered() bool {
	w.t.Helper()
	head, _ := os.ReadFile(w.sp.path("audit-head"))
	if !bytes.Equal(head, w.sp.heads["present"]) {
		return true
	}
	var n int
	if err := w.db.Read(context.Background(), func(tx *storage.Tx) error {
		for _, table := range looseTables {
			var k int
			if err := tx.QueryRow(`SELECT (SELECT count(*) FROM (SELECT * FROM ` + table + ` EXCEPT SELECT * FROM whole_` + table + `)) + (SELECT count(*) FROM (SELECT * FROM whole_` + table + ` EXCEPT SELECT * FROM ` + table + `))
				+ abs((SELECT count(*) FROM ` + table + `) - (SELECT count(*) FROM whole_` + table + `))`).Scan(&k); err != nil {
				return err
			}
			n += k
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	return n > 0
}

func (w *tamperBench) repair() {
	w.t.Helper()
	var q []string
	for _, table := range looseTables {
		q = append(q, `DELETE FROM `+table, `INSERT INTO `+table+` SELECT * FROM whole_`+table)
	}
	w.exec(append(q, `DELETE FROM meta WHERE key = 'audit.new'`)...)
	if err := os.WriteFile(w.sp.path("audit-head"), w.sp.heads["present"], 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// TestTamperings checks that every change is reported, with its code and a sentence, and that the
// specimen itself is valid.
func TestTamperings(t *testing.T) {
	t.Parallel()
	testkit.SkipRaced(t, "one goroutine, and slow under it")
	sp := makeSpecimen(t)
	w := sp.workshop(t)
	if r := w.verify(); !r.OK || w.altered() {
		t.Fatalf("untouched: %+v", r)
	}
	n := 0
	for _, c := range tamperings(sp) {
		var r Report
		if c.file != nil || strings.Contains(c.name, "key in the table") {
			x := sp.copyTo(t)
			if c.file != nil {
				if err := os.WriteFile(x.path("helix.db"), c.file, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			x.alter(t, c.sql...)
			if c.noHead {
				_ = os.Remove(x.path("audit-head"))
			}
			r = x.open(t).verify()
		} else {
			w.apply(c)
			if !w.altered() {
				continue
			}
			r = w.verify()
			w.repair()
		}
		n++
		if r.OK || r.Message == "" || c.problem != "" && r.Problem != c.problem {
			t.Errorf("%s: %q (%s), want %q", c.name, r.Problem, r.Message, c.problem)
		}
	}
	t.Logf("%d alterations", n)
	if n < 400 {
		t.Errorf("only %d alterations", n)
	}
	if r := w.verify(); !r.OK {
		t.Fatalf("after all of them: %+v", r)
	}
}

// TestTamperingsTogether makes several changes at a time, chosen by a seed.
func TestTamperingsTogether(t *testing.T) {
	t.Parallel()
	testkit.SkipRaced(t, "one goroutine, and slow under it")
	sp := makeSpecimen(t)
	all := slices.DeleteFunc(tamperings(sp), func(c tampering) bool { return c.file != nil || strings.Contains(c.name, "key in the table") })
	seeds := 50
	if os.Getenv("HELIX_LONG") == "1" {
		seeds = 500
	}
	w := sp.workshop(t)
	for seed := range seeds {
		rnd := rand.New(rand.NewPCG(uint64(seed), 5))
		var names []string
		for range 2 + rnd.IntN(3) {
			c := all[rnd.IntN(len(all))]
			names = append(names, c.name)
			w.apply(c)
		}
		if w.altered() {
			if r := w.verify(); r.OK {
				t.Errorf("seed %d: %q is not seen", seed, names)
			}
		}
		w.repair()
	}
}
