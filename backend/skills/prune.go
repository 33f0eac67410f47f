package skills

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/storage"
)

// pruneBatch is how many runs leave in one transaction.
const pruneBatch = 100

// Prune removes the oldest runs that are more than the limits allow: by number of a skill,
// and by size of a user. Pinned runs and those that Options.Keep names stay. It is no delete
// for sync: each device keeps its own bounds.
func (s *Service) Prune(ctx context.Context) (int, error) {
	keep := map[uuid.UUID]bool{}
	var over []uuid.UUID
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		if s.o.Keep != nil {
			list, err := s.o.Keep(tx)
			if err != nil {
				return err
			}
			for _, id := range list {
				keep[id] = true
			}
		}
		var err error
		over, err = s.excess(tx, keep)
		return err
	})
	if err != nil {
		return 0, err
	}
	n, err := s.remove(ctx, over)
	if err == nil && n > 0 {
		err = s.shrink(ctx)
	}
	return n, err
}

// excess lists the runs that are too many or too large, oldest first.
func (s *Service) excess(tx *storage.Tx, keep map[uuid.UUID]bool) ([]uuid.UUID, error) {
	type group struct{ user, skill uuid.UUID }
	count, size := map[group]int{}, map[uuid.UUID]int64{}
	var over []uuid.UUID
	err := tx.Select(`SELECT id, user_id, composite_skill_id, bytes, pinned OR status IN ('queued', 'running', 'waiting') FROM composite_skill_executions
		ORDER BY user_id, created_at DESC, id DESC`).Each(func(row storage.Row) error {
		var id, user uuid.UUID
		var skill uuid.NullUUID
		var bytes int64
		var stays bool
		if err := row.Scan(&id, &user, &skill, &bytes, &stays); err != nil {
			return err
		}
		g := group{user, skill.UUID}
		count[g]++
		size[user] += bytes
		if !stays && !keep[id] && (count[g] > s.limits.HistoryRuns || size[user] > s.limits.HistoryBytes) {
			over = append(over, id)
			count[g]--
			size[user] -= bytes
		}
		return nil
	})
	return over, err
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

// shrink gives freed pages back to the file system, not too many at a time.
func (s *Service) shrink(ctx context.Context) error {
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		return tx.Select(`PRAGMA incremental_vacuum(2000)`).Each(func(row storage.Row) error {
			return nil
		})
	})
}

// PurgeHistory removes the caller's runs that have ended, but not the pinned ones.
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
