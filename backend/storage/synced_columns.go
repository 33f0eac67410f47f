package storage

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// SyncedColumn is one value of a synced row as it is transferred.
type SyncedColumn struct {
	SyncedField
	// Hub is its PostgreSQL type. JSON is stored as text there, so that its hash stays valid.
	Hub string
	// Sealed reports that it is always sealed locally, Private that it is sealed if storage.private
	// is on.
	Sealed, Private bool
	// Child is the table whose rows form this value, a JSON array of Field, and ChildKey its column
	// with the id of the row; both are "" for a column of the table itself.
	Child, ChildKey, Field string
}

// CapturedRows is published after a transaction that changed synced rows has committed.
type CapturedRows struct{}

var timeName = regexp.MustCompile(`(_at|_until|_detected|_observed|_confirmed|_accessed|_used|_executed|_updated)$|^(at|timestamp)$`)

// SyncedColumns returns the columns of a synced table that are transferred, in the order of their
// numbers. A child table has none of its own, because its rows are a value of the parent.
func (tx *Tx) SyncedColumns(t SyncedTable) ([]SyncedColumn, error) {
	if t.Parent != "" {
		return nil, nil
	}
	all, err := rowColumns(tx.ctx, tx, t.Table)
	if err != nil {
		return nil, err
	}
	types, err := tx.columns(t.Table)
	if err != nil {
		return nil, err
	}
	var out []SyncedColumn
	for _, f := range t.Fields {
		if f.Merge == Derived {
			continue
		}
		c := SyncedColumn{SyncedField: f, Hub: "text"}
		i := slices.IndexFunc(all, func(x column) bool { return x.name == f.Name })
		if i < 0 {
			return nil, fmt.Errorf("storage: %s has no column %s", t.Table, f.Name)
		}
		for _, s := range Sealed {
			if s.Table == t.Table && s.Column == f.Name {
				c.Sealed, c.Private = !s.Private, s.Private
			}
		}
		switch typ := types[f.Name]; {
		case c.Sealed, c.Private:
		case all[i].kind == idValue:
			c.Hub = "uuid"
		case typ == "BLOB":
			c.Hub = "bytea"
		case all[i].kind == boolValue:
			c.Hub = "boolean"
		case typ == "REAL":
			c.Hub = "double precision"
		case typ == "INTEGER" && timeName.MatchString(f.Name):
			c.Hub = "timestamptz"
		case typ == "INTEGER":
			c.Hub = "bigint"
		}
		if f.Sensitive && c.Hub != "text" {
			return nil, fmt.Errorf("storage: %s.%s is sensitive and no text", t.Table, f.Name)
		}
		out = append(out, c)
	}
	for _, child := range Synced {
		if child.Parent == t.Table {
			f := child.Fields[0]
			out = append(out, SyncedColumn{
				SyncedField: SyncedField{No: child.ParentField, Name: f.Name + "s", Merge: f.Merge, Sensitive: f.Sensitive},
				Hub:         "text", Child: child.Table, ChildKey: child.ParentKey, Field: f.Name,
			})
		}
	}
	slices.SortFunc(out, func(a, b SyncedColumn) int { return a.No - b.No })
	return out, nil
}

// UnsealedValue returns the plain value of a column that may be sealed, as it would be stored
// unsealed.
func (tx *Tx) UnsealedValue(table string, c SyncedColumn, id uuid.UUID, v any) (any, error) {
	b, ok := v.([]byte)
	if !ok || !c.Sealed && !c.Private {
		return v, nil
	}
	plain, err := tx.db.keys.Unseal(table, c.Name, id, b)
	return string(plain), err
}

// SealedValue is the inverse; private reports whether to seal columns that are sealed only with
// private storage.
func (tx *Tx) SealedValue(table string, c SyncedColumn, id uuid.UUID, v any, private bool) (any, error) {
	s, ok := v.(string)
	if !ok || !c.Sealed && (!c.Private || !private) {
		return v, nil
	}
	return tx.db.keys.Seal(table, c.Name, id, []byte(s))
}

// LogAll adds every row of the synced tables that the hub does not have to change_log, as a first
// connection requires. Such a row counts as written at its updated_at.
func (tx *Tx) LogAll(user uuid.UUID) error {
	for _, t := range Synced {
		if t.Parent != "" {
			continue
		}
		columns, err := tx.columns(t.Table)
		if err != nil {
			return err
		}
		fields := t.captured(columns)
		for _, child := range Synced {
			if child.Parent == t.Table {
				fields = append(fields, SyncedField{No: child.ParentField})
			}
		}
		var all uint64
		for _, f := range fields {
			all |= 1 << f.No
		}
		where := ""
		if t.Final != "" {
			where = " AND " + strings.ReplaceAll(t.Final, "NEW.", "r.")
		}
		if _, err := tx.Exec(`DELETE FROM change_log WHERE tbl = ?`, t.Table); err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO change_log (tbl, row_id, op, fields, hlc, txn, at)
			SELECT ?, r.id, 'I', ?, r.updated_at / 1000 << 16, (SELECT txn FROM sync_local), ? FROM `+t.Table+` r WHERE r.user_id = ? AND r.sync_meta IS NULL`+where+` ORDER BY r.created_at, r.id`,
			t.Table, int64(all), tx.Now, user); err != nil {
			return err
		}
	}
	return nil
}

// StoredRow returns one row of a synced table by column, each value as it is stored, or nil if
// there is no such row.
func (tx *Tx) StoredRow(table string, id uuid.UUID) (map[string]any, error) {
	rows, err := tx.Query(`SELECT * FROM `+table+` WHERE id = ?`, id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	if !rows.Next() {
		return nil, rows.Err()
	}
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	values, into := make([]any, len(names)), make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	if err := rows.Scan(into...); err != nil {
		return nil, err
	}
	out := make(map[string]any, len(names))
	for i, n := range names {
		out[n] = values[i]
	}
	return out, nil
}
