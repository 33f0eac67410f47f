package cloudsync

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"helix/backend/storage"
)

// The hub removes tombstones that all devices of the last 90 days know. A device that was away for longer
// is behind this horizon: the feed no longer tells it all that it missed.

// checkHorizon has a device behind the horizon read the feed from its beginning.
func (s *Service) checkHorizon(ctx context.Context, l local) error {
	if l.greeting.AckedSeq == 0 || l.greeting.AckedSeq >= l.greeting.Stable {
		return nil
	}
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		var copying bool
		if err := tx.QueryRow(`SELECT coalesce((SELECT copying FROM sync_cursor), 0)`).Scan(&copying); err != nil || copying {
			return err
		}
		s.o.Logger.Info("behind the horizon of the hub: all of it is read again", "acked", l.greeting.AckedSeq, "stable", l.greeting.Stable)
		return copyAgain(tx)
	})
}

func copyAgain(tx *storage.Tx) error {
	if _, err := tx.Exec(`DELETE FROM sync_progress`); err != nil {
		return err
	}
	_, err := tx.Exec(`INSERT INTO sync_cursor (one, copying) VALUES (1, 1) ON CONFLICT (one) DO UPDATE SET seq = 0, copying = 1`)
	return err
}

// endCopy ends what copyAgain began. A row that the hub had once and has no longer was deleted and
// removed there, or lost with a backup; a missing row never means that it was deleted, so it is sent anew.
func (s *Service) endCopy(ctx context.Context, c *pgx.Conn) error {
	copying := false
	if err := s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT coalesce((SELECT copying FROM sync_cursor), 0)`).Scan(&copying)
	}); err != nil || !copying {
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
				if err := t.restart(tx, rowKey{t.Table, id}); err != nil {
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

// pruneHub has the hub remove what all devices know to be deleted, once a day.
func (s *Service) pruneHub(ctx context.Context, c *pgx.Conn) error {
	due := false
	if err := s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT coalesce((SELECT pruned_at FROM sync_cursor), 0) < ?`, tx.Now.Add(-pruneEvery)).Scan(&due)
	}); err != nil || !due {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if _, err := c.Exec(ctx, `select sync.prune()`); err != nil {
		return err
	}
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`INSERT INTO sync_cursor (one, pruned_at) VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET pruned_at = excluded.pruned_at`, tx.Now)
		return err
	})
}
