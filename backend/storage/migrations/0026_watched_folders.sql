-- +goose Up

-- Folders of notes that are imported again when they change. attempt is a digest of the changes
-- whose import failed: they are not tried again until something else changes.
CREATE TABLE watched_folders (
    id         BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id    BLOB NOT NULL CHECK (length(user_id) = 16),
    path       TEXT NOT NULL,
    options    TEXT NOT NULL CHECK (json_valid(options)),
    paused     INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
    state      TEXT NOT NULL DEFAULT 'watching' CHECK (state IN ('watching', 'importing', 'missing', 'failed')),
    message    TEXT NOT NULL DEFAULT '',
    trashed    INTEGER NOT NULL DEFAULT 0,
    import_id  BLOB CHECK (import_id IS NULL OR length(import_id) = 16),
    attempt    TEXT NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX watched_folders_path ON watched_folders (user_id, path);

-- The files of a watched folder as they were when they were imported. One that is gone has trashed_at
-- until it comes back.
CREATE TABLE watched_files (
    folder_id  BLOB NOT NULL REFERENCES watched_folders (id) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    user_id    BLOB NOT NULL CHECK (length(user_id) = 16),
    size       INTEGER NOT NULL,
    modified   INTEGER NOT NULL,
    hash       BLOB NOT NULL CHECK (length(hash) IN (0, 32)),
    trashed_at INTEGER,
    PRIMARY KEY (folder_id, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX watched_files_user ON watched_files (user_id);
