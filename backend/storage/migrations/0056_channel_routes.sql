-- +goose Up

-- A removed channel is kept until the removal can no longer be undone.
ALTER TABLE channels ADD COLUMN deleted_at INTEGER;

-- To which conversation notifications of a topic go besides the window.
CREATE TABLE channel_routes (
    user_id BLOB NOT NULL CHECK (length(user_id) = 16),
    topic   TEXT NOT NULL CHECK (topic IN ('schedule', 'approval', 'job', 'system')),
    target  TEXT NOT NULL, -- channel:<id>:<contextId>
    "when"  TEXT NOT NULL CHECK ("when" IN ('always', 'away', 'never')),
    PRIMARY KEY (user_id, topic)
) STRICT, WITHOUT ROWID;
