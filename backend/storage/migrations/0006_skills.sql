-- +goose Up

-- One row a composite skill. steps, input_schema, output_mapping, notification and
-- overall_timeout_ms are the definition, which definition_hash covers; NULL is absent.
CREATE TABLE composite_skills (
    id                 BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id            BLOB NOT NULL CHECK (length(user_id) = 16),
    name               TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
    description        TEXT NOT NULL DEFAULT '' CHECK (length(description) <= 2000),
    steps              TEXT NOT NULL CHECK (json_valid(steps)),
    version            TEXT NOT NULL DEFAULT '1.0.0',
    tags               TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(tags)),
    icon               TEXT NOT NULL DEFAULT '',
    execution_count    INTEGER NOT NULL DEFAULT 0,
    last_executed      INTEGER,
    is_enabled         INTEGER NOT NULL DEFAULT 1 CHECK (is_enabled IN (0, 1)),
    visibility         TEXT NOT NULL DEFAULT 'private' CHECK (visibility IN ('private', 'public')),
    input_schema       TEXT CHECK (input_schema IS NULL OR json_valid(input_schema)),
    output_mapping     TEXT CHECK (output_mapping IS NULL OR json_valid(output_mapping)),
    notification       TEXT CHECK (notification IS NULL OR json_valid(notification)),
    overall_timeout_ms INTEGER CHECK (overall_timeout_ms IS NULL OR overall_timeout_ms BETWEEN 1 AND 86400000),
    definition_hash    BLOB NOT NULL CHECK (length(definition_hash) = 32),
    head_version_id    BLOB CHECK (head_version_id IS NULL OR length(head_version_id) = 16),
    clone_source_id    BLOB REFERENCES composite_skills (id) ON DELETE SET NULL,
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    deleted_at         INTEGER,
    sync_meta          BLOB
) STRICT;
CREATE UNIQUE INDEX composite_skills_name ON composite_skills (user_id, lower(name)) WHERE deleted_at IS NULL;
CREATE INDEX composite_skills_user ON composite_skills (user_id, created_at DESC) WHERE deleted_at IS NULL;
CREATE INDEX composite_skills_enabled ON composite_skills (user_id, is_enabled) WHERE deleted_at IS NULL;
CREATE INDEX composite_skills_public ON composite_skills (execution_count DESC, id) WHERE visibility = 'public' AND deleted_at IS NULL;
CREATE INDEX composite_skills_source ON composite_skills (clone_source_id) WHERE clone_source_id IS NOT NULL;

-- What anybody on this device may read of a skill that its owner made public.
CREATE VIEW public_skills AS
SELECT id, name, description, steps, version, tags, icon, execution_count, input_schema, output_mapping, notification, overall_timeout_ms,
       definition_hash, created_at, updated_at
FROM composite_skills WHERE visibility = 'public' AND is_enabled = 1 AND deleted_at IS NULL;

-- Every definition that a skill ever had. Append only.
CREATE TABLE composite_skill_versions (
    id                 BLOB PRIMARY KEY CHECK (length(id) = 16),
    composite_skill_id BLOB NOT NULL REFERENCES composite_skills (id) ON DELETE CASCADE,
    user_id            BLOB NOT NULL CHECK (length(user_id) = 16),
    version            TEXT NOT NULL,
    body               TEXT NOT NULL CHECK (json_valid(body)),
    definition_hash    BLOB NOT NULL CHECK (length(definition_hash) = 32),
    note               TEXT NOT NULL DEFAULT '',
    origin             TEXT NOT NULL DEFAULT 'edit' CHECK (origin IN ('edit', 'import', 'rollback', 'sync', 'agent')),
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    deleted_at         INTEGER,
    sync_meta          BLOB
) STRICT;
CREATE UNIQUE INDEX composite_skill_versions_label ON composite_skill_versions (composite_skill_id, version);
CREATE INDEX composite_skill_versions_order ON composite_skill_versions (composite_skill_id, created_at DESC);
CREATE INDEX composite_skill_versions_user ON composite_skill_versions (user_id);
-- +goose StatementBegin
CREATE TRIGGER composite_skill_versions_final BEFORE UPDATE ON composite_skill_versions
WHEN (OLD.composite_skill_id, OLD.user_id, OLD.version, OLD.body, OLD.definition_hash, OLD.note, OLD.origin, OLD.created_at) IS NOT
    (NEW.composite_skill_id, NEW.user_id, NEW.version, NEW.body, NEW.definition_hash, NEW.note, NEW.origin, NEW.created_at)
BEGIN
    SELECT RAISE(ABORT, 'a version of a skill cannot change');
END;
-- +goose StatementEnd

-- One row a run. It is written before the run's first effect. A skill may leave and its runs
-- stay until they are pruned.
CREATE TABLE composite_skill_executions (
    id                  BLOB PRIMARY KEY CHECK (length(id) = 16),
    composite_skill_id  BLOB REFERENCES composite_skills (id) ON DELETE CASCADE,
    user_id             BLOB NOT NULL CHECK (length(user_id) = 16),
    version_id          BLOB CHECK (version_id IS NULL OR length(version_id) = 16),
    definition_hash     BLOB NOT NULL CHECK (length(definition_hash) = 32),
    body                TEXT CHECK (body IS NULL OR json_valid(body)),
    mode                TEXT NOT NULL DEFAULT 'live' CHECK (mode IN ('live', 'dry', 'replay')),
    trigger             TEXT NOT NULL DEFAULT 'user' CHECK (trigger IN ('user', 'rpc', 'cli', 'voice', 'schedule', 'agent', 'skill')),
    input_params        TEXT NOT NULL CHECK (json_valid(input_params)),
    steps_executed      TEXT CHECK (steps_executed IS NULL OR json_valid(steps_executed)),
    final_output        TEXT CHECK (final_output IS NULL OR json_valid(final_output)),
    status              TEXT NOT NULL DEFAULT 'completed' CHECK (status IN ('queued', 'running', 'waiting', 'completed', 'failed', 'cancelled')),
    wait_reason         TEXT CHECK (wait_reason IS NULL OR wait_reason IN ('approval', 'unknown_outcome', 'permission', 'timer')),
    error_kind          TEXT,
    error_message       TEXT,
    execution_time_ms   REAL NOT NULL DEFAULT 0,
    steps_completed     INTEGER NOT NULL DEFAULT 0,
    steps_failed        INTEGER NOT NULL DEFAULT 0,
    steps_skipped       INTEGER NOT NULL DEFAULT 0,
    total_steps         INTEGER NOT NULL DEFAULT 0,
    parent_execution_id BLOB CHECK (parent_execution_id IS NULL OR length(parent_execution_id) = 16),
    parent_step_path    TEXT,
    depth               INTEGER NOT NULL DEFAULT 0 CHECK (depth BETWEEN 0 AND 4),
    restarted_from      BLOB CHECK (restarted_from IS NULL OR length(restarted_from) = 16),
    request_id          TEXT,
    device_id           BLOB NOT NULL CHECK (length(device_id) = 16),
    pinned              INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)),
    bytes               INTEGER NOT NULL DEFAULT 0,
    started_at          INTEGER,
    finished_at         INTEGER,
    deadline_at         INTEGER,
    wake_at             INTEGER,
    cancel_requested_at INTEGER,
    created_at          INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL,
    deleted_at          INTEGER,
    sync_meta           BLOB
) STRICT;
CREATE INDEX composite_skill_executions_skill ON composite_skill_executions (composite_skill_id, created_at DESC, id DESC);
CREATE INDEX composite_skill_executions_user ON composite_skill_executions (user_id, created_at DESC, id DESC);
CREATE INDEX composite_skill_executions_open ON composite_skill_executions (status, wake_at) WHERE status IN ('queued', 'running', 'waiting');
CREATE INDEX composite_skill_executions_parent ON composite_skill_executions (parent_execution_id) WHERE parent_execution_id IS NOT NULL;
CREATE UNIQUE INDEX composite_skill_executions_request ON composite_skill_executions (user_id, request_id) WHERE request_id IS NOT NULL;

-- A run that has ended is final: only old payloads may be cut, and it can be pinned.
-- +goose StatementBegin
CREATE TRIGGER composite_skill_executions_final BEFORE UPDATE ON composite_skill_executions
WHEN OLD.status IN ('completed', 'failed', 'cancelled') AND
    (OLD.user_id, OLD.version_id, OLD.definition_hash, OLD.mode, OLD.trigger, OLD.status, OLD.error_kind, OLD.error_message, OLD.steps_completed,
     OLD.total_steps, OLD.parent_execution_id, OLD.restarted_from, OLD.device_id, OLD.started_at, OLD.finished_at) IS NOT
    (NEW.user_id, NEW.version_id, NEW.definition_hash, NEW.mode, NEW.trigger, NEW.status, NEW.error_kind, NEW.error_message, NEW.steps_completed,
     NEW.total_steps, NEW.parent_execution_id, NEW.restarted_from, NEW.device_id, NEW.started_at, NEW.finished_at)
BEGIN
    SELECT RAISE(ABORT, 'a finished execution cannot change');
END;
-- +goose StatementEnd

-- One row a step, or a step in one item of a map. They are written when the run ends, from
-- its events, so that a run and its steps reach other devices together.
CREATE TABLE composite_skill_steps (
    id            BLOB PRIMARY KEY CHECK (length(id) = 16),
    execution_id  BLOB NOT NULL REFERENCES composite_skill_executions (id) ON DELETE CASCADE,
    user_id       BLOB NOT NULL CHECK (length(user_id) = 16),
    ordinal       INTEGER NOT NULL,
    step_path     TEXT NOT NULL,
    iteration     TEXT NOT NULL DEFAULT '',
    tool_type     TEXT NOT NULL,
    tool_name     TEXT NOT NULL DEFAULT '',
    status        TEXT NOT NULL CHECK (status IN ('running', 'waiting', 'completed', 'failed', 'skipped', 'cancelled', 'unmocked')),
    reason        TEXT,
    attempts      INTEGER NOT NULL DEFAULT 0,
    input_hash    TEXT,
    output        TEXT CHECK (output IS NULL OR json_valid(output)),
    output_blob   TEXT,
    error_kind    TEXT,
    error_message TEXT,
    outcome       TEXT NOT NULL DEFAULT 'known' CHECK (outcome IN ('known', 'unknown')),
    took_ms       REAL NOT NULL DEFAULT 0,
    started_at    INTEGER,
    finished_at   INTEGER,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    deleted_at    INTEGER,
    sync_meta     BLOB
) STRICT;
CREATE UNIQUE INDEX composite_skill_steps_place ON composite_skill_steps (execution_id, step_path, iteration);
CREATE INDEX composite_skill_steps_user ON composite_skill_steps (user_id);

-- The journal of a run: what it decided and what it was told, in order. Nothing of it is
-- ever changed, and it stays on this device.
CREATE TABLE composite_skill_events (
    execution_id BLOB NOT NULL REFERENCES composite_skill_executions (id) ON DELETE CASCADE,
    seq          INTEGER NOT NULL,
    type         TEXT NOT NULL,
    step_path    TEXT NOT NULL DEFAULT '',
    iteration    TEXT NOT NULL DEFAULT '',
    attempt      INTEGER NOT NULL DEFAULT 0,
    payload      TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(payload)),
    at           INTEGER NOT NULL,
    PRIMARY KEY (execution_id, seq)
) STRICT, WITHOUT ROWID;
-- +goose StatementBegin
CREATE TRIGGER composite_skill_events_final BEFORE UPDATE ON composite_skill_events
BEGIN
    SELECT RAISE(ABORT, 'the journal of a run cannot change');
END;
-- +goose StatementEnd
