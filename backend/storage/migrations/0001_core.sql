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
