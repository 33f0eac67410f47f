-- +goose Up

-- Rows that are being sent to the hub for the first time, many at a time, exactly as they are sent: the
-- rows of one table per entry. An entry that a crash or a lost connection leaves behind moves to
-- sync_outbox.
CREATE TABLE sync_batches (
    first_dot INTEGER PRIMARY KEY, -- version of the first row; the others follow it
    tbl       TEXT NOT NULL,
    columns   TEXT NOT NULL CHECK (json_valid(columns)), -- of the rows
    entries   TEXT NOT NULL CHECK (json_valid(entries)), -- seq and txn in change_log, for each row
    tuples    BLOB NOT NULL -- in the binary format of COPY; sensitive columns are encrypted
) STRICT;
