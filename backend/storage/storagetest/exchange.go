package storagetest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/storage"
)

// Replica is a row of a synced table as another device would receive it: values by column, sealed
// ones decrypted.
type Replica map[string]any

// Exchange merges the rows of a synced table of two databases, so that both have the same rows, as
// declared in storage.Synced and in the order of change_log. It stands in for the hub. base is the
// result of the last exchange, nil for the first one. For fields that people merge manually, the
// last writer wins.
func Exchange(t testing.TB, table string, base map[uuid.UUID]Replica, a, b *storage.DB) map[uuid.UUID]Replica {
	t.Helper()
	i := slices.IndexFunc(storage.Synced, func(s storage.SyncedTable) bool { return s.Table == table })
	if i < 0 {
		t.Fatalf("%s does not sync", table)
	}
	fields := append([]storage.SyncedField{{Name: "deleted_at", Merge: storage.LWW}}, storage.Synced[i].Fields...)
	mine, theirs := replicas(t, a, table), replicas(t, b, table)
	out := map[uuid.UUID]Replica{}
	for _, rows := range []map[uuid.UUID]Replica{mine, theirs} {
		for id := range rows {
			x, y := mine[id], theirs[id]
			switch {
			case x == nil:
				out[id] = y
			case y == nil:
				out[id] = x
			default:
				out[id] = Replica{"id": id[:], "created_at": min(x["created_at"].(int64), y["created_at"].(int64)), "updated_at": max(x["updated_at"].(int64), y["updated_at"].(int64))}
				for _, f := range fields {
					out[id][f.Name] = merged(t, f, base[id], x, y, lastChange(t, a, table, id, f.No) >= lastChange(t, b, table, id, f.No))
				}
			}
		}
	}
	for _, db := range []*storage.DB{a, b} {
		write(t, db, table, fields, out)
	}
	return out
}

func merged(t testing.TB, f storage.SyncedField, base, x, y Replica, xLast bool) any {
	v, w := x[f.Name], y[f.Name]
	number := func(v any) int64 { n, _ := v.(int64); return n }
	switch f.Merge {
	case storage.Immutable, storage.Derived:
		return v
	case storage.PNCounter:
		return number(v) + number(w) - number(base[f.Name])
	case storage.Max, storage.Min:
		if v == nil || w != nil && (number(w) > number(v)) == (f.Merge == storage.Max) {
			return w
		}
		return v
	case storage.LWW, storage.Text3, storage.ManualMerge:
		if xLast {
			return v
		}
		return w
	}
	t.Fatalf("no rule for %s", f.Merge)
	return nil
}

// lastChange returns the hybrid logical clock of the last captured change of a field.
func lastChange(t testing.TB, db *storage.DB, table string, id uuid.UUID, field int) (hlc int64) {
	t.Helper()
	if err := db.Read(context.Background(), func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT coalesce(max(hlc), 0) FROM change_log WHERE tbl = ? AND row_id = ? AND fields >> ? & 1`, table, id, field).Scan(&hlc)
	}); err != nil {
		t.Fatal(err)
	}
	return hlc
}

func isSealed(table, column string) bool {
	return slices.ContainsFunc(storage.Sealed, func(c storage.SealedColumn) bool { return c.Table == table && c.Column == column && !c.Private })
}

func replicas(t testing.TB, db *storage.DB, table string) map[uuid.UUID]Replica {
	t.Helper()
	out := map[uuid.UUID]Replica{}
	if err := db.Read(context.Background(), func(tx *storage.Tx) error {
		rows, err := tx.Query(`SELECT * FROM ` + table)
		if err != nil {
			return err
		}
		defer rows.Close()
		columns, err := rows.Columns()
		if err != nil {
			return err
		}
		for rows.Next() {
			values, into := make([]any, len(columns)), make([]any, len(columns))
			for i := range values {
				into[i] = &values[i]
			}
			if err := rows.Scan(into...); err != nil {
				return err
			}
			r := Replica{}
			for i, c := range columns {
				r[c] = values[i]
			}
			id, err := uuid.FromBytes(r["id"].([]byte))
			if err != nil {
				return err
			}
			for c, v := range r {
				if blob, ok := v.([]byte); ok && isSealed(table, c) {
					if r[c], err = db.Keys().Unseal(table, c, id, blob); err != nil {
						return err
					}
				}
			}
			out[id] = r
		}
		return rows.Err()
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func write(t testing.TB, db *storage.DB, table string, fields []storage.SyncedField, rows map[uuid.UUID]Replica) {
	t.Helper()
	ctx := identity.With(context.Background(), identity.Identity{User: db.LocalUser().ID, Scopes: identity.Write.Closed()})
	if err := db.Write(ctx, func(tx *storage.Tx) error {
		return tx.WithoutCapture(func() error {
			for id, r := range rows {
				set, values := "user_id, created_at, updated_at", []any{id, db.LocalUser().ID, r["created_at"], r["updated_at"]}
				update := "updated_at = excluded.updated_at"
				for _, f := range fields {
					if f.Merge == storage.Derived {
						continue
					}
					v := r[f.Name]
					if plain, ok := v.([]byte); ok && isSealed(table, f.Name) {
						var err error
						if v, err = db.Keys().Seal(table, f.Name, id, plain); err != nil {
							return err
						}
					}
					set, values, update = set+", "+f.Name, append(values, v), update+fmt.Sprintf(", %[1]s = excluded.%[1]s", f.Name)
				}
				marks := "?"
				for range len(values) - 1 {
					marks += ", ?"
				}
				if _, err := tx.Exec(`INSERT INTO `+table+` (id, `+set+`) VALUES (`+marks+`) ON CONFLICT (id) DO UPDATE SET `+update, values...); err != nil {
					return err
				}
			}
			return nil
		})
	}); err != nil {
		t.Fatal(err)
	}
}
