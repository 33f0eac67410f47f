package cloudsync

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"helix/backend/storage"
)

// The hub removes tombstones once all devices active in the last 90 days have seen them. The feed
// alone can't bring a device that was away for longer up to date: deletions that it never saw are
// missing.

// checkHorizon makes a device read the whole hub again if it is behind the horizon, if the hub's feed
// ends before the device's position because the hub was restored from a backup, or if this version of
// Helix knows more fields than the one that read it. It reports whether the hub has yet to be read again.
func (s *Service) checkHorizon(ctx context.Context, l local) (again bool, err error) {
	var seq, acked int64
	var known string
	var begun bool
	if err := s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT coalesce(max(seq), 0), coalesce(max(fields), ''), coalesce(max(copying), 0), coalesce(max(acked), 0), EXISTS (SELECT 1 FROM sync_progress) FROM sync_cursor`).Scan(&seq, &known, &again, &acked, &begun)
	}); err != nil {
		return false, err
	}
	fields := s.fields()
	upgraded := known != fields
	stable := int64(l.greeting.Stable)
	// The position is before what the hub has heard if a power failure has undone the last commits here.
	behind := seq > int64(l.greeting.Head) || l.greeting.AckedSeq != 0 && (int64(l.greeting.AckedSeq) < max(stable, acked) || seq > 0 && seq < stable)
	if !upgraded && (again || !behind) {
		return again, nil
	}
	begun = begun || again || seq > 0 || known != "" // after an interrupted first exchange it has rows but no position
	return begun, s.db.Write(ctx, func(tx *storage.Tx) error {
		if begun {
			s.o.Logger.Info("all of the hub is read again: it was restored, this device is behind its horizon, or Helix has more fields", "head", l.greeting.Head, "seq", seq, "acked", l.greeting.AckedSeq, "stable", l.greeting.Stable, "upgraded", upgraded)
			if err := copyAgain(tx); err != nil {
				return err
			}
		}
		_, err := tx.Exec(`INSERT INTO sync_cursor (one, fields) VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET fields = excluded.fields`, fields)
		return err
	})
}

// fields lists the synced fields of this version of Helix.
func (s *Service) fields() string {
	list := map[string][]int{}
	for _, t := range s.tables {
		for _, c := range t.columns {
			list[t.Table] = append(list[t.Table], c.No)
		}
	}
	return jsonText(list)
}

// fill takes the values of fields that the version of Helix which stored the row did not know. They were
// written together with the same version on the hub, and yet differ. While the row has changes, its
// counters stay as they are.
func (a *applier) fill(t table, k rowKey, mine *localRow, theirs Version, o *outboxRow) error {
	p, err := pendingOf(a.tx, k)
	if err != nil {
		return err
	}
	if o != nil {
		meta, err := decodeMeta(o.rawMeta)
		if err != nil {
			return err
		}
		for no, s := range meta.Stamps {
			if s.Dot == o.dot {
				p.stamps[no] = max(p.stamps[no], s.HLC)
			}
		}
	}
	filled := map[string]any{}
	for _, c := range t.columns {
		if _, written := p.stamps[c.No]; written || theirs.Meta.Stamps[c.No] != mine.Meta.Stamps[c.No] || c.Merge == storage.PNCounter && len(p.stamps) > 0 {
			continue
		}
		if v := theirs.Values[c.Name]; v != nil && !equal(v, mine.Values[c.Name]) {
			filled[c.Name] = v
		}
	}
	if len(filled) == 0 {
		return nil
	}
	maps.Copy(mine.Values, filled)
	*a.applied = append(*a.applied, k)
	if o != nil {
		if o.base, err = t.withValues(a.tx, k.id, o.base, filled, a.s.o.Private); err != nil {
			return err
		}
		if _, err := a.tx.Exec(`UPDATE sync_outbox SET base = ? WHERE op_id = ?`, o.base, o.op); err != nil {
			return err
		}
	}
	var base string
	switch err := a.tx.QueryRow(`SELECT row FROM sync_base WHERE tbl = ? AND row_id = ?`, k.table, k.id).Scan(&base); {
	case errors.Is(err, sql.ErrNoRows):
	case err != nil:
		return err
	default:
		if base, err = t.withValues(a.tx, k.id, base, filled, a.s.o.Private); err != nil {
			return err
		}
		if err := setBase(a.tx, k, base); err != nil {
			return err
		}
	}
	return t.writeRow(a.tx, a.l.user, k.id, mine.Version, true, a.s.o.Private)
}

// withValues sets values in a version in the format of sync_base.
func (t table) withValues(tx *storage.Tx, id uuid.UUID, base string, values map[string]any, private bool) (string, error) {
	v, err := t.decodeBase(tx, id, base)
	if err != nil {
		return "", err
	}
	maps.Copy(v.Values, values)
	return t.encodeBase(tx, id, *v, private)
}

func copyAgain(tx *storage.Tx) error {
	if _, err := tx.Exec(`DELETE FROM sync_progress`); err != nil {
		return err
	}
	_, err := tx.Exec(`INSERT INTO sync_cursor (one, copying) VALUES (1, 1) ON CONFLICT (one) DO UPDATE SET seq = 0, copying = 1, acked = 0`)
	return err
}

// endCopy completes a full read started by copyAgain. A row that the hub once had and no longer has
// may have been deleted and pruned, or lost when the hub was restored from a backup. Since a
// missing row is no proof of a deletion, it is sent again as new.
func (s *Service) endCopy(ctx context.Context, c *pgx.Conn) error {
	whole := false
	if err := s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		whole, err = copying(tx)
		return err
	}); err != nil || !whole {
		return err
	}
	for _, t := range s.tables {
		there, err := hubIDs(ctx, c, t)
		if err != nil {
			return err
		}
		if err := s.db.Write(ctx, func(tx *storage.Tx) error {
			known, err := storage.Collect(tx.Select(`SELECT id FROM `+t.Table+` WHERE sync_meta IS NOT NULL AND deleted_at IS NULL`), storage.RowTo[uuid.UUID])
			if err != nil {
				return err
			}
			for _, id := range known {
				if there[id] {
					continue
				}
				if err := t.restart(tx, rowKey{t.Table, id}, s.o.Private); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE sync_cursor SET copying = 0`)
		return err
	})
}

func hubIDs(ctx context.Context, c *pgx.Conn, t table) (map[uuid.UUID]bool, error) {
	rows, err := c.Query(ctx, `select id from public.`+t.Table+` where user_id = app.uid()`)
	if err != nil {
		return nil, err
	}
	there := map[uuid.UUID]bool{}
	var id uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
		there[id] = true
		return nil
	})
	return there, err
}

const pruneEvery = 24 * time.Hour

// pruneHub removes tombstones from the hub that all devices have seen, at most once a day.
func (s *Service) pruneHub(ctx context.Context, c *pgx.Conn) error {
	due := false
	if err := s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT coalesce((SELECT pruned_at FROM sync_cursor), 0) < ?`, tx.Now.Add(-pruneEvery)).Scan(&due)
	}); err != nil || !due {
		return err
	}
	if _, err := c.Exec(ctx, `select sync.prune()`); err != nil {
		return err
	}
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`INSERT INTO sync_cursor (one, pruned_at) VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET pruned_at = excluded.pruned_at`, tx.Now)
		return err
	})
}
