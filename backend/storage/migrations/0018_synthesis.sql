-- +goose Up

-- Patterns that were found in memories and conversations, and what was made of them.

CREATE TABLE memory_patterns (
    id                BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id           BLOB NOT NULL CHECK (length(user_id) = 16),
    pattern_id        TEXT NOT NULL,
    pattern_type      TEXT NOT NULL,
    category          TEXT NOT NULL,
    layer             INTEGER NOT NULL CHECK (layer BETWEEN 1 AND 7),
    description       TEXT NOT NULL,
    evidence          TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(evidence)),
    confidence        REAL NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    measured          REAL NOT NULL CHECK (measured BETWEEN 0 AND 1),
    confidence_parts  TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(confidence_parts)),
    salience          REAL NOT NULL DEFAULT 0 CHECK (salience BETWEEN 0 AND 1),
    subject           TEXT NOT NULL DEFAULT '',
    subjects          TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(subjects)),
    recommendations   TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(recommendations)),
    series            TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(series)),
    first_detected    INTEGER NOT NULL,
    last_observed     INTEGER NOT NULL,
    observation_count INTEGER NOT NULL DEFAULT 1 CHECK (observation_count >= 1),
    last_confirmed    INTEGER,
    status            TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'stale', 'rejected', 'superseded')),
    superseded_by     BLOB CHECK (superseded_by IS NULL OR length(superseded_by) = 16),
    user_confirmed    INTEGER CHECK (user_confirmed IS NULL OR user_confirmed IN (0, 1)),
    user_notes        TEXT NOT NULL DEFAULT '',
    undo              TEXT CHECK (undo IS NULL OR json_valid(undo)),
    engine            TEXT NOT NULL DEFAULT 'local',
    job_id            BLOB CHECK (job_id IS NULL OR length(job_id) = 16),
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    deleted_at        INTEGER,
    sync_meta         BLOB
) STRICT;
CREATE UNIQUE INDEX memory_patterns_key ON memory_patterns (user_id, pattern_id);
CREATE INDEX memory_patterns_layer ON memory_patterns (user_id, layer);
CREATE INDEX memory_patterns_type ON memory_patterns (user_id, pattern_type);
CREATE INDEX memory_patterns_confidence ON memory_patterns (user_id, confidence DESC, created_at DESC, id);

CREATE TABLE memory_synthesis (
    id                BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id           BLOB NOT NULL CHECK (length(user_id) = 16),
    pattern_type      TEXT NOT NULL,
    memory_ids        TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(memory_ids)),
    synthesis_content TEXT NOT NULL,
    confidence_score  REAL NOT NULL CHECK (confidence_score BETWEEN 0 AND 1),
    fingerprint       TEXT NOT NULL,
    job_id            BLOB CHECK (job_id IS NULL OR length(job_id) = 16),
    engine            TEXT NOT NULL DEFAULT 'local',
    layer             INTEGER NOT NULL CHECK (layer BETWEEN 1 AND 7),
    last_observed     INTEGER NOT NULL,
    observation_count INTEGER NOT NULL DEFAULT 1 CHECK (observation_count >= 1),
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    deleted_at        INTEGER,
    sync_meta         BLOB
) STRICT;
CREATE UNIQUE INDEX memory_synthesis_key ON memory_synthesis (user_id, fingerprint);

CREATE TABLE synthesis_recommendations (
    id             BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id        BLOB NOT NULL CHECK (length(user_id) = 16),
    pattern_id     BLOB NOT NULL REFERENCES memory_patterns (id) ON DELETE CASCADE,
    recommendation TEXT NOT NULL,
    category       TEXT NOT NULL CHECK (category IN ('psychological', 'behavioral', 'relational', 'growth')),
    priority       TEXT NOT NULL CHECK (priority IN ('low', 'medium', 'high')),
    status         TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'acknowledged', 'working_on', 'completed')),
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    deleted_at     INTEGER,
    sync_meta      BLOB
) STRICT;
CREATE UNIQUE INDEX synthesis_recommendations_key ON synthesis_recommendations (user_id, pattern_id, recommendation);
CREATE INDEX synthesis_recommendations_pattern ON synthesis_recommendations (pattern_id);

-- Jobs stay on the device that ran them.
CREATE TABLE memory_synthesis_jobs (
    id                BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id           BLOB NOT NULL CHECK (length(user_id) = 16),
    synthesis_type    TEXT NOT NULL CHECK (synthesis_type IN ('emotional_patterns', 'prospective_self', 'relational_memory', 'narrative_coherence', 'full_synthesis')),
    time_range_start  INTEGER,
    time_range_end    INTEGER,
    status            TEXT NOT NULL CHECK (status IN ('pending', 'running', 'completed', 'failed', 'cancelled')),
    progress          REAL NOT NULL DEFAULT 0 CHECK (progress BETWEEN 0 AND 1),
    stage             TEXT NOT NULL DEFAULT '',
    error_message     TEXT,
    insights          TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(insights)),
    memories_analyzed INTEGER NOT NULL DEFAULT 0,
    patterns_detected INTEGER NOT NULL DEFAULT 0,
    engine            TEXT NOT NULL DEFAULT 'local',
    params            TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(params)),
    input_hash        TEXT NOT NULL DEFAULT '',
    model             TEXT NOT NULL DEFAULT '',
    cost_usd          REAL NOT NULL DEFAULT 0,
    input_tokens      INTEGER NOT NULL DEFAULT 0,
    output_tokens     INTEGER NOT NULL DEFAULT 0,
    is_recurring      INTEGER NOT NULL DEFAULT 0 CHECK (is_recurring IN (0, 1)),
    cron_schedule     TEXT,
    last_run          INTEGER,
    next_run          INTEGER,
    started_at        INTEGER,
    completed_at      INTEGER,
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL
) STRICT;
CREATE INDEX memory_synthesis_jobs_user ON memory_synthesis_jobs (user_id, updated_at DESC, id DESC);
CREATE INDEX memory_synthesis_jobs_status ON memory_synthesis_jobs (status);
