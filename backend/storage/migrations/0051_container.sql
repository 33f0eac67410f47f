-- +goose Up

-- Tools that run a program of an image in a container. Images and approvals belong to this device.
CREATE TABLE container_tools (
    id              BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    name            TEXT NOT NULL CHECK (name GLOB '[a-z]*'),
    status          TEXT NOT NULL CHECK (status IN ('pending_approval', 'active', 'disabled', 'revoked')),
    definition      TEXT NOT NULL CHECK (json_valid(definition)),
    definition_hash BLOB NOT NULL CHECK (length(definition_hash) = 32),
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    approved_at     INTEGER,
    CHECK (status NOT IN ('active', 'disabled') OR approved_at IS NOT NULL)
) STRICT;
CREATE UNIQUE INDEX container_tools_name ON container_tools (user_id, name) WHERE status <> 'revoked';

CREATE TABLE container_runs (
    id              BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    tool_id         BLOB NOT NULL CHECK (length(tool_id) = 16),
    input           TEXT NOT NULL CHECK (json_valid(input)), -- without secrets
    output          TEXT NOT NULL DEFAULT '', -- the beginning
    log             TEXT NOT NULL DEFAULT '', -- the end of standard error
    status          TEXT NOT NULL CHECK (status IN ('running', 'success', 'failure', 'timeout', 'cancelled')),
    error_class     TEXT NOT NULL DEFAULT '',
    error_message   TEXT NOT NULL DEFAULT '',
    exit_code       INTEGER,
    container_id    TEXT NOT NULL DEFAULT '',
    duration_ms     INTEGER,
    definition_hash BLOB NOT NULL CHECK (length(definition_hash) = 32),
    caller          TEXT NOT NULL, -- kind of the caller; '': the person
    run_id          BLOB CHECK (length(run_id) = 16),
    created_at      INTEGER NOT NULL
) STRICT;
CREATE INDEX container_runs_created ON container_runs (user_id, created_at DESC);
CREATE INDEX container_runs_tool ON container_runs (tool_id, created_at DESC);
CREATE INDEX container_runs_running ON container_runs (status) WHERE status = 'running';
