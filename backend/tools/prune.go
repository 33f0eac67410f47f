package tools

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"helix/backend/storage"
)

// Bounds of the history when Options say nothing else.
const (
	usageDays   = 90
	usageRows   = 10_000
	pruneBatch  = 500
	replyAge    = 24 * time.Hour
	maxReplies  = 10_000
	stoppedText = "app stopped"
)

// Prune deletes runs beyond the bounds of the history and answers of old idempotency keys,
// for all users, in small transactions; it returns how many rows left. Pruning is not a
// delete for sync: each device keeps its own bound.
func (s *Service) Prune(ctx context.Context) (int64, error) {
	days, rows := usageDays, usageRows
	if s.o.UsageDays != nil {
		days = s.o.UsageDays()
	}
	if s.o.UsageRows != nil {
		rows = s.o.UsageRows()
	}
	var total int64
	if days > 0 {
		n, err := s.pruneLoop(ctx, `DELETE FROM custom_tool_usage WHERE id IN (SELECT id FROM custom_tool_usage WHERE timestamp < ? LIMIT ?)`,
			time.Now().Add(-time.Duration(days)*24*time.Hour), pruneBatch)
		total += n
		if err != nil {
			return total, err
		}
	}
	if rows > 0 {
		n, err := s.pruneCounts(ctx, rows)
		total += n
		if err != nil {
			return total, err
		}
	}
	n, err := s.pruneLoop(ctx, `DELETE FROM custom_tool_replies WHERE (user_id, key) IN (SELECT user_id, key FROM custom_tool_replies WHERE created_at < ? LIMIT ?)`,
		time.Now().Add(-replyAge), pruneBatch)
	return total + n, err
}

// pruneLoop repeats a bounded DELETE until it finds nothing more.
func (s *Service) pruneLoop(ctx context.Context, query string, args ...any) (int64, error) {
	var total int64
	for {
		var n int64
		err := s.db.Write(ctx, func(tx *storage.Tx) error {
			return tx.WithoutCapture(func() error {
				r, err := tx.Exec(query, args...)
				if err != nil {
					return err
				}
				n, err = r.RowsAffected()
				return err
			})
		})
		total += n
		if err != nil || n < pruneBatch {
			return total, err
		}
	}
}

func (s *Service) pruneCounts(ctx context.Context, keep int) (int64, error) {
	var full []uuid.UUID
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		var err error
		full, err = storage.Collect(tx.Select(`SELECT custom_tool_id FROM custom_tool_usage GROUP BY custom_tool_id HAVING count(*) > ?`, keep), storage.RowTo[uuid.UUID])
		return err
	})
	if err != nil {
		return 0, err
	}
	var total int64
	for _, id := range full {
		n, err := s.pruneLoop(ctx, `DELETE FROM custom_tool_usage WHERE id IN (SELECT id FROM custom_tool_usage WHERE custom_tool_id = ?
			AND timestamp < (SELECT timestamp FROM custom_tool_usage WHERE custom_tool_id = ? ORDER BY timestamp DESC LIMIT 1 OFFSET ?)
			ORDER BY timestamp LIMIT ?)`, id, id, keep-1, pruneBatch)
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// Recover turns runs that were going on when the app stopped into failed ones, one row each. Run calls it once; calling it while runs of this process go on leaves those
// alone.
func (s *Service) Recover(ctx context.Context) error {
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		rows, err := tx.Query(`SELECT id, user_id, custom_tool_id, started_at FROM custom_tool_runs ORDER BY started_at`)
		if err != nil {
			return err
		}
		type left struct {
			id, user, tool uuid.UUID
			at             time.Time
		}
		var list []left
		for rows.Next() {
			var l left
			if err := rows.Scan(&l.id, &l.user, &l.tool, storage.Time(&l.at)); err != nil {
				rows.Close()
				return err
			}
			list = append(list, l)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return err
		}
		for _, l := range list {
			if s.isRunning(l.id) {
				continue
			}
			if _, err := tx.Exec(`INSERT INTO custom_tool_usage (id, custom_tool_id, user_id, input_params, status, error_class, error_message,
				execution_time_ms, version, definition_hash, caller, parent_id, timestamp, created_at, updated_at)
				SELECT id, custom_tool_id, user_id, input_params, 'failure', 'interrupted', ?, 0, version, definition_hash, caller, parent_id, ?, ?, ?
				FROM custom_tool_runs WHERE id = ?`, stoppedText, l.at, tx.Now, tx.Now, l.id); err != nil {
				return err
			}
			if _, err := tx.Exec(`DELETE FROM custom_tool_runs WHERE id = ?`, l.id); err != nil {
				return err
			}
			if _, err := tx.Exec(`UPDATE custom_tools SET usage_count = usage_count + 1, last_used = max(coalesce(last_used, 0), ?) WHERE id = ?`, l.at, l.tool); err != nil {
				return err
			}
		}
		return s.recoverSkills(tx)
	})
}

// recoverSkills closes the rows of skills' runs that nobody will complete.
func (s *Service) recoverSkills(tx *storage.Tx) error {
	rows, err := tx.Query(`SELECT id FROM skill_executions WHERE status = 'running'`)
	if err != nil {
		return err
	}
	defer rows.Close()
	var left []uuid.UUID
	for rows.Next() {
		var id uuid.UUID
		if err := rows.Scan(&id); err != nil {
			return err
		}
		if !s.isRunning(id) {
			left = append(left, id)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, id := range left {
		if _, err := tx.Exec(`UPDATE skill_executions SET status = 'failure', error_class = 'interrupted', error_message = ?, updated_at = ? WHERE id = ?`,
			stoppedText, tx.Now, id); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) isRunning(id uuid.UUID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.running[id]
	return ok
}
