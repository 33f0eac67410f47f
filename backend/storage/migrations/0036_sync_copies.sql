-- +goose Up
-- The hub whose versions sync_meta names. It stays when the device leaves the hub, so joining it again
-- goes on where it was.
ALTER TABLE sync_local ADD COLUMN hub_id BLOB;
-- The epoch that this device has asked for and not been told that it has: a copy of the data that was taken
-- before does not know it.
ALTER TABLE sync_local ADD COLUMN next_epoch BLOB;
-- While copying is 1 the feed is read from its beginning once more: the hub had removed tombstones that
-- this device did not see.
ALTER TABLE sync_cursor ADD COLUMN copying INTEGER NOT NULL DEFAULT 0 CHECK (copying IN (0, 1));
ALTER TABLE sync_cursor ADD COLUMN pruned_at INTEGER;
