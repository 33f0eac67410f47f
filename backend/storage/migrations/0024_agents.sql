-- +goose Up

-- The session that hears of the end of a detached subagent's turn, until it has.
ALTER TABLE agent_turns ADD COLUMN report_to BLOB CHECK (length(report_to) = 16);
CREATE INDEX agent_turns_report ON agent_turns (report_to) WHERE report_to IS NOT NULL;
CREATE INDEX sessions_parent_turn ON sessions (parent_turn_id) WHERE parent_turn_id IS NOT NULL;

-- SKILL.md documents: what the person allowed of each, by the hash of its text and files.
CREATE TABLE agent_skills (
    id              BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    name            TEXT NOT NULL,
    source          TEXT NOT NULL CHECK (source IN ('project', 'user', 'shared', 'managed')),
    path            TEXT NOT NULL,
    definition_hash TEXT NOT NULL,
    approved_hash   TEXT NOT NULL DEFAULT '',
    approved_text   TEXT NOT NULL DEFAULT '', -- to show what has changed since
    state           TEXT NOT NULL CHECK (state IN ('inactive', 'active', 'disabled', 'changed', 'invalid')),
    origin          TEXT NOT NULL CHECK (origin IN ('user', 'agent', 'import', 'project')),
    frontmatter     TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(frontmatter)),
    body_tokens     INTEGER NOT NULL DEFAULT 0,
    diagnostics     TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(diagnostics)),
    last_used       INTEGER,
    UNIQUE (user_id, path)
) STRICT;

-- Folders of projects whose documents may be read.
CREATE TABLE agent_skill_folders (
    user_id    BLOB NOT NULL CHECK (length(user_id) = 16),
    path       TEXT NOT NULL,
    trusted_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, path)
) STRICT, WITHOUT ROWID;
