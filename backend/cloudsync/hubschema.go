package cloudsync

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"strings"

	"helix/backend/storage"
)

// hubFiles is the hub's schema. hub/core holds numbered, handwritten migrations, and hub/vector those
// for databases that have the extension vector. hub/tables.sql is generated from storage.Synced; it
// only adds tables and columns, so it can be run repeatedly.
//
//go:embed hub/core/*.sql hub/vector/*.sql hub/tables.sql
var hubFiles embed.FS

// HubTables generates hub/tables.sql from storage.Synced and the schema of db: the synced tables,
// their row-level security, their feed triggers and their functions of push and pull.
func HubTables(ctx context.Context, db *storage.DB) ([]byte, error) {
	var tables []table
	err := db.Read(ctx, func(tx *storage.Tx) (err error) {
		tables, err = readTables(tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString("-- Generated from storage.Synced by make generate. It only adds, and runs at each setup.\n")
	for _, t := range tables {
		b.WriteString(t.hubSQL())
	}
	b.WriteString("\nselect sync.define_push(table_name), sync.define_pull(table_name) from app.synced;\n")
	return []byte(b.String()), nil
}

// hubColumns are the columns that the hub adds to each row. hub_device_id is the device that wrote
// the version; it has the prefix because some tables have a device_id column.
var hubColumns = []string{"dot", "prev_dot", "hlc", "sync_meta", "hub_device_id", "schema_ver", "extra"}

// hubSQL returns the definition of the table on the hub. There are no foreign keys between synced
// rows, because a child may arrive before its parent, and no unique index other than the primary
// key, so that ids of other users can neither collide nor be probed.
func (t table) hubSQL() string {
	var b strings.Builder
	add := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	name := "public." + t.Table
	add("\ncreate table if not exists %s (id uuid not null, user_id uuid not null references app.hub_user, dot bigint not null, prev_dot bigint, hlc bigint not null, sync_meta bytea, hub_device_id uuid not null, schema_ver int not null, created_at timestamptz not null, updated_at timestamptz not null, deleted_at timestamptz, extra jsonb not null default '{}', primary key (user_id, id));", name)
	for _, c := range t.columns {
		if slices.Contains(hubColumns, c.Name) {
			panic("cloudsync: " + t.Table + "." + c.Name + " has the name of a column of the hub")
		}
		add("alter table %s add column if not exists %q %s;", name, c.Name, c.Hub)
	}
	add("alter table %s enable row level security;", name)
	add("alter table %s force row level security;", name)
	policy := func(verb, role, rest string) {
		p := strings.ReplaceAll(verb, " ", "_") + "_own"
		if role == "helix_owner" {
			p = "owner_" + verb
		}
		add("drop policy if exists %s on %s;", p, name)
		add("create policy %s on %s for %s to %s %s;", p, name, verb, role, rest)
	}
	const own = "(user_id = (select app.uid()))"
	policy("select", "helix_device", "using "+own)
	policy("insert", "helix_device", "with check "+own)
	policy("update", "helix_device", "using "+own+" with check "+own)
	const owned = "(user_id = coalesce((select app.uid()), (select app.removing())))"
	policy("select", "helix_owner", "using "+owned)
	policy("delete", "helix_owner", "using "+owned)
	add("grant select, insert on %s to helix_device;", name)
	if t.Policy == storage.AppendRows { // an appended row can only be deleted
		add("grant update (dot, prev_dot, hlc, sync_meta, hub_device_id, schema_ver, deleted_at, updated_at, extra) on %s to helix_device;", name)
	} else {
		add("grant update on %s to helix_device;", name)
	}
	add("create or replace trigger record_insert after insert on %s referencing new table as new_rows for each statement execute function sync.record_insert();", name)
	add("create or replace trigger record_update after update on %s referencing old table as old_rows new table as new_rows for each statement execute function sync.record_update();", name)
	if t.Table == "custom_tools" || t.Table == "composite_skills" {
		add("create or replace trigger end_shares after update on %s referencing new table as new_rows for each statement execute function sync.end_shares();", name)
	}
	add("insert into app.synced (table_name, policy) values ('%s', '%s') on conflict (table_name) do update set policy = excluded.policy;", t.Table, t.Policy)
	return b.String()
}
