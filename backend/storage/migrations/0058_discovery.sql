-- +goose Up

-- A credential can be a sign-in with OAuth too. Its tokens are in secrets.
CREATE TABLE tool_credential_new (
    id           BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id      BLOB NOT NULL CHECK (length(user_id) = 16),
    tool_id      BLOB NOT NULL CHECK (length(tool_id) = 16),
    scheme       TEXT NOT NULL,
    kind         TEXT NOT NULL CHECK (kind IN ('apiKey', 'basic', 'bearer', 'oauth2', 'clientCredentials')),
    hosts        TEXT NOT NULL CHECK (json_valid(hosts)),
    account_hint TEXT NOT NULL, -- user name of basic, client ID of OAuth
    scopes       TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(scopes)),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    UNIQUE (user_id, tool_id, scheme)
) STRICT;
INSERT INTO tool_credential_new (id, user_id, tool_id, scheme, kind, hosts, account_hint, created_at, updated_at)
SELECT id, user_id, tool_id, scheme, kind, hosts, account_hint, created_at, updated_at FROM tool_credential;
DROP TABLE tool_credential;
ALTER TABLE tool_credential_new RENAME TO tool_credential;

-- What somebody asked for and no tool can do yet. A worker looks for candidates; a person chooses.
CREATE TABLE tool_discovery_queue (
    id                     BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id                BLOB NOT NULL CHECK (length(user_id) = 16),
    capability_description TEXT NOT NULL,
    requested_by           TEXT NOT NULL CHECK (requested_by IN ('user', 'planner', 'agent', 'skill')),
    search_query           TEXT NOT NULL,
    status                 TEXT NOT NULL CHECK (status IN ('pending', 'searching', 'found', 'failed', 'rejected')),
    discovered_apis        TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(discovered_apis)),
    selected_api           TEXT NOT NULL DEFAULT '',
    tool_manifest_id       BLOB CHECK (length(tool_manifest_id) = 16),
    error_message          TEXT NOT NULL DEFAULT '',
    dedupe_key             BLOB NOT NULL CHECK (length(dedupe_key) = 32),
    run_id                 BLOB CHECK (length(run_id) = 16),
    lease_until            INTEGER,
    attempts               INTEGER NOT NULL DEFAULT 0,
    created_at             INTEGER NOT NULL,
    updated_at             INTEGER NOT NULL,
    finished_at            INTEGER
) STRICT;
CREATE UNIQUE INDEX tool_discovery_queue_open ON tool_discovery_queue (user_id, dedupe_key) WHERE finished_at IS NULL;
CREATE INDEX tool_discovery_queue_user ON tool_discovery_queue (user_id, created_at DESC);
CREATE INDEX tool_discovery_queue_work ON tool_discovery_queue (created_at) WHERE status IN ('pending', 'searching');
