-- +goose Up

-- Whether a tool is installed on this device, and what its samples showed.
CREATE TABLE tool_install (
    tool_id         BLOB PRIMARY KEY REFERENCES tool_manifest (id) ON DELETE CASCADE,
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    definition_hash BLOB NOT NULL CHECK (length(definition_hash) = 32), -- of another definition it says nothing
    state           TEXT NOT NULL CHECK (state IN ('installing', 'ready', 'failed')),
    verified_at     INTEGER,
    verify_result   TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(verify_result)),
    error           TEXT NOT NULL DEFAULT '',
    updated_at      INTEGER NOT NULL
) STRICT;

CREATE INDEX tool_install_user ON tool_install (user_id);

INSERT INTO tool_install (tool_id, user_id, definition_hash, state, updated_at)
SELECT id, user_id, definition_hash, 'ready', updated_at FROM tool_manifest WHERE status IN ('active', 'disabled');
