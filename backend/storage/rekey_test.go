package storage

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/fault"
)

// Every table in the schema with a user_id is rekeyed, even ones added in the future.
func TestRekeyReachesEveryTable(t *testing.T) {
	t.Parallel()
	db := open(t)
	from, to, other := db.LocalUser().ID, uuid.New(), uuid.New()
	tables := fillTables(t, db, from)
	count := func(table string, user uuid.UUID) (n int) {
		t.Helper()
		must(t, db.Read(t.Context(), func(tx *Tx) error {
			return tx.QueryRow(`SELECT count(*) FROM `+quote(table)+` WHERE user_id = ?`, user).Scan(&n)
		}))
		return n
	}
	before := map[string]int{}
	for _, table := range tables {
		if before[table] = count(table, from); before[table] == 0 {
			t.Fatalf("no row in %s", table)
		}
	}
	must(t, db.Write(t.Context(), func(tx *Tx) error { return tx.Rekey(from, to) }))
	for _, table := range tables {
		former, now := count(table, from), count(table, to)
		if slices.Contains(signedTables, table) {
			former, now = now, former
		}
		if former != 0 || now != before[table] {
			t.Errorf("%s: %d rows of the former user, %d of %d of the new one", table, former, now, before[table])
		}
	}
	if db.LocalUser().ID != to {
		t.Errorf("the local user is %v", db.LocalUser())
	}
	ids := func(user uuid.UUID) (ids []uuid.UUID) {
		t.Helper()
		must(t, db.Read(t.Context(), func(tx *Tx) (err error) { ids, err = tx.UserIDs(user); return err }))
		return ids
	}
	if got := ids(to); !slices.Equal(got, []uuid.UUID{to, from}) {
		t.Errorf("ids %v", got)
	}
	// Immutable rows cannot be moved elsewhere.
	for _, table := range []string{"composite_skill_executions", "composite_skill_versions", "skill_executions", "audit_log"} {
		for _, user := range []uuid.UUID{other, from} {
			err := db.Write(t.Context(), func(tx *Tx) error { _, err := tx.Exec(`UPDATE `+table+` SET user_id = ?`, user); return err })
			if err == nil {
				t.Errorf("a final row of %s became another user's", table)
			}
		}
	}
	if space := db.IDSpace(to); space != localSpace || db.IDSpace(from) != from {
		t.Errorf("name space %s", space)
	}
	must(t, db.Write(t.Context(), func(tx *Tx) error { return tx.Rekey(to, other) }))
	must(t, db.Write(t.Context(), func(tx *Tx) error { return tx.Rekey(other, from) })) // back to a former id
	if got := ids(from); len(got) != 3 || got[0] != from || len(ids(to)) != 1 || count("memories", from) != before["memories"] {
		t.Errorf("after going back: %v", got)
	}
}

func TestRekeyRefuses(t *testing.T) {
	t.Parallel()
	db := open(t)
	me, other := db.LocalUser().ID, uuid.New()
	insert := func(user uuid.UUID) {
		exec(t, db, `INSERT INTO schedule_pause (user_id, paused_at) VALUES (?, 1)`, user)
	}
	insert(me)
	insert(other)
	for _, c := range []struct {
		from, to uuid.UUID
		kind     fault.Kind
	}{{me, me, fault.Invalid}, {me, uuid.Nil, fault.Invalid}, {uuid.New(), uuid.New(), fault.NotFound}, {me, other, fault.Conflict}} {
		if err := db.Write(t.Context(), func(tx *Tx) error { return tx.Rekey(c.from, c.to) }); !fault.Is(err, c.kind) {
			t.Errorf("%s to %s: %v, want %s", c.from, c.to, err, c.kind)
		}
	}
	to := uuid.New()
	if err := db.Write(t.Context(), func(tx *Tx) error {
		if err := tx.Rekey(me, to); err != nil {
			return err
		}
		return fmt.Errorf("no")
	}); err == nil || db.LocalUser().ID != me {
		t.Errorf("rolled back: %v, the local user is %v", err, db.LocalUser())
	}
	must(t, db.Write(t.Context(), func(tx *Tx) error { return tx.Rekey(me, to) }))
	if err := db.Write(t.Context(), func(tx *Tx) error { return tx.Rekey(me, uuid.New()) }); !fault.Is(err, fault.NotFound) {
		t.Errorf("a former id was rekeyed: %v", err)
	}
}

// fillTables inserts a row of user into each table with a user_id and returns the tables. The
// values are arbitrary, with no regard to checks and references.
func fillTables(t *testing.T, db *DB, user uuid.UUID) (tables []string) {
	t.Helper()
	pragma := func(q string) {
		t.Helper()
		if _, err := db.writer.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	pragma(`PRAGMA foreign_keys = OFF`)
	pragma(`PRAGMA ignore_check_constraints = ON`) // until the end: the rows are updated
	must(t, db.Write(t.Context(), func(tx *Tx) (err error) {
		if tables, err = Collect(tx.Select(`SELECT m.name FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = 'table' AND c.name = 'user_id'`), RowTo[string]); err != nil {
			return err
		}
		for _, table := range tables {
			if table == "sync_local" { // has its one row
				continue
			}
			var names []string
			var args []any
			if err := tx.Select(`SELECT name, type FROM pragma_table_info(?) WHERE dflt_value IS NULL AND ("notnull" OR pk)`, table).Each(func(row Row) error {
				var name, typ string
				if err := row.Scan(&name, &typ); err != nil {
					return err
				}
				var v any = "completed"
				switch id := NewID(); {
				case name == "user_id":
					v = user
				case typ == "BLOB":
					v = id
				case typ == "INTEGER", typ == "REAL":
					v = 1
				}
				names, args = append(names, quote(name)), append(args, v)
				return nil
			}); err != nil {
				return err
			}
			if _, err := tx.Exec(`INSERT INTO `+quote(table)+` (`+strings.Join(names, ", ")+`) VALUES (?`+strings.Repeat(", ?", len(names)-1)+`)`, args...); err != nil {
				return err
			}
		}
		return nil
	}))
	pragma(`PRAGMA foreign_keys = ON`)
	return tables
}
