-- +goose Up

-- How memories fade, as each person sets it.
CREATE TABLE psychology_settings (
    id                BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id           BLOB NOT NULL UNIQUE CHECK (length(user_id) = 16),
    decay_enabled     INTEGER NOT NULL DEFAULT 1 CHECK (decay_enabled IN (0, 1)),
    layers            TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(layers)),
    rate              REAL NOT NULL DEFAULT 0.95 CHECK (rate BETWEEN 0.8 AND 0.99),
    minimum_intensity REAL NOT NULL DEFAULT 0.1 CHECK (minimum_intensity BETWEEN 0 AND 0.5),
    preserve_high     INTEGER NOT NULL DEFAULT 1 CHECK (preserve_high IN (0, 1)),
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    deleted_at        INTEGER,
    sync_meta         BLOB
) STRICT;

CREATE TABLE decay_runs (
    id          BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id     BLOB NOT NULL CHECK (length(user_id) = 16),
    started_at  INTEGER NOT NULL,
    finished_at INTEGER,
    items       INTEGER NOT NULL DEFAULT 0,
    changed     INTEGER NOT NULL DEFAULT 0,
    skipped     TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(skipped))
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
