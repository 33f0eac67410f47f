package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
)

// Salvage copies every readable row of a damaged database into a new one and goes on with
// that. It works in recovery mode only; the damaged files are kept.
func (s *Service) Salvage(ctx context.Context, _ struct{}) (_ SalvageResult, err error) {
	r := SalvageResult{Tables: []SalvageRows{}}
	ctx, done, err := s.exclusive(ctx, "salvage")
	if err != nil {
		return r, err
	}
	defer func() { done(err) }()
	s.db.rescue.Wait() // the copies are made
	st := s.db.Recovery()
	if st == nil || st.Reason != "corrupt" {
		return r, fault.Conflictf("The data is not damaged, so there is nothing to salvage.")
	}
	dataDir := filepath.Dir(s.db.path)
	r.KeptPath = st.KeptPath
	if r.KeptPath == "" { // the copy failed at the time; without one nothing is changed
		if r.KeptPath, err = s.db.keepDamaged(); err != nil {
			return r, fullDisk(err)
		}
	}
	if room, err := diskSpace(dataDir); err == nil && room.Free < 2*dirSize(r.KeptPath)+1<<20 {
		return r, fault.Limitf("Salvage needs %d MB and there are %d MB free. Nothing was changed.", 2*dirSize(r.KeptPath)>>20, room.Free>>20)
	}
	stage := freshName(dataDir, "staging-", time.Now(), "")
	defer os.RemoveAll(stage) //nolint:errcheck // removed at the next start, too
	next := filepath.Join(stage, nameDB)
	if r.Tables, err = s.salvageInto(ctx, r.KeptPath, stage, next); err != nil {
		return r, fullDisk(err)
	}
	crashPoint("salvage.staged")
	j := journal{Reason: "salvage", Moves: movesFor(dataDir, s.db.path, next, filepath.Join(r.KeptPath, "replaced-"+filepath.Base(s.db.path)))}
	if err := s.db.swap(ctx, "Helix is putting the salvaged data in place. Try again in a moment.", func() error { return commitJournal(dataDir, j) }); err != nil {
		return r, err
	}
	return r, s.note(s.afterSwap(ctx), "data.restore", map[string]any{"kind": "salvage", "tables": r.Tables})
}

// salvageInto reads the damaged files of kept and fills the new database next.
func (s *Service) salvageInto(ctx context.Context, kept, stage, next string) (out []SalvageRows, err error) {
	out = []SalvageRows{}
	if err := os.MkdirAll(stage, 0o700); err != nil {
		return nil, err
	}
	// SQLite may replay the WAL into what it opens, so it gets a copy of the copy.
	source := filepath.Join(stage, "damaged.db")
	base := filepath.Base(s.db.path)
	for _, ext := range []string{"", "-wal"} {
		if exists(filepath.Join(kept, base+ext)) {
			if err := copyFile(source+ext, filepath.Join(kept, base+ext)); err != nil {
				return nil, err
			}
		}
	}
	known, err := knownMigrations(ctx)
	if err != nil {
		return nil, err
	}
	if err := applyMigrations(ctx, next, known, s.version(), "", func(int) {}); err != nil {
		return nil, err
	}
	to, err := sql.Open("sqlite", dsn(next, []string{"journal_mode(MEMORY)", "synchronous(OFF)", "foreign_keys(OFF)", "cache_size(-65536)", "temp_store(MEMORY)"}, true))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	to.SetMaxOpenConns(1)
	from, err := sql.Open("sqlite", dsn(source, damagedPragmas, false))
	if err != nil {
		return nil, err
	}
	defer from.Close()
	from.SetMaxOpenConns(1)
	loadSchema(ctx, from)
	tables, err := plainTables(ctx, to)
	if err != nil {
		return nil, err
	}
	rep := s.progress(ctx, "salvage")
	for i, t := range tables {
		rep.rows(t, int64(i), int64(len(tables)))
		row, err := salvageTable(ctx, from, to, t)
		if err != nil {
			return nil, fmt.Errorf("salvage %s: %w", t, err)
		}
		if row.Kept > 0 || row.Lost != 0 {
			out = append(out, row)
		}
	}
	if err := restoreOwner(ctx, to); err != nil {
		return nil, err
	}
	fts, err := ftsTables(ctx, to)
	if err != nil {
		return nil, err
	}
	for _, n := range fts {
		if _, err := to.ExecContext(ctx, `INSERT INTO `+quote(n)+`(`+quote(n)+`) VALUES ('rebuild')`); err != nil {
			return nil, err
		}
	}
	if problems, err := checkRows(ctx, to, "PRAGMA integrity_check(10)"); err != nil || len(problems) > 0 {
		return nil, fault.Internalf(errors.Join(err, errors.New(strings.Join(problems, "; "))), "The salvaged data did not come out right. Nothing was changed.")
	}
	return out, errors.Join(syncFile(next), syncDir(stage))
}

// damagedPragmas open a damaged file. writable_schema lets SQLite go on with the part of the
// schema that it can read; query_only keeps it from writing. None of these needs the schema.
var damagedPragmas = []string{"writable_schema(ON)", "query_only(ON)", "trusted_schema(OFF)", "cell_size_check(ON)"}

// loadSchema makes SQLite read the schema. The statement that first meets a damaged page of
// it fails, and the next ones see what came before.
func loadSchema(ctx context.Context, db *sql.DB) {
	var n int
	_ = db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_master`).Scan(&n)
}

// plainTables lists the tables to fill: not those that SQLite or an FTS index keeps, and
// not what describes the new file itself.
func plainTables(ctx context.Context, q querier) (out []string, err error) {
	var fts []string
	if err := eachRow(ctx, q, `SELECT name FROM sqlite_master WHERE sql LIKE 'create virtual table%'`, func(scan func(...any) error) error {
		var n string
		defer func() { fts = append(fts, n) }()
		return scan(&n)
	}); err != nil {
		return nil, err
	}
	err = eachRow(ctx, q, `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\' AND name NOT IN ('goose_db_version', 'migration_log') ORDER BY name`, func(scan func(...any) error) error {
		var n string
		if err := scan(&n); err != nil {
			return err
		}
		if !slices.ContainsFunc(fts, func(f string) bool { return n == f || strings.HasPrefix(n, f+"_") }) {
			out = append(out, n)
		}
		return nil
	})
	return out, err
}

// salvager copies one table by ranges of its key.
type salvager struct {
	ctx    context.Context
	from   *sql.DB
	insert *sql.Stmt
	table  string
	key    []string // rowid, or the columns of the primary key, quoted
	cols   []string
	budget int // probes left for ranges that fail
	row    SalvageRows
}

// probeBudget bounds the work on one table. A damaged page of integer keys takes about two
// probes a row; one of 4 KiB holds at most a few hundred rows.
const probeBudget = 400_000

// salvageTable reads t from both ends towards the damage, then halves what lies between.
func salvageTable(ctx context.Context, from, to *sql.DB, t string) (row SalvageRows, err error) {
	row.Table = t
	have, err := columnNames(ctx, from, "main", t)
	if err != nil {
		if ctx.Err() != nil {
			return row, ctx.Err()
		}
		row.Lost = -1 // not even the schema can be read
		return row, nil
	}
	want, err := columnNames(ctx, to, "main", t)
	if err != nil {
		return row, err
	}
	cols := slices.DeleteFunc(slices.Clone(want), func(c string) bool { return !slices.Contains(have, c) })
	if len(cols) == 0 {
		return row, nil
	}
	s := &salvager{ctx: ctx, from: from, table: t, cols: cols, budget: probeBudget, row: row, key: []string{"rowid"}}
	conn, err := to.Conn(ctx)
	if err != nil {
		return row, err
	}
	defer conn.Close()
	var withoutRowid bool
	if err := conn.QueryRowContext(ctx, `SELECT wr FROM pragma_table_list(?) WHERE schema = 'main'`, t).Scan(&withoutRowid); err != nil {
		return row, err
	}
	if withoutRowid {
		s.key = nil
		if err := eachRow(ctx, conn, `SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk`, func(scan func(...any) error) error {
			var n string
			defer func() { s.key = append(s.key, quote(n)) }()
			return scan(&n)
		}, t); err != nil {
			return row, err
		}
		s.budget = 4000 // keys lie too far apart to try each
	}
	if _, err := conn.ExecContext(ctx, "BEGIN"); err != nil {
		return row, err
	}
	names := make([]string, len(cols))
	for i, c := range cols {
		names[i] = quote(c)
	}
	verb := "INSERT OR IGNORE"
	if t == "meta" || t == "sync_local" {
		verb = "INSERT OR REPLACE" // the migrations put a row there
	}
	if s.insert, err = conn.PrepareContext(ctx, verb+` INTO `+quote(t)+` (`+strings.Join(names, ", ")+`) VALUES (?`+strings.Repeat(", ?", len(cols)-1)+`)`); err != nil {
		return row, err
	}
	defer s.insert.Close()
	if err := s.run(); err != nil {
		return row, err
	}
	_, err = conn.ExecContext(ctx, "COMMIT")
	return s.row, err
}

// A bound is a key, or its first columns; nil is no bound.
type bound []any

// gap is an open interval of keys with unknown content.
type gap struct{ lo, hi bound }

func (s *salvager) run() error {
	lo, hi := bound(nil), bound(nil)
	if s.scan(&lo, nil, false) == nil {
		return s.ctx.Err()
	}
	expected, exact := s.countByIndex()
	seen := map[string]bool{}
	todo := []gap{{lo, hi}}
	for len(todo) > 0 && s.budget > 0 {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		g := todo[0]
		todo = todo[1:]
		lo, hi := g.lo, g.hi
		if s.scan(&lo, hi, false) == nil || s.scan(&hi, lo, true) == nil {
			continue // everything between was read
		}
		if lo == nil || hi == nil { // an end cannot be reached: take one from what indexes know
			a, b := s.boundsByIndex()
			if lo == nil {
				lo = a
			}
			if hi == nil {
				hi = b
			}
		}
		mid, ok := midpoint(lo, hi)
		if k := fmt.Sprint(lo, "|", hi); !ok || seen[k] {
			continue
		} else {
			seen[k] = true
		}
		s.point(mid)
		todo = append(todo, gap{lo, mid}, gap{mid, hi})
	}
	s.row.Lost = -1
	if exact {
		s.row.Lost = max(0, expected-s.row.Kept)
	}
	return s.ctx.Err()
}

// tuple writes the first n columns of the key as a row value.
func (s *salvager) tuple(n int) string { return "(" + strings.Join(s.key[:n], ", ") + ")" }

// compare is a condition on the key with its arguments.
func (s *salvager) compare(op string, b bound) (string, []any) {
	if len(b) == 0 {
		return "1", nil
	}
	return s.tuple(len(b)) + " " + op + " (?" + strings.Repeat(", ?", len(b)-1) + ")", b
}

// scan copies the rows from *edge on towards limit, both exclusive, until an error, and
// moves *edge to the last row that was read.
func (s *salvager) scan(edge *bound, limit bound, down bool) error {
	s.budget--
	far, order := "<", ""
	near := ">"
	if down {
		near, far, order = "<", ">", " DESC"
	}
	c1, a1 := s.compare(near, *edge)
	c2, a2 := s.compare(far, limit)
	return s.copyRows(`WHERE `+c1+` AND `+c2+` ORDER BY `+strings.Join(s.key, order+", ")+order, append(slices.Clone(a1), a2...), edge)
}

// point copies the rows of one key.
func (s *salvager) point(key bound) {
	s.budget--
	c, a := s.compare("=", key)
	var last bound
	_ = s.copyRows(`WHERE `+c, a, &last)
}

func (s *salvager) copyRows(where string, args []any, last *bound) error {
	names := make([]string, len(s.cols))
	for i, c := range s.cols {
		names[i] = quote(c)
	}
	rows, err := s.from.QueryContext(s.ctx, `SELECT `+strings.Join(s.key, ", ")+`, `+strings.Join(names, ", ")+` FROM `+quote(s.table)+` NOT INDEXED `+where, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	vals := make([]any, len(s.key)+len(s.cols))
	dst := make([]any, len(vals))
	for i := range vals {
		dst[i] = &vals[i]
	}
	for rows.Next() {
		if err := rows.Scan(dst...); err != nil {
			return err
		}
		*last = slices.Clone(vals[:len(s.key)])
		r, err := s.insert.ExecContext(s.ctx, vals[len(s.key):]...)
		if err != nil {
			if f := codeSQLite(err); f != nil && (f.Kind == fault.Invalid || f.Kind == fault.Conflict) {
				continue // readable bytes that are no valid row
			}
			return err
		}
		n, err := r.RowsAffected() // 0 for a row that an earlier range brought
		if err != nil {
			return err
		}
		s.row.Kept += n
	}
	return rows.Err()
}

// countByIndex counts the table through one of its indexes, which may be whole.
func (s *salvager) countByIndex() (n int64, ok bool) {
	for _, i := range s.indexes() {
		if s.from.QueryRowContext(s.ctx, `SELECT count(*) FROM (SELECT `+s.key[0]+` FROM `+quote(s.table)+` INDEXED BY `+quote(i)+` ORDER BY 1)`).Scan(&n) == nil {
			return n, true
		}
	}
	return 0, false
}

// boundsByIndex finds keys that enclose the table. Without a readable index a rowid is
// taken to lie between 0 and a number that no table of this size reaches.
func (s *salvager) boundsByIndex() (lo, hi bound) {
	if s.key[0] != "rowid" {
		return bound{make([]byte, 16)}, bound{slices.Repeat([]byte{0xff}, 16)}
	}
	for _, i := range s.indexes() {
		var a, b *int64
		if s.from.QueryRowContext(s.ctx, `SELECT min(rowid), max(rowid) FROM (SELECT rowid FROM `+quote(s.table)+` INDEXED BY `+quote(i)+`)`).Scan(&a, &b) == nil && a != nil && b != nil {
			return bound{*a - 1}, bound{*b + 1}
		}
	}
	var pages int64
	if s.from.QueryRowContext(s.ctx, `PRAGMA page_count`).Scan(&pages) != nil {
		pages = 1 << 16
	}
	return bound{int64(0)}, bound{pages * 64}
}

func (s *salvager) indexes() (out []string) {
	_ = eachRow(s.ctx, s.from, `SELECT name FROM pragma_index_list(?) WHERE partial = 0`, func(scan func(...any) error) error {
		var n string
		defer func() { out = append(out, n) }()
		return scan(&n)
	}, s.table)
	return out
}

// midpoint is a key between lo and hi, both exclusive; ok is false when there is none. It
// halves the first column in which they differ.
func midpoint(lo, hi bound) (bound, bool) {
	for i := range min(len(lo), len(hi)) {
		if m, ok := middle(lo[i], hi[i]); ok {
			return append(slices.Clone(lo[:i]), m), true
		}
		if fmt.Sprint(lo[i]) != fmt.Sprint(hi[i]) {
			return nil, false // neighbours
		}
	}
	return nil, false
}

func middle(lo, hi any) (any, bool) {
	switch a := lo.(type) {
	case int64:
		b, ok := hi.(int64)
		if !ok || b-a < 2 {
			return nil, false
		}
		return a + (b-a)/2, true
	case []byte:
		b, ok := hi.([]byte)
		if !ok {
			return nil, false
		}
		m, ok := midBytes(a, b)
		return m, ok
	case string:
		b, ok := hi.(string)
		if !ok {
			return nil, false
		}
		m, ok := midBytes([]byte(a), []byte(b))
		return string(m), ok
	}
	return nil, false
}

// midBytes halves the distance between two byte strings, read as binary fractions.
func midBytes(a, b []byte) ([]byte, bool) {
	n := max(len(a), len(b), 16)
	sum := make([]byte, n+1) // with the carry in front
	carry := 0
	at := func(s []byte, i int) int {
		if i < len(s) {
			return int(s[i])
		}
		return 0
	}
	for i := n - 1; i >= 0; i-- {
		v := at(a, i) + at(b, i) + carry
		sum[i+1], carry = byte(v), v>>8
	}
	sum[0] = byte(carry)
	out := make([]byte, n)
	for i, rest := 0, int(sum[0]); i < n; i++ {
		v := rest<<8 | int(sum[i+1])
		out[i], rest = byte(v>>1), v&1
	}
	if string(out) <= string(a) || string(out) >= string(b) {
		return nil, false
	}
	return out, true
}

// restoreOwner makes sure that the rows still belong to the local user: the row that says
// who that is may have been on a damaged page.
func restoreOwner(ctx context.Context, db *sql.DB) error {
	var known int
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM sync_local l JOIN users u ON u.id = l.user_id`).Scan(&known); err != nil || known > 0 {
		return err
	}
	var owner []byte
	err := db.QueryRowContext(ctx, `SELECT coalesce((SELECT user_id FROM sync_local), (SELECT id FROM users ORDER BY created_at LIMIT 1))`).Scan(&owner)
	if err != nil {
		return err
	}
	if owner == nil { // nobody is left: whoever has the most rows
		ts, err := ownedTables(ctx, db)
		if err != nil {
			return err
		}
		best := int64(0)
		for _, t := range ts {
			if !t.direct {
				continue
			}
			var id []byte
			var n int64
			if err := db.QueryRowContext(ctx, `SELECT user_id, count(*) FROM `+quote(t.name)+` WHERE user_id IS NOT NULL GROUP BY 1 ORDER BY 2 DESC LIMIT 1`).Scan(&id, &n); err == nil && n > best {
				owner, best = id, n
			}
		}
	}
	if len(owner) != len(uuid.UUID{}) {
		return nil // nothing belongs to anybody: the next start makes a user
	}
	if _, err := db.ExecContext(ctx, `INSERT OR IGNORE INTO users (id, display_name, created_at) VALUES (?, ?, ?)`, owner, loginName(), time.Now().UnixMicro()); err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, `INSERT INTO sync_local (one, user_id) VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET user_id = excluded.user_id`, owner)
	return err
}
