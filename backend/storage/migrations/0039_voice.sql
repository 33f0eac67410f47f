-- +goose Up

-- What was said: the file as it came, whose bytes are a blob of this device.
CREATE TABLE voice_recordings (
    id           BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id      BLOB NOT NULL CHECK (length(user_id) = 16),
    device_id    BLOB NOT NULL CHECK (length(device_id) = 16),
    source       TEXT NOT NULL CHECK (source IN ('capture', 'upload', 'voicemail', 'command')),
    audio_sha256 TEXT CHECK (audio_sha256 GLOB 'sha256:*'), -- NULL: the sound is on another device
    audio_size   INTEGER NOT NULL,
    format       TEXT NOT NULL,
    codec        TEXT NOT NULL,
    sample_rate  INTEGER NOT NULL,
    channels     INTEGER NOT NULL,
    duration_ms  INTEGER, -- NULL: it was not decoded yet
    lost_ms      INTEGER NOT NULL DEFAULT 0, -- of it could not be decoded
    recorded_at  INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    deleted_at   INTEGER,
    sync_meta    BLOB
) STRICT;
CREATE INDEX voice_recordings_deleted ON voice_recordings (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX voice_recordings_audio ON voice_recordings (user_id, audio_sha256);

CREATE TABLE voice_memos (
    id                   BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id              BLOB NOT NULL CHECK (length(user_id) = 16),
    recording_id         BLOB NOT NULL CHECK (length(recording_id) = 16),
    title                ANY NOT NULL,
    tags                 TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(tags)),
    transcription_status TEXT NOT NULL CHECK (transcription_status IN ('pending', 'processing', 'completed', 'failed')),
    transcription_error  TEXT NOT NULL DEFAULT '',
    recorded_at          INTEGER NOT NULL,
    created_at           INTEGER NOT NULL,
    updated_at           INTEGER NOT NULL,
    deleted_at           INTEGER,
    sync_meta            BLOB
) STRICT;
CREATE INDEX voice_memos_recorded ON voice_memos (user_id, recorded_at DESC);
CREATE INDEX voice_memos_status ON voice_memos (user_id, transcription_status);
CREATE INDEX voice_memos_recording ON voice_memos (recording_id);
CREATE INDEX voice_memos_deleted ON voice_memos (deleted_at) WHERE deleted_at IS NOT NULL;

-- What engines and people made of a recording. Each version stays; one is current. Two devices may
-- each make one current: then the newest is.
CREATE TABLE voice_transcripts (
    id            BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id       BLOB NOT NULL CHECK (length(user_id) = 16),
    recording_id  BLOB NOT NULL CHECK (length(recording_id) = 16),
    engine        TEXT NOT NULL, -- person: it was edited
    model         TEXT NOT NULL,
    language_code TEXT NOT NULL,
    text          ANY NOT NULL,
    confidence    REAL,
    words         ANY NOT NULL, -- JSON
    is_current    INTEGER NOT NULL CHECK (is_current IN (0, 1)),
    edited_at     INTEGER,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    deleted_at    INTEGER,
    sync_meta     BLOB
) STRICT;
CREATE INDEX voice_transcripts_recording ON voice_transcripts (recording_id);
CREATE INDEX voice_transcripts_user ON voice_transcripts (user_id);
CREATE INDEX voice_transcripts_deleted ON voice_transcripts (deleted_at) WHERE deleted_at IS NOT NULL;

-- The words of current transcripts, with the title and tags of the memo. The triggers also see the rows
-- of other devices. A sealed text is a BLOB and has no words here.
CREATE VIRTUAL TABLE voice_transcripts_fts USING fts5 (text, title, tags, tokenize = 'unicode61 remove_diacritics 2');
CREATE TABLE voice_transcript_items (
    item          INTEGER PRIMARY KEY, -- the row in voice_transcripts_fts
    transcript_id BLOB NOT NULL UNIQUE CHECK (length(transcript_id) = 16)
) STRICT;

-- +goose StatementBegin
CREATE TRIGGER voice_transcripts_added AFTER INSERT ON voice_transcripts WHEN NEW.is_current = 1 AND typeof(NEW.text) = 'text' BEGIN
    INSERT INTO voice_transcript_items (transcript_id) VALUES (NEW.id);
    INSERT INTO voice_transcripts_fts (rowid, text, title, tags)
        SELECT i.item, NEW.text, coalesce((SELECT m.title FROM voice_memos m WHERE m.recording_id = NEW.recording_id AND typeof(m.title) = 'text'), ''),
            coalesce((SELECT m.tags FROM voice_memos m WHERE m.recording_id = NEW.recording_id), '')
        FROM voice_transcript_items i WHERE i.transcript_id = NEW.id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER voice_transcripts_changed AFTER UPDATE OF text, is_current ON voice_transcripts BEGIN
    DELETE FROM voice_transcripts_fts WHERE rowid = (SELECT item FROM voice_transcript_items WHERE transcript_id = NEW.id);
    DELETE FROM voice_transcript_items WHERE transcript_id = NEW.id;
    INSERT INTO voice_transcript_items (transcript_id) SELECT NEW.id WHERE NEW.is_current = 1 AND typeof(NEW.text) = 'text';
    INSERT INTO voice_transcripts_fts (rowid, text, title, tags)
        SELECT i.item, NEW.text, coalesce((SELECT m.title FROM voice_memos m WHERE m.recording_id = NEW.recording_id AND typeof(m.title) = 'text'), ''),
            coalesce((SELECT m.tags FROM voice_memos m WHERE m.recording_id = NEW.recording_id), '')
        FROM voice_transcript_items i WHERE i.transcript_id = NEW.id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER voice_transcripts_removed AFTER DELETE ON voice_transcripts BEGIN
    DELETE FROM voice_transcripts_fts WHERE rowid = (SELECT item FROM voice_transcript_items WHERE transcript_id = OLD.id);
    DELETE FROM voice_transcript_items WHERE transcript_id = OLD.id;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER voice_memos_added AFTER INSERT ON voice_memos BEGIN
    UPDATE voice_transcripts_fts SET title = iif(typeof(NEW.title) = 'text', NEW.title, ''), tags = NEW.tags
        WHERE rowid IN (SELECT i.item FROM voice_transcripts t JOIN voice_transcript_items i ON i.transcript_id = t.id WHERE t.recording_id = NEW.recording_id);
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER voice_memos_changed AFTER UPDATE OF title, tags ON voice_memos BEGIN
    UPDATE voice_transcripts_fts SET title = iif(typeof(NEW.title) = 'text', NEW.title, ''), tags = NEW.tags
        WHERE rowid IN (SELECT i.item FROM voice_transcripts t JOIN voice_transcript_items i ON i.transcript_id = t.id WHERE t.recording_id = NEW.recording_id);
END;
-- +goose StatementEnd

CREATE TABLE voice_settings (
    id           BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id      BLOB NOT NULL UNIQUE CHECK (length(user_id) = 16),
    provider     TEXT NOT NULL CHECK (provider IN ('local', 'deepgram')),
    model        TEXT NOT NULL,
    language     TEXT NOT NULL,
    local_engine TEXT NOT NULL,
    fallback     TEXT NOT NULL CHECK (fallback IN ('queue', 'local')),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    deleted_at   INTEGER,
    sync_meta    BLOB
) STRICT;

-- What is to be done with recordings of this device.
CREATE TABLE voice_processing_queue (
    id              BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    recording_id    BLOB NOT NULL CHECK (length(recording_id) = 16),
    task            TEXT NOT NULL CHECK (task = 'transcribe'),
    engine          TEXT NOT NULL,
    model           TEXT NOT NULL,
    language        TEXT NOT NULL,
    status          TEXT NOT NULL CHECK (status IN ('pending', 'processing', 'completed', 'failed')),
    attempts        INTEGER NOT NULL DEFAULT 0,
    max_attempts    INTEGER NOT NULL DEFAULT 3,
    next_attempt_at INTEGER NOT NULL,
    lease_until     INTEGER,
    error_kind      TEXT NOT NULL DEFAULT '',
    error_message   TEXT NOT NULL DEFAULT '',
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX voice_processing_queue_open ON voice_processing_queue (recording_id, engine) WHERE status IN ('pending', 'processing');
CREATE INDEX voice_processing_queue_due ON voice_processing_queue (status, next_attempt_at);
CREATE INDEX voice_processing_queue_user ON voice_processing_queue (user_id, status);
CREATE INDEX voice_processing_queue_recording ON voice_processing_queue (recording_id);

CREATE TABLE voice_memo_audit (
    id           BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id      BLOB NOT NULL CHECK (length(user_id) = 16),
    recording_id BLOB NOT NULL CHECK (length(recording_id) = 16),
    action       TEXT NOT NULL,
    detail       TEXT NOT NULL CHECK (json_valid(detail)),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    deleted_at   INTEGER,
    sync_meta    BLOB
) STRICT;
CREATE INDEX voice_memo_audit_recording ON voice_memo_audit (user_id, recording_id);
