package skills

import (
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/skills/machine"
	"helix/backend/storage"
)

// The modes of a run.
const (
	modeLive = "live"
	modeDry  = "dry"
)

// runRow is the stored part of a run without its events.
type runRow struct {
	id, user      uuid.UUID
	skill         *uuid.UUID // nil: the definition came with the call
	version       *uuid.UUID // nil: body holds the definition
	hash          string
	body          json.RawMessage // a skill in canonical form
	mode, trigger string
	input         json.RawMessage
	status        Status
	reason        string // why it waits
	err           *machine.Failure
	output        json.RawMessage
	tookMs        float64
	sum           machine.Summary
	parent        *uuid.UUID
	parentPath    string
	depth         int
	restarted     *uuid.UUID
	request       string
	device        uuid.UUID
	pinned        bool
	bytes         int64
	started       *time.Time
	finished      *time.Time
	deadline      *time.Time
	wake          *time.Time
	cancelAt      *time.Time
	quarantined   *time.Time
	interrupted   bool // the process died during the run
	created       time.Time
	caller        json.RawMessage // see caller; nil: the user's own run

	name, label string // of the skill and of its version, if known
}

// errNoRun returns the same error for an unknown run and for that of another user.
func errNoRun() error { return fault.NotFoundf("Run not found.") }

const runColumns = `x.id, x.user_id, x.composite_skill_id, x.version_id, x.definition_hash, x.body, x.mode, x.trigger, x.input_params, x.status,
	CASE WHEN i.quarantined_at IS NULL THEN x.wait_reason ELSE 'quarantined' END, i.quarantined_at, i.times IS NOT NULL, x.error_kind, x.error_message,
	CASE x.error_kind WHEN 'denied' THEN (SELECT json_extract(e.payload, '$.error.approvalId') FROM composite_skill_events e WHERE e.execution_id = x.id AND e.type = 'run.finished' ORDER BY e.seq DESC LIMIT 1) END,
	x.final_output, x.execution_time_ms, x.steps_completed, x.steps_failed, x.steps_skipped,
	x.total_steps, x.parent_execution_id, x.parent_step_path, x.depth, x.restarted_from, x.request_id, x.device_id, x.pinned, x.bytes, x.started_at,
	x.finished_at, x.deadline_at, x.wake_at, x.cancel_requested_at, x.created_at, x.caller, coalesce(c.name, json_extract(x.body, '$.name'), ''),
	coalesce(v.version, json_extract(x.body, '$.version'), '')`

const runTables = ` FROM composite_skill_executions x
	LEFT JOIN composite_skill_interruptions i ON i.execution_id = x.id
	LEFT JOIN composite_skills c ON c.id = x.composite_skill_id AND c.user_id = x.user_id LEFT JOIN composite_skill_versions v ON v.id = x.version_id `

func scanRun(from storage.Row) (*runRow, error) {
	r := &runRow{}
	var skill, version, parent, restarted uuid.NullUUID
	var body, reason, kind, message, approval, output, path, request, caller sql.NullString
	var hash []byte
	var input string
	err := from.Scan(&r.id, &r.user, &skill, &version, &hash, &body, &r.mode, &r.trigger, &input, &r.status, &reason, storage.TimePtr(&r.quarantined), &r.interrupted, &kind, &message, &approval, &output,
		&r.tookMs, &r.sum.Completed, &r.sum.Failed, &r.sum.Skipped, &r.sum.Total, &parent, &path, &r.depth, &restarted, &request, &r.device,
		&r.pinned, &r.bytes, storage.TimePtr(&r.started), storage.TimePtr(&r.finished), storage.TimePtr(&r.deadline), storage.TimePtr(&r.wake),
		storage.TimePtr(&r.cancelAt), storage.Time(&r.created), &caller, &r.name, &r.label)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoRun()
	}
	if err != nil {
		return nil, err
	}
	for from, to := range map[*uuid.NullUUID]**uuid.UUID{&skill: &r.skill, &version: &r.version, &parent: &r.parent, &restarted: &r.restarted} {
		if from.Valid {
			*to = &from.UUID
		}
	}
	r.hash, r.input, r.reason, r.parentPath, r.request = hex.EncodeToString(hash), json.RawMessage(input), reason.String, path.String, request.String
	if body.Valid {
		r.body = json.RawMessage(body.String)
	}
	if caller.Valid {
		r.caller = json.RawMessage(caller.String)
	}
	if output.Valid {
		r.output = json.RawMessage(output.String)
	}
	if kind.Valid {
		r.err = &machine.Failure{Kind: kind.String, Message: message.String}
		if id, err := uuid.Parse(approval.String); err == nil {
			r.err.ApprovalID = &id
		}
	}
	return r, nil
}

// ownRun loads a run of the caller.
func ownRun(tx *storage.Tx, id uuid.UUID) (*runRow, error) {
	return scanRun(tx.QueryRow(`SELECT `+runColumns+runTables+`WHERE x.id = ? AND x.user_id = ? AND x.deleted_at IS NULL`, id, identity.UserID(tx.Context())))
}

// anyRun loads a run of any user.
func anyRun(tx *storage.Tx, id uuid.UUID) (*runRow, error) {
	return scanRun(tx.QueryRow(`SELECT `+runColumns+runTables+`WHERE x.id = ?`, id))
}

// insert inserts the row of a new run.
func (r *runRow) insert(tx *storage.Tx) error {
	hash, err := hex.DecodeString(r.hash)
	if err != nil {
		return err
	}
	if r.request != "" { // a previous call with this id is too old to be the same request
		if _, err := tx.Exec(`UPDATE composite_skill_executions SET request_id = NULL WHERE user_id = ? AND request_id = ? AND created_at < ?`,
			r.user, r.request, r.created.Add(-requestAge)); err != nil {
			return err
		}
	}
	_, err = tx.Exec(`INSERT INTO composite_skill_executions (id, composite_skill_id, user_id, version_id, definition_hash, body, mode, trigger,
		input_params, status, total_steps, parent_execution_id, parent_step_path, depth, restarted_from, request_id, device_id, started_at, deadline_at,
		wake_at, wait_reason, bytes, caller, created_at, updated_at) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
		r.id, r.skill, r.user, r.version, hash, r.body, r.mode, r.trigger, r.input, string(r.status), r.sum.Total, r.parent, storage.NullText(r.parentPath),
		r.depth, r.restarted, storage.NullText(r.request), r.device, r.started, r.deadline, r.wake, storage.NullText(r.reason), r.bytes, storage.NullText(string(r.caller)), r.created, tx.Now)
	return err
}

// update stores the status of an unfinished run.
func (r *runRow) update(tx *storage.Tx) error {
	res, err := tx.Exec(`UPDATE composite_skill_executions SET status = ?, wait_reason = ?, started_at = ?, deadline_at = ?, wake_at = ?, updated_at = ?
		WHERE id = ? AND status IN ('queued', 'running', 'waiting')`,
		string(r.status), storage.NullText(r.reason), r.started, r.deadline, r.wake, tx.Now, r.id)
	return oneRow(res, err)
}

// errGone means that a run was deleted from the database while it was running.
var errGone = errors.New("the run is not there any more")

func oneRow(res sql.Result, err error) error {
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err == nil && n == 0 {
		err = errGone
	}
	return err
}
