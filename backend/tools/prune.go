package tools

import (
	"context"
	"time"

	"github.com/google/uuid"

	"helix/backend/storage"
)

const (
	replyAge    = 24 * time.Hour
	stoppedText = "app stopped"
)

// Retention returns the retention policies for the histories of tools.
func Retention() []storage.Retention {
	return []storage.Retention{
		{Table: "custom_tool_usage", Time: "timestamp", Payloads: []string{"input_params", "output_result"}},
		{Table: "custom_tool_replies", Time: "created_at", Key: "user_id, key", Age: replyAge},
		{Table: "skill_executions", Time: "timestamp", Payloads: []string{"input_params", "output_result"}, Only: "status <> 'running'"},
	}
}

// Recover marks runs that were active when the app stopped as failed, one row each. Run calls it
// once; runs of this process are not affected.
func (s *Service) Recover(ctx context.Context) error {
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		type left struct {
			id, tool uuid.UUID
			at       time.Time
		}
		list, err := storage.Collect(tx.Select(`SELECT id, custom_tool_id, started_at FROM custom_tool_runs ORDER BY started_at`), func(row storage.Row) (l left, err error) {
			err = row.Scan(&l.id, &l.tool, storage.Time(&l.at))
			return l, err
		})
		if err != nil {
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

// recoverSkills completes the rows of runs of WASM tools that were interrupted.
func (s *Service) recoverSkills(tx *storage.Tx) error {
	left, err := storage.Collect(tx.Select(`SELECT id FROM skill_executions WHERE status = 'running'`), storage.RowTo[uuid.UUID])
	if err != nil {
		return err
	}
	for _, id := range left {
		if s.isRunning(id) {
			continue
		}
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
