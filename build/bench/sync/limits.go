package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite"

	"helix/backend/storage"
)

// copyLimit measures how fast PostgreSQL can store rows: binary COPY of the hub's own columns into a
// logged table that has only a primary key. It returns rows per second.
func (b *bench) copyLimit(dsn string, n, size int) float64 {
	c, err := pgx.Connect(b.ctx, dsn)
	check(err)
	defer c.Close(b.ctx) //nolint:errcheck // only a peer
	_, err = c.Exec(b.ctx, `drop table if exists public.bench_limit; create table public.bench_limit (like public.memories including defaults); alter table public.bench_limit add primary key (user_id, id)`)
	check(err)
	columns := []string{"id", "user_id", "dot", "hlc", "sync_meta", "hub_device_id", "schema_ver", "created_at", "updated_at", "extra", "type", "content", "source", "untrusted", "content_hash", "salience", "salience_tier", "pinned", "access_count", "initial_strength", "metadata", "version", "tags"}
	user, device, meta, now := uuid.New(), uuid.New(), make([]byte, 30), time.Now()
	rows := make([][]any, n)
	for i := range rows {
		s := text(i, size)
		sum := sha256.Sum256([]byte(s))
		rows[i] = []any{storage.NewID(), user, int64(i), int64(i), meta, device, 1, now, now, "{}", "episodic", s, "manual", false, sum[:], 50.0, "medium", false, int64(0), 1.0, "{}", int64(1), "[]"}
	}
	t := took(func() {
		_, err = c.CopyFrom(b.ctx, pgx.Identifier{"public", "bench_limit"}, columns, pgx.CopyFromRows(rows))
		check(err)
	})
	_, err = c.Exec(b.ctx, `drop table public.bench_limit`)
	check(err)
	return float64(n) / t
}

// upsertLimit measures how fast the SQLite driver can store rows. It upserts the rows of table in d,
// 25 per statement and 5,000 per transaction, into a table with the same columns and indexes but no
// triggers. It returns rows per second.
func (b *bench) upsertLimit(d *device, table string) float64 {
	var schema []string
	var columns []string
	var rows [][]any
	check(d.db.Read(d.ctx, func(tx *storage.Tx) error {
		if err := tx.Select(`SELECT sql FROM sqlite_schema WHERE tbl_name = ? AND type IN ('table', 'index') AND sql IS NOT NULL ORDER BY type DESC`, table).Each(func(r storage.Row) error {
			var s string
			err := r.Scan(&s)
			schema = append(schema, s)
			return err
		}); err != nil {
			return err
		}
		all, err := tx.Query(`SELECT * FROM ` + table + ` ORDER BY id`)
		if err != nil {
			return err
		}
		defer all.Close() //nolint:errcheck // read to the end
		if columns, err = all.Columns(); err != nil {
			return err
		}
		for all.Next() {
			row, into := make([]any, len(columns)), make([]any, len(columns))
			for i := range row {
				into[i] = &row[i]
			}
			if err := all.Scan(into...); err != nil {
				return err
			}
			rows = append(rows, row)
		}
		return all.Err()
	}))
	w, err := sql.Open("sqlite", "file:"+filepath.Join(b.dir, "limit-"+uuid.NewString()+".db")+"?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=cache_size(-65536)&_pragma=temp_store(MEMORY)")
	check(err)
	defer w.Close() //nolint:errcheck // only a peer
	w.SetMaxOpenConns(1)
	for _, s := range schema {
		_, err := w.Exec(s)
		check(err)
	}
	var sets []string
	for _, c := range columns {
		if c != "id" {
			sets = append(sets, c+" = excluded."+c)
		}
	}
	one := "(?" + strings.Repeat(", ?", len(columns)-1) + ")"
	query := func(n int) string {
		return "INSERT INTO " + table + " (" + strings.Join(columns, ", ") + ") VALUES " + one + strings.Repeat(", "+one, n-1) + " ON CONFLICT (id) DO UPDATE SET " + strings.Join(sets, ", ")
	}
	return float64(len(rows)) / took(func() {
		for at := 0; at < len(rows); at += perTx {
			tx, err := w.BeginTx(context.Background(), nil)
			check(err)
			end := min(len(rows), at+perTx)
			st, err := tx.Prepare(query(perStatement))
			check(err)
			args := make([]any, 0, perStatement*len(columns))
			for i := at; i < end; i += perStatement {
				args = args[:0]
				part := rows[i:min(end, i+perStatement)]
				for _, r := range part {
					args = append(args, r...)
				}
				if len(part) == perStatement {
					_, err = st.Exec(args...)
				} else {
					_, err = tx.Exec(query(len(part)), args...)
				}
				check(err)
			}
			check(tx.Commit())
		}
	})
}
