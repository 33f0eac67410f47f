package storagetest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"helix/backend/storage"
)

// Plans records the statements that a test runs and checks how SQLite would run them. ANALYZE is
// never run, so the plans depend only on the schema and the text of the statements. No other test
// would notice a plan that scans a whole table, because it is slow only with many rows.
type Plans struct {
	db   *storage.DB
	path string

	mu   sync.Mutex
	seen map[string]statement // by normalized text
}

type statement struct {
	query string
	args  []driver.NamedValue
}

// Scan permits statements that read all rows of a table, or all rows of a user.
type Scan struct {
	SQL    string // a part of their normalized text
	Reason string
}

// smallTables do not grow with use, so a full scan is cheap.
var smallTables = []string{
	"sqlite_master", "pragma_table_info", "meta", "users", "devices", "device_keys", "sync_local", "sync_clock", "vector_meta", "data_keys", "migration_log",
}

// growTo is the number of rows per table in the large database.
const growTo = 2000

// RecordPlans records the statements that run on db from now until Check. Do not start background
// work that may or may not run in that time.
func RecordPlans(t *testing.T, db *storage.DB) *Plans {
	t.Helper()
	p := &Plans{db: db, seen: map[string]statement{}}
	err := db.Write(t.Context(), func(tx *storage.Tx) error { // also creates the capture triggers
		return tx.QueryRow(`SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&p.path)
	})
	if err != nil {
		t.Fatal(err)
	}
	db.OnStatement(func(query string, args []driver.NamedValue) {
		text := normalSQL(query)
		verb, _, _ := strings.Cut(text, " ")
		if !slices.Contains([]string{"SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "REPLACE"}, strings.ToUpper(verb)) {
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if _, ok := p.seen[text]; !ok {
			p.seen[text] = statement{query, slices.Clone(args)}
		}
	})
	return p
}

var (
	spaces = regexp.MustCompile(`\s+`)
	marks  = regexp.MustCompile(`\?(, ?\?)+`)
	groups = regexp.MustCompile(`\((\?…?)\)(, ?\(\?…?\))+`)
)

// normalSQL puts a statement on one line and makes statements equal that differ only in how many
// values they list.
func normalSQL(query string) string {
	text := strings.TrimSpace(spaces.ReplaceAllString(query, " "))
	return groups.ReplaceAllString(marks.ReplaceAllString(text, "?…"), "($1)…")
}

// Check compares the plans with the golden file testdata/plans.txt of the package; its flag
// -update writes it. A statement that reads all rows of a growing table, or all rows of a user,
// fails the test unless scans has a reason for it.
func (p *Plans) Check(t *testing.T, scans []Scan) {
	t.Helper()
	p.db.OnStatement(nil)
	dir := t.TempDir()
	empty, large := filepath.Join(dir, "empty.db"), filepath.Join(dir, "large.db")
	Blank(t, empty)
	p.grow(t, large)
	before, after := openRaw(t, empty), openRaw(t, large)
	used := map[string]bool{}
	var out strings.Builder
	out.WriteString("# How SQLite runs the statements of this package. A test writes and checks this file.\n")
	for _, text := range slices.Sorted(maps.Keys(p.seen)) {
		s := p.seen[text]
		plan, err := explain(before, s)
		if err != nil {
			t.Errorf("explain %s: %v", text, err)
			continue
		}
		if grown, err := explain(after, s); err != nil || !slices.Equal(grown, plan) {
			t.Errorf("%s\nhas another plan in a large database:\n  %s\nthan in an empty one:\n  %s\n%v", text, strings.Join(grown, "\n  "), strings.Join(plan, "\n  "), err)
		}
		if len(plan) == 0 {
			continue // it reads nothing
		}
		fmt.Fprintf(&out, "\n%s\n    %s\n", text, strings.Join(plan, "\n    "))
		wide := wideSteps(text, plan)
		i := slices.IndexFunc(scans, func(x Scan) bool { return strings.Contains(text, x.SQL) })
		switch {
		case len(wide) == 0:
		case i < 0:
			t.Errorf("%s\nreads too much: %s\nAdd an index, or a reason to the list of scans.", text, strings.Join(wide, "; "))
		default:
			used[scans[i].SQL] = true
			fmt.Fprintf(&out, "    by design: %s\n", scans[i].Reason)
		}
	}
	for _, s := range scans {
		if !used[s.SQL] {
			t.Errorf("no statement with %q reads a whole table; remove it from the list of scans", s.SQL)
		}
	}
	golden := filepath.Join("testdata", "plans.txt")
	if f := flag.Lookup("update"); f != nil && f.Value.String() == "true" {
		if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(golden, []byte(out.String()), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("the plans differ from %s; if the change is meant, run this test with -update:\n%s", golden, firstDifference(string(want), out.String()))
	}
}

// firstDifference returns the place where two texts begin to differ.
func firstDifference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d\n- %s\n+ %s", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines in place of %d", len(b), len(a))
}

// explain returns the steps of a query plan, with inner steps indented.
func explain(db *sql.DB, s statement) (steps []string, err error) {
	args := make([]any, len(s.args))
	for i, a := range s.args {
		args[i] = a.Value
		if a.Name != "" {
			args[i] = sql.Named(a.Name, a.Value)
		}
	}
	rows, err := db.Query("EXPLAIN QUERY PLAN "+s.query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	depth := map[int]int{0: -1}
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			return nil, err
		}
		depth[id] = depth[parent] + 1
		steps = append(steps, strings.Repeat("  ", depth[id])+step)
	}
	return steps, rows.Err()
}

var (
	scanStep = regexp.MustCompile(`^SCAN (\S+)(.*)$`)
	userStep = regexp.MustCompile(`^SEARCH (\S+) USING (COVERING )?INDEX \S+ \(user_id=\?\)`)
	named    = regexp.MustCompile(`(?i)\b(?:FROM|JOIN|UPDATE|INTO)\s+(\w+)(?:\s+(?:AS\s+)?(\w+))?`)
	inner    = regexp.MustCompile(`^(?:MATERIALIZE|CO-ROUTINE) (\S+)`)
)

// wideSteps returns the steps of a plan that read all rows of a growing table, or all rows of a
// user.
func wideSteps(text string, plan []string) (wide []string) {
	small := map[string]bool{"CONSTANT": true}
	for _, m := range named.FindAllStringSubmatch(text, -1) {
		if slices.Contains(smallTables, m[1]) {
			small[m[1]], small[m[2]] = true, true
		}
	}
	for _, step := range plan {
		if m := inner.FindStringSubmatch(strings.TrimSpace(step)); m != nil {
			small[m[1]] = true // the subquery that fills it has its own steps
		}
	}
	for _, step := range plan {
		step = strings.TrimSpace(step)
		m := scanStep.FindStringSubmatch(step)
		if m == nil {
			m = userStep.FindStringSubmatch(step)
		}
		switch {
		case m == nil, small[m[1]], strings.HasPrefix(m[1], "("), strings.HasSuffix(step, " VALUES CLAUSE"), strings.Contains(text, "pragma_"):
		case strings.Contains(step, "VIRTUAL TABLE INDEX") && !strings.HasSuffix(step, "INDEX 0:"):
		default:
			wide = append(wide, step)
		}
	}
	return wide
}

// WideSteps returns the steps of a statement that Check would reject. All its arguments are NULL.
func WideSteps(t *testing.T, query string) ([]string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "empty.db")
	Blank(t, path)
	args := make([]driver.NamedValue, min(strings.Count(query, "?"), 1))
	plan, err := explain(openRaw(t, path), statement{query, args})
	return wideSteps(normalSQL(query), plan), err
}

// grow copies the recorded database to path, with many rows in each table that a recorded statement
// names.
func (p *Plans) grow(t *testing.T, path string) {
	t.Helper()
	from := openRaw(t, p.path)
	if _, err := from.Exec(`VACUUM INTO ?`, path); err != nil {
		t.Fatal(err)
	}
	db := openRaw(t, path)
	if n := readStrings(t, db, `SELECT name FROM sqlite_master WHERE name LIKE 'sqlite_stat%'`); len(n) > 0 {
		t.Fatalf("the database has statistics (%s); these tests explain without them", n)
	}
	triggers := readStrings(t, db, `SELECT sql FROM sqlite_master WHERE type = 'trigger'`)
	for _, name := range readStrings(t, db, `SELECT name FROM sqlite_master WHERE type = 'trigger'`) {
		execRaw(t, db, `DROP TRIGGER "`+name+`"`)
	}
	execRaw(t, db, `PRAGMA foreign_keys = OFF`)
	execRaw(t, db, `PRAGMA ignore_check_constraints = ON`)
	execRaw(t, db, `PRAGMA synchronous = OFF`)
	tables := readStrings(t, db, `SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite_%'`)
	for _, table := range tables {
		word := regexp.MustCompile(`\b` + table + `\b`)
		if slices.Contains(smallTables, table) || !slices.ContainsFunc(slices.Collect(maps.Keys(p.seen)), word.MatchString) {
			continue
		}
		var columns, values []string
		for _, c := range readStrings(t, db, `SELECT name || ' ' || type FROM pragma_table_info('`+table+`')`) {
			name, typ, _ := strings.Cut(c, " ")
			columns = append(columns, `"`+name+`"`)
			values = append(values, map[string]string{"INTEGER": "n", "INT": "n", "REAL": "n", "BLOB": "randomblob(16)"}[typ])
			if values[len(values)-1] == "" {
				values[len(values)-1] = "'x' || n"
			}
		}
		execRaw(t, db, fmt.Sprintf(`INSERT OR IGNORE INTO %q (%s) WITH RECURSIVE c (n) AS (SELECT 1000000 UNION ALL SELECT n + 1 FROM c WHERE n < 1000000 + %d) SELECT %s FROM c`,
			table, strings.Join(columns, ", "), growTo, strings.Join(values, ", ")))
		var n int
		if err := db.QueryRow(`SELECT count(*) FROM "` + table + `"`).Scan(&n); err != nil || n < growTo {
			t.Fatalf("%s has %d rows: %v", table, n, err)
		}
	}
	for _, sql := range triggers { // they decide whether a row is read before it is deleted
		execRaw(t, db, sql)
	}
}

// openRaw opens a database file on one connection, without package storage.
func openRaw(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func execRaw(t *testing.T, db *sql.DB, query string) {
	t.Helper()
	if _, err := db.ExecContext(context.Background(), query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func readStrings(t *testing.T, db *sql.DB, query string) (out []string) {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}
