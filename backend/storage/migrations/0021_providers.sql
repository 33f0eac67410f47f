-- +goose Up

-- The registry of model services, without their keys, which are sealed secrets.
CREATE TABLE providers (
    id         BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id    BLOB NOT NULL CHECK (length(user_id) = 16),
    name       TEXT NOT NULL,
    entry      TEXT NOT NULL CHECK (json_valid(entry)),
    removed    INTEGER NOT NULL DEFAULT 0 CHECK (removed IN (0, 1)), -- of those that come with Helix
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (user_id, name)
) STRICT;

-- Which models answer for a role, first preferred.
CREATE TABLE model_roles (
    id         BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id    BLOB NOT NULL CHECK (length(user_id) = 16),
    role       TEXT NOT NULL,
    config     TEXT NOT NULL CHECK (json_valid(config)),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (user_id, role)
) STRICT;
