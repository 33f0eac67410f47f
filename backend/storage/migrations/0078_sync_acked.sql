-- +goose Up
-- The position in the hub's feed that the hub has confirmed to know as this device's. A hub that knows an earlier one was
-- restored from a backup.
ALTER TABLE sync_cursor ADD COLUMN acked INTEGER NOT NULL DEFAULT 0;
