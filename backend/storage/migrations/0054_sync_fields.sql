-- +goose Up

-- The synced fields that this device knew when it last began to read the whole hub. A version of Helix
-- with more of them reads it again, because it ignored the values of the others.
ALTER TABLE sync_cursor ADD COLUMN fields TEXT;
