package storage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"helix/backend/bus"
	"helix/backend/fault"
)

// WithoutCapture runs fn with the capture triggers disabled and hard deletes of synced rows
// allowed, for applying remote rows, pruning and purging. It may be nested. In a read transaction
// it is Internal.
func (tx *Tx) WithoutCapture(fn func() error) (err error) {
	if !tx.write {
		return fault.Internalf(errors.New("storage: WithoutCapture in a read transaction"), "Helix has an internal error. The log has the details.")
	}
	if tx.muted++; tx.muted == 1 {
		if _, err := tx.Exec(`UPDATE sync_local SET applying = 1`); err != nil {
			tx.muted--
			return err
		}
	}
	defer func() { // also on a panic: the caller may recover and continue in this transaction
		if tx.muted--; tx.muted == 0 {
			_, e := tx.Exec(`UPDATE sync_local SET applying = 0`)
			err = errors.Join(err, e)
		}
	}()
	return fn()
}

// endCaptureSQL ends the current transaction number if triggers have written with it. Triggers
// cannot detect that a transaction is a new one, so the number that they read is incremented here.
const endCaptureSQL = `UPDATE sync_local SET txn = txn + 1,
	hlc_high = max(hlc_high, (SELECT max(hlc) FROM change_log WHERE seq > seen_seq)),
	seen_seq = (SELECT max(seq) FROM change_log)
	WHERE seen_seq < (SELECT max(seq) FROM change_log)`

// endCapture runs before each commit.
func (tx *Tx) endCapture() error {
	r, err := tx.Exec(endCaptureSQL)
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err != nil || n == 0 {
		return err
	}
	tx.AfterCommit(func() { bus.Publish(tx.db.bus, tx.db.LocalUser().ID, CapturedRows{}) })
	return nil
}

// createTriggers creates the capture triggers of list. They are temporary triggers of the writer's
// connection, which gated.Connect creates again on each new one: triggers in the file would be
// parsed by every reader, and take four times as long as the rest of the schema. Those that a
// former version left in the file are removed.
//
// It runs before the first write after prepare, so that a command that only reads does not wait for
// them. The caller holds the turn.
func (db *DB) createTriggers(ctx context.Context, list []SyncedTable) error {
	stx, err := db.writer.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer stx.Rollback()
	tx := &Tx{Tx: stx, ctx: ctx, db: db, write: true}
	for _, schema := range []string{"main", "temp"} {
		old, err := tx.captureTriggers(schema)
		if err != nil {
			return err
		}
		for name := range old {
			if _, err := tx.Exec(`DROP TRIGGER ` + schema + "." + name); err != nil {
				return err
			}
		}
	}
	script, err := captureScript(ctx, tx, list)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(script); err != nil {
		return err
	}
	if err := stx.Commit(); err != nil {
		return err
	}
	db.capture.Store(&script)
	db.uncaptured.Store(nil)
	return nil
}

// errNotSynced says that the file has not all that is declared as synced.
var errNotSynced = errors.New("in storage.Synced but not in the database")

// captureScript returns SQL that creates the capture triggers of list.
func captureScript(ctx context.Context, db querier, list []SyncedTable) (string, error) {
	has := map[string]map[string]string{}
	for _, t := range list {
		types, err := columns(ctx, db, t.Table)
		if err != nil {
			return "", err
		}
		for _, f := range t.Fields {
			if types[f.Name] == "" {
				return "", fmt.Errorf("column %s of table %s is %w", f.Name, t.Table, errNotSynced)
			}
		}
		has[t.Table] = types
	}
	want := map[string]string{}
	for _, t := range list {
		var parent *SyncedTable
		if t.Parent != "" {
			i := slices.IndexFunc(list, func(p SyncedTable) bool { return p.Table == t.Parent })
			if i < 0 {
				return "", fmt.Errorf("parent %s of %s is not in storage.Synced", t.Parent, t.Table)
			}
			parent = &list[i]
		}
		var children []SyncedTable
		for _, c := range list {
			if c.Parent == t.Table {
				children = append(children, c)
			}
		}
		maps.Copy(want, captureTriggers(t, has[t.Table], parent, has[t.Parent], children))
	}
	var script strings.Builder
	for _, name := range slices.Sorted(maps.Keys(want)) {
		fmt.Fprintf(&script, "CREATE TEMP TRIGGER %s %s;\n", name, want[name])
	}
	return script.String(), nil
}

// captureTriggers returns the triggers named sync_… in a schema, main or temp.
func (tx *Tx) captureTriggers(schema string) (map[string]string, error) {
	out := map[string]string{}
	err := tx.Select(`SELECT name, sql FROM ` + schema + `.sqlite_schema WHERE type = 'trigger' AND name LIKE 'sync\_%' ESCAPE '\'`).Each(func(row Row) error {
		var name, sql string
		if err := row.Scan(&name, &sql); err != nil {
			return err
		}
		out[name] = sql
		return nil
	})
	return out, err
}

// columns maps the columns of a table to their declared types.
func (tx *Tx) columns(table string) (map[string]string, error) {
	return columns(tx.ctx, tx, table)
}

func columns(ctx context.Context, db querier, table string) (map[string]string, error) {
	out := map[string]string{}
	err := eachRow(ctx, db, `SELECT name, type FROM pragma_table_info(?)`, func(scan func(...any) error) error {
		var name, typ string
		if err := scan(&name, &typ); err != nil {
			return err
		}
		out[name] = typ
		return nil
	}, table)
	return out, err
}

const awake = `(SELECT applying FROM sync_local) = 0`

// wallMS is the system clock in milliseconds. julianday() without arguments is the only form of
// "now" that SQLite does not parse for each row.
const wallMS = `CAST((julianday() - 2440587.5) * 86400000 + 0.5 AS INTEGER)`

// logEntry returns SQL that appends to change_log while capture is enabled. The clock is a hybrid
// logical clock: the upper 48 bits are the wall clock in milliseconds, adjusted by the offset to
// the hub, and the lower bits a counter. Each transaction starts above the previous one, even if
// the wall clock was set back; entries of one transaction and millisecond share a value. It reads
// only one row of sync_local, because every write of a synced row pays for it. OR ROLLBACK spares
// SQLite copies of the pages it writes, which are needed to undo a single statement.
func logEntry(table, rowID, op, fields string) string {
	return `INSERT OR ROLLBACK INTO change_log (tbl, row_id, op, fields, hlc, txn, at)
    SELECT '` + table + `', ` + rowID + `, ` + op + `, ` + fields + `,
      CASE WHEN l.ms + l.offset_us / 1000 << 16 > l.hlc_high THEN l.ms + l.offset_us / 1000 << 16 ELSE l.hlc_high + 1 END, l.txn, l.ms * 1000
    FROM (SELECT hlc_high, offset_us, txn, applying, ` + wallMS + ` AS ms FROM sync_local) l WHERE l.applying = 0;`
}

// captureTriggers returns the triggers of one table by name: their SQL after the name.
func captureTriggers(t SyncedTable, columns map[string]string, parent *SyncedTable, parentColumns map[string]string, children []SyncedTable) map[string]string {
	if parent != nil {
		return childTriggers(t, columns, *parent, parentColumns)
	}
	out := map[string]string{}
	add := func(op, head, body string) {
		out["sync_"+t.Table+"_"+op] = head + "\n  BEGIN\n    " + body + "\n  END"
	}
	var all uint64
	fields := t.captured(columns)
	for _, f := range fields {
		all |= 1 << f.No
	}
	every := fmt.Sprint(all)
	insert := "AFTER INSERT ON main." + t.Table
	if t.Final != "" {
		insert += " WHEN " + t.Final
	}
	add("insert", insert, logEntry(t.Table, "NEW.id", "'I'", every))
	if len(fields) > 0 {
		op, set, when := `'U'`, bits(fields), changed(fields)
		if columns["deleted_at"] != "" {
			op = `CASE WHEN NEW.deleted_at IS NOT NULL AND OLD.deleted_at IS NULL THEN 'D' ELSE 'U' END`
		}
		if t.Final != "" { // the first entry is the whole row
			open := "(" + strings.ReplaceAll(t.Final, "NEW.", "OLD.") + ") IS NOT TRUE"
			op, set = "CASE WHEN "+open+" THEN 'I' ELSE "+op+" END", "CASE WHEN "+open+" THEN "+every+" ELSE "+set+" END"
			when = "(" + t.Final + ") AND (" + when + ")"
		}
		var values []string
		for _, c := range children {
			values = append(values, c.childValue("OLD.id", "", ""))
		}
		add("update", "AFTER UPDATE OF "+strings.Join(fieldNames(fields), ", ")+" ON main."+t.Table+" WHEN "+when,
			keepBase(t, columns, "OLD.", "OLD.id", " WHERE OLD.sync_meta IS NOT NULL AND "+awake, values)+logEntry(t.Table, "NEW.id", op, set))
	}
	add("delete", "BEFORE DELETE ON main."+t.Table+" WHEN "+awake, `SELECT RAISE(ABORT, 'hard delete of a synced row of `+t.Table+`');`)
	return out
}

// childTriggers returns triggers that mark the parent row, since the child's rows are one of its
// values.
func childTriggers(t SyncedTable, columns map[string]string, parent SyncedTable, parentColumns map[string]string) map[string]string {
	out := map[string]string{}
	fields := t.captured(columns)
	mark := fmt.Sprint(uint64(1) << t.ParentField)
	field := t.Fields[0].Name
	add := func(op, when, row, without, with string) {
		key := row + t.ParentKey
		out["sync_"+t.Table+"_"+op] = when + "\n  BEGIN\n    " +
			keepBase(parent, parentColumns, "p.", key, " FROM "+parent.Table+" p WHERE p.id = "+key+" AND p.sync_meta IS NOT NULL", []string{t.childValue(key, without, with)}) +
			logEntry(parent.Table, key, "'U'", mark) + "\n  END"
	}
	add("insert", "AFTER INSERT ON main."+t.Table+" WHEN "+awake, "NEW.", "NEW."+field, "")
	if len(fields) > 0 {
		add("update", "AFTER UPDATE OF "+strings.Join(fieldNames(fields), ", ")+" ON main."+t.Table+" WHEN "+awake+" AND ("+changed(fields)+")", "NEW.", "NEW."+field, "OLD."+field)
	}
	add("delete", "AFTER DELETE ON main."+t.Table+" WHEN "+awake, "OLD.", "", "OLD."+field)
	return out
}

// childValue returns the name and an SQL expression of the parent's value that consists of the rows
// of t: the value before a row was added (without) or removed (with).
func (t SyncedTable) childValue(key, without, with string) string {
	field := t.Fields[0].Name
	rows := "SELECT " + field + " AS v FROM " + t.Table + " WHERE " + t.ParentKey + " = " + key
	if without != "" {
		rows += " AND " + field + " <> " + without
	}
	if with != "" {
		rows += " UNION SELECT " + with
	}
	return "'" + field + "s', (SELECT json_group_array(v) FROM (" + rows + " ORDER BY 1))"
}

// captured returns the fields whose changes are logged: all but derived ones, and deleted_at as
// number 0 if the table has it.
func (t SyncedTable) captured(columns map[string]string) []SyncedField {
	var out []SyncedField
	if columns["deleted_at"] != "" {
		out = append(out, SyncedField{Name: "deleted_at"})
	}
	for _, f := range t.Fields {
		if f.Merge != Derived {
			out = append(out, f)
		}
	}
	return out
}

func fieldNames(fields []SyncedField) []string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = f.Name
	}
	return out
}

func changed(fields []SyncedField) string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = "NEW." + f.Name + " IS NOT OLD." + f.Name
	}
	return strings.Join(out, " OR ")
}

// bits returns an expression for the set of changed fields. The fields are tested in groups: most
// are unchanged, and testing a whole group at once halves the steps.
func bits(fields []SyncedField) string {
	var out []string
	for group := range slices.Chunk(fields, 5) {
		set := make([]string, len(group))
		for i, f := range group {
			set[i] = fmt.Sprintf("(NEW.%s IS NOT OLD.%s) << %d", f.Name, f.Name, f.No)
		}
		out = append(out, "CASE WHEN "+changed(group)+" THEN ("+strings.Join(set, ") | (")+") ELSE 0 END")
	}
	return "(" + strings.Join(out, ") | (") + ")"
}

// keepBase returns SQL that stores the row as the hub has it, unless an earlier edit did. The WHERE
// in from ends with the conditions under which the hub has the row. BLOB columns are written in hex
// because JSON has no bytes. Sealed values stay sealed. ON CONFLICT is for the edits after the first:
// with a condition NOT EXISTS, SQLite would build a temporary table in each update.
func keepBase(t SyncedTable, columns map[string]string, row, id, from string, children []string) string {
	if columns["sync_meta"] == "" {
		return ""
	}
	parts := children
	for _, name := range append(fieldNames(t.captured(columns)), "created_at", "updated_at", "sync_meta") {
		switch columns[name] {
		case "":
			continue
		case "BLOB":
			parts = append(parts, fmt.Sprintf("'%s', CASE WHEN %s%s IS NOT NULL THEN hex(%s%s) END", name, row, name, row, name))
		case "ANY": // TEXT, or BLOB if sealed
			parts = append(parts, fmt.Sprintf("'%s', CASE WHEN typeof(%s%s) <> 'blob' THEN %s%s END, '%s:hex', CASE WHEN typeof(%s%s) = 'blob' THEN hex(%s%s) END", name, row, name, row, name, name, row, name, row, name))
		default:
			parts = append(parts, fmt.Sprintf("'%s', %s%s", name, row, name))
		}
	}
	return `INSERT INTO sync_base (tbl, row_id, row)
    SELECT '` + t.Table + `', ` + id + `, json_object(` + strings.Join(parts, ", ") + `)` + from + `
      ON CONFLICT DO NOTHING;
    `
}
