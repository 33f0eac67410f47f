package cloudsync

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"

	"helix/backend/cloudsync/hubtest"
	"helix/backend/storage"
	"helix/backend/testkit"
)

var update = flag.Bool("update", false, "write the golden files")

// hubSchemaSQL returns the hub's schema, one object a line, in an order that does not depend on that of
// creation. It leaves out what PostgreSQL formats differently between its versions, and the bodies of
// the functions that are generated for each table, which follow from its columns.
const hubSchemaSQL = `
with ns as (select oid, nspname from pg_namespace where nspname in ('app', 'sync', 'public')),
rel as (select c.*, n.nspname || '.' || c.relname as name from pg_class c join ns n on n.oid = c.relnamespace)
select case when k between 2 and 8 then '  ' || name || ': ' || substr(line, 3) else line end from (
	select name, 1 as k, case relkind when 'r' then 'table ' when 'v' then 'view ' else 'sequence ' end || name || ' of ' || relowner::regrole
		|| case when relrowsecurity then ', row-level security' else '' end || case when relforcerowsecurity then ', forced' else '' end as line
		from rel where relkind in ('r', 'v', 'S')
	union all select name, 2, '  ' || string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || case when a.attnotnull then ' not null' else '' end
		|| coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), ''), ', ' order by a.attname)
		from rel join pg_attribute a on a.attrelid = rel.oid and a.attnum > 0 and not a.attisdropped left join pg_attrdef d on d.adrelid = rel.oid and d.adnum = a.attnum
		where relkind in ('r', 'v') group by name
	union all select name, 3, '  constraint ' || k.conname || ' ' || pg_get_constraintdef(k.oid) from rel join pg_constraint k on k.conrelid = rel.oid where k.contype in ('p', 'u', 'f', 'c')
	union all select name, 4, '  ' || pg_get_indexdef(i.indexrelid) from rel join pg_index i on i.indrelid = rel.oid
		where not exists (select 1 from pg_constraint k where k.conindid = i.indexrelid)
	union all select name, 5, '  policy ' || p.policyname || ' for ' || lower(p.cmd) || ' to ' || array_to_string(p.roles, ', ') || coalesce(' using ' || p.qual, '') || coalesce(' with check ' || p.with_check, '')
		from rel join pg_policies p on p.schemaname || '.' || p.tablename = name
	union all select name, 6, '  ' || pg_get_triggerdef(t.oid) from rel join pg_trigger t on t.tgrelid = rel.oid and not t.tgisinternal
	union all select name, 7, '  ' || a.grantee::regrole || ' may ' || string_agg(lower(a.privilege_type), ', ' order by a.privilege_type) from rel, aclexplode(relacl) a where a.grantee not in (0, relowner) group by name, a.grantee
	union all select name, 8, '  ' || x.grantee::regrole || ' may ' || x.verb || ' ' || string_agg(x.attname, ', ' order by x.attname) from (
		select name, a.grantee, lower(a.privilege_type) as verb, at.attname from rel join pg_attribute at on at.attrelid = rel.oid, aclexplode(at.attacl) a) x group by name, x.grantee, x.verb
	union all select n.nspname || '.' || p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')', 9,
		'function ' || n.nspname || '.' || p.proname || '(' || pg_get_function_arguments(p.oid) || ') returns ' || pg_get_function_result(p.oid) || ' ' || l.lanname
		|| case p.provolatile when 'i' then ' immutable' when 's' then ' stable' else '' end || case when p.prosecdef then ' security definer' else '' end
		|| coalesce(' set ' || array_to_string(p.proconfig, ', '), '')
		|| coalesce(', ' || (select string_agg(case a.grantee when 0 then 'public' else a.grantee::regrole::text end, ', ' order by a.grantee::regrole::text) || ' may execute' from aclexplode(p.proacl) a where a.grantee <> p.proowner), '')
		|| case when p.proname ~ '^(push|pull)_' and n.nspname = 'sync' then '' else ', md5 ' || md5(p.prosrc) end
		from pg_proc p join ns n on n.oid = p.pronamespace join pg_language l on l.oid = p.prolang where not exists (select 1 from pg_depend x where x.objid = p.oid and x.deptype = 'e')
) s order by name collate "C", k, line collate "C"`

const goldenSchema = "testdata/hub_schema.txt"

// checkSchema compares the schema of a hub with the golden file, or writes it.
func checkSchema(t *testing.T, dsn string, write bool) {
	t.Helper()
	var vectors bool
	if err := admin(t, dsn).QueryRow(t.Context(), `select exists (select 1 from pg_extension where extname = 'vector')`).Scan(&vectors); err != nil || vectors {
		t.Skipf("the golden file is of a hub without pgvector: %v", err)
	}
	got := strings.Join(must[[]string](t)(collectText(t.Context(), admin(t, dsn), hubSchemaSQL)), "\n") + "\n"
	if write {
		if err := os.WriteFile(goldenSchema, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := string(must[[]byte](t)(os.ReadFile(goldenSchema)))
	if got == want {
		return
	}
	for line := range strings.Lines(got) {
		if !strings.Contains(want, line) {
			t.Errorf("new: %s", line)
		}
	}
	for line := range strings.Lines(want) {
		if !strings.Contains(got, line) {
			t.Errorf("gone: %s", line)
		}
	}
	t.Errorf("the schema of the hub differs from %s; go test -run TestHubSchema -update writes it", goldenSchema)
}

func TestHubSchema(t *testing.T) {
	testkit.SkipRaced(t, "one goroutine")
	t.Parallel()
	prepare(t)
	dsn := hubtest.Database(t)
	if _, _, err := migrateHub(t.Context(), must[*pgx.ConnConfig](t)(adminConfig(dsn))); err != nil {
		t.Fatal(err)
	}
	checkSchema(t, dsn, *update)
}

// writer is a device that calls the hub's functions itself.
type writer struct {
	registration
	c   *pgx.Conn
	ctr int64
}

func newWriter(t *testing.T, dsn string) *writer {
	t.Helper()
	w := &writer{}
	if err := asOwner(t.Context(), admin(t, dsn), func(tx pgx.Tx) error {
		return tx.QueryRow(t.Context(), `select app.add_device(gen_random_uuid(), gen_random_uuid(), 'writer', 'cli', null, '', null)`).Scan(&w.registration)
	}); err != nil {
		t.Fatal(err)
	}
	c := must[*pgx.ConnConfig](t)(pgx.ParseConfig(dsn))
	c.User, c.Password = w.Role, w.Password
	w.c = must[*pgx.Conn](t)(pgx.ConnectConfig(t.Context(), c))
	t.Cleanup(func() { _ = w.c.Close(context.Background()) })
	epoch := uuid.NewString()
	if _, err := w.c.Exec(t.Context(), `select sync.hello($1::jsonb)`, fmt.Sprintf(`{"lastCtr":0,"epoch":%q,"nextEpoch":%[1]q,"next":%[1]q}`, epoch)); err != nil {
		t.Fatal(err)
	}
	return w
}

// push stores one version in each synced table and returns the dots.
func (w *writer) push(t *testing.T, ids map[string]uuid.UUID, prev map[string]int64, deleted bool) map[string]int64 {
	t.Helper()
	dots := map[string]int64{}
	var tables []map[string]any
	for _, s := range storage.Synced {
		if s.Parent != "" {
			continue
		}
		w.ctr++
		dots[s.Table] = w.Site<<40 | w.ctr
		cols := map[string]any{"created_at": "2024-01-02T03:04:05.000006Z", "updated_at": "2024-01-02T03:04:05.000007Z"}
		rows, err := w.c.Query(t.Context(), `select attname, format_type(atttypid, -1) from pg_attribute where attrelid = $1::regclass and attnum > 0 and not attisdropped`, "public."+s.Table)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var name, kind string
			if err := rows.Scan(&name, &kind); err != nil {
				t.Fatal(err)
			}
			if v, ok := map[string]any{"text": "kept", "bigint": w.ctr, "double precision": 1.5, "boolean": true, "uuid": uuid.NewString(), "bytea": `\x00ff`, "timestamp with time zone": "2024-02-29T23:59:59.999999Z"}[kind]; ok && cols[name] == nil {
				cols[name] = v
			}
		}
		for _, name := range append([]string{"id", "user_id", "deleted_at"}, hubColumns...) {
			delete(cols, name)
		}
		row := map[string]any{"id": ids[s.Table], "dot": dots[s.Table], "hlc": 1, "schemaVer": 1, "cols": cols, "meta": "AQ=="}
		if prev != nil {
			row["prevDot"] = prev[s.Table]
		}
		if deleted {
			row["deletedAt"] = "2024-03-01T00:00:00Z"
		}
		tables = append(tables, map[string]any{"t": s.Table, "rows": []any{row}})
	}
	rows, err := w.c.Query(t.Context(), `select result from sync.push($1::jsonb)`, jsonText(map[string]any{"tables": tables}))
	if err != nil {
		t.Fatal(err)
	}
	results, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(results) != len(tables) {
		t.Fatalf("%d results: %v", len(results), err)
	}
	for i, result := range results {
		if result != "applied" {
			t.Errorf("%s: %s", tables[i]["t"], result)
		}
	}
	return dots
}

func newIDs() map[string]uuid.UUID {
	ids := map[string]uuid.UUID{}
	for _, s := range storage.Synced {
		ids[s.Table] = uuid.UUID(storage.NewID())
	}
	return ids
}

// Each migration may be the last one of a hub that is in use. Such a hub, which also lacks the newest
// column of each table, upgrades to the newest schema and keeps its rows, and all synced tables can then be
// written.
func TestHubOfEachVersionUpgrades(t *testing.T) {
	testkit.SkipRaced(t, "one goroutine")
	t.Parallel()
	prepare(t)
	base := hubtest.Database(t)
	c := must[*pgx.ConnConfig](t)(adminConfig(base))
	conn := must[*pgx.Conn](t)(dial(t.Context(), c))
	if _, err := conn.Exec(t.Context(), prepareSQL, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	tables := string(must[[]byte](t)(hubFiles.ReadFile("hub/tables.sql")))
	each := string(must[[]byte](t)(hubFiles.ReadFile("hub/each_table.sql")))
	files := must[[]string](t)(fs.Glob(hubFiles, "hub/core/*.sql"))
	for n := range len(files) {
		p := must[*goose.Provider](t)(migrationSet(c, "hub/core", "app.helix_migrations"))
		if _, err := p.UpTo(t.Context(), int64(n+1)); err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		dsn := hubtest.Copy(t, base)
		t.Run(strings.TrimSuffix(filepath.Base(files[n]), ".sql"), func(t *testing.T) {
			hub := admin(t, dsn)
			former := each
			if n+1 < 6 { // the functions that it calls came with these versions
				former = strings.Replace(former, "if t in ('custom_tools', 'composite_skills') then", "if false then", 1)
			}
			if n+1 < 10 {
				former = strings.Replace(former, ", sync.define_pull(t)", "", 1)
			}
			if n+1 < 5 {
				former = strings.Replace(former, "perform sync.define_push(t)", "null", 1)
			}
			if err := asOwner(t.Context(), hub, func(tx pgx.Tx) error {
				for _, text := range []string{tables, `do $$
					declare t text; c text;
					begin
						for t in select table_name from app.synced loop
							select attname into c from pg_attribute where attrelid = format('public.%I', t)::regclass and attnum > 0 order by attnum desc limit 1;
							execute format('alter table public.%I drop column %I', t, c);
						end loop;
					end $$`, former} {
					if _, err := tx.Exec(t.Context(), text, pgx.QueryExecModeSimpleProtocol); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			w := newWriter(t, dsn)
			kept, added := newIDs(), newIDs()
			dots := w.push(t, kept, nil, false)
			before := w.rowsOf(t, kept)

			if _, _, err := migrateHub(t.Context(), must[*pgx.ConnConfig](t)(adminConfig(dsn))); err != nil {
				t.Fatal(err)
			}
			for table, row := range w.rowsOf(t, kept) {
				for name, v := range before[table] {
					if string(row[name]) != string(v) {
						t.Errorf("%s.%s: %s, want %s", table, name, row[name], v)
					}
				}
			}
			w.push(t, added, w.push(t, added, nil, false), true)
			w.push(t, kept, dots, false)
			pulled := map[string]int{}
			for _, text := range must[[]string](t)(collectText(t.Context(), w.c, `select table_name || ' ' || operation from sync.pull(0, 2000) where table_name is not null`)) {
				pulled[text]++
			}
			for table := range dots {
				if pulled[table+" DELETE"] != 1 || pulled[table+" UPDATE"] != 1 {
					t.Errorf("%s: %d deletes, %d updates", table, pulled[table+" DELETE"], pulled[table+" UPDATE"])
				}
			}
			checkSchema(t, dsn, false)
		})
	}
}

// rowsOf reads a row of each synced table.
func (w *writer) rowsOf(t *testing.T, ids map[string]uuid.UUID) map[string]map[string]json.RawMessage {
	t.Helper()
	out := map[string]map[string]json.RawMessage{}
	for _, s := range storage.Synced {
		if s.Parent != "" {
			continue
		}
		var row map[string]json.RawMessage
		if err := w.c.QueryRow(t.Context(), `select to_jsonb(m) from public.`+s.Table+` m where id = $1`, ids[s.Table]).Scan(&row); err != nil {
			t.Fatalf("%s: %v", s.Table, err)
		}
		out[s.Table] = row
	}
	return out
}
