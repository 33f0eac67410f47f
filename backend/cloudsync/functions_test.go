package cloudsync

import (
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"helix/backend/testkit"
)

// PostgreSQL counts the calls of the hub's functions while devices use it in every way. A function that was
// never called needs a call here.
func TestEachFunctionOfTheHubIsCalled(t *testing.T) {
	t.Parallel()
	f := newFirewall(t)
	hub := admin(t, f.dsn)
	if _, err := hub.Exec(t.Context(), `alter database `+must[*url.URL](t)(url.Parse(f.dsn)).Path[1:]+` set track_functions = 'all'`); err != nil {
		t.Fatal(err)
	}
	if _, _, err := migrateHub(t.Context(), must[*pgx.ConnConfig](t)(adminConfig(f.dsn))); err != nil { // as an update does
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	a := f.signedIn(t)
	b := f.outside(t, a)
	settleAll(a, b)
	a.fill(1, r)
	settleAll(a, b)
	f.Block(true) // over HTTPS
	if err := a.hangUp(); err != nil {
		t.Fatal(err)
	}
	must[RotateKeyResult](t)(b.RotateKey(b.ctx, struct{}{}))
	a.counts.told = time.Time{}
	id := a.remember("over HTTPS")
	settleAll(b, a)
	if err := a.exclusive(a.ctx, func() error {
		h, _, err := a.reach(a.ctx)
		if err == nil {
			_, err = h.row(a.ctx, rowKey{"memories", id})
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	f.Block(false)
	b.manyFresh = 5
	for range 20 {
		b.remember("sent as new")
	}
	b.now()
	c := newDevice(t)
	must[SetupResult](t)(c.Enroll(c.ctx, EnrollParams{Code: must[RecoveryResult](t)(a.ExportRecovery(a.ctx, struct{}{})).Code}))
	c.identify()
	for _, call := range []string{
		`select app.rename_device(app.device_id(), 'third')`,
		`select app.set_https_digest(null)`,
		`select app.skip_sites(app.site())`,
		`select sync.renew_schedule($1, (sync.claim_schedule($1) ->> 'term')::bigint)`,
		`select sync.put_share($1, $1, true, null, '{}', ''), sync.get_share($1), sync.own_shares('tool', $1), sync.revoke_share($1)`,
		`select sync.blob_get(sha256(convert_to($1, 'utf8')), 0)`,
		`select * from sync.pull(0), sync.push_sql('memories'), sync.tombstone_columns() where $1 <> ''`,
	} {
		id := uuid.NewString()
		c.onHub(func(c *pgx.Conn) error {
			_, err := c.Exec(t.Context(), strings.ReplaceAll(call, "$1", "'"+id+"'"))
			return err
		})
	}
	c.onHub(func(c *pgx.Conn) error {
		_, err := c.Exec(t.Context(), `create temp table stage_memories as select id, dot, prev_dot, hlc, sync_meta, schema_ver, deleted_at, extra from public.memories`)
		if err == nil {
			_, err = c.Exec(t.Context(), `select sync.merge('memories')`)
		}
		return err
	})
	must[SelftestResult](t)(a.Selftest(a.ctx, SelftestParams{AdminDSN: f.dsn}))
	must[struct{}](t)(a.Revoke(a.ctx, RevokeParams{must[local](t)(c.local(c.ctx)).hub.Device}))
	for _, d := range []*device{a, b, c} { // a connection reports its calls when it ends
		if err := d.exclusive(d.ctx, d.hangUp); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "connections that have not ended", func() (n int) {
		if err := hub.QueryRow(t.Context(), `select count(*) from pg_stat_activity where datname = current_database() and backend_start > (select backend_start from pg_stat_activity where pid = pg_backend_pid())`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}, func(n int) bool { return n == 0 })
	for _, name := range must[[]string](t)(collectText(t.Context(), hub, `select n.nspname || '.' || p.proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace
		where n.nspname in ('app', 'sync', 'public') and not exists (select 1 from pg_depend x where x.objid = p.oid and x.deptype = 'e')
			and coalesce(pg_stat_get_function_calls(p.oid), 0) = 0 order by 1`)) {
		t.Errorf("%s was not called", name)
	}
}
