-- +goose Up

-- One row a custom tool. The definition fields (description, language, code, parameters,
-- capabilities, sandbox_profile, limits) are what definition_hash covers.
CREATE TABLE custom_tools (
    id                 BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id            BLOB NOT NULL CHECK (length(user_id) = 16),
    name               TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
    description        TEXT NOT NULL DEFAULT '' CHECK (length(description) <= 2000),
    language           TEXT NOT NULL DEFAULT 'javascript' CHECK (language IN ('typescript', 'javascript')),
    code               TEXT NOT NULL,
    parameters         TEXT NOT NULL DEFAULT '{"type":"object"}' CHECK (json_valid(parameters)),
    capabilities       TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(capabilities)),
    sandbox_profile    TEXT NOT NULL DEFAULT 'standard' CHECK (sandbox_profile IN ('strict', 'standard', 'permissive')),
    limits             TEXT CHECK (limits IS NULL OR json_valid(limits)),
    definition_hash    BLOB NOT NULL CHECK (length(definition_hash) = 32),
    version            TEXT NOT NULL DEFAULT '1.0.0',
    author             TEXT NOT NULL DEFAULT '',
    signature          TEXT CHECK (signature IS NULL OR json_valid(signature)),
    signer_fingerprint TEXT,
    signed_at          INTEGER,
    samples            TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(samples)),
    tags               TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(tags)),
    icon               TEXT NOT NULL DEFAULT '',
    origin             TEXT NOT NULL DEFAULT 'local' CHECK (origin IN ('local', 'clone', 'import', 'share', 'hub')),
    clone_source_id    BLOB REFERENCES custom_tools (id) ON DELETE SET NULL,
    visibility         TEXT NOT NULL DEFAULT 'private' CHECK (visibility IN ('private', 'public')),
    is_enabled         INTEGER NOT NULL DEFAULT 1 CHECK (is_enabled IN (0, 1)),
    sync_state         INTEGER NOT NULL DEFAULT 0 CHECK (sync_state IN (0, 1)),
    usage_count        INTEGER NOT NULL DEFAULT 0,
    last_used          INTEGER,
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    deleted_at         INTEGER,
    sync_meta          BLOB
) STRICT;
CREATE UNIQUE INDEX custom_tools_name ON custom_tools (user_id, lower(name)) WHERE deleted_at IS NULL;
CREATE INDEX custom_tools_user ON custom_tools (user_id, updated_at DESC) WHERE deleted_at IS NULL;
CREATE INDEX custom_tools_used ON custom_tools (user_id, last_used DESC) WHERE deleted_at IS NULL;
CREATE INDEX custom_tools_public ON custom_tools (usage_count DESC, id) WHERE visibility = 'public' AND deleted_at IS NULL;
CREATE INDEX custom_tools_enabled ON custom_tools (user_id, is_enabled) WHERE deleted_at IS NULL;
CREATE INDEX custom_tools_source ON custom_tools (clone_source_id) WHERE clone_source_id IS NOT NULL;

-- What anybody on this device may read of a tool that its owner made public.
CREATE VIEW public_tools AS
SELECT id, name, description, language, code, parameters, capabilities, sandbox_profile, limits, definition_hash,
       version, author, tags, icon, origin, usage_count, created_at, updated_at
FROM custom_tools WHERE visibility = 'public' AND deleted_at IS NULL;

-- Every definition a tool ever had. Append only; the oldest unreferenced ones leave at 200.
CREATE TABLE custom_tool_versions (
    id              BLOB PRIMARY KEY CHECK (length(id) = 16),
    custom_tool_id  BLOB NOT NULL REFERENCES custom_tools (id) ON DELETE CASCADE,
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    version         TEXT NOT NULL,
    definition_hash BLOB NOT NULL CHECK (length(definition_hash) = 32),
    language        TEXT NOT NULL CHECK (language IN ('typescript', 'javascript')),
    code            TEXT NOT NULL,
    parameters      TEXT NOT NULL CHECK (json_valid(parameters)),
    capabilities    TEXT NOT NULL CHECK (json_valid(capabilities)),
    sandbox_profile TEXT NOT NULL CHECK (sandbox_profile IN ('strict', 'standard', 'permissive')),
    limits          TEXT CHECK (limits IS NULL OR json_valid(limits)),
    description     TEXT NOT NULL DEFAULT '',
    note            TEXT NOT NULL DEFAULT '',
    author          TEXT NOT NULL DEFAULT '',
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    deleted_at      INTEGER,
    sync_meta       BLOB
) STRICT;
CREATE UNIQUE INDEX custom_tool_versions_label ON custom_tool_versions (custom_tool_id, version);
CREATE INDEX custom_tool_versions_order ON custom_tool_versions (custom_tool_id, created_at DESC);
CREATE INDEX custom_tool_versions_user ON custom_tool_versions (user_id);

-- One row a finished run of a stored tool. The indexes hold what a summary counts.
CREATE TABLE custom_tool_usage (
    id                BLOB PRIMARY KEY CHECK (length(id) = 16),
    custom_tool_id    BLOB NOT NULL REFERENCES custom_tools (id) ON DELETE CASCADE,
    user_id           BLOB NOT NULL CHECK (length(user_id) = 16),
    input_params      TEXT CHECK (input_params IS NULL OR json_valid(input_params)),
    output_result     TEXT CHECK (output_result IS NULL OR json_valid(output_result)),
    status            TEXT NOT NULL CHECK (status IN ('success', 'failure', 'timeout')),
    error_class       TEXT,
    error_message     TEXT,
    execution_time_ms REAL NOT NULL DEFAULT 0,
    cpu_time_ms       REAL NOT NULL DEFAULT 0,
    memory_used_mb    REAL NOT NULL DEFAULT 0,
    host_calls        INTEGER NOT NULL DEFAULT 0,
    version           TEXT NOT NULL DEFAULT '',
    definition_hash   BLOB,
    caller            TEXT NOT NULL DEFAULT 'user' CHECK (caller IN ('user', 'agent', 'skill', 'schedule', 'voice', 'tool', 'cli')),
    parent_id         BLOB,
    timestamp         INTEGER NOT NULL,
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    deleted_at        INTEGER,
    sync_meta         BLOB
) STRICT;
CREATE INDEX custom_tool_usage_tool ON custom_tool_usage (custom_tool_id, timestamp DESC, status, execution_time_ms);
CREATE INDEX custom_tool_usage_user ON custom_tool_usage (user_id, timestamp DESC, status, execution_time_ms);

-- Runs that have started and not ended. What is here when the app starts was interrupted.
CREATE TABLE custom_tool_runs (
    id              BLOB PRIMARY KEY CHECK (length(id) = 16),
    custom_tool_id  BLOB NOT NULL REFERENCES custom_tools (id) ON DELETE CASCADE,
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    input_params    TEXT CHECK (input_params IS NULL OR json_valid(input_params)),
    version         TEXT NOT NULL,
    definition_hash BLOB NOT NULL,
    caller          TEXT NOT NULL,
    parent_id       BLOB,
    started_at      INTEGER NOT NULL
) STRICT;
CREATE INDEX custom_tool_runs_user ON custom_tool_runs (user_id);
CREATE INDEX custom_tool_runs_tool ON custom_tool_runs (custom_tool_id);

-- Answers to calls that carried an idempotency key, kept for a day.
CREATE TABLE custom_tool_replies (
    user_id      BLOB NOT NULL CHECK (length(user_id) = 16),
    key          TEXT NOT NULL CHECK (length(key) BETWEEN 1 AND 128),
    request_hash BLOB NOT NULL,
    response     TEXT NOT NULL CHECK (json_valid(response)),
    created_at   INTEGER NOT NULL,
    PRIMARY KEY (user_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX custom_tool_replies_age ON custom_tool_replies (user_id, created_at);

CREATE TABLE custom_tool_state (
    custom_tool_id BLOB NOT NULL REFERENCES custom_tools (id) ON DELETE CASCADE,
    user_id        BLOB NOT NULL CHECK (length(user_id) = 16),
    state_key      TEXT NOT NULL CHECK (length(CAST(state_key AS BLOB)) BETWEEN 1 AND 256),
    state_value    TEXT NOT NULL CHECK (json_valid(state_value)),
    size_bytes     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    PRIMARY KEY (custom_tool_id, user_id, state_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX custom_tool_state_user ON custom_tool_state (user_id);

-- id is 16 random bytes: knowing it is the right to open the share.
CREATE TABLE custom_tool_shares (
    id              BLOB PRIMARY KEY CHECK (length(id) = 16),
    custom_tool_id  BLOB NOT NULL REFERENCES custom_tools (id) ON DELETE CASCADE,
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    version         TEXT NOT NULL,
    definition_hash BLOB NOT NULL CHECK (length(definition_hash) = 32),
    access          TEXT NOT NULL CHECK (access IN ('link', 'public')),
    expires_at      INTEGER,
    revoked_at      INTEGER,
    opens           INTEGER NOT NULL DEFAULT 0,
    created_at      INTEGER NOT NULL
) STRICT;
CREATE INDEX custom_tool_shares_tool ON custom_tool_shares (custom_tool_id);
CREATE INDEX custom_tool_shares_user ON custom_tool_shares (user_id);

CREATE TABLE tool_signers (
    id          BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id     BLOB NOT NULL CHECK (length(user_id) = 16),
    fingerprint TEXT NOT NULL CHECK (length(fingerprint) = 64),
    public_key  TEXT NOT NULL,
    name        TEXT NOT NULL DEFAULT '',
    trusted     INTEGER NOT NULL DEFAULT 0 CHECK (trusted IN (0, 1)),
    added_at    INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    deleted_at  INTEGER,
    sync_meta   BLOB
) STRICT;
CREATE UNIQUE INDEX tool_signers_key ON tool_signers (user_id, fingerprint) WHERE deleted_at IS NULL;

-- Secrets that tools may use through a placeholder. value is sealed with the data key, which
-- the root key in the keyring item keyring_ref unwraps.
CREATE TABLE tool_secrets (
    id          BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id     BLOB NOT NULL CHECK (length(user_id) = 16),
    name        TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
    hosts       TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(hosts)),
    tool_ids    TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(tool_ids)),
    keyring_ref TEXT NOT NULL DEFAULT 'helix/root',
    value       BLOB NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX tool_secrets_name ON tool_secrets (user_id, name);
