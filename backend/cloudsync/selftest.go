package cloudsync

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"helix/backend/fault"
)

// SelftestParams hold the administrator's connection string, with which temporary users are created
// for the test and removed afterwards.
type SelftestParams struct {
	AdminDSN string `json:"adminDsn"`
}

// SelftestCheck is the result of one check of the self-test.
type SelftestCheck struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"` // why the check failed
}

// SelftestResult reports whether the hub keeps its rules against clients that break them.
type SelftestResult struct {
	Passed int             `json:"passed"`
	Failed int             `json:"failed"`
	Checks []SelftestCheck `json:"checks"`
}

// Selftest tests the hub's row-level security. For each table of the hub and each verb, it checks
// with direct SQL statements what the owner, another device of the owner, another user, a revoked
// device and a role without a device may do. It also tries forged claims and roles.
func (s *Service) Selftest(ctx context.Context, p SelftestParams) (r SelftestResult, err error) {
	c, err := adminConfig(p.AdminDSN)
	if err != nil {
		return r, err
	}
	if r, err = selftest(ctx, c); err == nil && r.Failed > 0 {
		s.o.Logger.Error("self-test of the hub", "failed", r.Failed)
	}
	return r, err
}

func selftest(ctx context.Context, c *pgx.ConnConfig) (r SelftestResult, err error) {
	t := &securityTest{config: c}
	defer func() { err = errors.Join(err, t.clean(context.WithoutCancel(ctx))) }()
	if err := t.run(ctx); err != nil {
		return r, hubError(c.Host, err)
	}
	r.Checks = t.checks
	for _, x := range r.Checks {
		if x.OK {
			r.Passed++
		} else {
			r.Failed++
		}
	}
	return r, nil
}

// securityTest is one run of Selftest.
type securityTest struct {
	config *pgx.ConnConfig
	admin  *pgx.Conn
	roles  []*intruder
	checks []SelftestCheck
}

// intruder is a database role that tries statements.
type intruder struct {
	name string
	registration
	c      *pgx.Conn
	ctr    int64
	before string // executed before each statement
}

func (t *securityTest) run(ctx context.Context) (err error) {
	if t.admin, err = dial(ctx, t.config); err != nil {
		return err
	}
	owner, err := t.device(ctx, "owner", uuid.New())
	if err != nil {
		return err
	}
	other, err := t.device(ctx, "another user", uuid.New())
	if err != nil {
		return err
	}
	revoked, err := t.device(ctx, "a revoked device", owner.UserID)
	if err != nil {
		return err
	}
	sibling, err := t.device(ctx, "another device of the owner", owner.UserID)
	if err != nil {
		return err
	}
	if err := asOwner(ctx, t.admin, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `update app.device set revoked_at = now() where device_id = $1`, revoked.DeviceID)
		return err
	}); err != nil {
		return err
	}
	anonymous, err := t.anonymous(ctx)
	if err != nil {
		return err
	}
	claims := *other
	claims.name = "a forged claim"
	claims.before = fmt.Sprintf(`select set_config('request.jwt.claims', '{"sub":"%s","role":"service_role"}', true), set_config('request.jwt.claim.sub', '%[1]s', true)`, owner.UserID)
	if err := t.prepare(ctx, owner); err != nil {
		return err
	}
	tables, err := t.tables(ctx)
	if err != nil {
		return err
	}
	actors := []*intruder{owner, sibling, other, revoked, anonymous, &claims}
	for _, x := range tables {
		t.check(x.name()+": row-level security is on and forced", x.Secured, "it is off")
		may, ok := x.rights()
		if !ok {
			t.check(x.name()+": is in the matrix", false, "nobody has said who may do what with it")
			continue
		}
		row := probeRow{id: uuid.New(), owner: owner}
		if x.Policy != "" {
			row.dot = owner.nextDot()
			_, err := owner.c.Exec(ctx, `insert into `+x.quoted()+insertRow, row.id, owner.UserID, row.dot, owner.DeviceID)
			t.check(x.name()+": the owner inserts", err == nil, fmt.Sprint(err))
		}
		for _, actor := range actors {
			for _, verb := range verbs {
				query, args := x.probe(verb, actor, row)
				t.expect(ctx, x, verb, actor, strings.Contains(may[actor.name], verb[:1]), query, args...)
			}
		}
		if x.Policy != "" {
			t.synced(ctx, x, row, sibling, other, revoked)
		}
	}
	t.forged(ctx, other, owner)
	return nil
}

// prepare creates a row of the owner in each table that only functions write, because an empty
// table would pass every check.
func (t *securityTest) prepare(ctx context.Context, owner *intruder) error {
	verifier, err := scramVerifier(rand.Text())
	if err != nil {
		return err
	}
	for _, x := range []struct {
		query string
		args  []any
	}{
		{`select sync.hello('{"lastCtr": 0}')`, nil},
		{`select sync.heartbeat('cli', 'online', '{}')`, nil},
		{`select sync.claim_schedule($1), sync.record_due($1, now(), 0, $1, 1, null)`, []any{uuid.New()}},
		{`select sync.blob_begin(sha256('1'), 2, 65536, array[sha256('a'), sha256('b')]), sync.blob_put(sha256('1'), 0, 'a')`, nil},
		{`select sync.put_share($1, $1, false, null, '{}', '')`, []any{uuid.New()}},
		{`select app.publish_box('\x00', '\x00', 1)`, nil},
		{`select app.add_key(2, $1, null, null)`, []any{jsonText(map[string]string{owner.DeviceID.String(): "AA=="})}},
		{`select app.set_recovery($1, $2, '\x00', '\x00', '\x00', 1, '\x00')`, []any{"r_" + strings.ReplaceAll(uuid.NewString(), "-", "")[:12], verifier}},
	} {
		if _, err := owner.c.Exec(ctx, x.query, x.args...); err != nil {
			return err
		}
	}
	var vectors bool
	if err := owner.c.QueryRow(ctx, `select to_regclass('public.memory_vectors') is not null`).Scan(&vectors); err != nil {
		return err
	}
	if vectors {
		id := uuid.New()
		if _, err := owner.c.Exec(ctx, `insert into public.memories (id, user_id, dot, hlc, hub_device_id, schema_ver, created_at, updated_at, content, content_hash) values ($1, $2, $3, 0, $4, 1, now(), now(), '', sha256(''))`, id, owner.UserID, owner.nextDot(), owner.DeviceID); err != nil {
			return err
		}
		if _, err := owner.c.Exec(ctx, `select sync.put_vectors('self-test', array[$1::uuid], array[sha256('')], array['[1, 2]'])`, id); err != nil {
			return err
		}
	}
	invited := &intruder{name: "an invited device"}
	if err := callJSON(ctx, owner.c, `select app.invite_device('self-test', 'cli', '\x00', '1 minute')`, &invited.registration); err != nil {
		return err
	}
	t.roles = append(t.roles, invited)
	return nil
}

// hubTable is a table on the hub.
type hubTable struct {
	Schema, Name, Policy string // Policy is that of storage.Synced; empty for other tables
	Secured, OfUser      bool
	Column               string // the first column
}

func (x hubTable) quoted() string { return pgx.Identifier{x.Schema, x.Name}.Sanitize() }

// name returns the name of the table, with its schema unless that is public.
func (x hubTable) name() string {
	if x.Schema == "public" {
		return x.Name
	}
	return x.Schema + "." + x.Name
}

func (t *securityTest) tables(ctx context.Context) ([]hubTable, error) {
	rows, err := t.admin.Query(ctx, `select n.nspname, c.relname, coalesce(s.policy, ''), c.relrowsecurity and c.relforcerowsecurity,
			exists (select 1 from pg_attribute a where a.attrelid = c.oid and a.attname = 'user_id' and not a.attisdropped),
			(select a.attname::text from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped order by a.attnum limit 1)
		from pg_class c join pg_namespace n on n.oid = c.relnamespace left join app.synced s on s.table_name = c.relname and n.nspname = 'public'
		where n.nspname in ('public', 'app', 'sync') and c.relkind in ('r', 'p') and pg_get_userbyid(c.relowner) = 'helix_owner' order by 1, 2`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[hubTable])
}

var verbs = []string{"select", "insert", "update", "delete"}

// rights returns the allowed verbs of each role, by their first letters. A role that is missing has
// none. ok is false for a table that this function does not list.
func (x hubTable) rights() (map[string]string, bool) {
	const ofOwner, ofSibling, ofOther, ofClaim = "owner", "another device of the owner", "another user", "a forged claim"
	if x.Policy != "" { // of an appended row only the deletion may be updated, which synced checks
		return map[string]string{ofOwner: "siu", ofSibling: "siu"}, true
	}
	switch x.name() {
	case "blobs", "blob_chunks", "memory_vectors", "app.device", "sync_head", "sync_change_log", "sync_state", "sync_presence", "sync_statistics":
		return map[string]string{ofOwner: "s", ofSibling: "s"}, true
	case "app.hub", "app.synced": // readable by every device
		return map[string]string{ofOwner: "s", ofSibling: "s", ofOther: "s", ofClaim: "s"}, true
	case "app.hub_user", "app.enrolment", "app.user_key", "app.sealed_key", "app.recovery", "app.helix_migrations", "app.helix_vector_migrations", "schedule_leases", "schedule_claims", "shares":
		return nil, true
	}
	return nil, false
}

// probeRow is a row of the owner.
type probeRow struct {
	id    uuid.UUID
	dot   int64
	owner *intruder
}

// probe returns a statement with which actor tries a verb on the owner's rows.
func (x hubTable) probe(verb string, actor *intruder, row probeRow) (query string, args []any) {
	table := x.quoted()
	if x.Policy != "" {
		switch verb {
		case "select":
			return `select 1 from ` + table + ` where id = $1`, []any{row.id}
		case "insert":
			return `insert into ` + table + insertRow, []any{uuid.New(), row.owner.UserID, actor.nextDot(), actor.DeviceID}
		case "update":
			return updateRow(table), []any{row.id, actor.nextDot(), row.dot, actor.DeviceID}
		}
		return `delete from ` + table + ` where id = $1`, []any{row.id}
	}
	where, column := "", pgx.Identifier{x.Column}.Sanitize()
	if x.OfUser {
		where, args = " where user_id = $1", []any{row.owner.UserID}
	}
	switch verb {
	case "select":
		return `select 1 from ` + table + where, args
	case "insert":
		return `insert into ` + table + ` select * from ` + table + where, args
	case "update":
		return `update ` + table + ` set ` + column + ` = ` + column + where, args
	}
	return `delete from ` + table + where, args
}

func (t *securityTest) expect(ctx context.Context, table hubTable, what string, x *intruder, want bool, query string, args ...any) {
	n, state, err := x.try(ctx, query, args...)
	verb := "may not"
	if want {
		verb = "may"
	}
	t.check(fmt.Sprintf("%s: %s %s %s", table.name(), x.name, verb, what), err == nil && (n > 0) == want, fmt.Sprintf("%d rows, %s %v", n, state, err))
}

// anonymous returns a role that may log in and has no other rights.
func (t *securityTest) anonymous(ctx context.Context) (*intruder, error) {
	x := &intruder{name: "anonymous"}
	x.Role, x.Password = "helix_selftest_"+strings.ReplaceAll(uuid.NewString(), "-", "")[:12], rand.Text()
	if _, err := t.admin.Exec(ctx, fmt.Sprintf(`create role %s login password '%s'`, pgx.Identifier{x.Role}.Sanitize(), x.Password), pgx.QueryExecModeSimpleProtocol); err != nil {
		return nil, err
	}
	t.roles = append(t.roles, x)
	c := t.config.Copy()
	c.User, c.Password = x.Role, x.Password
	var err error
	x.c, err = dial(ctx, c)
	return x, err
}

func (t *securityTest) check(name string, ok bool, reason string) {
	c := SelftestCheck{Name: name, OK: ok}
	if !ok {
		c.Reason = reason
	}
	t.checks = append(t.checks, c)
}

func (t *securityTest) device(ctx context.Context, name string, user uuid.UUID) (*intruder, error) {
	x := &intruder{name: name}
	if err := asOwner(ctx, t.admin, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, `select app.add_device($1, $2, 'self-test', 'cli', null, '', interval '1 hour')`, user, uuid.New()).Scan(&x.registration)
	}); err != nil {
		return nil, err
	}
	t.roles = append(t.roles, x)
	c := t.config.Copy()
	c.User, c.Password = x.Role, x.Password
	var err error
	x.c, err = dial(ctx, c)
	return x, err
}

// try runs a statement in a transaction that it rolls back. It returns the number of affected rows;
// for a rejected statement, 0 and the SQLSTATE.
func (x *intruder) try(ctx context.Context, query string, args ...any) (rows int64, state string, err error) {
	tx, err := x.c.Begin(ctx)
	if err != nil {
		return 0, "", err
	}
	defer tx.Rollback(ctx) //nolint:errcheck // intended
	if x.before != "" {
		if _, err := tx.Exec(ctx, x.before); err != nil {
			return 0, "", err
		}
	}
	tag, err := tx.Exec(ctx, query, args...)
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return 0, pg.Code, nil
	}
	return tag.RowsAffected(), "", err
}

func (x *intruder) nextDot() int64 {
	x.ctr++
	return int64(newDot(x.Site, x.ctr))
}

const insertRow = ` (id, user_id, dot, prev_dot, hlc, hub_device_id, schema_ver, created_at, updated_at) values ($1, $2, $3, null, 0, $4, 1, now(), now())`

func updateRow(table string) string {
	return `update ` + table + ` set dot = $2, prev_dot = $3, hub_device_id = $4, deleted_at = now() where id = $1`
}

// synced runs checks on a synced table that go beyond the verbs.
func (t *securityTest) synced(ctx context.Context, x hubTable, row probeRow, sibling, other, revoked *intruder) {
	name, owner := x.quoted(), row.owner
	t.expect(ctx, x, "update from another version", sibling, false, updateRow(name), row.id, sibling.nextDot(), row.dot+1, sibling.DeviceID)
	t.expect(ctx, x, "write a version in the name of another device", sibling, false, updateRow(name), row.id, owner.nextDot(), row.dot, sibling.DeviceID)
	t.expect(ctx, x, "truncate", owner, false, `truncate `+name)
	t.expect(ctx, x, "give a row away", owner, false, `update `+name+` set user_id = $2, dot = $3, prev_dot = $4 where id = $1`, row.id, other.UserID, owner.nextDot(), row.dot)
	if x.Policy == "append" {
		t.expect(ctx, x, "change what was appended", owner, false, `update `+name+` set created_at = now(), dot = $2, prev_dot = $3 where id = $1`, row.id, owner.nextDot(), row.dot)
	}
	t.expect(ctx, x, "insert for itself", revoked, false, `insert into `+name+insertRow, uuid.New(), revoked.UserID, revoked.nextDot(), revoked.DeviceID)
	t.expect(ctx, x, "use an id of another user without learning of it", other, true, `insert into `+name+insertRow, row.id, other.UserID, other.nextDot(), other.DeviceID)
}

// forged tries to act as another user or role.
func (t *securityTest) forged(ctx context.Context, x, victim *intruder) {
	for name, query := range map[string]string{
		"claims in settings change nothing": fmt.Sprintf(`select set_config('request.jwt.claims', '{"sub":"%s"}', true), set_config('role', current_user, true)`, victim.UserID),
		"the owner's role is out of reach":  `set local role helix_owner`,
		"another device's role too":         `set local role ` + pgx.Identifier{victim.Role}.Sanitize(),
	} {
		tx, err := x.c.Begin(ctx)
		if err != nil {
			t.check(name, false, err.Error())
			continue
		}
		_, refused := tx.Exec(ctx, query)
		ok := refused != nil
		if !ok {
			var me uuid.UUID
			var seen int
			err = tx.QueryRow(ctx, `select app.uid(), (select count(*) from public.memories where user_id = $1)`, victim.UserID).Scan(&me, &seen)
			ok = err == nil && me == x.UserID && seen == 0
		}
		t.check("forged: "+name, ok, fmt.Sprint(err))
		_ = tx.Rollback(ctx)
	}
	for _, query := range []string{`insert into public.blobs (user_id, blob_id, size, chunk_size, digests) values ($1, sha256('2'), 1, 65536, array[sha256('c')])`,
		`insert into public.blob_chunks (user_id, blob_id, n, data) values ($1, sha256('1'), 1, 'b')`, `select app.add_device($1, gen_random_uuid(), 'x', 'cli', null, '', null)`, `select sync.take(1, 1) where $1::uuid is not null`} {
		_, state, err := x.try(ctx, query, victim.UserID)
		fn, _, _ := strings.Cut(strings.TrimPrefix(query, "select "), "(")
		t.check("forged: "+fn+" is out of reach", err == nil && state == "42501", state)
	}
	_, state, err := x.try(ctx, `select app.revoke_device($1)`, victim.DeviceID)
	t.check("forged: a device of another user cannot be revoked", err == nil && state == "P0002", state)
}

// clean removes the users and roles of the test with everything that they wrote.
func (t *securityTest) clean(ctx context.Context) error {
	var errs []error
	for _, x := range t.roles {
		if x.c != nil {
			errs = append(errs, x.c.Close(ctx))
		}
	}
	if t.admin == nil {
		return errors.Join(errs...)
	}
	defer t.admin.Close(ctx) //nolint:errcheck // the work is already committed
	for _, x := range t.roles {
		if x.UserID != uuid.Nil {
			errs = append(errs, asOwner(ctx, t.admin, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, `select app.remove_user($1)`, x.UserID)
				return err
			}))
		}
		if _, err := t.admin.Exec(ctx, `drop role `+pgx.Identifier{x.Role}.Sanitize()); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fault.Internalf(err, "Couldn't remove the users of the self-test.")
	}
	return nil
}
