package scheduler

import (
	"github.com/google/uuid"

	"helix/backend/storage"
)

// LastFailures returns the target runs of the last failure of each schedule. The histories of the
// targets keep them, so that people can investigate the failure.
func LastFailures(tx *storage.Tx) ([]uuid.UUID, error) {
	return storage.Collect(tx.Select(`SELECT r.target_run_id FROM schedule_runs r WHERE r.status = 'failed' AND r.target_run_id IS NOT NULL
		AND r.due_at = (SELECT max(x.due_at) FROM schedule_runs x WHERE x.schedule_id = r.schedule_id AND x.status = 'failed')`), storage.RowTo[uuid.UUID])
}
