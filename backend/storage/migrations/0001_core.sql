-- +goose Up
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE users (
    id           BLOB PRIMARY KEY CHECK (length(id) = 16),
    display_name TEXT NOT NULL,
    hub_user_id  BLOB CHECK (length(hub_user_id) = 16),
    created_at   INTEGER NOT NULL
) STRICT;

-- One row a migration that ran: what the file held and where the copy from before is.
CREATE TABLE migration_log (
    version     INTEGER PRIMARY KEY,
    name        TEXT NOT NULL,
    sha256      BLOB NOT NULL CHECK (length(sha256) = 32),
    app_version TEXT NOT NULL,
    started_at  INTEGER NOT NULL,
    finished_at INTEGER,
    snapshot    TEXT
) STRICT;

-- Keys that seal columns, each wrapped by the root key.
CREATE TABLE data_keys (
    no         INTEGER PRIMARY KEY,
    wrapped    BLOB NOT NULL,
    uses       INTEGER NOT NULL DEFAULT 0 CHECK (uses >= 0),
    created_at INTEGER NOT NULL,
    retired_at INTEGER
) STRICT;

-- The signing key of this device; private_key is sealed.
CREATE TABLE device_keys (
    id          BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id     BLOB NOT NULL REFERENCES users (id),
    public_key  BLOB NOT NULL CHECK (length(public_key) = 32),
    private_key BLOB NOT NULL,
    created_at  INTEGER NOT NULL,
    retired_at  INTEGER
) STRICT;
CREATE INDEX device_keys_user ON device_keys (user_id);

CREATE TABLE secrets (
    id         BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id    BLOB NOT NULL REFERENCES users (id),
    name       TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
    value      BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (user_id, name)
) STRICT;

-- What changed in synced rows, in the order it happened; written by triggers only, for each
-- row, so it has no index of its own and its checks are the cheap spellings.
CREATE TABLE change_log (
    seq    INTEGER PRIMARY KEY AUTOINCREMENT,
    tbl    TEXT NOT NULL,
    row_id BLOB NOT NULL CHECK (length(row_id) = 16),
    op     TEXT NOT NULL CHECK (op = 'I' OR op = 'U' OR op = 'D'),
    fields INTEGER NOT NULL,
    hlc    INTEGER NOT NULL,
    txn    INTEGER NOT NULL,
    at     INTEGER NOT NULL
) STRICT;

-- Who this installation is. One row. applying silences the triggers; txn numbers local
-- transactions; seen_seq is the last change_log entry of the transactions before this one.
CREATE TABLE sync_local (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    device_id   BLOB CHECK (length(device_id) = 16),
    site        INTEGER CHECK (site BETWEEN 1 AND 4194303),
    epoch       BLOB CHECK (length(epoch) = 16),
    ctr         INTEGER NOT NULL DEFAULT 0,
    hlc_high    INTEGER NOT NULL DEFAULT 0,
    user_id     BLOB REFERENCES users (id),
    hub         TEXT,
    key_version INTEGER NOT NULL DEFAULT 0,
    offset_us   INTEGER NOT NULL DEFAULT 0,
    applying    INTEGER NOT NULL DEFAULT 0 CHECK (applying IN (0, 1)),
    txn         INTEGER NOT NULL DEFAULT 1,
    seen_seq    INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX sync_local_user ON sync_local (user_id);
INSERT INTO sync_local (one) VALUES (1);

-- The last version of a row that the hub knows, kept from the first local edit on.
CREATE TABLE sync_base (
    tbl    TEXT NOT NULL,
    row_id BLOB NOT NULL CHECK (length(row_id) = 16),
    row    TEXT NOT NULL CHECK (json_valid(row)),
    PRIMARY KEY (tbl, row_id)
) STRICT, WITHOUT ROWID;
