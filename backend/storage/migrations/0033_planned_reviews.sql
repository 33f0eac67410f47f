-- +goose Up

-- When a person means to revisit a memory or an entry.
CREATE TABLE planned_reviews (
    id         BLOB PRIMARY KEY CHECK (length(id) = 16), -- made of item and day
    user_id    BLOB NOT NULL CHECK (length(user_id) = 16),
    item_id    BLOB NOT NULL CHECK (length(item_id) = 16),
    at         INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER,
    sync_meta  BLOB
) STRICT;
CREATE INDEX planned_reviews_item ON planned_reviews (user_id, item_id);
CREATE INDEX planned_reviews_at ON planned_reviews (user_id, at);
