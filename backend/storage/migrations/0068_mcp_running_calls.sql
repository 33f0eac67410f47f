-- +goose Up

-- A call has its row from the moment it is allowed, so that a crash leaves a trace of it.
CREATE TABLE mcp_calls_next (
    id              BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    server_id       BLOB NOT NULL,
    server          TEXT NOT NULL,
    tool            TEXT NOT NULL,
    arguments       TEXT NOT NULL, -- without secrets
    output          TEXT NOT NULL DEFAULT '',
    output_sha256   TEXT CHECK (output_sha256 GLOB 'sha256:*'), -- an output too large for the row
    status          TEXT NOT NULL CHECK (status IN ('running', 'success', 'failure', 'timeout', 'cancelled')),
    error_class     TEXT NOT NULL DEFAULT '',
    duration_ms     INTEGER NOT NULL DEFAULT 0,
    bytes           INTEGER NOT NULL DEFAULT 0, -- of the output
    definition_hash BLOB NOT NULL CHECK (length(definition_hash) = 32),
    caller          TEXT NOT NULL,
    run_id          BLOB CHECK (length(run_id) = 16),
    created_at      INTEGER NOT NULL
) STRICT;
INSERT INTO mcp_calls_next (id, user_id, server_id, server, tool, arguments, output, output_sha256, status, error_class, duration_ms, bytes, definition_hash, caller, run_id, created_at)
SELECT id, user_id, server_id, server, tool, arguments, output, output_sha256, status, error_class, duration_ms, bytes, definition_hash, caller, run_id, created_at FROM mcp_calls;
DROP TABLE mcp_calls;
ALTER TABLE mcp_calls_next RENAME TO mcp_calls;
CREATE INDEX mcp_calls_user ON mcp_calls (user_id, created_at);
CREATE INDEX mcp_calls_running ON mcp_calls (created_at) WHERE status = 'running';
