package cloudsync

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"testing"
	"time"

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

// Times stay the same whatever the zones of the devices and of the hub are, in every way in which rows travel.
// It runs alone, because it changes the zone of the process.
func TestTimesSurviveAChangeOfZone(t *testing.T) {
	testkit.SkipRaced(t, "one goroutine, which changes time.Local")
	former := time.Local
	defer func() { time.Local = former }()
	dsn := newHub(t)
	hub := admin(t, dsn)
	var devices []*device
	zones := func(ours, theirs string) {
		t.Helper()
		time.Local = must[*time.Location](t)(time.LoadLocation(ours))
		if _, err := hub.Exec(t.Context(), `alter database `+must[*url.URL](t)(url.Parse(dsn)).Path[1:]+` set timezone = '`+theirs+`'`); err != nil {
			t.Fatal(err)
		}
		for _, d := range devices { // new connections have the new zone
			if err := d.exclusive(d.ctx, d.hangUp); err != nil {
				t.Fatal(err)
			}
		}
	}
	var ids []uuid.UUID
	times := []string{"1970-01-01T00:00:00Z", "1874-06-01T12:00:00.000001Z", "2024-03-10T07:30:00.999999Z", "2024-11-03T06:30:00Z", "9998-12-31T23:59:59Z"}
	write := func(d *device) {
		for _, at := range times {
			id := d.remember("at " + at)
			d.exec(`UPDATE memories SET occurred_at = ?, created_at = ? WHERE id = ?`, must[time.Time](t)(time.Parse(time.RFC3339Nano, at)), must[time.Time](t)(time.Parse(time.RFC3339Nano, at)), id)
			ids = append(ids, id)
		}
		d.fill(1, rand.New(rand.NewPCG(5, uint64(len(ids)))))
	}
	check := func(d *device) {
		t.Helper()
		d.noDeadLetters()
		same(t, devices[0], d)
		for i, id := range ids {
			want := must[time.Time](t)(time.Parse(time.RFC3339Nano, times[i%len(times)])).UnixMicro()
			if at, created := one[int64](d, `SELECT occurred_at FROM memories WHERE id = ?`, id), one[int64](d, `SELECT created_at FROM memories WHERE id = ?`, id); at != want || created != want {
				t.Errorf("%s became %s and %s", times[i%len(times)], time.UnixMicro(at).UTC(), time.UnixMicro(created).UTC())
			}
		}
	}
	a, b := newDevice(t), newDevice(t)
	devices = append(devices, a, b)
	a.setUp(dsn)
	zones("Asia/Kathmandu", "America/St_Johns")
	write(a)
	a.now()
	zones("America/New_York", "Asia/Kolkata")
	b.join(a)
	b.now() // the first copy
	check(b)
	write(b)
	b.now()
	zones("Pacific/Chatham", "America/New_York")
	a.now() // the feed
	check(a)
	a.manyFresh = 1
	write(a)
	a.now() // batches of new rows
	a.exec(`UPDATE memories SET pinned = 1`)
	a.now()
	zones("Europe/Berlin", "Australia/Lord_Howe")
	settleAll(b, a)
	check(a)
	check(b)
}
