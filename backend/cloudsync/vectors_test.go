package cloudsync

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"helix/backend/fault"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

// pglite is a hub in PGlite, which has the extension vector. It has a single server process, whose
// session all connections share: a test is one device after another by SET SESSION AUTHORIZATION. It
// supports neither COPY nor LISTEN.
type pglite struct {
	t    *testing.T
	c    *pgx.Conn
	conf *pgx.ConnConfig
}

// startPGlite starts a server that make setup-npm installed. Without it, it skips the test, or fails if
// HELIX_LANES is required.
func startPGlite(t *testing.T) *pglite {
	t.Helper()
	missing := t.Skipf
	if os.Getenv("HELIX_LANES") == "required" {
		missing = t.Fatalf
	}
	script := must[string](t)(filepath.Abs("../../build/pglite/server.mjs"))
	port := testkit.FreePort(t)
	cmd := exec.Command("node", script, fmt.Sprint(port)) //nolint:gosec // a file of this repository
	out := must[io.ReadCloser](t)(cmd.StdoutPipe())
	if err := cmd.Start(); err != nil {
		missing("PGlite needs node: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // fails because it was killed
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		missing("PGlite does not start; run make setup-npm: %q, %v", line, err)
	}
	p := &pglite{t: t}
	p.conf = must[*pgx.ConnConfig](t)(adminConfig(fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)))
	p.c = must[*pgx.Conn](t)(dial(t.Context(), p.conf))
	t.Cleanup(func() { _ = p.c.Close(context.Background()) })
	return p
}

func (p *pglite) exec(query string, args ...any) {
	p.t.Helper()
	if _, err := p.c.Exec(p.t.Context(), query, args...); err != nil {
		p.t.Fatalf("%s: %v", query, err)
	}
}

func (p *pglite) number(query string, args ...any) (n int) {
	p.t.Helper()
	if err := p.c.QueryRow(p.t.Context(), query, args...).Scan(&n); err != nil {
		p.t.Fatalf("%s: %v", query, err)
	}
	return n
}

// as makes the session that of a role; "" is the administrator.
func (p *pglite) as(role string) {
	p.t.Helper()
	p.exec(`reset role`)
	p.exec(`set session authorization ` + cmp.Or(role, "postgres")) // RESET has no effect in a single process
}

// device adds a device of a user to the hub.
func (p *pglite) device(user uuid.UUID, device uuid.UUID) (r registration) {
	p.t.Helper()
	p.as("")
	must[struct{}](p.t)(struct{}{}, asOwner(p.t.Context(), p.c, func(tx pgx.Tx) error {
		return tx.QueryRow(p.t.Context(), `select app.add_device($1, $2, 'test', 'cli', null, '', null), (select hub_id from app.hub)`, user, device).Scan(&r, &r.HubID)
	}))
	return r
}

// join connects an installation of Helix to the hub, without encryption.
func (p *pglite) join(user uuid.UUID, on *bool) *device {
	p.t.Helper()
	d := newDevice(p.t)
	if user == uuid.Nil {
		user = d.db.LocalUser().ID
	}
	r := p.device(user, uuid.UUID(storage.NewID()))
	h := hubConfig{Host: p.conf.Host, Port: int(p.conf.Port), Database: p.conf.Database, Role: r.Role, Device: r.DeviceID, Name: "test", Channel: r.Channel}
	d.o.Vectors = func() bool { return *on }
	must[struct{}](p.t)(struct{}{}, d.adopt(d.ctx, h, r, r.Password, keyRing{}, 1))
	d.identify()
	d.exec(`INSERT INTO sync_cursor (one, seq) VALUES (1, -1)`) // the feed has all rows too; the first copy needs COPY
	p.t.Cleanup(func() { d.conn = nil })
	return d
}

// now runs an exchange of d.
func (p *pglite) now(d *device) {
	p.t.Helper()
	p.as(must[local](p.t)(d.local(d.ctx)).hub.Role)
	d.conn = p.c
	d.now()
	d.noDeadLetters()
	p.as("")
}

const testModel = "use-lite-512@0.2.0"

// near returns a unit vector whose cosine with near(0) is cos(angle).
func near(angle float64) []float32 {
	v := make([]float32, 512)
	v[0], v[1] = float32(math.Cos(angle)), float32(math.Sin(angle))
	return v
}

func encoded(v []float32) (b []byte) {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// embed stores the vector of the present text of a memory, as package memory does.
func (d *device) embed(model string, id uuid.UUID, v []float32) {
	d.t.Helper()
	d.exec(`INSERT INTO vector_meta (model_id, dims, state, created_at) VALUES (?, ?, 'active', 0) ON CONFLICT DO NOTHING`, model, len(v))
	d.exec(`INSERT OR REPLACE INTO item_vectors (item_kind, item_id, model_id, user_id, dims, text_hash, vector)
		SELECT 'memory', id, ?2, user_id, ?3, content_hash, ?4 FROM memories WHERE id = ?1`, id, model, len(v), encoded(v))
}

// search returns the contents of the memories that a role finds near to a vector.
func (p *pglite) search(role string, v []float32, model string) []string {
	p.t.Helper()
	p.as(role)
	defer p.as("")
	rows := must[pgx.Rows](p.t)(p.c.Query(p.t.Context(), `select content from sync.search_memories($1, $2)`, vectorText(encoded(v)), model))
	return must[[]string](p.t)(pgx.CollectRows(rows, pgx.RowTo[string]))
}

func TestPGliteLaneVectorsOfMemories(t *testing.T) {
	testkit.SkipRaced(t, "devices that take turns")
	t.Parallel()
	p := startPGlite(t)
	if n, vectors, err := migrate(t.Context(), p.c, p.conf); err != nil || n < 2 || !vectors {
		t.Fatalf("%d migrations, vectors %t, %v", n, vectors, err)
	}
	p.as("")
	if n, vectors, err := migrate(t.Context(), p.c, p.conf); err != nil || n != 0 || !vectors {
		t.Fatalf("again: %d migrations, vectors %t, %v", n, vectors, err)
	}
	on := true
	a := p.join(uuid.Nil, &on)
	user := a.db.LocalUser().ID
	role := must[local](t)(a.local(a.ctx)).hub.Role
	stored := func() int {
		t.Helper()
		return p.number(`select count(*) from public.memory_vectors where user_id = $1`, user)
	}
	state := func() HubInfo { t.Helper(); return *must[StatusResult](t)(a.Status(a.ctx, struct{}{})).Hub }

	apple, pear, plum := a.remember("apple"), a.remember("pear"), a.remember("plum")
	a.embed(testModel, apple, near(0.1))
	a.embed(testModel, pear, near(0.2))
	if h := state(); h.Embeddings != EmbeddingsUnsupported || h.Vectors { // it was not asked yet
		t.Errorf("%+v", h)
	}
	p.now(a)
	if h := state(); stored() != 2 || h.Embeddings != EmbeddingsSent || !h.Vectors {
		t.Errorf("%d vectors, %+v", stored(), h)
	}
	if n := p.number(`select count(*) from public.memory_vectors where model_id = $1 and dims = 512`, testModel); n != 2 {
		t.Errorf("%d with model and dimension", n)
	}
	a.embed(testModel, plum, near(0.3)) // computed later
	p.now(a)
	if got := fmt.Sprint(p.search(role, near(0.21), testModel)); got != "[pear plum apple]" {
		t.Errorf("found %s", got)
	}

	p.as(role) // the example of docs/sync.md
	if n := p.number(`select count(*) from memory_vectors v, sync.search_memories(v.embedding, v.model_id, 10) m where v.id = $1`, pear); n != 3 {
		t.Errorf("%d near to a memory", n)
	}
	p.as("")

	t.Run("AreFoundThroughTheIndex", func(t *testing.T) {
		p.as(role)
		defer p.as("")
		tx := must[pgx.Tx](t)(p.c.Begin(t.Context()))
		defer tx.Rollback(t.Context()) //nolint:errcheck // read-only
		var scans int
		if err := tx.QueryRow(t.Context(), `select count(*) from (select set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true)) x, sync.search_memories($1, $2)`, vectorText(encoded(near(0))), testModel).Scan(&scans); err != nil || scans != 3 {
			t.Errorf("%d found, %v", scans, err)
		}
		if err := tx.QueryRow(t.Context(), `select pg_stat_get_xact_numscans('public.memory_vectors_512'::regclass)`).Scan(&scans); err != nil || scans == 0 {
			t.Errorf("%d scans of the index, %v", scans, err)
		}
	})

	t.Run("AreNotFoundAfterTheTextChanged", func(t *testing.T) {
		a.edit(plum, "fig")
		p.now(a)
		if got := fmt.Sprint(p.search(role, near(0.3), testModel)); got != "[pear apple]" {
			t.Errorf("before the new vector: %s", got)
		}
		a.embed(testModel, plum, near(1))
		p.now(a)
		if got := fmt.Sprint(p.search(role, near(1), testModel)); got != "[fig pear apple]" || stored() != 3 {
			t.Errorf("%d, after the new vector: %s", stored(), got)
		}
	})

	t.Run("AreRemovedWithTheMemory", func(t *testing.T) {
		a.exec(`UPDATE memories SET deleted_at = 5 WHERE id = ?`, plum)
		p.now(a)
		if n := stored(); n != 2 {
			t.Errorf("%d after the deletion", n)
		}
		a.exec(`UPDATE memories SET deleted_at = NULL WHERE id = ?`, plum)
		p.now(a)
		if n := stored(); n != 3 {
			t.Errorf("%d after restoring", n)
		}
	})

	t.Run("AreKeptByOtherDevices", func(t *testing.T) {
		b := p.join(user, &on)
		p.now(b)
		for i, id := range []uuid.UUID{apple, pear, plum} {
			b.embed("other@1", id, []float32{1, float32(i)})
		}
		p.now(b)
		if n := stored(); n != 6 {
			t.Errorf("%d vectors of two models", n)
		}
		if got := p.search(role, []float32{1, 2}, "other@1"); len(got) != 3 || got[0] != "fig" {
			t.Errorf("found %v", got)
		}
		p.now(a)
		for _, d := range []*device{a, b} {
			if n := one[int](d, `SELECT count(*) FROM item_vectors`); n != 3 {
				t.Errorf("%d vectors on a device", n)
			}
		}
		if n := one[int](a, `SELECT count(*) FROM item_vectors WHERE model_id = 'other@1'`); n != 0 {
			t.Errorf("%d received", n)
		}
		b.embed("other@1", b.remember("quince"), []float32{float32(math.NaN())}) // refused, which stops nothing else
		p.now(b)
		if n := stored(); n != 6 {
			t.Errorf("%d vectors after a wrong one", n)
		}
	})

	t.Run("AreNeverOfEncryptedTexts", func(t *testing.T) {
		change := func(content string) {
			p.exec(`alter table public.memories disable trigger user; update public.memories set content = '`+content+`' where content = 'apple' or content like 'hx1.%'; alter table public.memories enable trigger user`, pgx.QueryExecModeSimpleProtocol)
		}
		put := func() int {
			p.as(role)
			defer p.as("")
			return p.number(`select sync.put_vectors('another', array[id], array[content_hash], array['[1]']) from public.memories where id = $1`, apple)
		}
		change("hx1.1.x")
		p.as(role)
		wanted := p.number(`select count(*) from sync.wanted_vectors('another', $1, 100)`, uuid.Nil)
		p.as("")
		if n := put(); n != 0 || wanted != 3 {
			t.Errorf("%d accepted, %d wanted", n, wanted)
		}
		change("apple")
		if n := put(); n != 1 {
			t.Errorf("%d accepted of a plain text", n)
		}
		p.exec(`delete from public.memory_vectors where model_id = 'another'`)
	})

	t.Run("AreNotSentOfADeviceThatEncrypts", func(t *testing.T) {
		d := p.join(uuid.Nil, &on)
		d.write(func(tx *storage.Tx) error {
			l, err := readLocal(tx)
			if err != nil {
				return err
			}
			l.hub.Private = true
			return errors.Join(writeHub(tx, l.hub), d.secrets.SetTx(tx, keySecret, []byte(jsonText(keyRing{1: newUserKey()}))))
		})
		d.embed(testModel, d.remember("secret"), near(0))
		p.now(d)
		user := d.db.LocalUser().ID
		if n := p.number(`select count(*) from public.memories where user_id = $1 and content like 'hx1.%'`, user); n != 1 {
			t.Errorf("%d encrypted memories", n)
		}
		n := p.number(`select count(*) from public.memory_vectors where user_id = $1`, user)
		if l := must[local](t)(d.local(d.ctx)); n != 0 || l.hub.Sent {
			t.Errorf("%d vectors of encrypted memories, sent: %t", n, l.hub.Sent)
		}
	})

	t.Run("AreReadByTheirOwnerOnly", func(t *testing.T) {
		p.matrix(t)
	})

	t.Run("AreSentInPages", func(t *testing.T) {
		on = false
		var ids []uuid.UUID
		for range 2 { // rows in numbers that need no COPY
			for i := range 150 {
				ids = append(ids, a.remember(fmt.Sprintf("number %d of %d", i, len(ids))))
			}
			p.now(a)
		}
		if n := stored(); n != 0 {
			t.Errorf("%d after the setting was turned off", n)
		}
		if l := must[local](t)(a.local(a.ctx)); l.hub.Sent || state().Embeddings != EmbeddingsOff {
			t.Errorf("%+v", l.hub)
		}
		for i, id := range ids {
			a.embed(testModel, id, near(float64(i)/1000))
		}
		on = true
		p.now(a)
		if n := stored(); n != len(ids)+3 {
			t.Errorf("%d of %d", n, len(ids)+3)
		}
		if got := p.search(role, near(0.123), testModel); len(got) != 10 || !strings.Contains(got[0], "number 123 ") {
			t.Errorf("found %q", got)
		}
	})

	t.Run("AreRemovedWithTheUser", func(t *testing.T) {
		must[struct{}](t)(struct{}{}, asOwner(t.Context(), p.c, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), `select app.remove_user($1)`, user)
			return err
		}))
		if n := stored(); n != 0 {
			t.Errorf("%d left", n)
		}
	})
}

// matrix tests the rights to the tables of the vector set like Selftest, which needs one connection for
// each role.
func (p *pglite) matrix(t *testing.T) {
	st := &securityTest{admin: p.c}
	owner := &intruder{name: "owner", registration: p.device(uuid.New(), uuid.New()), c: p.c}
	user := owner.UserID
	p.as(owner.Role)
	must[struct{}](t)(struct{}{}, st.prepare(t.Context(), owner))
	actors := []*intruder{owner,
		{name: "another device of the owner", registration: p.device(user, uuid.New())},
		{name: "another user", registration: p.device(uuid.New(), uuid.New())},
		{name: "a revoked device", registration: p.device(user, uuid.New())},
		{name: "anonymous", registration: registration{Role: "nobody"}},
		{name: "a forged claim", registration: p.device(uuid.New(), uuid.New())},
	}
	p.as("")
	p.exec(`create role nobody`)
	p.exec(`update app.device set revoked_at = now() where device_id = $1`, actors[3].DeviceID)
	for _, x := range actors {
		x.c = p.c
		x.before = `set local session authorization ` + x.Role
		if x.name == "a forged claim" {
			x.before = `select set_config('session_authorization', '` + x.Role + `', true), set_config('request.jwt.claims', '{"sub":"` + user.String() + `","role":"service_role"}', true)`
		}
	}
	failed := func() (names []string) {
		tables := 0
		for _, x := range must[[]hubTable](t)(st.tables(t.Context())) {
			if !strings.Contains(x.Name, "vector") {
				continue
			}
			tables++
			may, ok := x.rights()
			if !ok || !x.Secured {
				names = append(names, x.Name)
			}
			for _, actor := range actors {
				for _, verb := range verbs {
					query, args := x.probe(verb, actor, probeRow{owner: owner})
					n, _, err := actor.try(t.Context(), query, args...)
					if want := strings.Contains(may[actor.name], verb[:1]); err != nil || (n > 0) != want {
						names = append(names, fmt.Sprintf("%s: %s %s: %d rows, %v", x.Name, actor.name, verb, n, err))
					}
				}
			}
		}
		if tables != 2 {
			t.Errorf("%d tables", tables)
		}
		return names
	}
	if names := failed(); len(names) > 0 {
		t.Errorf("%q", names)
	}
	for _, x := range []struct{ breaks, repairs string }{ // it finds what is open
		{`create policy open on public.memory_vectors for select to helix_device using (true)`, `drop policy open on public.memory_vectors`},
		{`alter table public.memory_vectors no force row level security`, `alter table public.memory_vectors force row level security`},
		{`grant delete on public.memory_vectors to helix_device; create policy d on public.memory_vectors for delete to helix_device using (user_id = app.uid())`, `revoke delete on public.memory_vectors from helix_device; drop policy d on public.memory_vectors`},
	} {
		p.exec(x.breaks, pgx.QueryExecModeSimpleProtocol)
		if len(failed()) == 0 {
			t.Errorf("not found: %s", x.breaks)
		}
		p.exec(x.repairs, pgx.QueryExecModeSimpleProtocol)
	}
	for _, x := range actors[2:] {
		if got := func() (n int64) {
			n, _, err := x.try(t.Context(), `select * from sync.search_memories($1, $2)`, vectorText(encoded(near(0))), testModel)
			if err != nil {
				t.Error(err)
			}
			return n
		}(); got != 0 {
			t.Errorf("%s finds %d memories", x.name, got)
		}
	}
}

// A hub without the extension is like any other, and a device says why it sends nothing.
func TestVectorsAreOptional(t *testing.T) {
	testkit.SkipRaced(t, "one goroutine")
	t.Parallel()
	dsn := newHub(t)
	c := admin(t, dsn)
	if err := c.QueryRow(t.Context(), `select 1 from pg_available_extensions where name = 'vector'`).Scan(new(int)); err == nil {
		t.Skip("this PostgreSQL has the extension vector")
	}
	a, private := openDevice(t, storagetest.Open(t)), newDevice(t)
	for _, d := range []*device{a, private} {
		d.o.Vectors = func() bool { return true }
	}
	plain := false
	r := must[SetupResult](t)(a.setup(a.ctx, SetupParams{AdminDSN: dsn, Encrypt: &plain}, false))
	a.embed(testModel, a.remember("plain"), near(0))
	a.now()
	if h := must[StatusResult](t)(a.Status(a.ctx, struct{}{})).Hub; r.Vectors || h.Vectors || h.Embeddings != EmbeddingsUnsupported {
		t.Errorf("%+v, %+v", r, h)
	}
	if err := a.AllowVectors(a.ctx); err != nil {
		t.Error(err)
	}
	private.setUp(dsn)
	private.embed(testModel, private.remember("secret"), near(0))
	private.now()
	if h := must[StatusResult](t)(private.Status(private.ctx, struct{}{})).Hub; h.Embeddings != EmbeddingsEncrypted {
		t.Errorf("%+v", h)
	}
	if err := private.AllowVectors(private.ctx); !fault.Is(err, fault.Denied) {
		t.Errorf("allowed with encryption: %v", err)
	}
}
