-- +goose Up

-- One row a schedule. is_enabled is 0 whenever status is not active, so that turning off wins
-- between devices. cadence, target_input, retry: JSON.
CREATE TABLE schedules (
    id                 BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id            BLOB NOT NULL CHECK (length(user_id) = 16),
    name               TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
    description        TEXT NOT NULL DEFAULT '' CHECK (length(description) <= 1000),
    status             TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'paused', 'completed', 'disabled')),
    disabled_reason    TEXT CHECK (disabled_reason IS NULL OR disabled_reason IN ('failures', 'missed', 'target_gone', 'invalid')),
    system_key         TEXT,
    target_kind        TEXT NOT NULL,
    target_id          BLOB CHECK (target_id IS NULL OR length(target_id) = 16),
    target_name        TEXT NOT NULL DEFAULT '',
    target_version     TEXT NOT NULL DEFAULT '',
    target_input       TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(target_input)),
    is_enabled         INTEGER NOT NULL DEFAULT 1 CHECK (is_enabled IN (0, 1)),
    cadence            TEXT NOT NULL CHECK (json_valid(cadence)),
    timezone           TEXT NOT NULL DEFAULT 'UTC',
    os_zone            INTEGER NOT NULL DEFAULT 0 CHECK (os_zone IN (0, 1)),
    starts_at          INTEGER,
    ends_at            INTEGER,
    max_runs           INTEGER CHECK (max_runs IS NULL OR max_runs >= 1),
    missed_policy      TEXT NOT NULL DEFAULT 'once' CHECK (missed_policy IN ('skip', 'once', 'all')),
    grace_secs         INTEGER NOT NULL DEFAULT 86400 CHECK (grace_secs >= 0),
    overlap            TEXT NOT NULL DEFAULT 'skip' CHECK (overlap IN ('skip', 'queue', 'cancelPrevious')),
    jitter_secs        INTEGER NOT NULL DEFAULT 0 CHECK (jitter_secs >= 0),
    retry              TEXT NOT NULL DEFAULT '{"max":2,"baseSecs":60,"capSecs":3600}' CHECK (json_valid(retry)),
    auto_disable_after INTEGER NOT NULL DEFAULT 5 CHECK (auto_disable_after >= 0),
    notify_after       INTEGER NOT NULL DEFAULT 3 CHECK (notify_after >= 0),
    notification       TEXT NOT NULL DEFAULT 'conditional' CHECK (notification IN ('always', 'conditional', 'never')),
    notify_when        TEXT,
    max_run_ms         INTEGER NOT NULL DEFAULT 1800000 CHECK (max_run_ms >= 1),
    home_device_id     BLOB CHECK (home_device_id IS NULL OR length(home_device_id) = 16),
    takeover           INTEGER NOT NULL DEFAULT 0 CHECK (takeover IN (0, 1)),
    max_turns          INTEGER NOT NULL DEFAULT 10,
    max_cost_micros    INTEGER NOT NULL DEFAULT 500000,
    revision           INTEGER NOT NULL DEFAULT 1,
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    deleted_at         INTEGER,
    sync_meta          BLOB
) STRICT;
CREATE INDEX schedules_user ON schedules (user_id, created_at DESC) WHERE deleted_at IS NULL;
CREATE INDEX schedules_status ON schedules (status) WHERE deleted_at IS NULL;
CREATE INDEX schedules_target ON schedules (target_kind, target_id);
CREATE INDEX schedules_deleted ON schedules (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE UNIQUE INDEX schedules_system ON schedules (user_id, system_key) WHERE system_key IS NOT NULL;

-- What this device knows of a schedule's course. Never synced.
CREATE TABLE schedule_state (
    schedule_id          BLOB PRIMARY KEY REFERENCES schedules (id) ON DELETE CASCADE,
    user_id              BLOB NOT NULL CHECK (length(user_id) = 16),
    next_run_at          INTEGER,
    last_due_at          INTEGER,
    consecutive_failures INTEGER NOT NULL DEFAULT 0,
    run_count            INTEGER NOT NULL DEFAULT 0,
    tz_version           TEXT NOT NULL DEFAULT '',
    revision_seen        INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX schedule_state_next ON schedule_state (next_run_at) WHERE next_run_at IS NOT NULL;
CREATE INDEX schedule_state_user ON schedule_state (user_id);

-- Until when all of a user's schedules are paused on this device; until NULL: until resumed.
CREATE TABLE schedule_pause (
    user_id   BLOB PRIMARY KEY CHECK (length(user_id) = 16),
    paused_at INTEGER NOT NULL,
    until     INTEGER
) STRICT, WITHOUT ROWID;

-- One row a due time and attempt: it ran, or says why not.
CREATE TABLE schedule_runs (
    id             BLOB PRIMARY KEY CHECK (length(id) = 16),
    schedule_id    BLOB NOT NULL REFERENCES schedules (id) ON DELETE CASCADE,
    user_id        BLOB NOT NULL CHECK (length(user_id) = 16),
    due_at         INTEGER NOT NULL,
    revision       INTEGER NOT NULL DEFAULT 1,
    attempt        INTEGER NOT NULL DEFAULT 0,
    trigger        TEXT NOT NULL CHECK (trigger IN ('due', 'catchup', 'retry', 'manual')),
    status         TEXT NOT NULL CHECK (status IN ('queued', 'running', 'waiting', 'success', 'failed', 'cancelled', 'interrupted', 'missed', 'skipped')),
    reason         TEXT,
    target_kind    TEXT NOT NULL,
    target_run_id  BLOB CHECK (target_run_id IS NULL OR length(target_run_id) = 16),
    device_id      BLOB NOT NULL CHECK (length(device_id) = 16),
    lease_term     INTEGER,
    claimed_at     INTEGER,
    started_at     INTEGER,
    finished_at    INTEGER,
    retry_at       INTEGER,
    late_ms        INTEGER NOT NULL DEFAULT 0,
    output_summary TEXT,
    output         TEXT,
    error_kind     TEXT,
    error_message  TEXT,
    notified       INTEGER NOT NULL DEFAULT 0 CHECK (notified IN (0, 1)),
    turn_count     INTEGER NOT NULL DEFAULT 0,
    cost_micros    INTEGER NOT NULL DEFAULT 0,
    missed_count   INTEGER,
    missed_more    INTEGER,
    last_missed_at INTEGER,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    deleted_at     INTEGER,
    sync_meta      BLOB
) STRICT;
CREATE INDEX schedule_runs_retry ON schedule_runs (retry_at) WHERE retry_at IS NOT NULL;
CREATE UNIQUE INDEX schedule_runs_due ON schedule_runs (schedule_id, due_at, attempt) WHERE trigger <> 'manual';
CREATE INDEX schedule_runs_schedule ON schedule_runs (schedule_id, due_at DESC);
CREATE INDEX schedule_runs_user ON schedule_runs (user_id, created_at DESC, id DESC);
CREATE INDEX schedule_runs_open ON schedule_runs (status) WHERE status IN ('queued', 'running', 'waiting', 'interrupted');

-- Notices that no client has taken yet.
CREATE TABLE schedule_notices (
    id          BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id     BLOB NOT NULL CHECK (length(user_id) = 16),
    schedule_id BLOB NOT NULL REFERENCES schedules (id) ON DELETE CASCADE,
    run_id      BLOB CHECK (run_id IS NULL OR length(run_id) = 16),
    title       TEXT NOT NULL,
    body        TEXT NOT NULL DEFAULT '',
    level       TEXT NOT NULL DEFAULT 'info' CHECK (level IN ('info', 'success', 'warning', 'error')),
    created_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX schedule_notices_user ON schedule_notices (user_id, created_at);
