-- +goose Up

-- SQLite gathers no statistics here, so an index must fit its statement without them.

-- Adding a memory looks for the oldest one with the same text. The old index lacked the order, so
-- SQLite read all memories of the user by time instead.
DROP INDEX memories_hash;
CREATE INDEX memories_hash ON memories (user_id, content_hash, created_at, id);

-- Counting the memories of a user read every row, because this index had those in the trash too.
DROP INDEX memories_layer;
CREATE INDEX memories_layer ON memories (user_id, layer) WHERE deleted_at IS NULL;

-- Purging a conversation or a document, and the cascade of its foreign key, read all turns or
-- chunks: the unique indexes lack those in the trash.
CREATE INDEX conversation_turns_conversation ON conversation_turns (conversation_id, seq);
CREATE INDEX chunks_document ON chunks (document_id, seq);

-- The hourly cleanup looks for what is too old.
CREATE INDEX conversations_deleted ON conversations (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX documents_deleted ON documents (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX memory_revisions_edited ON memory_revisions (edited_at);

-- The list of documents sorted all of them for each page.
CREATE INDEX documents_updated ON documents (user_id, updated_at DESC, id DESC) WHERE deleted_at IS NULL;

-- The runs of one skill, and its last one, were looked for among all runs of the user by time:
-- only the user and the time were as good a fit as the skill and the time.
DROP INDEX composite_skill_executions_skill;
CREATE INDEX composite_skill_executions_skill ON composite_skill_executions (composite_skill_id, user_id, created_at DESC, id DESC);

-- Lists by subject do not name its kind, so the kind must not stand before the subject.
DROP INDEX pending_approvals_subject;
CREATE INDEX pending_approvals_subject ON pending_approvals (user_id, subject_id, subject_kind, created_at);
DROP INDEX capability_grants_subject;
CREATE INDEX capability_grants_subject ON capability_grants (user_id, subject_id, subject_kind);

-- The calendar read all runs of the user for each week it shows.
CREATE INDEX schedule_runs_calendar ON schedule_runs (user_id, due_at);
