-- +goose Up

-- Tools from API descriptions and the log of their runs sync. What a person approved stays on this device, in
-- tool_install, with one row for each approved definition.
CREATE TABLE tool_install_old AS
SELECT m.id AS tool_id, m.user_id, m.approved_hash AS definition_hash, m.approved_at,
    m.status IN ('active', 'disabled') OR m.status = 'pending_approval' AND coalesce(i.state, '') = 'ready' AS active,
    coalesce(i.state, 'none') AS state, i.verified_at, coalesce(i.verify_result, '[]') AS verify_result, coalesce(i.error, '') AS error, coalesce(i.updated_at, m.updated_at) AS updated_at
FROM tool_manifest m LEFT JOIN tool_install i ON i.tool_id = m.id AND i.definition_hash = m.approved_hash
WHERE m.approved_hash IS NOT NULL AND m.approved_at IS NOT NULL AND m.status <> 'revoked';
DROP TABLE tool_install;

CREATE TABLE tool_manifest_new (
    id                BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id           BLOB NOT NULL CHECK (length(user_id) = 16),
    name              TEXT NOT NULL CHECK (name GLOB '[a-z]*'),
    version           TEXT NOT NULL,
    description       TEXT NOT NULL,
    source_type       TEXT NOT NULL CHECK (source_type IN ('local', 'openapi_url', 'discovered')),
    source_location   TEXT NOT NULL, -- address or path it was imported from; '': it was pasted
    status            TEXT NOT NULL CHECK (status IN ('pending_approval', 'approved', 'active', 'disabled', 'revoked')), -- of all devices; here it needs an approval in tool_install
    execution_type    TEXT NOT NULL CHECK (execution_type IN ('docker', 'http', 'js', 'wasm')),
    execution_timeout INTEGER NOT NULL CHECK (execution_timeout BETWEEN 1 AND 600), -- seconds
    openapi_spec      TEXT CHECK (openapi_spec GLOB 'sha256:*'), -- the kept part of the description
    manifest          TEXT NOT NULL CHECK (json_valid(manifest)),
    definition_hash   BLOB NOT NULL CHECK (length(definition_hash) = 32),
    seen_hash         BLOB CHECK (length(seen_hash) = 32), -- the definition and the state that this device has acted on; sync may have brought others
    seen_status       TEXT,
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    revoked_at        INTEGER,
    deleted_at        INTEGER,
    sync_meta         BLOB
) STRICT;
INSERT INTO tool_manifest_new (id, user_id, name, version, description, source_type, source_location, status, execution_type, execution_timeout, openapi_spec, manifest, definition_hash, seen_hash, seen_status, created_at, updated_at, revoked_at)
SELECT id, user_id, name, version, description, source_type, source_location, status, execution_type, execution_timeout, openapi_spec, manifest, definition_hash, definition_hash, status, created_at, updated_at, revoked_at FROM tool_manifest;
DROP TABLE tool_manifest;
ALTER TABLE tool_manifest_new RENAME TO tool_manifest;
CREATE UNIQUE INDEX tool_manifest_name ON tool_manifest (user_id, name) WHERE status <> 'revoked' AND deleted_at IS NULL;
CREATE INDEX tool_manifest_status ON tool_manifest (user_id, status);
CREATE INDEX tool_manifest_deleted ON tool_manifest (deleted_at) WHERE deleted_at IS NOT NULL;

-- The definitions of tools that a person approved on this device, and what their samples showed here.
CREATE TABLE tool_install (
    tool_id         BLOB NOT NULL REFERENCES tool_manifest (id) ON DELETE CASCADE,
    definition_hash BLOB NOT NULL CHECK (length(definition_hash) = 32),
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    approved_at     INTEGER NOT NULL,
    active          INTEGER NOT NULL CHECK (active IN (0, 1)), -- its samples passed once, or it has none
    state           TEXT NOT NULL CHECK (state IN ('none', 'installing', 'ready', 'failed')),
    verified_at     INTEGER,
    verify_result   TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(verify_result)),
    error           TEXT NOT NULL DEFAULT '',
    updated_at      INTEGER NOT NULL,
    PRIMARY KEY (tool_id, definition_hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX tool_install_user ON tool_install (user_id);
INSERT INTO tool_install (tool_id, definition_hash, user_id, approved_at, active, state, verified_at, verify_result, error, updated_at)
SELECT tool_id, definition_hash, user_id, approved_at, active, state, verified_at, verify_result, error, updated_at FROM tool_install_old;
DROP TABLE tool_install_old;

ALTER TABLE tool_execution_log ADD COLUMN updated_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tool_execution_log ADD COLUMN deleted_at INTEGER;
ALTER TABLE tool_execution_log ADD COLUMN sync_meta BLOB;
UPDATE tool_execution_log SET updated_at = coalesce(completed_at, created_at);
CREATE INDEX tool_execution_log_deleted ON tool_execution_log (deleted_at) WHERE deleted_at IS NOT NULL;

-- A device that is connected already sends what it has.
INSERT INTO change_log (tbl, row_id, op, fields, hlc, txn, at)
SELECT 'tool_manifest', id, 'I', 8191, updated_at / 1000 << 16, (SELECT txn FROM sync_local), updated_at FROM tool_manifest ORDER BY created_at, id;
INSERT INTO change_log (tbl, row_id, op, fields, hlc, txn, at)
SELECT 'tool_execution_log', id, 'I', 262143, updated_at / 1000 << 16, (SELECT txn FROM sync_local), updated_at FROM tool_execution_log WHERE status <> 'running' ORDER BY created_at, id;
