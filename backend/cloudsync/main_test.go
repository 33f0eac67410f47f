package cloudsync

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"helix/backend/cloudsync/hubtest"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

func TestMain(m *testing.M) {
	os.Exit(testkit.Run(hubtest.Main{M: m}))
}

// template is a hub with its schema, which tests copy.
var template struct {
	once    sync.Once
	dsn     string
	vectors bool
	copies  sync.Map // names of the databases that are copies
}

func newHub(t testing.TB) (dsn string) {
	t.Helper()
	prepare(t)
	dsn = hubtest.Copy(t, template.dsn)
	template.copies.Store(must[*pgx.ConnConfig](t)(adminConfig(dsn)).Database, true)
	return dsn
}

// prepare creates the template, and with it the roles, which all databases of the server share: two
// transactions in different databases cannot create one at the same time.
func prepare(t testing.TB) {
	t.Helper()
	template.once.Do(func() {
		template.dsn = hubtest.Database(t)
		c, err := adminConfig(template.dsn)
		if err == nil {
			_, template.vectors, err = migrateHub(t.Context(), c)
		}
		if err == nil { // the roles of a Supabase project
			_, err = admin(t, hubtest.Database(t)).Exec(t.Context(), `create role authenticated nologin; create role authenticator login noinherit password 'x'; grant authenticated to authenticator; grant helix_device to authenticated`)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}

// device is one installation of Helix.
type device struct {
	*Service
	t   testing.TB
	ctx context.Context
}

func newDevice(t testing.TB) *device {
	t.Helper()
	return openDevice(t, storagetest.Open(t))
}

func openDevice(t testing.TB, db *storage.DB) *device {
	t.Helper()
	d := &device{Service: New(db, storage.NewSecrets(db), Options{Version: "test"}), t: t}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	d.identify()
	return d
}

func (d *device) identify() {
	d.ctx = identity.With(d.t.Context(), identity.Identity{User: d.db.LocalUser().ID, Scopes: identity.Admin.Closed(), Client: identity.ClientWindow, Pipe: "memory"})
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// setUp makes d the first device of a hub. Copies of the template have the schema already.
func (d *device) setUp(dsn string) {
	d.t.Helper()
	p, c := SetupParams{AdminDSN: dsn, Name: "first"}, must[*pgx.ConnConfig](d.t)(adminConfig(dsn))
	if _, is := template.copies.Load(c.Database); !is {
		must[SetupResult](d.t)(d.setup(d.ctx, p, false))
	} else if err := d.exclusive(d.ctx, func() error { return d.registerFirst(d.ctx, c, p, &SetupResult{Vectors: template.vectors}) }); err != nil {
		d.t.Fatal(err)
	}
}

// join adds d to the hub of other.
func (d *device) join(other *device) {
	d.t.Helper()
	link := must[InviteResult](d.t)(other.Invite(other.ctx, InviteParams{})).Link
	must[SetupResult](d.t)(d.Enroll(d.ctx, EnrollParams{Code: link}))
	d.identify()
}

// now runs an exchange.
func (d *device) now() CoordinateResult {
	d.t.Helper()
	return must[CoordinateResult](d.t)(d.Coordinate(d.ctx, CoordinateParams{}))
}

// pair returns two devices of one hub that exchange alternately.
func pair(t testing.TB) (a, b *device, dsn string) {
	t.Helper()
	testkit.SkipRaced(t, "devices that take turns")
	return connected(t)
}

// connected returns two devices of one hub.
func connected(t testing.TB) (a, b *device, dsn string) {
	t.Helper()
	dsn = newHub(t)
	a, b = newDevice(t), newDevice(t)
	a.setUp(dsn)
	a.now()
	b.join(a)
	b.now()
	return a, b, dsn
}

func (d *device) write(fn func(tx *storage.Tx) error) {
	d.t.Helper()
	if err := d.db.Write(d.ctx, fn); err != nil {
		d.t.Fatal(err)
	}
}

func (d *device) exec(query string, args ...any) {
	d.t.Helper()
	d.write(func(tx *storage.Tx) error {
		_, err := tx.Exec(query, args...)
		return err
	})
}

// one queries a single value.
func one[T any](d *device, query string, args ...any) (v T) {
	d.t.Helper()
	if err := d.db.Read(d.ctx, func(tx *storage.Tx) error { return tx.QueryRow(query, args...).Scan(&v) }); err != nil {
		d.t.Fatalf("%s: %v", query, err)
	}
	return v
}

func (d *device) noDeadLetters() {
	d.t.Helper()
	if err := d.db.Read(d.ctx, func(tx *storage.Tx) error {
		return tx.Select(`SELECT tbl, direction || ' ' || message || ' ' || payload FROM sync_dead_letter`).Each(func(r storage.Row) error {
			var table, text string
			err := r.Scan(&table, &text)
			d.t.Errorf("dead letter: %s %.600s", table, text)
			return err
		})
	}); err != nil {
		d.t.Fatal(err)
	}
}

// admin returns a connection of the hub's administrator.
func admin(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	c := must[*pgx.Conn](t)(pgx.Connect(t.Context(), dsn))
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// rows returns all rows of the synced tables by table and id, limited to what must be equal on all
// devices.
func (d *device) rows() map[string]string {
	d.t.Helper()
	out := map[string]string{}
	if err := d.db.Read(d.ctx, func(tx *storage.Tx) error {
		tables, err := readTables(tx)
		if err != nil {
			return err
		}
		for _, t := range tables {
			where := ""
			if t.Final != "" {
				where = " WHERE " + strings.ReplaceAll(t.Final, "NEW.", "")
			}
			ids, err := storage.Collect(tx.Select(`SELECT id FROM `+t.Table+where), storage.RowTo[uuid.UUID])
			if err != nil {
				return err
			}
			for _, id := range ids {
				r, err := t.readRow(tx, id)
				if err != nil {
					return err
				}
				var parts []string
				for _, c := range t.columns {
					parts = append(parts, fmt.Sprintf("%s=%v", c.Name, wireValue(c, r.Values[c.Name])))
				}
				out[t.Table+" "+id.String()] = fmt.Sprintf("deleted=%v created=%d %s", r.Values[deletedAt], r.Created, strings.Join(parts, " "))
			}
		}
		return nil
	}); err != nil {
		d.t.Fatal(err)
	}
	return out
}

// same fails the test unless all devices have equal rows.
func same(t testing.TB, devices ...*device) {
	t.Helper()
	first := devices[0].rows()
	for i, d := range devices[1:] {
		other := d.rows()
		bad := 0
		for k := range first {
			if other[k] != first[k] && bad < 5 {
				bad++
				t.Errorf("%s\n  device 0: %s\n  device %d: %s", k, first[k], i+1, other[k])
			}
		}
		for k := range other {
			if first[k] == "" && bad < 5 {
				bad++
				t.Errorf("%s: only on device %d: %s", k, i+1, other[k])
			}
		}
	}
}

var (
	reWords   = regexp.MustCompile(`IN \(('[^)]*')\)`)
	reNumbers = regexp.MustCompile(`IN \((\d+(?:, \d+)*)\)`)
	reBetween = regexp.MustCompile(`BETWEEN (-?\d+(?:\.\d+)?) AND (-?\d+(?:\.\d+)?)`)
)

// reAdded finds columns that ALTER TABLE added: SQLite keeps them all on the last line.
var reAdded = regexp.MustCompile(`, (\w+ (?:INTEGER|TEXT|REAL|BLOB|ANY)\b)`)

// forms returns the definitions of the columns of a table.
func forms(tx *storage.Tx, table string) (map[string]string, error) {
	var sql string
	if err := tx.QueryRow(`SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?`, table).Scan(&sql); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for line := range strings.Lines(reAdded.ReplaceAllString(sql, "\n$1")) {
		name, rest, _ := strings.Cut(strings.TrimSpace(strings.TrimLeft(line, " ,")), " ")
		out[name] = rest
	}
	return out, nil
}

// source is a source of randomness for values that the schema allows.
type source interface{ IntN(n int) int }

func randomValue(r source, c storage.SyncedColumn, form string) any {
	word := func() string {
		return []string{"amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "hazel"}[r.IntN(8)]
	}
	switch m := reWords.FindStringSubmatch(form); {
	case c.Merge == storage.ORSet:
		set := []string{word(), word()}
		slices.Sort(set)
		return jsonText(slices.Compact(set))
	case strings.Contains(form, "= 64"):
		return fmt.Sprintf("%064d", r.IntN(1<<30))
	case strings.Contains(form, "GLOB 'sha256:"):
		return fmt.Sprintf("sha256:%064d", r.IntN(1<<30))
	case strings.Contains(form, "typeof(evidence)"), strings.Contains(form, "typeof(subjects)"), strings.Contains(form, "typeof(recommendations)"):
		return fmt.Sprintf(`["%s"]`, word())
	case strings.Contains(form, "json_valid"):
		return fmt.Sprintf(`{"n":%d}`, r.IntN(1000))
	case m != nil && !strings.Contains(form, "typeof"):
		words := strings.Split(m[1], ", ")
		return strings.Trim(words[r.IntN(len(words))], "'")
	case reNumbers.MatchString(form):
		n := strings.Split(reNumbers.FindStringSubmatch(form)[1], ", ")
		var v int64
		_, _ = fmt.Sscan(n[r.IntN(len(n))], &v)
		return v
	}
	if m := reBetween.FindStringSubmatch(form); m != nil && c.Hub != "text" {
		var lo, hi float64
		_, _ = fmt.Sscan(m[1], &lo)
		_, _ = fmt.Sscan(m[2], &hi)
		if v := lo + (hi-lo)*float64(r.IntN(101))/100; c.Hub == "double precision" {
			return v
		} else {
			return int64(v)
		}
	}
	switch c.Hub {
	case "uuid":
		id := uuid.UUID{byte(r.IntN(256)), byte(r.IntN(256)), 7}
		return id[:]
	case "bytea":
		b := make([]byte, 32)
		b[0], b[1] = byte(r.IntN(256)), byte(r.IntN(256))
		return b
	case "double precision":
		return float64(r.IntN(1000)) / 7
	case "bigint":
		return int64(1 + r.IntN(1<<30))
	case "timestamptz":
		return int64(1_700_000_000_000_000 + r.IntN(1<<30))
	case "boolean":
		return int64(r.IntN(2))
	}
	return fmt.Sprintf("%s %s %d", word(), word(), r.IntN(1<<30))
}
