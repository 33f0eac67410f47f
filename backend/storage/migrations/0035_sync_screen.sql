-- +goose Up
-- When the two versions of a conflict were written, by the clock of the hub.
ALTER TABLE sync_conflicts ADD COLUMN local_at INTEGER;
ALTER TABLE sync_conflicts ADD COLUMN remote_at INTEGER;

-- When a round last sent or received something.
ALTER TABLE sync_cursor ADD COLUMN changed_at INTEGER;

-- The names of this person's devices, to show them without the hub.
CREATE TABLE sync_devices (
    site    INTEGER PRIMARY KEY,
    name    TEXT NOT NULL,
    removed INTEGER NOT NULL DEFAULT 0 CHECK (removed IN (0, 1))
) STRICT;
