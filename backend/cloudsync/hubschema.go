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
// only adds tables and columns. hub/each_table.sql gives each table its security, feed and functions. Both
// can be run repeatedly.
//
//go:embed hub/core/*.sql hub/vector/*.sql hub/tables.sql hub/each_table.sql
var hubFiles embed.FS

// HubTables generates hub/tables.sql from storage.Synced and the schema of db: the synced tables. There are
// no foreign keys between synced rows, because a child may arrive before its parent, and no unique index
// other than the primary key, so that ids of other users can neither collide nor be probed.
func HubTables(ctx context.Context, db *storage.DB) ([]byte, error) {
	tables, err := storage.Result(ctx, db.Read, readTables)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString("-- Generated from storage.Synced by make generate. It only adds, and runs at each setup.\n")
	for _, t := range tables {
		fmt.Fprintf(&b, "\ncreate table if not exists public.%s (id uuid not null, user_id uuid not null references app.hub_user, dot bigint not null, prev_dot bigint, hlc bigint not null, sync_meta bytea, hub_device_id uuid not null, schema_ver int not null, created_at timestamptz not null, updated_at timestamptz not null, deleted_at timestamptz, extra jsonb not null default '{}', primary key (user_id, id));\n", t.Table)
		for i, c := range t.columns {
			if slices.Contains(hubColumns, c.Name) {
				return nil, fmt.Errorf("%s.%s has the name of a column of the hub", t.Table, c.Name)
			}
			start := ","
			if i == 0 {
				start = "alter table public." + t.Table
			}
			fmt.Fprintf(&b, "%s add column if not exists %q %s", start, c.Name, c.Hub)
		}
		fmt.Fprintf(&b, ";\ninsert into app.synced (table_name, policy) values ('%s', '%s') on conflict (table_name) do update set policy = excluded.policy;\n", t.Table, t.Policy)
	}
	return []byte(b.String()), nil
}

// hubColumns are the columns that the hub adds to each row. hub_device_id is the device that wrote
// the version; it has the prefix because some tables have a device_id column.
var hubColumns = []string{"dot", "prev_dot", "hlc", "sync_meta", "hub_device_id", "schema_ver", "extra"}
