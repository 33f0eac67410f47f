package cloudsync

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/uuid"

	"helix/backend/storage"
	"helix/backend/testkit"
)

// naturalID returns the id of a row that exists once per natural key.
func naturalID(r source, t table) (uuid.UUID, bool) {
	switch t.Table {
	case "psychology_layers":
		return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, t.Table, r.IntN(7))), true
	case "psychology_settings", "soul_documents", "voice_settings":
		return uuid.NewSHA1(uuid.NameSpaceOID, []byte(t.Table)), true
	}
	return uuid.Nil, false
}

// insertRandom inserts a row into a synced table, unless it exists.
func (d *device) insertRandom(tx *storage.Tx, t table, r source) error {
	id, ok := naturalID(r, t)
	if !ok {
		id = storage.NewID()
	}
	var there bool
	if err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM `+t.Table+` WHERE id = ?)`, id).Scan(&there); err != nil || there {
		return err
	}
	return d.insertAs(tx, t, id, r)
}

// insertAs inserts a row into a synced table, with existing parents.
func (d *device) insertAs(tx *storage.Tx, t table, id uuid.UUID, r source) error {
	form, err := forms(tx, t.Table)
	if err != nil {
		return err
	}
	parents := map[string]string{}
	if err := tx.Select(`SELECT "from", "table" FROM pragma_foreign_key_list(?)`, t.Table).Each(func(row storage.Row) error {
		var from, to string
		if err := row.Scan(&from, &to); err != nil {
			return err
		}
		parents[from] = to
		return nil
	}); err != nil {
		return err
	}
	v := Version{Values: map[string]any{}, Created: tx.Now.UnixMicro(), Updated: tx.Now.UnixMicro(), Meta: newMeta()}
	for _, c := range t.columns {
		if to, ok := parents[c.Name]; ok {
			if to == t.Table {
				continue
			}
			var n int
			if err := tx.QueryRow(`SELECT count(*) FROM ` + to + ` WHERE deleted_at IS NULL`).Scan(&n); err != nil {
				return err
			}
			if n == 0 {
				i := slices.IndexFunc(d.tables, func(p table) bool { return p.Table == to })
				return d.insertAs(tx, d.tables[i], storage.NewID(), r)
			}
			var parent []byte
			if err := tx.QueryRow(`SELECT id FROM `+to+` WHERE deleted_at IS NULL ORDER BY id LIMIT 1 OFFSET ?`, r.IntN(n)).Scan(&parent); err != nil {
				return err
			}
			v.Values[c.Name] = parent
			continue
		}
		v.Values[c.Name] = randomValue(r, c, form[c.Name])
	}
	switch t.Table {
	case "psychology_layers":
		for n := range int64(7) {
			if id == uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, t.Table, n)) {
				v.Values["layer_number"] = n + 1
			}
		}
	case "schedule_runs":
		v.Values["status"] = "success"
	case "composite_skill_executions":
		v.Values["status"], v.Values["mode"] = "completed", "live"
	case "skill_executions", "tool_execution_log":
		v.Values["status"] = "success"
	case "sync_conflicts":
		v.Values["status"] = "auto"
	}
	return t.writeRow(tx, d.db.LocalUser().ID, id, v, false, false)
}

// fill inserts n rows into every synced table.
func (d *device) fill(n int, r source) {
	d.t.Helper()
	d.write(func(tx *storage.Tx) error {
		tables, err := readTables(tx)
		if err != nil {
			return err
		}
		for _, t := range tables {
			for range n {
				if err := d.insertRandom(tx, t, r); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func TestTwoDevicesExchangeAllSyncedTables(t *testing.T) {
	testkit.SkipRaced(t, "one goroutine")
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	dsn := newHub(t)
	a, b := newDevice(t), newDevice(t)
	a.fill(3, r) // before connecting to a hub
	a.setUp(dsn)
	a.now()
	b.fill(2, r)
	b.join(a)
	got := b.now()
	if got.Pulled == 0 || got.Pushed == 0 || got.DeadLetters > 0 {
		t.Errorf("%+v", got)
	}
	a.now()
	b.now()
	a.now()
	b.noDeadLetters()
	same(t, a, b)
	tables := map[string]bool{}
	for _, s := range storage.Synced {
		if s.Parent == "" && one[int](b, `SELECT count(*) FROM `+s.Table) < 1 {
			t.Errorf("%s is empty", s.Table)
		}
		tables[s.Table] = true
	}
	if st := must[StatusResult](t)(b.Status(b.ctx, struct{}{})); st.State != Live || st.QueueLength != 0 || st.FailedCount != 0 {
		t.Errorf("%+v", st)
	}
	if x := a.now(); x.Pulled+x.Pushed+x.Merged != 0 {
		t.Errorf("a round without changes: %+v", x)
	}
}
