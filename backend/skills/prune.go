package skills

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/storage"
)

// pruneBatch is the number of runs deleted in one transaction.
const pruneBatch = 100

// Retention returns the retention policy of runs: in addition to the limits for all histories, it
// keeps at most runsEach runs per skill and bytes per user. Pinned and unfinished runs, and those
// that keep returns, are kept. keep may be nil.
func Retention(runsEach int, bytes int64, keep func(*storage.Tx) ([]uuid.UUID, error)) storage.Retention {
	return storage.Retention{
		Table: "composite_skill_executions", Time: "created_at", Only: "pinned = 0 AND status IN ('completed', 'failed', 'cancelled')", Keep: keep,
		Also: fmt.Sprintf(`id IN (SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY user_id, composite_skill_id ORDER BY created_at DESC, id DESC) AS number,
			sum(bytes) OVER (PARTITION BY user_id ORDER BY created_at DESC, id DESC) AS total FROM composite_skill_executions) WHERE number > %d OR total > %d)`, runsEach, bytes),
	}
}

// remove deletes runs with their steps and journals.
func (s *Service) remove(ctx context.Context, ids []uuid.UUID) (n int, err error) {
	defer s.sizes.forget()
	for len(ids) > 0 {
		part := ids[:min(len(ids), pruneBatch)]
		ids = ids[len(part):]
		args := make([]any, len(part))
		for i, id := range part {
			args[i] = id
		}
		err := s.db.Write(ctx, func(tx *storage.Tx) error {
			return tx.WithoutCapture(func() error {
				res, err := tx.Exec(`DELETE FROM composite_skill_executions WHERE status NOT IN ('queued', 'running', 'waiting') AND pinned = 0
					AND id IN (`+strings.Repeat("?,", len(part)-1)+`?)`, args...)
				if err != nil {
					return err
				}
				gone, err := res.RowsAffected()
				n += int(gone)
				return err
			})
		})
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// shrink returns free pages to the file system, in batches.
func (s *Service) shrink(ctx context.Context) error {
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		return tx.Select(`PRAGMA incremental_vacuum(2000)`).Each(func(row storage.Row) error {
			return nil
		})
	})
}

// PurgeHistory deletes the caller's runs that have ended, except pinned ones.
func (s *Service) PurgeHistory(ctx context.Context, p PurgeParams) (PurgeResult, error) {
	before := s.now().Add(time.Hour)
	if p.Before != nil {
		before = *p.Before
	}
	var ids []uuid.UUID
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		var err error
		ids, err = storage.Collect(tx.Select(`SELECT id FROM composite_skill_executions WHERE user_id = ? AND created_at < ? AND pinned = 0
			AND status IN ('completed', 'failed', 'cancelled') AND (? OR composite_skill_id = ?)`,
			identity.UserID(ctx), before, p.SkillID == nil, p.SkillID), storage.RowTo[uuid.UUID])
		return err
	})
	if err != nil {
		return PurgeResult{}, err
	}
	n, err := s.remove(ctx, ids)
	if err == nil && n > 0 {
		err = s.shrink(ctx)
	}
	return PurgeResult{Removed: n}, err
}
