-- +goose Up
-- Where the first copy from the hub stands; no row when none is under way.
CREATE TABLE sync_progress (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    tbl     TEXT NOT NULL DEFAULT '', -- the table that is being copied; '': none yet
    last_id BLOB CHECK (length(last_id) = 16), -- its last row that is stored; NULL: none
    h0      INTEGER NOT NULL, -- the feed goes on from here
    rows    INTEGER NOT NULL DEFAULT 0
) STRICT;

-- The order of sending, without reading and sorting the payloads of all that waits.
CREATE INDEX sync_outbox_order ON sync_outbox (txn, dot) WHERE parked = 0;

-- Rows as local programs follow them through the relay: the newest change of each, in order. Empty
-- until a program connects. clocks maps device ids to decimal counters.
CREATE TABLE relay_rows (
    seq       INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id   BLOB NOT NULL CHECK (length(user_id) = 16),
    tbl       TEXT NOT NULL,
    row_id    BLOB NOT NULL CHECK (length(row_id) = 16),
    clocks    TEXT NOT NULL CHECK (json_valid(clocks)),
    device_id BLOB NOT NULL CHECK (length(device_id) = 16), -- who made the change
    UNIQUE (tbl, row_id)
) STRICT;
CREATE INDEX relay_rows_user ON relay_rows (user_id, seq);

-- The entries of change_log up to seen_seq are in relay_rows. No row: the relay was never used.
CREATE TABLE relay_state (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    seen_seq INTEGER NOT NULL
) STRICT;

-- Which device id a token has used: another token may not.
CREATE TABLE relay_clients (
    device_id BLOB PRIMARY KEY CHECK (length(device_id) = 16),
    token_id  BLOB NOT NULL UNIQUE CHECK (length(token_id) = 16)
) STRICT, WITHOUT ROWID;
