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
	"helix/backend/jcs"
	"helix/backend/skills/definition"
	"helix/backend/storage"
)

// errNoSkill returns the same error for an unknown skill, a deleted one and a private one of another user.
func errNoSkill() error { return fault.NotFoundf("Skill not found.") }

// row is a stored skill.
type row struct {
	id, user    uuid.UUID // user is nil if the skill is a public one of another user
	name        string
	description string
	version     string
	tags        []string
	icon        string
	enabled     bool
	visibility  string
	body        *definition.Body
	hash        string
	head        uuid.UUID // the current version; nil for a skill of another user
	source      *uuid.UUID
	count       int64
	last        *time.Time
	created     time.Time
	updated     time.Time
	deleted     *time.Time
	lastStatus  Status
	lastRun     *uuid.UUID
}

const rowColumns = `id, user_id, name, description, version, tags, icon, is_enabled, visibility, steps, input_schema, output_mapping, notification,
	overall_timeout_ms, definition_hash, head_version_id, clone_source_id, execution_count, last_executed, created_at, updated_at, deleted_at`

// publicColumns are the same columns in the view that hides the owner of the skill.
const publicColumns = `id, NULL, name, description, version, tags, icon, 1, 'public', steps, input_schema, output_mapping, notification,
	overall_timeout_ms, definition_hash, NULL, NULL, execution_count, NULL, created_at, updated_at, NULL`

func scanRow(from storage.Row) (*row, error) {
	r := &row{tags: []string{}}
	var steps string
	var schema, mapping, notification sql.NullString
	var timeout sql.NullInt64
	var hash []byte
	var user, head, source uuid.NullUUID
	err := from.Scan(&r.id, &user, &r.name, &r.description, &r.version, storage.JSON(&r.tags), &r.icon, &r.enabled, &r.visibility, &steps, &schema,
		&mapping, &notification, &timeout, &hash, &head, &source, &r.count, storage.TimePtr(&r.last), storage.Time(&r.created),
		storage.Time(&r.updated), storage.TimePtr(&r.deleted))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoSkill()
	}
	if err != nil {
		return nil, err
	}
	r.user, r.head, r.hash = user.UUID, head.UUID, hex.EncodeToString(hash)
	if source.Valid {
		r.source = &source.UUID
	}
	text := map[string]json.RawMessage{"steps": json.RawMessage(steps)}
	for k, v := range map[string]sql.NullString{"inputSchema": schema, "outputMapping": mapping, "notification": notification} {
		if v.Valid {
			text[k] = json.RawMessage(v.String)
		}
	}
	whole, err := jcs.Marshal(text)
	if err != nil {
		return nil, err
	}
	if r.body, err = definition.Parse(whole); err != nil {
		return nil, err
	}
	r.body.OverallTimeoutMs = timeout.Int64
	return r, nil
}

// ownSkill loads a skill of the caller that is not deleted.
func ownSkill(tx *storage.Tx, id uuid.UUID) (*row, error) {
	return scanRow(tx.QueryRow(`SELECT `+rowColumns+` FROM composite_skills WHERE id = ? AND user_id = ? AND deleted_at IS NULL`,
		id, identity.UserID(tx.Context())))
}

// visibleSkill loads a skill of the caller, or a public one.
func visibleSkill(tx *storage.Tx, id uuid.UUID) (*row, error) {
	r, err := ownSkill(tx, id)
	if !fault.Is(err, fault.NotFound) {
		return r, err
	}
	return scanRow(tx.QueryRow(`SELECT `+publicColumns+` FROM public_skills WHERE id = ?`, id))
}

// withLastRun adds the status of the skill's last live run.
func withLastRun(tx *storage.Tx, r *row) error {
	if r.user == uuid.Nil {
		return nil
	}
	var id uuid.UUID
	err := tx.QueryRow(`SELECT id, status FROM composite_skill_executions WHERE composite_skill_id = ? AND user_id = ? AND mode = 'live'
		ORDER BY created_at DESC, id DESC LIMIT 1`, r.id, r.user).Scan(&id, &r.lastStatus)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	r.lastRun = &id
	return err
}

// insert inserts a new skill with its first version.
func (r *row) insert(tx *storage.Tx, note, origin string) error {
	c, err := r.columns()
	if err != nil {
		return err
	}
	r.created, r.updated, r.head = tx.Now, tx.Now, storage.NewID()
	_, err = tx.Exec(`INSERT INTO composite_skills (id, user_id, name, description, version, tags, icon, is_enabled, visibility, steps, input_schema,
		output_mapping, notification, overall_timeout_ms, definition_hash, head_version_id, clone_source_id, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.id, r.user, r.name, r.description, r.version, c.tags, r.icon, r.enabled, r.visibility, c.steps, c.schema, c.mapping, c.notification,
		c.timeout, c.hash, r.head, r.source, tx.Now, tx.Now)
	if err != nil {
		return err
	}
	return r.insertVersion(tx, c, note, origin)
}

// update stores a changed skill; with fresh its definition becomes a new version.
func (r *row) update(tx *storage.Tx, fresh bool, note, origin string) error {
	c, err := r.columns()
	if err != nil {
		return err
	}
	r.updated = tx.Now
	if fresh {
		r.head = storage.NewID()
	}
	_, err = tx.Exec(`UPDATE composite_skills SET name = ?, description = ?, version = ?, tags = ?, icon = ?, is_enabled = ?, visibility = ?, steps = ?,
		input_schema = ?, output_mapping = ?, notification = ?, overall_timeout_ms = ?, definition_hash = ?, head_version_id = ?, updated_at = ?
		WHERE id = ? AND user_id = ?`,
		r.name, r.description, r.version, c.tags, r.icon, r.enabled, r.visibility, c.steps, c.schema, c.mapping, c.notification, c.timeout,
		c.hash, r.head, tx.Now, r.id, r.user)
	if err != nil || !fresh {
		return err
	}
	return r.insertVersion(tx, c, note, origin)
}

func (r *row) insertVersion(tx *storage.Tx, c *columns, note, origin string) error {
	_, err := tx.Exec(`INSERT INTO composite_skill_versions (id, composite_skill_id, user_id, version, body, definition_hash, note, origin, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, r.head, r.id, r.user, r.version, c.body, c.hash, note, origin, tx.Now, tx.Now)
	return err
}

// columns holds the fields of a row in their stored form; nil is NULL.
type columns struct {
	tags, steps, body             json.RawMessage
	schema, mapping, notification any
	timeout                       any
	hash                          []byte
}

func (r *row) columns() (*columns, error) {
	c := &columns{}
	var err error
	if c.body, err = r.body.Text(); err != nil {
		return nil, err
	}
	var parts struct {
		Steps        json.RawMessage `json:"steps"`
		Mapping      json.RawMessage `json:"outputMapping"`
		Notification json.RawMessage `json:"notification"`
		Schema       json.RawMessage `json:"inputSchema"`
	}
	if err := json.Unmarshal(c.body, &parts); err != nil {
		return nil, err
	}
	c.steps = parts.Steps
	for dst, v := range map[*any]json.RawMessage{&c.schema: parts.Schema, &c.mapping: parts.Mapping, &c.notification: parts.Notification} {
		if v != nil {
			*dst = v
		}
	}
	if r.body.OverallTimeoutMs > 0 {
		c.timeout = r.body.OverallTimeoutMs
	}
	if r.tags == nil {
		r.tags = []string{}
	}
	if c.tags, err = json.Marshal(r.tags); err != nil {
		return nil, err
	}
	if r.hash, err = r.body.Hash(); err != nil {
		return nil, err
	}
	c.hash, err = hex.DecodeString(r.hash)
	return c, err
}

// meta returns a skill with its definition.
func (r *row) meta(valid bool) Meta {
	m := r.summary(valid)
	m.Steps, m.InputSchema = r.body.Steps, r.body.InputSchema
	if r.body.OutputMapping.Set {
		m.OutputMapping, _ = json.Marshal(r.body.OutputMapping)
	}
	if r.body.Notification != nil {
		m.Notification, _ = json.Marshal(r.body.Notification)
	}
	return m
}

// summary returns a skill without its definition.
func (r *row) summary(valid bool) Meta {
	return Meta{
		SkillID: r.id, Name: r.name, Description: r.description, Version: r.version, VersionID: r.head, DefinitionHash: r.hash, Tags: r.tags,
		Icon: r.icon, IsEnabled: r.enabled, Valid: valid, Visibility: r.visibility, Mine: r.user != uuid.Nil, Steps: []definition.Step{},
		OverallTimeoutMs: r.body.OverallTimeout().Milliseconds(), StepCount: r.body.Count(), ExecutionCount: r.count, LastExecuted: r.last,
		LastStatus: r.lastStatus, LastExecutionID: r.lastRun, CloneSourceID: r.source, CreatedAt: r.created, UpdatedAt: r.updated, DeletedAt: r.deleted,
	}
}

// skill returns the definition with the fields around it.
func (r *row) skill() *definition.Skill {
	enabled := r.enabled
	return &definition.Skill{
		SkillID: r.id.String(), Name: r.name, Description: r.description, Version: r.version, Tags: r.tags, Icon: r.icon, IsEnabled: &enabled,
		Visibility: r.visibility, Body: *r.body,
	}
}
