-- +goose Up

-- Tools from API descriptions. A definition is approved on this device, so its row stays here too.
CREATE TABLE tool_manifest (
    id                BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id           BLOB NOT NULL CHECK (length(user_id) = 16),
    name              TEXT NOT NULL CHECK (name GLOB '[a-z]*'),
    version           TEXT NOT NULL,
    description       TEXT NOT NULL,
    source_type       TEXT NOT NULL CHECK (source_type IN ('local', 'openapi_url', 'discovered')),
    source_location   TEXT NOT NULL, -- address or path it was imported from; '': it was pasted
    status            TEXT NOT NULL CHECK (status IN ('pending_approval', 'approved', 'active', 'disabled', 'revoked')),
    execution_type    TEXT NOT NULL CHECK (execution_type IN ('docker', 'http', 'js', 'wasm')),
    execution_timeout INTEGER NOT NULL CHECK (execution_timeout BETWEEN 1 AND 600), -- seconds
    openapi_spec      TEXT CHECK (openapi_spec GLOB 'sha256:*'), -- the kept part of the description
    manifest          TEXT NOT NULL CHECK (json_valid(manifest)),
    definition_hash   BLOB NOT NULL CHECK (length(definition_hash) = 32),
    approved_hash     BLOB CHECK (length(approved_hash) = 32), -- the last definition that was approved
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    approved_at       INTEGER,
    revoked_at        INTEGER,
    CHECK (status NOT IN ('approved', 'active', 'disabled') OR approved_at IS NOT NULL AND approved_hash = definition_hash)
) STRICT;
CREATE UNIQUE INDEX tool_manifest_name ON tool_manifest (user_id, name) WHERE status <> 'revoked';
CREATE INDEX tool_manifest_status ON tool_manifest (user_id, status);

-- Which credentials are set up. Their values are in secrets.
CREATE TABLE tool_credential (
    id           BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id      BLOB NOT NULL CHECK (length(user_id) = 16),
    tool_id      BLOB NOT NULL CHECK (length(tool_id) = 16),
    scheme       TEXT NOT NULL,
    kind         TEXT NOT NULL CHECK (kind IN ('apiKey', 'basic', 'bearer')),
    hosts        TEXT NOT NULL CHECK (json_valid(hosts)),
    account_hint TEXT NOT NULL, -- user name of basic
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    UNIQUE (user_id, tool_id, scheme)
) STRICT;

CREATE TABLE tool_execution_log (
    id              BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    tool_id         BLOB NOT NULL CHECK (length(tool_id) = 16),
    operation       TEXT NOT NULL,
    input_params    TEXT NOT NULL CHECK (json_valid(input_params)), -- without secrets
    started_at      INTEGER NOT NULL,
    completed_at    INTEGER,
    duration_ms     INTEGER,
    status          TEXT NOT NULL CHECK (status IN ('running', 'success', 'failure', 'timeout', 'cancelled')),
    error_class     TEXT NOT NULL DEFAULT '',
    error_message   TEXT NOT NULL DEFAULT '',
    output          TEXT CHECK (json_valid(output)), -- at most 64 KiB
    output_blob     TEXT CHECK (output_blob GLOB 'sha256:*'),
    http_status     INTEGER,
    bytes_out       INTEGER NOT NULL DEFAULT 0,
    bytes_in        INTEGER NOT NULL DEFAULT 0,
    definition_hash BLOB NOT NULL CHECK (length(definition_hash) = 32),
    caller          TEXT NOT NULL, -- kind of the caller; '': the person
    run_id          BLOB CHECK (length(run_id) = 16),
    created_at      INTEGER NOT NULL
) STRICT;
CREATE INDEX tool_execution_log_started ON tool_execution_log (user_id, started_at DESC);
CREATE INDEX tool_execution_log_tool ON tool_execution_log (tool_id, started_at DESC);
CREATE INDEX tool_execution_log_running ON tool_execution_log (status) WHERE status = 'running';
