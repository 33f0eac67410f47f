package cloudsync

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"helix/backend/fault"
)

// SelftestParams give the administrator's connection string, with which two users are made for the
// test and removed again.
type SelftestParams struct {
	AdminDSN string `json:"adminDsn"`
}

// SelftestCheck is the result of one check of the self-test.
type SelftestCheck struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"` // why it failed
}

// SelftestResult says what a client that breaks the rules can do on the hub.
type SelftestResult struct {
	Passed int             `json:"passed"`
	Failed int             `json:"failed"`
	Checks []SelftestCheck `json:"checks"`
}

// Selftest proves the hub's row-level security: for each table of its catalog and each verb it
// tries, past this program, what the owner, another user, a revoked device and a role without a
// device may do. Forged claims and roles are tried too.
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

// intruder is a role that tries things.
type intruder struct {
	name string
	registration
	c   *pgx.Conn
	ctr int64
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
	rows, err := t.admin.Query(ctx, `select c.relname, coalesce(s.policy, ''), c.relrowsecurity and c.relforcerowsecurity
		from pg_class c join pg_namespace n on n.oid = c.relnamespace left join app.synced s on s.table_name = c.relname
		where n.nspname = 'public' and c.relkind = 'r' and (s.policy is not null or c.relname like 'sync\_%') order by 1`)
	if err != nil {
		return err
	}
	type row struct {
		Table, Policy string
		Secured       bool
	}
	tables, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	if err != nil {
		return err
	}
	for _, x := range tables {
		t.check(x.Table+": row-level security is on and forced", x.Secured, "it is off")
		if x.Policy == "" {
			t.internal(ctx, x.Table, owner)
			continue
		}
		t.synced(ctx, x.Table, x.Policy == "append", owner, sibling, other, revoked)
	}
	t.forged(ctx, other, owner)
	return nil
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

// try runs a statement in a transaction that is rolled back. It reports how many rows it touched;
// a refusal is none.
func (x *intruder) try(ctx context.Context, query string, args ...any) (rows int64, state string, err error) {
	tx, err := x.c.Begin(ctx)
	if err != nil {
		return 0, "", err
	}
	defer tx.Rollback(ctx) //nolint:errcheck // that is what it is for
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

// synced tries a synced table.
func (t *securityTest) synced(ctx context.Context, table string, appendOnly bool, owner, sibling, other, revoked *intruder) {
	name := "public." + pgx.Identifier{table}.Sanitize()
	id, dot := uuid.New(), owner.nextDot()
	_, err := owner.c.Exec(ctx, `insert into `+name+insertRow, id, owner.UserID, dot, owner.DeviceID)
	t.check(table+": the owner inserts", err == nil, fmt.Sprint(err))
	expect := func(what string, x *intruder, want bool, query string, args ...any) {
		n, state, err := x.try(ctx, query, args...)
		verb := "may not"
		if want {
			verb = "may"
		}
		t.check(fmt.Sprintf("%s: %s %s %s", table, x.name, verb, what), err == nil && (n > 0) == want, fmt.Sprintf("%d rows, %s %v", n, state, err))
	}
	update := `update ` + name + ` set dot = $2, prev_dot = $3, hub_device_id = $4, deleted_at = now() where id = $1`
	expect("select", owner, true, `select 1 from `+name+` where id = $1`, id)
	expect("select", sibling, true, `select 1 from `+name+` where id = $1`, id)
	expect("update from the current version", sibling, true, update, id, sibling.nextDot(), dot, sibling.DeviceID)
	expect("update from another version", sibling, false, update, id, sibling.nextDot(), dot+1, sibling.DeviceID)
	expect("write a version in the name of another device", sibling, false, update, id, owner.nextDot(), dot, owner.DeviceID)
	expect("delete", owner, false, `delete from `+name+` where id = $1`, id)
	expect("truncate", owner, false, `truncate `+name)
	expect("give a row away", owner, false, `update `+name+` set user_id = $2, dot = $3, prev_dot = $4 where id = $1`, id, other.UserID, owner.nextDot(), dot)
	if appendOnly {
		expect("change what was appended", owner, false, `update `+name+` set created_at = now(), dot = $2, prev_dot = $3 where id = $1`, id, owner.nextDot(), dot)
	}
	for _, x := range []*intruder{other, revoked} {
		expect("select", x, false, `select 1 from `+name+` where id = $1`, id)
		expect("update", x, false, update, id, x.nextDot(), dot, x.DeviceID)
		expect("insert for the owner", x, false, `insert into `+name+insertRow, uuid.New(), owner.UserID, x.nextDot(), x.DeviceID)
		expect("delete", x, false, `delete from `+name+` where id = $1`, id)
	}
	expect("insert for itself", revoked, false, `insert into `+name+insertRow, uuid.New(), revoked.UserID, revoked.nextDot(), revoked.DeviceID)
	expect("use an id of another user without learning of it", other, true, `insert into `+name+insertRow, id, other.UserID, other.nextDot(), other.DeviceID)
}

// internal tries a table that only functions write.
func (t *securityTest) internal(ctx context.Context, table string, owner *intruder) {
	name := "public." + pgx.Identifier{table}.Sanitize()
	for verb, query := range map[string]string{
		"update": `update ` + name + ` set user_id = user_id`,
		"delete": `delete from ` + name,
		"insert": `insert into ` + name + ` select * from ` + name,
	} {
		n, state, err := owner.try(ctx, query)
		t.check(fmt.Sprintf("%s: the owner may not %s", table, verb), err == nil && n == 0 && state == "42501", fmt.Sprintf("%d rows, %s %v", n, state, err))
	}
}

// forged tries to be somebody else.
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
	for _, query := range []string{`select app.add_device($1, gen_random_uuid(), 'x', 'cli', null, '', null)`, `select sync.take(1, 1) where $1::uuid is not null`} {
		_, state, err := x.try(ctx, query, victim.UserID)
		fn, _, _ := strings.Cut(strings.TrimPrefix(query, "select "), "(")
		t.check("forged: "+fn+" is out of reach", err == nil && state == "42501", state)
	}
	_, state, err := x.try(ctx, `select app.revoke_device($1)`, victim.DeviceID)
	t.check("forged: a device of another user cannot be revoked", err == nil && state == "P0002", state)
}

// clean removes the users of the test and what they wrote.
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
	defer t.admin.Close(ctx) //nolint:errcheck // what it did is committed
	for _, x := range t.roles {
		errs = append(errs, asOwner(ctx, t.admin, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `select app.remove_user($1)`, x.UserID)
			return err
		}))
		if _, err := t.admin.Exec(ctx, `drop role `+pgx.Identifier{x.Role}.Sanitize()); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fault.Internalf(err, "Couldn't remove the users of the self-test.")
	}
	return nil
}
