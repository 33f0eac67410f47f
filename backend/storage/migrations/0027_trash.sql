-- +goose Up

-- Who moved an item to the trash. The item itself says when; a restored one may keep its row.
CREATE TABLE deletions (
    item_id BLOB PRIMARY KEY CHECK (length(item_id) = 16),
    user_id BLOB NOT NULL CHECK (length(user_id) = 16),
    actor   TEXT NOT NULL,
    at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX deletions_user ON deletions (user_id, at);

-- A purged chat takes everything that belongs to it along. Its words leave the search index in one
-- pass over it (agent.ForgetPurged).
CREATE INDEX sessions_deleted ON sessions (user_id, deleted_at) WHERE deleted_at IS NOT NULL;
-- +goose StatementBegin
CREATE TRIGGER sessions_purged AFTER DELETE ON sessions BEGIN
    DELETE FROM session_messages WHERE session_id = OLD.id;
    DELETE FROM conversation_events WHERE session_id = OLD.id;
    DELETE FROM agent_turns WHERE session_id = OLD.id;
    DELETE FROM session_state WHERE session_id = OLD.id;
    DELETE FROM session_blobs WHERE session_id = OLD.id;
END;
-- +goose StatementEnd
