-- +goose Up

-- Texts that private storage seals have the type ANY: TEXT is plain, BLOB is sealed.

-- One row a memory. retention and decayed_at are computed on each device.
CREATE TABLE memories (
    id                 BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id            BLOB NOT NULL CHECK (length(user_id) = 16),
    type               TEXT NOT NULL DEFAULT 'episodic' CHECK (type IN ('episodic', 'semantic', 'procedural')),
    content            ANY NOT NULL CHECK (typeof(content) IN ('text', 'blob')),
    emotional_valence  REAL CHECK (emotional_valence IS NULL OR emotional_valence BETWEEN -1 AND 1),
    last_accessed      INTEGER,
    occurred_at        INTEGER,
    layer              INTEGER CHECK (layer IS NULL OR layer BETWEEN 1 AND 7),
    source             TEXT NOT NULL DEFAULT 'manual' CHECK (source IN ('manual', 'note', 'agent', 'chatgpt', 'claude', 'markdown', 'text', 'jsonl', 'locomo', 'voice', 'document', 'tool')),
    source_ref         TEXT,
    untrusted          INTEGER NOT NULL DEFAULT 0 CHECK (untrusted IN (0, 1)),
    content_hash       BLOB NOT NULL CHECK (length(content_hash) = 32),
    salience           REAL NOT NULL DEFAULT 50 CHECK (salience BETWEEN 0 AND 100),
    salience_tier      TEXT NOT NULL DEFAULT 'medium' CHECK (salience_tier IN ('critical', 'high', 'medium', 'low')),
    pinned             INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)),
    access_count       INTEGER NOT NULL DEFAULT 0,
    initial_strength   REAL NOT NULL DEFAULT 1 CHECK (initial_strength BETWEEN 0 AND 1),
    last_reinforced_at INTEGER,
    retention          REAL CHECK (retention IS NULL OR retention BETWEEN 0 AND 1),
    decayed_at         INTEGER,
    metadata           TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(metadata)),
    version            INTEGER NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    deleted_at         INTEGER,
    sync_meta          BLOB
) STRICT;
CREATE INDEX memories_occurred ON memories (user_id, occurred_at DESC, id DESC) WHERE deleted_at IS NULL;
CREATE INDEX memories_created ON memories (user_id, created_at DESC, id DESC) WHERE deleted_at IS NULL;
CREATE INDEX memories_salience ON memories (user_id, salience DESC, id DESC) WHERE deleted_at IS NULL;
CREATE INDEX memories_retention ON memories (user_id, retention DESC, id DESC) WHERE deleted_at IS NULL;
CREATE INDEX memories_layer ON memories (user_id, layer);
CREATE INDEX memories_hash ON memories (user_id, content_hash);
CREATE INDEX memories_ref ON memories (user_id, source, source_ref) WHERE source_ref IS NOT NULL;
CREATE INDEX memories_deleted ON memories (user_id, deleted_at DESC, id DESC) WHERE deleted_at IS NOT NULL;

CREATE TABLE memory_tags (
    memory_id BLOB NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
    user_id   BLOB NOT NULL CHECK (length(user_id) = 16),
    tag       TEXT NOT NULL CHECK (length(tag) BETWEEN 1 AND 64),
    PRIMARY KEY (memory_id, tag)
) STRICT, WITHOUT ROWID;
CREATE INDEX memory_tags_tag ON memory_tags (user_id, tag);

-- What a memory said before each edit.
CREATE TABLE memory_revisions (
    id         BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id    BLOB NOT NULL CHECK (length(user_id) = 16),
    memory_id  BLOB NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
    version    INTEGER NOT NULL,
    content    ANY NOT NULL CHECK (typeof(content) IN ('text', 'blob')),
    tags       TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(tags)),
    edited_at  INTEGER NOT NULL,
    origin     TEXT NOT NULL DEFAULT 'person' CHECK (origin IN ('person', 'agent', 'import', 'sync', 'undo')),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER,
    sync_meta  BLOB
) STRICT;
CREATE INDEX memory_revisions_memory ON memory_revisions (memory_id, version DESC);
CREATE INDEX memory_revisions_user ON memory_revisions (user_id);

CREATE TABLE conversations (
    id           BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id      BLOB NOT NULL CHECK (length(user_id) = 16),
    source       TEXT NOT NULL,
    external_id  TEXT NOT NULL,
    title        TEXT NOT NULL DEFAULT '',
    started_at   INTEGER,
    ended_at     INTEGER,
    participants TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(participants)),
    tags         TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(tags)),
    layer        INTEGER CHECK (layer IS NULL OR layer BETWEEN 1 AND 7),
    type         TEXT NOT NULL DEFAULT 'episodic' CHECK (type IN ('episodic', 'semantic', 'procedural')),
    untrusted    INTEGER NOT NULL DEFAULT 1 CHECK (untrusted IN (0, 1)),
    metadata     TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(metadata)),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    deleted_at   INTEGER,
    sync_meta    BLOB
) STRICT;
CREATE UNIQUE INDEX conversations_external ON conversations (user_id, source, external_id);
CREATE INDEX conversations_started ON conversations (user_id, started_at DESC);

CREATE TABLE conversation_turns (
    id              BLOB PRIMARY KEY CHECK (length(id) = 16),
    conversation_id BLOB NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    seq             INTEGER NOT NULL CHECK (seq >= 0),
    external_id     TEXT,
    role            TEXT NOT NULL DEFAULT 'user' CHECK (role IN ('user', 'assistant')),
    speaker         TEXT NOT NULL DEFAULT '',
    content         ANY NOT NULL CHECK (typeof(content) IN ('text', 'blob')),
    occurred_at     INTEGER,
    content_hash    BLOB NOT NULL CHECK (length(content_hash) = 32),
    metadata        TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(metadata)),
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    deleted_at      INTEGER,
    sync_meta       BLOB
) STRICT;
CREATE UNIQUE INDEX conversation_turns_seq ON conversation_turns (conversation_id, seq) WHERE deleted_at IS NULL;
CREATE INDEX conversation_turns_user ON conversation_turns (user_id, occurred_at DESC);

CREATE TABLE documents (
    id           BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id      BLOB NOT NULL CHECK (length(user_id) = 16),
    source       TEXT NOT NULL DEFAULT 'document',
    source_uri   TEXT NOT NULL,
    title        TEXT NOT NULL DEFAULT '',
    mime         TEXT NOT NULL DEFAULT 'text/plain',
    content_hash BLOB NOT NULL CHECK (length(content_hash) = 32),
    untrusted    INTEGER NOT NULL DEFAULT 1 CHECK (untrusted IN (0, 1)),
    tags         TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(tags)),
    layer        INTEGER CHECK (layer IS NULL OR layer BETWEEN 1 AND 7),
    type         TEXT NOT NULL DEFAULT 'semantic' CHECK (type IN ('episodic', 'semantic', 'procedural')),
    occurred_at  INTEGER,
    metadata     TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(metadata)),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    deleted_at   INTEGER,
    sync_meta    BLOB
) STRICT;
CREATE UNIQUE INDEX documents_uri ON documents (user_id, source_uri);

-- The parts of a document. One that is gone has deleted_at and no text.
CREATE TABLE chunks (
    id           BLOB PRIMARY KEY CHECK (length(id) = 16),
    document_id  BLOB NOT NULL REFERENCES documents (id) ON DELETE CASCADE,
    user_id      BLOB NOT NULL CHECK (length(user_id) = 16),
    seq          INTEGER NOT NULL CHECK (seq >= 0),
    heading      TEXT NOT NULL DEFAULT '',
    content      ANY NOT NULL CHECK (typeof(content) IN ('text', 'blob')),
    content_hash BLOB NOT NULL CHECK (length(content_hash) = 32),
    start_offset INTEGER,
    end_offset   INTEGER,
    metadata     TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(metadata)),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    deleted_at   INTEGER,
    sync_meta    BLOB
) STRICT;
CREATE UNIQUE INDEX chunks_seq ON chunks (document_id, seq) WHERE deleted_at IS NULL;
CREATE INDEX chunks_user ON chunks (user_id);

CREATE TABLE memory_imports (
    id          BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id     BLOB NOT NULL CHECK (length(user_id) = 16),
    format      TEXT NOT NULL,
    path        TEXT NOT NULL,
    options     TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(options)),
    status      TEXT NOT NULL CHECK (status IN ('pending', 'running', 'completed', 'failed', 'cancelled')),
    progress    REAL NOT NULL DEFAULT 0 CHECK (progress BETWEEN 0 AND 1),
    counters    TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(counters)),
    errors      TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(errors)),
    checkpoint  TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(checkpoint)),
    created_at  INTEGER NOT NULL,
    started_at  INTEGER,
    finished_at INTEGER
) STRICT;
CREATE INDEX memory_imports_user ON memory_imports (user_id, created_at DESC);

-- One row for each thing that search can find; item is its number in search_fts and in the
-- vector index. Both can be built again from the other tables. A number is never given twice:
-- a text that changed has a new one. tokens is how many words the text has.
CREATE TABLE search_items (
    item      INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id   BLOB NOT NULL CHECK (length(user_id) = 16),
    kind      TEXT NOT NULL CHECK (kind IN ('memory', 'turn', 'chunk')),
    item_id   BLOB NOT NULL CHECK (length(item_id) = 16),
    parent_id BLOB CHECK (parent_id IS NULL OR length(parent_id) = 16),
    seq       INTEGER,
    text_hash BLOB NOT NULL CHECK (length(text_hash) = 32),
    tokens    INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX search_items_id ON search_items (kind, item_id);
CREATE INDEX search_items_user ON search_items (user_id, kind);
CREATE INDEX search_items_parent ON search_items (parent_id, seq) WHERE parent_id IS NOT NULL;

CREATE VIRTUAL TABLE search_fts USING fts5 (
    title, tags, content,
    content = '', contentless_delete = 1,
    tokenize = "porter unicode61 remove_diacritics 2"
);

-- Which items have a term, and in which column.
CREATE VIRTUAL TABLE search_terms USING fts5vocab (search_fts, instance);

CREATE TABLE item_vectors (
    item_kind TEXT NOT NULL CHECK (item_kind IN ('memory', 'turn', 'chunk')),
    item_id   BLOB NOT NULL CHECK (length(item_id) = 16),
    model_id  TEXT NOT NULL,
    user_id   BLOB NOT NULL CHECK (length(user_id) = 16),
    dims      INTEGER NOT NULL CHECK (dims > 0),
    text_hash BLOB NOT NULL CHECK (length(text_hash) = 32),
    vector    BLOB NOT NULL CHECK (length(vector) = 4 * dims),
    PRIMARY KEY (item_kind, item_id, model_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX item_vectors_user ON item_vectors (user_id);

-- What waits for its vector, or has none because of error.
CREATE TABLE embedding_jobs (
    item      INTEGER NOT NULL REFERENCES search_items (item) ON DELETE CASCADE,
    model_id  TEXT NOT NULL,
    user_id   BLOB NOT NULL CHECK (length(user_id) = 16),
    attempts  INTEGER NOT NULL DEFAULT 0,
    error     TEXT,
    queued_at INTEGER NOT NULL,
    PRIMARY KEY (item, model_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX embedding_jobs_user ON embedding_jobs (user_id);
CREATE INDEX embedding_jobs_next ON embedding_jobs (model_id, queued_at DESC) WHERE error IS NULL;

-- Generations of the vector index: which model serves, and which is being prepared.
CREATE TABLE vector_meta (
    model_id   TEXT PRIMARY KEY,
    dims       INTEGER NOT NULL CHECK (dims > 0),
    state      TEXT NOT NULL CHECK (state IN ('active', 'building', 'old')),
    generation INTEGER NOT NULL DEFAULT 1,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What was handed to an agent in the last day, so that it is not stored again. For prompts and
-- the output of tools item_id is the beginning of the hash of the text.
CREATE TABLE recall_log (
    id         INTEGER PRIMARY KEY,
    user_id    BLOB NOT NULL CHECK (length(user_id) = 16),
    session_id TEXT NOT NULL DEFAULT '',
    kind       TEXT NOT NULL CHECK (kind IN ('memory', 'turn', 'chunk', 'prompt', 'tool')),
    item_id    BLOB NOT NULL CHECK (length(item_id) = 16),
    shingles   ANY NOT NULL CHECK (typeof(shingles) IN ('text', 'blob')),
    at         INTEGER NOT NULL
) STRICT;
CREATE INDEX recall_log_user ON recall_log (user_id, at DESC);
CREATE UNIQUE INDEX recall_log_item ON recall_log (user_id, kind, item_id, session_id);

-- Acts that can be undone for ten minutes.
CREATE TABLE memory_undo (
    token      TEXT PRIMARY KEY,
    user_id    BLOB NOT NULL CHECK (length(user_id) = 16),
    act        TEXT NOT NULL,
    state      TEXT NOT NULL CHECK (json_valid(state)),
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX memory_undo_user ON memory_undo (user_id, created_at DESC);

-- A memory with the vector of its present text.
CREATE VIEW memories_full AS
SELECT m.*, v.vector AS embedding, v.model_id AS embedding_model, v.dims AS embedding_dims, v.text_hash AS embedding_hash
FROM memories m
LEFT JOIN vector_meta g ON g.state = 'active'
LEFT JOIN item_vectors v ON v.item_kind = 'memory' AND v.item_id = m.id AND v.model_id = g.model_id AND v.text_hash = m.content_hash;
