-- +goose Up

-- How memories and entries fade, and what psychology may do, as each person sets it.
CREATE TABLE psychology_settings (
    id                     BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id                BLOB NOT NULL UNIQUE CHECK (length(user_id) = 16),
    enabled                INTEGER NOT NULL DEFAULT 1 CHECK (enabled IN (0, 1)),
    decay_enabled          INTEGER NOT NULL DEFAULT 1 CHECK (decay_enabled IN (0, 1)),
    mode                   TEXT NOT NULL DEFAULT 'soft' CHECK (mode IN ('soft', 'hard')),
    rate                   REAL NOT NULL DEFAULT 0.95 CHECK (rate BETWEEN 0.8 AND 0.99),
    minimum_intensity      REAL NOT NULL DEFAULT 0.1 CHECK (minimum_intensity BETWEEN 0 AND 0.5),
    trust_decay            INTEGER NOT NULL DEFAULT 0 CHECK (trust_decay IN (0, 1)),
    preserve_high_salience INTEGER NOT NULL DEFAULT 1 CHECK (preserve_high_salience IN (0, 1)),
    hard_grace_days        INTEGER NOT NULL DEFAULT 30 CHECK (hard_grace_days BETWEEN 1 AND 365),
    agent_may_read         INTEGER NOT NULL DEFAULT 1 CHECK (agent_may_read IN (0, 1)),
    proposals              INTEGER NOT NULL DEFAULT 1 CHECK (proposals IN (0, 1)),
    created_at             INTEGER NOT NULL,
    updated_at             INTEGER NOT NULL,
    deleted_at             INTEGER,
    sync_meta              BLOB
) STRICT;

-- The layers of a person. decay_rate is the parameter of the model, never the retention.
CREATE TABLE psychology_layers (
    id                 BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id            BLOB NOT NULL CHECK (length(user_id) = 16),
    layer_number       INTEGER NOT NULL CHECK (layer_number BETWEEN 1 AND 7),
    layer_name         TEXT NOT NULL,
    data               BLOB NOT NULL, -- sealed JSON
    decay_model        TEXT NOT NULL,
    decay_rate         REAL NOT NULL,
    initial_strength   REAL NOT NULL DEFAULT 1 CHECK (initial_strength BETWEEN 0 AND 1),
    enabled            INTEGER NOT NULL DEFAULT 1 CHECK (enabled IN (0, 1)),
    last_updated       INTEGER NOT NULL, -- changes with a person's edit only
    last_reinforced_at INTEGER,
    version            INTEGER NOT NULL DEFAULT 1,
    retention          REAL,
    decayed_at         INTEGER,
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    deleted_at         INTEGER,
    sync_meta          BLOB,
    UNIQUE (user_id, layer_number)
) STRICT;

-- For readers that expect the retention under the name decay_rate.
CREATE VIEW psychology_layers_legacy AS
SELECT id, user_id, layer_number, layer_name, data, coalesce(retention, initial_strength) AS decay_rate, last_updated FROM psychology_layers WHERE deleted_at IS NULL;

CREATE TABLE psychology_entries (
    id                  BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id             BLOB NOT NULL CHECK (length(user_id) = 16),
    layer_number        INTEGER NOT NULL CHECK (layer_number BETWEEN 1 AND 7),
    kind                TEXT NOT NULL,
    data                BLOB NOT NULL, -- sealed JSON
    memory_ids          TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(memory_ids)),
    origin              TEXT NOT NULL DEFAULT 'person' CHECK (origin IN ('person', 'synthesis', 'import')),
    pattern_id          BLOB CHECK (length(pattern_id) = 16),
    initial_strength    REAL NOT NULL DEFAULT 1 CHECK (initial_strength BETWEEN 0 AND 1),
    last_reinforced_at  INTEGER,
    reinforcement_count INTEGER NOT NULL DEFAULT 0,
    open_until          INTEGER, -- edits until then keep what the entry said before
    salience_tier       TEXT NOT NULL DEFAULT 'medium' CHECK (salience_tier IN ('critical', 'high', 'medium', 'low')),
    pinned              INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)),
    retention           REAL,
    decayed_at          INTEGER,
    version             INTEGER NOT NULL DEFAULT 1,
    created_at          INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL,
    deleted_at          INTEGER,
    sync_meta           BLOB
) STRICT;
CREATE INDEX psychology_entries_layer ON psychology_entries (user_id, layer_number);
CREATE INDEX psychology_entries_retention ON psychology_entries (user_id, retention);

-- What happened with a person; trust is computed from it.
CREATE TABLE trust_interactions (
    id            BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id       BLOB NOT NULL CHECK (length(user_id) = 16),
    person_id     BLOB NOT NULL CHECK (length(person_id) = 16),
    at            INTEGER NOT NULL,
    dimension     TEXT, -- NULL: all of them
    evidence      REAL CHECK (evidence BETWEEN -1 AND 1), -- NULL: not known
    salience_tier TEXT NOT NULL CHECK (salience_tier IN ('critical', 'high', 'medium', 'low')),
    note          BLOB, -- sealed
    memory_id     BLOB CHECK (length(memory_id) = 16),
    before        REAL NOT NULL,
    after         REAL NOT NULL,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    deleted_at    INTEGER,
    sync_meta     BLOB
) STRICT;
CREATE INDEX trust_interactions_person ON trust_interactions (user_id, person_id, at, id);

CREATE TABLE soul_documents (
    id         BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id    BLOB NOT NULL UNIQUE CHECK (length(user_id) = 16),
    text       BLOB NOT NULL, -- sealed
    version    INTEGER NOT NULL DEFAULT 1,
    sha256     TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER,
    sync_meta  BLOB
) STRICT;

CREATE TABLE soul_revisions (
    id         BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id    BLOB NOT NULL CHECK (length(user_id) = 16),
    version    INTEGER NOT NULL,
    text       BLOB NOT NULL, -- sealed
    at         INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER,
    sync_meta  BLOB
) STRICT;
CREATE INDEX soul_revisions_user ON soul_revisions (user_id, version DESC);

CREATE TABLE decay_runs (
    id          BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id     BLOB NOT NULL CHECK (length(user_id) = 16),
    started_at  INTEGER NOT NULL,
    finished_at INTEGER,
    layers      INTEGER NOT NULL DEFAULT 0,
    items       INTEGER NOT NULL DEFAULT 0,
    changed     INTEGER NOT NULL DEFAULT 0,
    skipped     TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(skipped)),
    trashed     TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(trashed)), -- ids
    errors      TEXT,
    announced   INTEGER NOT NULL DEFAULT 0 CHECK (announced IN (0, 1)) -- that something fades
) STRICT;
CREATE INDEX decay_runs_user ON decay_runs (user_id, started_at DESC, id DESC);

-- When an item crossed a threshold; not every change of its retention.
CREATE TABLE memory_decay_history (
    id                 BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id            BLOB NOT NULL CHECK (length(user_id) = 16),
    item_id            BLOB NOT NULL CHECK (length(item_id) = 16),
    layer_number       INTEGER NOT NULL,
    previous_retention REAL NOT NULL,
    new_retention      REAL NOT NULL,
    threshold          REAL NOT NULL,
    at                 INTEGER NOT NULL,
    run_id             BLOB NOT NULL CHECK (length(run_id) = 16)
) STRICT;
CREATE INDEX memory_decay_history_user ON memory_decay_history (user_id, at DESC, id DESC);
CREATE INDEX memory_decay_history_item ON memory_decay_history (item_id, at DESC);
