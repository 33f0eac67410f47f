package scheduler

import (
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"

	"helix/backend/duration"
	"helix/backend/fault"
	"helix/backend/storage"
)

// runRow is one row of schedule_runs.
type runRow struct {
	Run
	user     uuid.UUID
	revision int64
	term     int64
	maxRun   time.Duration // time limit of the schedule
	system   bool          // of a system schedule, whose runs are not synced
}

const runColumns = `r.id, r.user_id, r.schedule_id, s.name, r.due_at, r.revision, r.attempt, r.trigger, r.status, coalesce(r.reason, ''), r.target_kind, r.target_run_id,
	r.device_id, coalesce(r.lease_term, 0), r.claimed_at, r.started_at, r.finished_at, r.retry_at, r.late_ms, coalesce(r.output_summary, ''),
	coalesce(r.error_kind, ''), coalesce(r.error_message, ''), r.notified, r.turn_count, r.cost_micros, r.missed_count, coalesce(r.missed_more, 0), r.last_missed_at,
	s.max_run_ms, s.system_key IS NOT NULL`

const runTables = ` FROM schedule_runs r JOIN schedules s ON s.id = r.schedule_id `

func scanRun(row storage.Row) (runRow, error) {
	var r runRow
	var e RunError
	var ms int64
	err := row.Scan(&r.RunID, &r.user, &r.ScheduleID, &r.ScheduleName, storage.Time(&r.DueAt), &r.revision, &r.Attempt, &r.Trigger, &r.Status, &r.Reason, &r.TargetKind, &r.TargetRunID,
		&r.DeviceID, &r.term, storage.TimePtr(&r.ClaimedAt), storage.TimePtr(&r.StartedAt), storage.TimePtr(&r.FinishedAt), storage.TimePtr(&r.RetryAt), &r.LateMs, &r.OutputSummary,
		&e.Kind, &e.Message, &r.Notified, &r.TurnCount, &r.CostMicros, &r.MissedCount, &r.MissedMore, storage.TimePtr(&r.LastMissedAt), &ms, &r.system)
	if e.Kind != "" {
		r.Error = &e
	}
	r.maxRun = duration.Of(ms, time.Millisecond)
	return r, err
}

func queryRuns(tx *storage.Tx, where string, args ...any) ([]runRow, error) {
	return storage.Collect(tx.Select(`SELECT `+runColumns+runTables+where, args...), scanRun)
}

func loadRun(tx *storage.Tx, id uuid.UUID) (runRow, error) {
	r, err := scanRun(tx.QueryRow(`SELECT `+runColumns+runTables+`WHERE r.id = ?`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return r, fault.NotFoundf("Run not found.")
	}
	return r, err
}

// ownRun loads a run of the user.
func ownRun(tx *storage.Tx, user, id uuid.UUID) (runRow, error) {
	r, err := loadRun(tx, id)
	if err == nil && r.user != user {
		return runRow{}, fault.NotFoundf("Run not found.")
	}
	return r, err
}

// accounted reports whether there is a row for an attempt of a due time.
func accounted(tx *storage.Tx, schedule uuid.UUID, due time.Time, attempt int) (ok bool, err error) {
	err = tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM schedule_runs WHERE schedule_id = ? AND due_at = ? AND attempt = ? AND trigger <> 'manual')`, schedule, due, attempt).Scan(&ok)
	return ok, err
}

// open is the condition of runs that have not ended. Statements must repeat it in addition to
// narrower conditions, because SQLite uses the partial index only if its condition is repeated.
const open = `status IN ('queued', 'running', 'waiting', 'interrupted')`

// questionReasons lists the reasons of runs that wait until a person decides what became of them. Such a run is
// neither finished nor active: later times of its schedule do not wait for the answer.
var questionReasons = []string{"unknown_outcome", "quarantined"}

// atWork is the condition of open runs that later times of their schedule must wait for.
const atWork = open + ` AND NOT (status = 'waiting' AND coalesce(reason, '') IN ('unknown_outcome', 'quarantined'))`

// withCapture runs fn; if local is set, outside of the change log, because the rows are not synced.
func withCapture(tx *storage.Tx, local bool, fn func() error) error {
	if local {
		return tx.WithoutCapture(fn)
	}
	return fn()
}

// insertRun inserts a row. added is false if there is already a row for its due time and attempt.
func (s *Service) insertRun(tx *storage.Tx, r *runRow, now time.Time) (added bool, err error) {
	if r.RunID == uuid.Nil {
		r.RunID = storage.NewID()
	}
	r.DeviceID = s.device()
	var kind, msg any
	if r.Error != nil {
		kind, msg = r.Error.Kind, r.Error.Message
	}
	var more any
	if r.MissedCount != nil {
		more = r.MissedMore
	}
	var term any
	if r.term > 0 {
		term = r.term
	}
	err = withCapture(tx, r.system, func() error {
		res, err := tx.Exec(`INSERT INTO schedule_runs (id, schedule_id, user_id, due_at, revision, attempt, trigger, status, reason, target_kind, target_run_id, device_id,
			lease_term, claimed_at, started_at, finished_at, late_ms, error_kind, error_message, missed_count, missed_more, last_missed_at, created_at, updated_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			r.RunID, r.ScheduleID, r.user, r.DueAt, r.revision, r.Attempt, r.Trigger, r.Status, orNull(r.Reason), r.TargetKind, r.TargetRunID, r.DeviceID,
			term, r.ClaimedAt, r.StartedAt, r.FinishedAt, r.LateMs, kind, msg, r.MissedCount, more, r.LastMissedAt, now, now)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		added = n > 0
		return err
	})
	if added && r.term > 0 && !isOpen(r.Status) {
		s.reportToHub(tx, *r)
	}
	if added {
		s.runEvent(tx, r.user, r.RunID, r.ScheduleID, r.Status, now)
	}
	return added, err
}
