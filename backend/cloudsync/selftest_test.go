package cloudsync

import (
	"strings"
	"testing"

	"helix/backend/storage"
	"helix/backend/testkit"
)

func TestSelftestPassesAndLeavesNothing(t *testing.T) {
	testkit.SkipRaced(t, "one goroutine")
	t.Parallel()
	a := newDevice(t)
	dsn := newHub(t)
	a.setUp(dsn)
	a.remember("kept")
	a.now()
	r := must[SelftestResult](t)(a.Selftest(a.ctx, SelftestParams{AdminDSN: dsn}))
	for _, c := range r.Checks {
		if !c.OK {
			t.Errorf("%s: %s", c.Name, c.Reason)
		}
	}
	// Every table of the hub is tested for every verb and role.
	tested := map[string]bool{}
	for _, c := range r.Checks {
		tested[strings.Replace(c.Name, " may not ", " may ", 1)] = true
	}
	c := admin(t, dsn)
	tables := must[[]string](t)(collectText(t.Context(), c, `select case schemaname when 'public' then tablename else schemaname || '.' || tablename end from pg_tables where schemaname in ('public', 'app', 'sync')`))
	if len(tables) < len(storage.Synced)/2 {
		t.Fatalf("%v", tables)
	}
	for _, table := range tables {
		for _, role := range []string{"owner", "another device of the owner", "another user", "a revoked device", "anonymous", "a forged claim"} {
			for _, verb := range verbs {
				if name := table + ": " + role + " may " + verb; !tested[name] {
					t.Errorf("not tested: %s", name)
				}
			}
		}
	}
	var users, devices, rows int
	if err := admin(t, dsn).QueryRow(t.Context(), `select (select count(*) from app.hub_user), (select count(*) from app.device), (select count(*) from public.memories)`).Scan(&users, &devices, &rows); err != nil || users != 1 || devices != 1 || rows != 1 {
		t.Errorf("%d users, %d devices, %d memories, %v", users, devices, rows, err)
	}
}

// The self-test must detect a hub with a security hole.
func TestSelftestFindsWhatIsOpen(t *testing.T) {
	testkit.SkipRaced(t, "one goroutine")
	t.Parallel()
	a := newDevice(t)
	dsn := newHub(t)
	a.setUp(dsn)
	c := admin(t, dsn)
	all := map[string]string{
		"memories: row-level security is on and forced":            `alter table public.memories no force row level security`,
		"sessions: another user may not select":                    `create policy open on public.sessions for select to helix_device using (true)`,
		"documents: owner may not delete":                          `grant delete on public.documents to helix_device; create policy d on public.documents for delete to helix_device using (user_id = app.uid())`,
		"memory_revisions: owner may not change what was appended": `grant update on public.memory_revisions to helix_device`,
		"app.recovery: another user may not select":                `create policy open on app.recovery for select to helix_device using (true); grant select on app.recovery to helix_device`,
		"app.device: another user may not select":                  `create policy open on app.device for select to helix_device using (true)`,
		"memories: anonymous may not select":                       `grant usage on schema public to public; grant select on public.memories to public; create policy open on public.memories for select using (true)`,
		"unheard_of: is in the matrix":                             `create table public.unheard_of (user_id uuid); alter table public.unheard_of owner to helix_owner`,
		"schedules: owner may select":                              `drop policy select_own on public.schedules`,
	}
	for _, breaks := range all {
		if _, err := c.Exec(t.Context(), breaks); err != nil {
			t.Fatal(err)
		}
	}
	red := map[string]bool{}
	for _, check := range must[SelftestResult](t)(a.Selftest(a.ctx, SelftestParams{AdminDSN: dsn})).Checks {
		red[check.Name] = !check.OK
	}
	for name := range all {
		if !red[name] {
			t.Errorf("%s: not found", name)
		}
	}
}

func TestRevokedDeviceLosesOpenConnection(t *testing.T) {
	t.Parallel()
	a, b, _ := pair(t)
	id := b.remember("of b")
	for _, d := range must[DevicesResult](t)(a.Devices(a.ctx, struct{}{})).Devices {
		if !d.Current {
			must[struct{}](t)(a.Revoke(a.ctx, RevokeParams{d.ID}))
		}
	}
	for range 2 { // the first may find its connection closed
		_, _ = b.Coordinate(b.ctx, CoordinateParams{})
	}
	if st := must[StatusResult](t)(b.Status(b.ctx, struct{}{})); st.State != Failed || st.QueueLength != 1 {
		t.Errorf("%+v", st)
	}
	if one[int](b, `SELECT count(*) FROM memories WHERE id = ?`, id) != 1 {
		t.Error("its data is gone")
	}
	if r := a.now(); r.Pulled != 0 {
		t.Errorf("%+v", r)
	}
}
