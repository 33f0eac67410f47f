-- +goose Up

-- Files that were attached to a message that is not sent yet. The message makes them files of its session.
CREATE TABLE chat_attachments (
    user_id BLOB NOT NULL CHECK (length(user_id) = 16),
    sha256  TEXT NOT NULL CHECK (sha256 GLOB 'sha256:*'),
    name    TEXT NOT NULL,
    mime    TEXT NOT NULL,
    bytes   INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (user_id, sha256)
) STRICT, WITHOUT ROWID;
CREATE INDEX chat_attachments_at ON chat_attachments (user_id, at);
