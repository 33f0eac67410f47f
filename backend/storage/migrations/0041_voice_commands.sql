-- +goose Up

ALTER TABLE voice_recordings ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)); -- retention keeps its sound
ALTER TABLE voice_recordings ADD COLUMN gaps TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(gaps)); -- spans that were not recorded and are silent
ALTER TABLE voice_recordings ADD COLUMN recovered INTEGER NOT NULL DEFAULT 0 CHECK (recovered IN (0, 1)); -- Helix ended during it

-- Phrases that start something when they are said. Fields of one row may come from different devices, so
-- that the code and not a CHECK tests whether the target fits the action and whether the phrase is unique.
CREATE TABLE voice_commands (
    id                 BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id            BLOB NOT NULL CHECK (length(user_id) = 16),
    name               TEXT NOT NULL,
    trigger_phrase     TEXT NOT NULL,
    trigger_confidence REAL NOT NULL DEFAULT 0.8 CHECK (trigger_confidence BETWEEN 0.5 AND 1),
    action_type        TEXT NOT NULL CHECK (action_type IN ('tool', 'skill', 'navigation', 'system')),
    tool_id            TEXT NOT NULL DEFAULT '', -- kind:id of a callable other than a skill
    skill_id           TEXT NOT NULL DEFAULT '',
    navigation_target  TEXT NOT NULL DEFAULT '',
    system_action      TEXT NOT NULL DEFAULT '',
    action_params      TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(action_params)),
    target_hash        TEXT NOT NULL DEFAULT '', -- definition of the target when the command was saved
    risk_tier          TEXT NOT NULL CHECK (risk_tier IN ('low', 'medium', 'high')),
    enabled            INTEGER NOT NULL DEFAULT 1 CHECK (enabled IN (0, 1)),
    usage_count        INTEGER NOT NULL DEFAULT 0,
    last_used          INTEGER,
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    deleted_at         INTEGER,
    sync_meta          BLOB
) STRICT;
CREATE INDEX voice_commands_user ON voice_commands (user_id, trigger_phrase);
CREATE INDEX voice_commands_deleted ON voice_commands (deleted_at) WHERE deleted_at IS NOT NULL;
