-- +goose Up
-- What waits to be sent. A version never changes after it was packaged: sending it again is safe.
CREATE TABLE sync_outbox (
    op_id      BLOB PRIMARY KEY CHECK (length(op_id) = 16),
    tbl        TEXT NOT NULL,
    row_id     BLOB NOT NULL CHECK (length(row_id) = 16),
    dot        INTEGER NOT NULL,
    prev_dot   INTEGER,
    hlc        INTEGER NOT NULL,
    payload    TEXT NOT NULL CHECK (json_valid(payload)), -- sensitive columns are encrypted
    meta       BLOB NOT NULL,
    base       TEXT NOT NULL CHECK (json_valid(base)), -- the row as packaged, in the form of sync_base
    txn        INTEGER NOT NULL,
    attempts   INTEGER NOT NULL DEFAULT 0,
    parked     INTEGER NOT NULL DEFAULT 0 CHECK (parked IN (0, 1)), -- the hub refused it; a dead letter says why
    created_at INTEGER NOT NULL,
    UNIQUE (tbl, row_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE sync_dead_letter (
    op_id      BLOB PRIMARY KEY CHECK (length(op_id) = 16),
    direction  TEXT NOT NULL CHECK (direction IN ('out', 'in')),
    tbl        TEXT NOT NULL,
    row_id     BLOB NOT NULL CHECK (length(row_id) = 16),
    payload    TEXT NOT NULL CHECK (json_valid(payload)),
    sqlstate   TEXT NOT NULL DEFAULT '',
    message    TEXT NOT NULL,
    attempts   INTEGER NOT NULL DEFAULT 1,
    created_at INTEGER NOT NULL,
    UNIQUE (direction, tbl, row_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE sync_cursor (
    one       INTEGER PRIMARY KEY CHECK (one = 1),
    seq       INTEGER NOT NULL DEFAULT 0, -- of the hub's feed, stored up to here
    packaged  INTEGER NOT NULL DEFAULT 0,
    pulled    INTEGER NOT NULL DEFAULT 0,
    pushed    INTEGER NOT NULL DEFAULT 0,
    synced_at INTEGER
) STRICT;

CREATE TABLE sync_conflicts (
    id            BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id       BLOB NOT NULL CHECK (length(user_id) = 16),
    table_name    TEXT NOT NULL,
    row_id        BLOB NOT NULL CHECK (length(row_id) = 16),
    field         TEXT NOT NULL,
    kind          TEXT NOT NULL CHECK (kind IN ('concurrent_modification', 'version_mismatch', 'field_conflict', 'delete_edit')),
    strategy      TEXT NOT NULL CHECK (strategy IN ('last_write_wins', 'three_way_merge', 'set_union', 'manual', 'automatic')),
    base          ANY,
    local_value   ANY,
    remote_value  ANY,
    local_dot     INTEGER NOT NULL,
    remote_dot    INTEGER NOT NULL,
    status        TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'resolved', 'auto')),
    resolution    TEXT CHECK (resolution IN ('mine', 'theirs', 'both', 'merged')),
    resolved_at   INTEGER,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    deleted_at    INTEGER,
    sync_meta     BLOB
) STRICT;
CREATE INDEX sync_conflicts_open ON sync_conflicts (user_id, status, created_at);
