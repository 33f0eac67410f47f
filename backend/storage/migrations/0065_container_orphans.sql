-- +goose Up

-- Volumes of container tools that no longer exist, since they were first seen without one.
CREATE TABLE container_orphans (
    volume  TEXT PRIMARY KEY,
    seen_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
