package memory

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"helix/backend/memory/search"
	"helix/backend/storage"
)

const (
	trashAge     = 30 * 24 * time.Hour // default of Options.TrashAge
	cleanupEvery = time.Hour
	cleanupBatch = 200 // rows per transaction, so that no write waits for long
)

// runCleanup purges items that have been in the trash for too long, and deletes expired undo
// tokens, recall logs and revisions, at start and then every hour.
func (s *Service) runCleanup(ctx context.Context) error {
	t := time.NewTicker(cleanupEvery)
	defer t.Stop()
	if err := s.dropLostVectors(ctx); err != nil && ctx.Err() == nil {
		s.log.Warn("forget vectors", "err", err)
	}
	for {
		if err := s.cleanup(ctx, time.Now()); err != nil && ctx.Err() == nil {
			s.log.Warn("clean up memory", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// owned is the id of a row and of its user.
type owned struct{ id, user uuid.UUID }

func (s *Service) cleanup(ctx context.Context, now time.Time) error {
	age := trashAge
	if s.o.TrashAge != nil {
		age = s.o.TrashAge()
	}
	old := now.Add(-age)
	if err := s.purgeAll(ctx, `SELECT id, user_id FROM memories WHERE user_id IN (SELECT id FROM users) AND deleted_at < ? AND content <> '' LIMIT ?`, old, func(tx *storage.Tx, o owned) error {
		_, err := s.purgeTx(tx, o.user, []uuid.UUID{o.id})
		return err
	}); err != nil {
		return err
	}
	for _, w := range parents() {
		if err := s.purgeAll(ctx, `SELECT id, user_id FROM `+w.table+` WHERE deleted_at < ? AND `+w.notPurged()+` LIMIT ?`, old, func(tx *storage.Tx, o owned) error {
			_, err := w.purge(s, tx, o.user, o.id)
			return err
		}); err != nil {
			return err
		}
	}
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		if err := tx.PruneUndo(now); err != nil {
			return err
		}
		if _, err := tx.Exec(`DELETE FROM recall_log WHERE at < ?`, now.Add(-recallAge)); err != nil {
			return err
		}
		return tx.WithoutCapture(func() error {
			_, err := tx.Exec(`DELETE FROM memory_revisions WHERE edited_at < ?`, now.Add(-revisionAge))
			return err
		})
	})
}

// dropLostVectors deletes the vectors of rows that no longer exist because retention removed them.
func (s *Service) dropLostVectors(ctx context.Context) error {
	for _, kind := range []string{KindMemory, KindTurn, KindChunk} {
		lost, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) ([]uuid.UUID, error) {
			return storage.Collect(tx.Select(`SELECT v.item_id FROM item_vectors v INDEXED BY item_vectors_user
				WHERE v.item_kind = ? AND NOT EXISTS (SELECT 1 FROM `+search.Table(kind)+` x WHERE x.id = v.item_id)`, kind), storage.RowTo[uuid.UUID])
		})
		if err != nil {
			return err
		}
		for batch := range slices.Chunk(lost, cleanupBatch) {
			if err := s.db.Write(ctx, func(tx *storage.Tx) error { return purgeVectors(tx, kind, batch...) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// purgeAll purges the rows that query returns, in batches, each on behalf of its own user.
func (s *Service) purgeAll(ctx context.Context, query string, old time.Time, purge func(*storage.Tx, owned) error) error {
	for n := cleanupBatch; n == cleanupBatch; {
		err := s.db.Write(ctx, func(tx *storage.Tx) error {
			batch, err := storage.Collect(tx.Select(query, old, cleanupBatch), func(row storage.Row) (o owned, err error) {
				err = row.Scan(&o.id, &o.user)
				return o, err
			})
			if err != nil {
				return err
			}
			for _, o := range batch {
				if err := purge(tx, o); err != nil {
					return err
				}
			}
			n = len(batch)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
