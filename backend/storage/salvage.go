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

// Salvage copies every readable row of a damaged database into a new one. The new one replaces the
// database if nothing was lost or the caller accepts the loss. It works in recovery mode only; the
// damaged files are kept.
func (s *Service) Salvage(ctx context.Context, p SalvageParams) (_ SalvageResult, err error) {
	r := SalvageResult{Tables: []SalvageRows{}}
	ctx, done, err := s.exclusive(ctx, "salvage")
	if err != nil {
		return r, err
	}
	defer func() { done(err) }()
	s.db.rescue.Wait() // until the copies are complete
	st := s.db.Recovery()
	if st != nil && st.Reason == "missing" {
		return r, fault.Conflictf("The database holds no data to salvage. Restore a backup, or start with no data.")
	}
	if st == nil || st.Reason != "corrupt" {
		return r, fault.Conflictf("The data is not damaged, so there is nothing to salvage.")
	}
	dataDir := filepath.Dir(s.db.path)
	r.KeptPath = st.KeptPath
	if r.KeptPath == "" { // the copy failed at that time; without it nothing is changed
		if r.KeptPath, err = s.db.keepDamaged(); err != nil {
			return r, fullDisk(err)
		}
	}
	if room, err := diskSpace(dataDir); err == nil && room.Free < 2*dirSize(r.KeptPath)+1<<20 {
		return r, fault.Limitf("Salvage needs %d MB and there are %d MB free. Nothing was changed.", 2*dirSize(r.KeptPath)>>20, room.Free>>20)
	}
	stage := freshName(dataDir, "staging-", time.Now(), "")
	defer os.RemoveAll(stage) //nolint:errcheck // the next start removes it too
	next := filepath.Join(stage, nameDB)
	if err := s.salvageInto(ctx, stage, next, &r); err != nil {
		return r, fullDisk(err)
	}
	if r.Empty {
		return r, fault.Conflictf("No data could be read from the damaged database. Nothing was changed. Restore a backup, or start with no data.")
	}
	if r.Incomplete && !p.AcceptLoss {
		return r, nil
	}
	crashPoint("salvage.staged")
	j := journal{Reason: "salvage", Moves: movesFor(dataDir, s.db.path, next, filepath.Join(r.KeptPath, "replaced-"+filepath.Base(s.db.path)))}
	if err := s.db.swap(ctx, "Helix is putting the salvaged data in place. Try again in a moment.", func() error { return commitJournal(dataDir, j) }); err != nil {
		return r, err
	}
	r.Applied = true
	return r, s.note(s.afterSwap(ctx), "data.restore", map[string]any{"kind": "salvage", "tables": r.Tables})
}

// salvageInto reads the damaged files in r.KeptPath, fills the new database at next and counts the
// rows in r.
func (s *Service) salvageInto(ctx context.Context, stage, next string, r *SalvageResult) (err error) {
	if err := os.MkdirAll(stage, 0o700); err != nil {
		return err
	}
	source := filepath.Join(r.KeptPath, filepath.Base(s.db.path))
	file, err := openPages(source, source+"-wal")
	if err != nil {
		return fmt.Errorf("read the damaged files: %w", err)
	}
	defer file.close()
	known, err := knownMigrations(ctx)
	if err != nil {
		return err
	}
	if err := applyMigrations(ctx, next, known, s.version(), "", func(int) {}); err != nil {
		return err
	}
	to, err := sql.Open("sqlite", dsn(next, []string{"journal_mode(MEMORY)", "synchronous(OFF)", "foreign_keys(OFF)", "cache_size(-65536)", "temp_store(MEMORY)"}, true))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	to.SetMaxOpenConns(1)
	v, err := newSalvager(ctx, file, to)
	if err != nil {
		return err
	}
	defer v.close()
	if err := v.copyPages(s.progress(ctx, "salvage")); err != nil {
		return fmt.Errorf("salvage: %w", err)
	}
	v.report(r)
	if walProblem(source) != "" {
		r.Incomplete = true
	}
	if err := restoreOwner(ctx, to); err != nil {
		return err
	}
	var people int
	if err := to.QueryRowContext(ctx, `SELECT count(*) FROM users`).Scan(&people); err != nil {
		return err
	}
	r.Empty = people == 0
	fts, err := ftsTables(ctx, to)
	if err != nil {
		return err
	}
	for _, n := range fts {
		if _, err := to.ExecContext(ctx, `INSERT INTO `+quote(n)+`(`+quote(n)+`) VALUES ('rebuild')`); err != nil {
			return err
		}
	}
	if problems, err := checkRows(ctx, to, "PRAGMA integrity_check(10)"); err != nil || len(problems) > 0 {
		return fault.Internalf(errors.Join(err, errors.New(strings.Join(problems, "; "))), "The salvaged data failed its checks. Nothing was changed.")
	}
	return errors.Join(syncFile(next), syncDir(stage))
}

// plainTables lists the tables to fill. It omits those that SQLite or an FTS index maintains and
// those that describe the new file itself.
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

// salvager fills a new database with the records of a damaged one.
type salvager struct {
	ctx    context.Context
	file   *pageFile
	to     *sql.DB
	tables []*salvageTable          // by name
	byRoot map[uint32]*salvageTable // of tables
	index  map[uint32]*salvageTable // of indexes that contain every row
	roots  map[uint32]bool          // every b-tree in the schema
	whole  bool                     // the schema names every table
	lost   int64                    // pages that are unreadable or belong to no table
}

// salvageTable is one table to fill, described as its records are stored.
type salvageTable struct {
	row      SalvageRows
	cols     []string // in the order of the stored record
	types    []string
	notNull  []bool
	alias    int  // index of the column that is the rowid; -1: none
	rowid    bool // not WITHOUT ROWID
	inserts  map[int]*sql.Stmt
	accepts  map[string]bool  // columns of the new table
	entries  map[uint32]int64 // counted in each index
	rejected int64
}

func newSalvager(ctx context.Context, file *pageFile, to *sql.DB) (_ *salvager, err error) {
	v := &salvager{ctx: ctx, file: file, to: to, byRoot: map[uint32]*salvageTable{}, index: map[uint32]*salvageTable{}, roots: map[uint32]bool{1: true}}
	names, err := plainTables(ctx, to)
	if err != nil {
		return nil, err
	}
	old := v.schema()
	scratch, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	defer scratch.Close()
	scratch.SetMaxOpenConns(1)
	v.whole = true
	for _, n := range names {
		t := &salvageTable{row: SalvageRows{Table: n}, inserts: map[int]*sql.Stmt{}, accepts: map[string]bool{}, entries: map[uint32]int64{}}
		v.tables = append(v.tables, t)
		now, err := columnNames(ctx, to, "main", n)
		if err != nil {
			return nil, err
		}
		for _, c := range now {
			t.accepts[c] = true
		}
		// The column order is that of the damaged file, which an older Helix may have created.
		from := to
		i := slices.IndexFunc(old, func(e schemaEntry) bool { return e.kind == "table" && e.name == n })
		if i < 0 {
			v.whole = false
		} else {
			v.byRoot[old[i].root] = t
			if _, err := scratch.ExecContext(ctx, old[i].sql); err == nil {
				from = scratch
			}
		}
		if err := t.describe(ctx, from); err != nil {
			return nil, err
		}
	}
	for _, e := range old {
		v.roots[e.root] = true
		i := slices.IndexFunc(v.tables, func(t *salvageTable) bool { return t.row.Table == e.table })
		if e.kind == "index" && i >= 0 && !strings.Contains(strings.ToUpper(e.sql), " WHERE ") {
			v.index[e.root] = v.tables[i]
		}
	}
	if _, err := to.ExecContext(ctx, "BEGIN"); err != nil {
		return nil, err
	}
	return v, nil
}

// schemaEntry is a row of sqlite_schema.
type schemaEntry struct {
	kind, name, table, sql string
	root                   uint32
}

func (v *salvager) schema() (out []schemaEntry) {
	var buf [pageSize]byte
	for p := uint32(1); p <= v.file.n; p++ {
		if v.file.root(p) != 1 || v.file.read(p, buf[:]) != nil {
			continue
		}
		b, ok := parsePage(p, buf[:])
		if !ok || b.kind != tableLeaf {
			continue
		}
		_, _ = v.file.records(b, func(_ int64, vals []any) error {
			if len(vals) != 5 {
				return nil
			}
			var e schemaEntry
			e.kind, _ = vals[0].(string)
			e.name, _ = vals[1].(string)
			e.table, _ = vals[2].(string)
			e.sql, _ = vals[4].(string)
			if root, ok := vals[3].(int64); ok && root > 0 && root <= int64(v.file.n) {
				e.root = uint32(root)
				out = append(out, e)
			}
			return nil
		})
	}
	return out
}

// describe reads how the records of the table are stored: a table without rowid stores its key
// first.
func (t *salvageTable) describe(ctx context.Context, q *sql.DB) error {
	var without bool
	if err := q.QueryRowContext(ctx, `SELECT wr FROM pragma_table_list(?) WHERE schema = 'main'`, t.row.Table).Scan(&without); err != nil {
		return err
	}
	t.rowid, t.alias = !without, -1
	order := "cid"
	if without {
		order = "pk = 0, pk, cid"
	}
	keys := 0
	err := eachRow(ctx, q, `SELECT name, type, "notnull", pk FROM pragma_table_info(?) ORDER BY `+order, func(scan func(...any) error) error {
		var name, typ string
		var notNull bool
		var pk int
		if err := scan(&name, &typ, &notNull, &pk); err != nil {
			return err
		}
		if pk > 0 {
			keys++
			if typ == "INTEGER" && t.rowid {
				t.alias = len(t.cols)
			}
		}
		t.cols, t.types, t.notNull = append(t.cols, name), append(t.types, typ), append(t.notNull, notNull || without && pk > 0)
		return nil
	}, t.row.Table)
	if keys != 1 {
		t.alias = -1
	}
	return err
}

// fits reports whether a record can belong to the table.
func (t *salvageTable) fits(kind byte, vals []any) bool {
	if t.rowid != (kind == tableLeaf) || len(vals) > len(t.cols) || len(vals) == 0 {
		return false
	}
	for i, x := range vals {
		ok := true
		switch x.(type) {
		case nil:
			ok = !t.notNull[i] || i == t.alias
		case string:
			ok = t.types[i] == "TEXT" || t.types[i] == "ANY"
		case []byte:
			ok = t.types[i] == "BLOB" || t.types[i] == "ANY"
		case int64:
			ok = t.types[i] == "INTEGER" || t.types[i] == "REAL" || t.types[i] == "ANY"
		case float64:
			ok = t.types[i] == "REAL" || t.types[i] == "ANY"
		}
		if !ok {
			return false
		}
	}
	return true
}

// copyPages inserts the records of every page that belongs to a table.
func (v *salvager) copyPages(rep *reporter) error {
	f := v.file
	var buf [pageSize]byte
	for p := uint32(1); p <= f.n; p++ {
		if err := v.ctx.Err(); err != nil {
			return err
		}
		rep.rows("pages", int64(p), int64(f.n))
		e := f.ptr[p]
		if e.kind == ptrFree || e.kind == ptrMap {
			continue
		}
		if f.read(p, buf[:]) != nil {
			v.lost++
			continue
		}
		b, ok := parsePage(p, buf[:])
		btree := e.kind == ptrBtree || p > 1 && e.kind == ptrRoot || f.claimed[p] > 0
		if !ok {
			if btree {
				v.lost++
			}
			continue
		}
		if !btree && e.kind != 0 && p > 1 {
			continue // an overflow page that looks like a b-tree page
		}
		root := f.root(p)
		for _, c := range b.children() {
			if c < 2 || c > f.n {
				v.lost++ // it was cut off
			}
		}
		if root == 1 {
			continue
		}
		if err := v.copyPage(b, root); err != nil {
			return err
		}
	}
	_, err := v.to.ExecContext(v.ctx, "COMMIT")
	return err
}

func (v *salvager) copyPage(b btreePage, root uint32) error {
	owner, index := v.byRoot[root], v.index[root]
	if owner == nil && v.roots[root] && index == nil {
		return nil // belongs to an index or to what an index maintains
	}
	strange := 0
	bad, err := v.file.records(b, func(rowid int64, vals []any) error {
		switch {
		case owner != nil && owner.fits(b.kind, vals):
			return v.insert(owner, rowid, vals)
		case index != nil:
			index.entries[root]++
			return nil
		}
		// The page is not where it belongs, or the schema does not say which table it belongs to.
		strange++
		for _, t := range v.tables {
			if !t.fits(b.kind, vals) || owner == nil && v.whole {
				continue
			}
			kept := t.row.Kept
			if err := v.insert(t, rowid, vals); err != nil || t.row.Kept > kept {
				return err
			}
		}
		return nil
	})
	switch {
	case owner != nil:
		owner.rejected += bad
	case bad > 0:
		v.lost++
	}
	if strange > 0 {
		v.lost++
	}
	return err
}

func (v *salvager) insert(t *salvageTable, rowid int64, vals []any) error {
	var names []string
	args := make([]any, 0, len(vals))
	for i, x := range vals {
		if !t.accepts[t.cols[i]] {
			continue
		}
		if i == t.alias {
			x = rowid
		}
		names, args = append(names, quote(t.cols[i])), append(args, x)
	}
	stmt := t.inserts[len(vals)]
	if stmt == nil {
		verb := "INSERT OR IGNORE"
		if t.row.Table == "meta" || t.row.Table == "sync_local" {
			verb = "INSERT OR REPLACE" // the migrations already inserted a row
		}
		var err error
		if stmt, err = v.to.PrepareContext(v.ctx, verb+` INTO `+quote(t.row.Table)+` (`+strings.Join(names, ", ")+`) VALUES (?`+strings.Repeat(", ?", len(names)-1)+`)`); err != nil {
			return err
		}
		t.inserts[len(vals)] = stmt
	}
	r, err := stmt.ExecContext(v.ctx, args...)
	if err != nil {
		if f := codeSQLite(err); f != nil && (f.Kind == fault.Invalid || f.Kind == fault.Conflict) {
			t.rejected++
			return nil // readable bytes that are not a valid row
		}
		return err
	}
	n, err := r.RowsAffected()
	t.row.Kept += n
	return err
}

func (v *salvager) close() {
	for _, t := range v.tables {
		for _, s := range t.inserts {
			_ = s.Close()
		}
	}
}

// report counts kept and lost rows. How many existed is known from the indexes. If pages are
// missing that may have held rows, the number of lost rows of a table without an intact index is
// unknown.
func (v *salvager) report(r *SalvageResult) {
	for _, t := range v.tables {
		for _, n := range t.entries {
			t.row.Lost = max(t.row.Lost, n-t.row.Kept)
		}
		t.row.Lost = max(t.row.Lost, t.rejected)
		if t.row.Kept > 0 || t.row.Lost > 0 {
			r.Tables = append(r.Tables, t.row)
		}
		r.Incomplete = r.Incomplete || t.row.Lost > 0
	}
	r.LostPages = v.lost
	r.Incomplete = r.Incomplete || v.lost > 0 || !v.whole
}

// restoreOwner ensures that the rows still belong to the local user, because the row that
// identifies that user may have been on a damaged page.
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
	if owner == nil { // no user is left: take the one with the most rows
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
		return nil // no row has an owner: the next start creates a user
	}
	if _, err := db.ExecContext(ctx, `INSERT OR IGNORE INTO users (id, display_name, created_at) VALUES (?, ?, ?)`, owner, loginName(), time.Now().UnixMicro()); err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, `INSERT INTO sync_local (one, user_id) VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET user_id = excluded.user_id`, owner)
	return err
}
