-- +goose Up

-- MCP servers of this device: their commands and folders are the machine's, so no table here syncs.
CREATE TABLE mcp_servers (
    id              BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    name            TEXT NOT NULL,
    entry           TEXT NOT NULL CHECK (json_valid(entry)), -- with ${VAR}, never with the value of a secret
    enabled         INTEGER NOT NULL CHECK (enabled IN (0, 1)),
    source          TEXT NOT NULL, -- user, or the place it was imported from
    definition_hash BLOB NOT NULL CHECK (length(definition_hash) = 32), -- of what it runs or connects to
    approved_hash   BLOB CHECK (length(approved_hash) = 32),
    version         TEXT NOT NULL DEFAULT '', -- what the server said about itself when it last started
    protocol        TEXT NOT NULL DEFAULT '',
    listed_at       INTEGER, -- NULL: its tools were never listed
    last_error      TEXT NOT NULL DEFAULT '',
    last_started    INTEGER,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    deleted_at      INTEGER
) STRICT;
CREATE UNIQUE INDEX mcp_servers_name ON mcp_servers (user_id, name);

CREATE TABLE mcp_tools (
    id              BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    server_id       BLOB NOT NULL REFERENCES mcp_servers (id) ON DELETE CASCADE,
    name            TEXT NOT NULL,
    function_name   TEXT NOT NULL,
    document        TEXT NOT NULL CHECK (json_valid(document)),
    definition_hash BLOB NOT NULL CHECK (length(definition_hash) = 32),
    approved_hash   BLOB CHECK (length(approved_hash) = 32),
    tier            TEXT NOT NULL CHECK (tier IN ('read_only', 'side_effecting', 'privileged')),
    state           TEXT NOT NULL CHECK (state IN ('approved', 'new', 'changed', 'removed', 'denied')),
    problem         TEXT NOT NULL DEFAULT '', -- why it cannot be used
    tokens          INTEGER NOT NULL,
    first_seen      INTEGER NOT NULL,
    last_seen       INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX mcp_tools_name ON mcp_tools (server_id, name);
CREATE INDEX mcp_tools_user ON mcp_tools (user_id);

CREATE TABLE mcp_calls (
    id              BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    server_id       BLOB NOT NULL,
    server          TEXT NOT NULL,
    tool            TEXT NOT NULL,
    arguments       TEXT NOT NULL, -- without secrets
    output          TEXT NOT NULL,
    output_sha256   TEXT CHECK (output_sha256 GLOB 'sha256:*'), -- an output too large for the row
    status          TEXT NOT NULL CHECK (status IN ('success', 'failure', 'timeout', 'cancelled')),
    error_class     TEXT NOT NULL DEFAULT '',
    duration_ms     INTEGER NOT NULL,
    bytes           INTEGER NOT NULL, -- of the output
    definition_hash BLOB NOT NULL CHECK (length(definition_hash) = 32),
    caller          TEXT NOT NULL,
    run_id          BLOB CHECK (length(run_id) = 16),
    created_at      INTEGER NOT NULL
) STRICT;
CREATE INDEX mcp_calls_user ON mcp_calls (user_id, created_at);
CREATE INDEX mcp_calls_server ON mcp_calls (server_id, created_at);

-- What other programs may call through Helix as an MCP server.
CREATE TABLE mcp_exposed (
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    kind            TEXT NOT NULL CHECK (kind IN ('tool', 'skill', 'discovery', 'memory')),
    ref_id          TEXT NOT NULL,
    name            TEXT NOT NULL,
    definition_hash TEXT NOT NULL,
    exposed_at      INTEGER NOT NULL,
    PRIMARY KEY (user_id, kind, ref_id)
) STRICT, WITHOUT ROWID;
