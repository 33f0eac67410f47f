-- +goose Up

-- Conversations with a model. A session runs on one device; others read it and go on with a copy.
CREATE TABLE sessions (
    id                BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id           BLOB NOT NULL CHECK (length(user_id) = 16),
    device_id         BLOB NOT NULL CHECK (length(device_id) = 16),
    kind              TEXT NOT NULL DEFAULT 'chat' CHECK (kind IN ('chat', 'channel', 'scheduled', 'subagent', 'run', 'eval')),
    title             TEXT NOT NULL DEFAULT '',
    agent_name        TEXT NOT NULL DEFAULT 'helix',
    parent_session_id BLOB CHECK (length(parent_session_id) = 16),
    parent_turn_id    BLOB CHECK (length(parent_turn_id) = 16),
    forked_from       BLOB CHECK (length(forked_from) = 16),
    mode              TEXT NOT NULL DEFAULT 'ask' CHECK (mode IN ('ask', 'read', 'work')),
    queue_mode        TEXT NOT NULL DEFAULT 'followup' CHECK (queue_mode IN ('followup', 'steer', 'collect', 'interrupt')),
    model             TEXT NOT NULL DEFAULT '',
    project_dir       TEXT NOT NULL DEFAULT '',
    budget            TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(budget)),
    remember          INTEGER NOT NULL DEFAULT 1 CHECK (remember IN (0, 1)),
    pinned            INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)),
    message_count     INTEGER NOT NULL DEFAULT 0,
    cost_micros       INTEGER NOT NULL DEFAULT 0,
    last_message_at   INTEGER,
    archived_at       INTEGER,
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    deleted_at        INTEGER,
    sync_meta         BLOB
) STRICT;
CREATE INDEX sessions_newest ON sessions (user_id, pinned DESC, coalesce(last_message_at, created_at) DESC, id);
CREATE INDEX sessions_parent ON sessions (parent_session_id) WHERE parent_session_id IS NOT NULL;

-- The transcript, without what only a service can read.
CREATE TABLE session_messages (
    id          BLOB PRIMARY KEY CHECK (length(id) = 16),
    session_id  BLOB NOT NULL CHECK (length(session_id) = 16),
    user_id     BLOB NOT NULL CHECK (length(user_id) = 16),
    seq         INTEGER NOT NULL,
    turn_id     BLOB NOT NULL CHECK (length(turn_id) = 16),
    role        TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'tool', 'system')),
    content     ANY NOT NULL, -- JSON; sealed with storage.private
    origin      TEXT CHECK (origin IS NULL OR json_valid(origin)),
    model       TEXT NOT NULL DEFAULT '',
    cost_micros INTEGER NOT NULL DEFAULT 0,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    deleted_at  INTEGER,
    sync_meta   BLOB,
    UNIQUE (session_id, seq)
) STRICT;
CREATE INDEX session_messages_user ON session_messages (user_id);
CREATE INDEX session_messages_turn ON session_messages (turn_id, seq);

-- The words of messages, except with storage.private.
CREATE VIRTUAL TABLE session_messages_fts USING fts5(message_id UNINDEXED, text, tokenize = 'unicode61 remove_diacritics 2', prefix = '2 3');

-- The log: every step before it happens. The state of a session is a fold of it.
CREATE TABLE conversation_events (
    no             INTEGER PRIMARY KEY,
    session_id     BLOB NOT NULL CHECK (length(session_id) = 16),
    sequence       INTEGER NOT NULL,
    type           TEXT NOT NULL,
    turn_id        BLOB CHECK (length(turn_id) = 16),
    payload_json   ANY NOT NULL, -- sealed with storage.private
    schema_version INTEGER NOT NULL DEFAULT 1,
    causation      INTEGER,
    at             INTEGER NOT NULL,
    UNIQUE (session_id, sequence)
) STRICT;
-- +goose StatementBegin
CREATE TRIGGER conversation_events_final BEFORE UPDATE OF session_id, sequence, type, turn_id, schema_version, causation, at ON conversation_events BEGIN
    SELECT RAISE(ABORT, 'events are never changed'); -- only the form of the payload, plain or sealed
END;
-- +goose StatementEnd

-- A snapshot of the fold, so that opening a session reads few events.
CREATE TABLE session_state (
    session_id BLOB PRIMARY KEY CHECK (length(session_id) = 16),
    user_id    BLOB NOT NULL CHECK (length(user_id) = 16),
    sequence   INTEGER NOT NULL,
    state      ANY NOT NULL, -- sealed with storage.private
    updated_at INTEGER NOT NULL
) STRICT;

CREATE INDEX session_state_user ON session_state (user_id);

CREATE TABLE agent_turns (
    id                  BLOB PRIMARY KEY CHECK (length(id) = 16),
    session_id          BLOB NOT NULL CHECK (length(session_id) = 16),
    user_id             BLOB NOT NULL CHECK (length(user_id) = 16),
    state               TEXT NOT NULL CHECK (state IN ('queued', 'running', 'waiting', 'completed', 'cancelled', 'failed')),
    phase               TEXT NOT NULL DEFAULT '',
    wait_reason         TEXT NOT NULL DEFAULT '',
    queue_mode          TEXT NOT NULL DEFAULT 'followup',
    lane                TEXT NOT NULL DEFAULT 'chat' CHECK (lane IN ('chat', 'background')),
    stop_reason         TEXT NOT NULL DEFAULT '',
    steps               INTEGER NOT NULL DEFAULT 0,
    usage               TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(usage)),
    cost_micros         INTEGER NOT NULL DEFAULT 0,
    provider            TEXT NOT NULL DEFAULT '',
    model               TEXT NOT NULL DEFAULT '',
    error_kind          TEXT NOT NULL DEFAULT '',
    error_message       TEXT NOT NULL DEFAULT '',
    schedule_run_id     BLOB CHECK (length(schedule_run_id) = 16),
    retry_of            BLOB CHECK (length(retry_of) = 16),
    created_at          INTEGER NOT NULL,
    started_at          INTEGER,
    finished_at         INTEGER,
    cancel_requested_at INTEGER
) STRICT;
CREATE INDEX agent_turns_session ON agent_turns (session_id, created_at, id);
CREATE INDEX agent_turns_retry ON agent_turns (retry_of) WHERE retry_of IS NOT NULL;
CREATE INDEX agent_turns_state ON agent_turns (state);
CREATE INDEX agent_turns_user ON agent_turns (user_id, state);

-- Every call of a model: what was reserved for it, and what it cost.
CREATE TABLE agent_ledger (
    id              BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    session_id      BLOB CHECK (length(session_id) = 16),
    turn_id         BLOB CHECK (length(turn_id) = 16),
    parent_id       BLOB CHECK (length(parent_id) = 16), -- the session that a subagent works for
    schedule_id     BLOB CHECK (length(schedule_id) = 16),
    agent_name      TEXT NOT NULL DEFAULT '',
    purpose         TEXT NOT NULL,
    provider        TEXT NOT NULL,
    model           TEXT NOT NULL,
    attempt         INTEGER NOT NULL DEFAULT 1,
    state           TEXT NOT NULL CHECK (state IN ('reserved', 'settled', 'released', 'lost')),
    reserved_micros INTEGER NOT NULL DEFAULT 0,
    reserved_tokens INTEGER NOT NULL DEFAULT 0,
    cost_micros     INTEGER NOT NULL DEFAULT 0, -- what counts against budgets now
    reported_micros INTEGER NOT NULL DEFAULT 0,
    input           INTEGER NOT NULL DEFAULT 0,
    cache_read      INTEGER NOT NULL DEFAULT 0,
    cache_write     INTEGER NOT NULL DEFAULT 0,
    output          INTEGER NOT NULL DEFAULT 0,
    reasoning       INTEGER NOT NULL DEFAULT 0,
    estimated       INTEGER NOT NULL DEFAULT 0 CHECK (estimated IN (0, 1)),
    outcome         TEXT NOT NULL DEFAULT '',
    at              INTEGER NOT NULL,
    settled_at      INTEGER
) STRICT;
CREATE INDEX agent_ledger_at ON agent_ledger (user_id, at);
CREATE INDEX agent_ledger_session ON agent_ledger (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX agent_ledger_turn ON agent_ledger (turn_id) WHERE turn_id IS NOT NULL;
CREATE INDEX agent_ledger_schedule ON agent_ledger (schedule_id) WHERE schedule_id IS NOT NULL;
CREATE INDEX agent_ledger_open ON agent_ledger (at) WHERE state = 'reserved';

CREATE TABLE agent_budgets (
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    scope           TEXT NOT NULL CHECK (scope IN ('day', 'month', 'provider', 'session', 'schedule', 'agent')),
    key             TEXT NOT NULL DEFAULT '',
    max_cost_micros INTEGER NOT NULL DEFAULT 0 CHECK (max_cost_micros >= 0),
    max_tokens      INTEGER NOT NULL DEFAULT 0 CHECK (max_tokens >= 0),
    warn_at         REAL NOT NULL DEFAULT 0.8 CHECK (warn_at BETWEEN 0 AND 1),
    PRIMARY KEY (user_id, scope, key)
) STRICT, WITHOUT ROWID;

-- Files of conversations: attachments, and results that are too long for the model.
CREATE TABLE session_blobs (
    session_id BLOB NOT NULL CHECK (length(session_id) = 16),
    user_id    BLOB NOT NULL CHECK (length(user_id) = 16),
    sha256     TEXT NOT NULL CHECK (sha256 GLOB 'sha256:*'),
    name       TEXT NOT NULL DEFAULT '',
    mime       TEXT NOT NULL DEFAULT '',
    bytes      INTEGER NOT NULL,
    direction  TEXT NOT NULL CHECK (direction IN ('in', 'out')),
    at         INTEGER NOT NULL,
    PRIMARY KEY (session_id, sha256)
) STRICT, WITHOUT ROWID;
CREATE INDEX session_blobs_user ON session_blobs (user_id, sha256);
