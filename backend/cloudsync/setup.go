package cloudsync

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/storage"
)

// SetupParams identify the hub: a database to set up, or a project where somebody has done that, with the
// code that SignIn has sent.
type SetupParams struct {
	// AdminDSN is the connection string of a database user who may create roles. It is used once
	// and never stored.
	AdminDSN string `json:"adminDsn,omitempty"`
	// Project and Code connect the first device of a person who has no access to the database itself.
	Project *Project `json:"project,omitempty"`
	Code    string   `json:"code,omitempty"`
	// Encrypt reports whether sensitive columns are encrypted before they leave the device; default
	// true.
	Encrypt *bool `json:"encrypt,omitempty"`
	// Name is the name of this device that the others show; default the name of the computer.
	Name string `json:"name,omitempty"`
}

// SetupResult describes this device at the hub.
type SetupResult struct {
	UserID   uuid.UUID `json:"userId"`
	DeviceID uuid.UUID `json:"deviceId"`
	Site     int64     `json:"site"`
	// Migrations is the number of migrations that were applied.
	Migrations int  `json:"migrations"`
	Encrypted  bool `json:"encrypted"`
	// Vectors reports whether the hub can store the embeddings of memories.
	Vectors bool `json:"vectors"`
	// RecoveryCode lets a device join when no other device is left. It is shown once, and only to
	// the first device. It is empty if a firewall blocks the database; create one later.
	RecoveryCode string `json:"recoveryCode,omitempty"`
	// Checks is the number of self-test checks that the hub passed.
	Checks int `json:"checks"`
	// Updated reports that the database was this device's hub already, and that its schema was updated.
	Updated bool `json:"updated,omitempty"`
}

// Setup turns a database into the hub of this person, verifies with the self-test that it keeps users
// apart, and connects this device. If it is this device's hub already, Setup updates its schema.
func (s *Service) Setup(ctx context.Context, p SetupParams) (SetupResult, error) {
	r, err := s.setup(ctx, p, true)
	if err != nil || r.Updated {
		return r, err
	}
	code, err := s.ExportRecovery(ctx, struct{}{})
	if p.Project != nil && unreachable(err) {
		return r, nil // the database can't be reached from here, but the project can
	}
	r.RecoveryCode = code.Code
	return r, err
}

// verified runs the self-test and returns the number of passed checks. It returns an error if any
// check fails.
func verified(ctx context.Context, c *pgx.ConnConfig) (passed int, err error) {
	r, err := selftest(ctx, c)
	if err != nil {
		return 0, err
	}
	for _, x := range r.Checks {
		if !x.OK {
			return 0, fault.Unavailablef("The hub does not keep users apart: %d of %d checks failed, such as %q. Nothing was connected.", r.Failed, len(r.Checks), x.Name)
		}
	}
	return r.Passed, nil
}

func (s *Service) setup(ctx context.Context, p SetupParams, verify bool) (r SetupResult, err error) {
	err = s.exclusive(ctx, func() error {
		l, err := s.local(ctx)
		if err != nil {
			return err
		}
		if p.Project != nil {
			if l.hub != nil {
				return errConnected(l)
			}
			return s.setupSignedIn(ctx, p, &r)
		}
		c, err := adminConfig(p.AdminDSN)
		if err != nil {
			return err
		}
		if l.hub != nil {
			if err := checkHub(ctx, c, l); err != nil {
				return err
			}
		}
		if r.Migrations, r.Vectors, err = migrateHub(ctx, c); err != nil {
			return hubError(c.Host, err)
		}
		if verify {
			if r.Checks, err = verified(ctx, c); err != nil {
				return err
			}
		}
		if l.hub != nil {
			r.UserID, r.DeviceID, r.Site, r.Encrypted, r.Updated = l.user, l.hub.Device, l.site, l.hub.Private, true
			return errors.Join(s.hangUp(), s.retryRefused(ctx))
		}
		return s.registerFirst(ctx, c, p, &r)
	})
	return r, err
}

// registerFirst connects this device as the first one of its person to the database at c, which has the schema.
func (s *Service) registerFirst(ctx context.Context, c *pgx.ConnConfig, p SetupParams, r *SetupResult) error {
	device := storage.NewID()
	conn, err := dial(ctx, c)
	if err != nil {
		return hubError(c.Host, err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the work is already committed
	name := deviceName(p.Name)
	var d registration
	if err := asOwner(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `update app.hub set host = $1, port = $2, dbname = $3`, c.Host, int(c.Port), c.Database); err != nil {
			return err
		}
		var known bool
		if err := tx.QueryRow(ctx, `select exists (select 1 from app.device where user_id = $1)`, s.db.LocalUser().ID).Scan(&known); err != nil {
			return err
		}
		if known { // with a key that a new first device would replace
			return fault.Conflictf("This hub already has your data. Add this device with a link from another device, or with the recovery code. If you have neither, set up an empty database.")
		}
		return tx.QueryRow(ctx, `select app.add_device($1, $2, $3, $4, $5, $6, null), (select hub_id from app.hub)`, s.db.LocalUser().ID, uuid.UUID(device), name, s.o.Platform, []byte(s.db.Device().PublicKey), s.o.Version).Scan(&d, &d.HubID)
	}); err != nil {
		return hubError(c.Host, err)
	}
	h := hubConfig{Host: c.Host, Port: int(c.Port), Database: c.Database, Role: d.Role, Device: d.DeviceID, Name: name, Channel: d.Channel, Vectors: r.Vectors}
	return s.adoptFirst(ctx, h, d, p, r)
}

// adoptFirst connects the first device of a person, which creates their key.
func (s *Service) adoptFirst(ctx context.Context, h hubConfig, d registration, p SetupParams, r *SetupResult) error {
	h.Private = p.Encrypt == nil || *p.Encrypt
	ring := keyRing{}
	if h.Private {
		ring[1] = newUserKey()
	}
	r.UserID, r.DeviceID, r.Site, r.Encrypted = d.UserID, d.DeviceID, d.Site, h.Private
	return s.adopt(ctx, h, d, d.Password, ring, 1)
}

// setupSignedIn connects this device as the first one of a person who has signed in to a project. It sets a
// password that the project has not seen.
func (s *Service) setupSignedIn(ctx context.Context, p SetupParams, r *SetupResult) error {
	if err := p.Project.check(); err != nil {
		return err
	}
	name := deviceName(p.Name)
	x := newSession()
	h, d, err := p.Project.enroll(ctx, p.Code, map[string]any{"name": name, "platform": s.o.Platform, "pubkey": []byte(s.db.Device().PublicKey), "version": s.o.Version}, &x)
	if err != nil {
		return err
	}
	h.Name = name
	if c, err := h.connect(ctx, d.Password); err == nil {
		defer c.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the work is already committed
		if err := checkPooler(ctx, c); err != nil {
			return hubError(h.Host, err)
		}
		if d.Password, err = changePassword(ctx, c, d.Role); err != nil {
			return hubError(h.Host, err)
		}
	} else if err = hubError(h.Host, err); h.Project == nil || !unreachable(err) {
		return err
	}
	if err := s.adoptFirst(ctx, h, d, p, r); err != nil || h.Project == nil {
		return err
	}
	s.account = &x
	return s.storeSession(ctx, x)
}

func (s *Service) notEnrolled(ctx context.Context) error {
	l, err := s.local(ctx)
	if err == nil && l.hub != nil {
		return errConnected(l)
	}
	return err
}

func errConnected(l local) error {
	return fault.Conflictf("This device is already connected to %s. Disconnect it first.", l.hub.Host)
}

// checkHub returns an error unless c leads to the hub of this device.
func checkHub(ctx context.Context, c *pgx.ConnConfig, l local) error {
	conn, err := dial(ctx, c)
	if err != nil {
		return hubError(c.Host, err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // only read
	var id uuid.UUID
	if err := asOwner(ctx, conn, func(tx pgx.Tx) error { return tx.QueryRow(ctx, `select hub_id from app.hub`).Scan(&id) }); err != nil || id != l.hubID {
		return errConnected(l)
	}
	return nil
}

// adminConfig parses the connection string of an administrator. Its errors never quote the string,
// since it may hold a password.
func adminConfig(dsn string) (*pgx.ConnConfig, error) {
	if dsn == "" {
		return nil, fault.InvalidField("adminDsn", fault.CodeInvalid, "Give the connection string of a database administrator.")
	}
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fault.InvalidField("adminDsn", fault.CodeInvalid, "This is not a connection string. It looks like postgres://user:password@host:5432/database.")
	}
	return c, nil
}

func deviceName(name string) string {
	if name == "" {
		name, _ = os.Hostname()
	}
	if name == "" {
		name = runtime.GOOS
	}
	return name
}

// asOwner runs fn as helix_owner in one transaction.
func asOwner(ctx context.Context, c *pgx.Conn, fn func(pgx.Tx) error) error {
	tx, err := c.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // no effect after a commit
	if _, err := tx.Exec(ctx, `set local role helix_owner`); err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// prepareSQL creates the roles and schemas; it can be run repeatedly. helix_owner creates the roles
// of devices. It is not a superuser and does not bypass row-level security.
const prepareSQL = `
do $$
begin
	perform pg_advisory_xact_lock(4861312);
	if not exists (select 1 from pg_roles where rolname = 'helix_owner') then
		create role helix_owner nologin createrole;
	end if;
	if not exists (select 1 from pg_roles where rolname = 'helix_device') then
		create role helix_device nologin;
	end if;
	if not pg_has_role(current_user, 'helix_owner', 'member') then
		execute format('grant helix_owner to %I', current_user);
	end if;
	if current_setting('server_version_num')::int >= 160000 then
		grant helix_device to helix_owner with admin option;
	end if;
	begin
		grant pg_signal_backend to helix_owner;
	exception when insufficient_privilege then null;
	end;
	execute format('grant create on database %I to helix_owner', current_database());
	execute format('grant connect on database %I to helix_owner, helix_device', current_database());
	grant create, usage on schema public to helix_owner with grant option;
end $$;
create schema if not exists app authorization helix_owner;
create schema if not exists sync authorization helix_owner;`

// vectorSQL creates the extension vector if the database has it and the administrator may.
const vectorSQL = `
do $$
declare at text;
begin
	if not exists (select 1 from pg_available_extensions where name = 'vector') then
		return;
	end if;
	if exists (select 1 from pg_namespace where nspname = 'extensions') then -- where Supabase keeps them
		create extension if not exists vector schema extensions;
	else
		create extension if not exists vector schema public;
	end if;
	select quote_ident(n.nspname) into at from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector';
	if not (has_schema_privilege('helix_owner', at, 'usage') and has_schema_privilege('helix_device', at, 'usage')) then
		execute format('grant usage on schema %s to helix_owner, helix_device', at);
	end if;
exception when insufficient_privilege then null;
end $$;`

// migrateHub updates the schema of a hub. It returns the number of migrations that it applied, and
// whether the hub can store vectors.
func migrateHub(ctx context.Context, c *pgx.ConnConfig) (n int, vectors bool, err error) {
	conn, err := dial(ctx, c)
	if err != nil {
		return 0, false, err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the work is already committed
	if err := checkPooler(ctx, conn); err != nil {
		return 0, false, err
	}
	return migrate(ctx, conn, c)
}

// migrate is migrateHub with a connection of the administrator.
func migrate(ctx context.Context, conn *pgx.Conn, c *pgx.ConnConfig) (n int, vectors bool, err error) {
	if _, err := conn.Exec(ctx, prepareSQL, pgx.QueryExecModeSimpleProtocol); err != nil {
		return 0, false, fmt.Errorf("prepare the hub: %w", err)
	}
	if _, err := conn.Exec(ctx, vectorSQL, pgx.QueryExecModeSimpleProtocol); err != nil {
		return 0, false, fmt.Errorf("create the extension vector: %w", err)
	}
	if n, err = migrateSet(ctx, c, "hub/core", "app.helix_migrations"); err != nil {
		return n, false, err
	}
	if err := asOwner(ctx, conn, func(tx pgx.Tx) error {
		for _, name := range []string{"hub/tables.sql", "hub/each_table.sql"} {
			text, err := hubFiles.ReadFile(name)
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, string(text), pgx.QueryExecModeSimpleProtocol); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return n, false, err
	}
	defer func() {
		if err == nil {
			err = asOwner(ctx, conn, func(tx pgx.Tx) error { _, err := tx.Exec(ctx, `select app.temporary_last()`); return err })
		}
	}()
	if err := conn.QueryRow(ctx, `select exists (select 1 from pg_extension where extname = 'vector' and has_schema_privilege('helix_owner', extnamespace, 'usage') and has_schema_privilege('helix_device', extnamespace, 'usage'))`).Scan(&vectors); err != nil || !vectors {
		return n, false, err
	}
	more, err := migrateSet(ctx, c, "hub/vector", "app.helix_vector_migrations")
	return n + more, err == nil, err
}

// migrateSet applies the migrations of a folder, which table lists.
func migrateSet(ctx context.Context, c *pgx.ConnConfig, folder, table string) (int, error) {
	p, err := migrationSet(c, folder, table)
	if err != nil {
		return 0, err
	}
	defer p.Close() //nolint:errcheck // the work is already committed
	done, err := p.Up(ctx)
	return len(done), err
}

func migrationSet(c *pgx.ConnConfig, folder, table string) (*goose.Provider, error) {
	files, err := fs.Sub(hubFiles, folder)
	if err != nil {
		return nil, err
	}
	db := stdlib.OpenDB(*c, stdlib.OptionAfterConnect(func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, `set role helix_owner`)
		return err
	}))
	store, err := database.NewStore(database.DialectPostgres, table)
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectCustom, db, files, goose.WithStore(store))
}

// adopt connects this device to a hub. All local rows are assigned to the hub's user and sent with
// the next exchange.
func (s *Service) adopt(ctx context.Context, h hubConfig, d registration, password string, ring keyRing, version int) error {
	from := s.db.LocalUser().ID
	if s.db.Recovery() != nil {
		return fault.Unavailablef("The database has to be repaired first.")
	}
	return s.db.Write(s.asUser(ctx), func(tx *storage.Tx) error {
		if err := s.secrets.SetTx(tx, passwordSecret, []byte(password)); err != nil {
			return err
		}
		if len(ring) > 0 {
			if err := s.secrets.SetTx(tx, keySecret, []byte(jsonText(ring))); err != nil {
				return err
			}
		}
		if d.UserID != from {
			if err := audit.Rekey(tx, from, d.UserID); err != nil {
				return err
			}
			if s.o.ChangedUser != nil {
				tx.AfterCommit(func() { s.o.ChangedUser(from, d.UserID) })
			}
		}
		l, err := readLocal(tx)
		if err != nil {
			return err
		}
		again := l.hubID == d.HubID && d.UserID == from
		if !again {
			if err := forgetHub(tx); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(`UPDATE sync_local SET site = ?, ctr = 0, epoch = ?, next_epoch = NULL, key_version = ?, hub_id = ?`, d.Site, storage.NewID(), version, d.HubID); err != nil {
			return err
		}
		if err := tx.LogAll(d.UserID); err != nil {
			return err
		}
		if again {
			if err := errors.Join(s.logEdits(tx), copyAgain(tx)); err != nil {
				return err
			}
		}
		tx.AfterCommit(func() { bus.Publish(tx.Bus(), d.UserID, connectionChanged{}) })
		return errors.Join(writeHub(tx, &h), audit.Append(tx, audit.Entry{User: d.UserID, Action: "sync.connected", SubjectKind: "hub", SubjectID: h.Host, Details: map[string]any{"device": d.DeviceID, "encrypted": h.Private}}))
	})
}

// leaveHub deletes the state that is useless without a hub. It keeps sync_meta and sync_base, which
// stay true for this hub: if the device joins it again, only rows that differ from them have
// changed.
func leaveHub(tx *storage.Tx) error {
	for _, t := range []string{"sync_dead_letter", "sync_cursor"} {
		if _, err := tx.Exec(`DELETE FROM ` + t); err != nil {
			return err
		}
	}
	return nil
}

// logEdits adds rows that differ from sync_base to change_log, which may have lost entries while no
// hub was connected.
func (s *Service) logEdits(tx *storage.Tx) error {
	rows, err := storage.Collect(tx.Select(`SELECT tbl, row_id FROM sync_base`), scanKey)
	if err != nil {
		return err
	}
	packaged, err := allOutbox(tx)
	if err != nil {
		return err
	}
	last := map[rowKey]string{}
	for _, x := range packaged {
		if last[x.rowKey] = x.base; !slices.Contains(rows, x.rowKey) {
			rows = append(rows, x.rowKey)
		}
	}
	for _, k := range rows {
		t, ok := s.table(k.table)
		if !ok {
			continue
		}
		r, err := t.readRow(tx, k.id)
		if err != nil {
			return err
		}
		if r == nil || !r.known && last[k] == "" {
			continue
		}
		base, err := t.baseOf(tx, k.id)
		if last[k] != "" {
			base, err = t.decodeBase(tx, k.id, last[k])
		}
		if err != nil {
			return err
		}
		stamps := map[int]int64{}
		for _, c := range append(slices.Clone(t.columns), deletedColumn) {
			if !equal(r.Values[c.Name], base.Values[c.Name]) {
				stamps[c.No] = max(r.Updated/1000<<16, base.Meta.Stamps[c.No].HLC+1)
			}
		}
		if err := relog(tx, k, "U", stamps); err != nil {
			return err
		}
		if len(stamps) == 0 && last[k] == "" {
			if err := dropBase(tx, k); err != nil {
				return err
			}
		}
	}
	return nil
}

// forgetHub deletes the sync state that belongs to a former hub. It keeps the rows.
func forgetHub(tx *storage.Tx) error {
	for _, t := range storage.Synced {
		if t.Parent != "" {
			continue
		}
		if _, err := tx.Exec(`UPDATE ` + t.Table + ` SET sync_meta = NULL WHERE sync_meta IS NOT NULL`); err != nil {
			return err
		}
	}
	for _, t := range []string{"sync_base", "sync_outbox", "sync_batches", "sync_dead_letter", "sync_cursor", "sync_progress"} {
		if _, err := tx.Exec(`DELETE FROM ` + t); err != nil {
			return err
		}
	}
	return nil
}
