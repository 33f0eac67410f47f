-- +goose Up

-- Patterns quote memories, so private storage seals their texts too: TEXT is plain, BLOB is sealed.
CREATE TABLE former_recommendations AS SELECT * FROM synthesis_recommendations;
DROP TABLE synthesis_recommendations; -- before the table it refers to, whose rows it would follow

ALTER TABLE memory_patterns RENAME TO former_patterns;
CREATE TABLE memory_patterns (
    id                BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id           BLOB NOT NULL CHECK (length(user_id) = 16),
    pattern_id        TEXT NOT NULL,
    pattern_type      TEXT NOT NULL,
    category          TEXT NOT NULL,
    layer             INTEGER NOT NULL CHECK (layer BETWEEN 1 AND 7),
    description       ANY NOT NULL CHECK (typeof(description) IN ('text', 'blob')),
    evidence          ANY NOT NULL DEFAULT '[]' CHECK (typeof(evidence) = 'blob' OR json_valid(evidence)),
    confidence        REAL NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    measured          REAL NOT NULL CHECK (measured BETWEEN 0 AND 1),
    confidence_parts  TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(confidence_parts)),
    salience          REAL NOT NULL DEFAULT 0 CHECK (salience BETWEEN 0 AND 1),
    subject           ANY NOT NULL DEFAULT '' CHECK (typeof(subject) IN ('text', 'blob')),
    subjects          ANY NOT NULL DEFAULT '[]' CHECK (typeof(subjects) = 'blob' OR json_valid(subjects)),
    recommendations   ANY NOT NULL DEFAULT '[]' CHECK (typeof(recommendations) = 'blob' OR json_valid(recommendations)),
    series            TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(series)),
    first_detected    INTEGER NOT NULL,
    last_observed     INTEGER NOT NULL,
    observation_count INTEGER NOT NULL DEFAULT 1 CHECK (observation_count >= 1),
    last_confirmed    INTEGER,
    status            TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'stale', 'rejected', 'superseded')),
    superseded_by     BLOB CHECK (superseded_by IS NULL OR length(superseded_by) = 16),
    user_confirmed    INTEGER CHECK (user_confirmed IS NULL OR user_confirmed IN (0, 1)),
    user_notes        ANY NOT NULL DEFAULT '' CHECK (typeof(user_notes) IN ('text', 'blob')),
    undo              ANY CHECK (undo IS NULL OR typeof(undo) = 'blob' OR json_valid(undo)),
    engine            TEXT NOT NULL DEFAULT 'local',
    job_id            BLOB CHECK (job_id IS NULL OR length(job_id) = 16),
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    deleted_at        INTEGER,
    sync_meta         BLOB
) STRICT;
INSERT INTO memory_patterns (id, user_id, pattern_id, pattern_type, category, layer, description, evidence, confidence, measured, confidence_parts, salience, subject, subjects,
        recommendations, series, first_detected, last_observed, observation_count, last_confirmed, status, superseded_by, user_confirmed, user_notes, undo, engine, job_id, created_at, updated_at, deleted_at, sync_meta)
    SELECT id, user_id, pattern_id, pattern_type, category, layer, description, evidence, confidence, measured, confidence_parts, salience, subject, subjects,
        recommendations, series, first_detected, last_observed, observation_count, last_confirmed, status, superseded_by, user_confirmed, user_notes, undo, engine, job_id, created_at, updated_at, deleted_at, sync_meta
    FROM former_patterns;
DROP TABLE former_patterns;
CREATE UNIQUE INDEX memory_patterns_key ON memory_patterns (user_id, pattern_id);
CREATE INDEX memory_patterns_layer ON memory_patterns (user_id, layer);
CREATE INDEX memory_patterns_type ON memory_patterns (user_id, pattern_type);
CREATE INDEX memory_patterns_confidence ON memory_patterns (user_id, confidence DESC, created_at DESC, id);

CREATE TABLE synthesis_recommendations (
    id             BLOB PRIMARY KEY CHECK (length(id) = 16), -- made of the pattern and the text
    user_id        BLOB NOT NULL CHECK (length(user_id) = 16),
    pattern_id     BLOB NOT NULL REFERENCES memory_patterns (id) ON DELETE CASCADE,
    recommendation ANY NOT NULL CHECK (typeof(recommendation) IN ('text', 'blob')),
    category       TEXT NOT NULL CHECK (category IN ('psychological', 'behavioral', 'relational', 'growth')),
    priority       TEXT NOT NULL CHECK (priority IN ('low', 'medium', 'high')),
    status         TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'acknowledged', 'working_on', 'completed')),
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    deleted_at     INTEGER,
    sync_meta      BLOB
) STRICT;
INSERT INTO synthesis_recommendations (id, user_id, pattern_id, recommendation, category, priority, status, created_at, updated_at, deleted_at, sync_meta)
    SELECT id, user_id, pattern_id, recommendation, category, priority, status, created_at, updated_at, deleted_at, sync_meta FROM former_recommendations;
DROP TABLE former_recommendations;
CREATE UNIQUE INDEX synthesis_recommendations_key ON synthesis_recommendations (user_id, pattern_id, recommendation);
CREATE INDEX synthesis_recommendations_pattern ON synthesis_recommendations (pattern_id);

ALTER TABLE memory_synthesis RENAME TO former_synthesis;
CREATE TABLE memory_synthesis (
    id                BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id           BLOB NOT NULL CHECK (length(user_id) = 16),
    pattern_type      TEXT NOT NULL,
    memory_ids        TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(memory_ids)),
    synthesis_content ANY NOT NULL CHECK (typeof(synthesis_content) IN ('text', 'blob')),
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
INSERT INTO memory_synthesis (id, user_id, pattern_type, memory_ids, synthesis_content, confidence_score, fingerprint, job_id, engine, layer, last_observed, observation_count, created_at, updated_at, deleted_at, sync_meta)
    SELECT id, user_id, pattern_type, memory_ids, synthesis_content, confidence_score, fingerprint, job_id, engine, layer, last_observed, observation_count, created_at, updated_at, deleted_at, sync_meta FROM former_synthesis;
DROP TABLE former_synthesis;
CREATE UNIQUE INDEX memory_synthesis_key ON memory_synthesis (user_id, fingerprint);

ALTER TABLE memory_synthesis_jobs RENAME TO former_jobs;
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
    insights          ANY NOT NULL DEFAULT '{}' CHECK (typeof(insights) = 'blob' OR json_valid(insights)),
    memories_analyzed INTEGER NOT NULL DEFAULT 0,
    patterns_detected INTEGER NOT NULL DEFAULT 0,
    engine            TEXT NOT NULL DEFAULT 'local',
    params            ANY NOT NULL DEFAULT '{}' CHECK (typeof(params) = 'blob' OR json_valid(params)),
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
INSERT INTO memory_synthesis_jobs (id, user_id, synthesis_type, time_range_start, time_range_end, status, progress, stage, error_message, insights, memories_analyzed, patterns_detected, engine, params, input_hash,
        model, cost_usd, input_tokens, output_tokens, is_recurring, cron_schedule, last_run, next_run, started_at, completed_at, created_at, updated_at)
    SELECT id, user_id, synthesis_type, time_range_start, time_range_end, status, progress, stage, error_message, insights, memories_analyzed, patterns_detected, engine, params, input_hash,
        model, cost_usd, input_tokens, output_tokens, is_recurring, cron_schedule, last_run, next_run, started_at, completed_at, created_at, updated_at FROM former_jobs;
DROP TABLE former_jobs;
CREATE INDEX memory_synthesis_jobs_user ON memory_synthesis_jobs (user_id, updated_at DESC, id DESC);
CREATE INDEX memory_synthesis_jobs_status ON memory_synthesis_jobs (status);

-- Who has sealed texts already seals these too at the next start.
UPDATE meta SET value = 'partly' WHERE key = 'memory.private' AND value = 'true';

-- What a person says of the names in texts: whom an alias means.
CREATE TABLE person_aliases (
    id          BLOB PRIMARY KEY CHECK (length(id) = 16), -- made of the alias
    user_id     BLOB NOT NULL CHECK (length(user_id) = 16),
    alias       ANY NOT NULL CHECK (typeof(alias) IN ('text', 'blob')),
    person      ANY NOT NULL CHECK (typeof(person) IN ('text', 'blob')), -- their name
    undo_token  TEXT,
    undo_person ANY CHECK (undo_person IS NULL OR typeof(undo_person) IN ('text', 'blob')), -- before; NULL: there was no correction
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    deleted_at  INTEGER,
    sync_meta   BLOB
) STRICT;
CREATE INDEX person_aliases_user ON person_aliases (user_id);
CREATE INDEX person_aliases_undo ON person_aliases (undo_token) WHERE undo_token IS NOT NULL;
