package cloudsync

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

// Names of types and relations are looked up in the session's temporary schema first, unless search_path
// has it in another place. A device that creates a type or view of the name that a function of the hub's
// owner uses must not have its own code run with the owner's rights.
func TestTemporaryObjectsRunNoCodeAsTheOwner(t *testing.T) {
	t.Parallel()
	a, b, _ := connected(t)
	device := must[local](t)(b.local(b.ctx)).hub.Device
	a.onHub(func(c *pgx.Conn) error {
		exec := func(query string, args ...any) error {
			_, err := c.Exec(a.ctx, query, args...)
			return err
		}
		for _, q := range []string{
			`create temp table seen (who name)`,
			`grant insert on seen to public`,
			`create function pg_temp.note() returns bool language plpgsql as $$ begin insert into pg_temp.seen values (current_user); return true; end $$`,
			`create domain pg_temp.text as pg_catalog.text check (pg_temp.note())`,
			`create domain pg_temp.uuid as pg_catalog.uuid check (pg_temp.note())`,
			`create domain pg_temp.jsonb as pg_catalog.jsonb check (pg_temp.note())`,
			`create domain pg_temp.bytea as pg_catalog.bytea check (pg_temp.note())`,
			`create view pg_temp.pg_stat_activity as select 1 as pid, 'x'::pg_catalog.name as usename where pg_temp.note()`,
		} {
			if err := exec(q); err != nil {
				t.Fatalf("%s: %v", q, err)
			}
		}
		for _, q := range []string{`select app.uid()`, `select sync.lock()`, `select app.keys()`, `select sync.hello('{"lastCtr": "0"}')`} {
			_ = exec(q) // may be refused
		}
		_ = exec(`select app.revoke_device($1)`, device)
		got, err := collectText(a.ctx, c, `select distinct who::pg_catalog.text from pg_temp.seen where who <> current_user`)
		if err != nil || len(got) > 0 {
			t.Errorf("a device ran code as %q, %v", got, err)
		}
		return nil
	})
}

// The functions of the hub's owner look temporary objects up last.
func TestFunctionsOfTheOwnerLookUpTemporaryObjectsLast(t *testing.T) {
	t.Parallel()
	got := must[[]string](t)(collectText(t.Context(), admin(t, newHub(t)), `select p.oid::regprocedure::text from pg_proc p join pg_roles r on r.oid = p.proowner
		where r.rolname = 'helix_owner' and (prosecdef or not exists (select from unnest(proconfig) c where c like 'search_path=%')) and not coalesce('search_path=pg_catalog, pg_temp' = any (proconfig), false)`))
	for _, name := range got {
		t.Error(name)
	}
}

// Sites and roles are the hub's, not one user's, so one user cannot use them up.
func TestOneUserCannotUseUpSitesAndRoles(t *testing.T) {
	t.Parallel()
	a, _, dsn := connected(t)
	hub := admin(t, dsn)
	var before, after int64
	const last = `select last_value from app.site_seq`
	if err := hub.QueryRow(t.Context(), last).Scan(&before); err != nil {
		t.Fatal(err)
	}
	a.onHub(func(c *pgx.Conn) error {
		for range 50 {
			_, _ = c.Exec(a.ctx, `select app.skip_sites((select max(site) + 4000 from app.device))`)
			_, _ = c.Exec(a.ctx, `select app.skip_sites($1)`, before+9000)
		}
		return nil
	})
	if err := hub.QueryRow(t.Context(), last).Scan(&after); err != nil || after > before+10_000 {
		t.Errorf("the next site was %d and is %d, %v", before, after, err)
	}
	a.onHub(func(c *pgx.Conn) error {
		for range 50 {
			if err := c.QueryRow(a.ctx, `select (app.invite_device('x', 'cli', '\x00') ->> 'site')::bigint`).Scan(&after); err != nil {
				return err
			}
			_, _ = c.Exec(a.ctx, `select app.skip_sites($1)`, after+9000)
		}
		return nil
	})
	if err := hub.QueryRow(t.Context(), last).Scan(&after); err != nil || after > before+10_050 {
		t.Errorf("the next site was %d and is %d, %v", before, after, err)
	}
	if _, err := hub.Exec(t.Context(), `set role helix_owner; insert into app.device (device_id, user_id, role_name, name, platform) select gen_random_uuid(), user_id, 'x' || n, 'x', 'cli' from app.hub_user, generate_series(1, 1000) n; reset role`); err != nil {
		t.Fatal(err)
	}
	a.onHub(func(c *pgx.Conn) error {
		if _, err := c.Exec(a.ctx, `select app.invite_device('x', 'cli', '\x00')`); err == nil {
			t.Error("a thousand devices in one day, and another one")
		}
		return nil
	})
}
