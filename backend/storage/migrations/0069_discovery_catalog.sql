-- +goose Up

-- Folders and lists on the web in which Discovery looks for APIs.
CREATE TABLE discovery_catalog (
    id         BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id    BLOB NOT NULL CHECK (length(user_id) = 16),
    kind       TEXT NOT NULL CHECK (kind IN ('dir', 'list')),
    location   TEXT NOT NULL, -- path or address
    entries    TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(entries)),
    signature  BLOB,          -- of the names, sizes and times of the files of a folder
    error      TEXT NOT NULL DEFAULT '', -- of the last reading; the former entries stay
    read_at    INTEGER,
    created_at INTEGER NOT NULL,
    UNIQUE (user_id, location)
) STRICT;
