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
