-- +goose Up

-- The format of the file that has the sound on this device, if it is not the one that was recorded.
ALTER TABLE voice_recordings ADD COLUMN audio_format TEXT NOT NULL DEFAULT '';

-- Recordings that somebody else left.
CREATE TABLE voicemail_messages (
    id           BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id      BLOB NOT NULL CHECK (length(user_id) = 16),
    recording_id BLOB NOT NULL CHECK (length(recording_id) = 16),
    sender       ANY NOT NULL,
    received_at  INTEGER NOT NULL,
    is_heard     INTEGER NOT NULL DEFAULT 0 CHECK (is_heard IN (0, 1)),
    heard_at     INTEGER,
    archived_at  INTEGER,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    deleted_at   INTEGER,
    sync_meta    BLOB
) STRICT;
CREATE INDEX voicemail_messages_received ON voicemail_messages (user_id, is_heard, received_at DESC);
CREATE INDEX voicemail_messages_recording ON voicemail_messages (recording_id);
CREATE INDEX voicemail_messages_deleted ON voicemail_messages (deleted_at) WHERE deleted_at IS NOT NULL;

-- Spoken conversations. A turn names its recording, whose transcript is the text.
CREATE TABLE voice_sessions (
    id         BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id    BLOB NOT NULL CHECK (length(user_id) = 16),
    mode       TEXT NOT NULL CHECK (mode IN ('talk')),
    started_at INTEGER NOT NULL,
    ended_at   INTEGER, -- NULL: another turn may follow
    turns      TEXT NOT NULL CHECK (json_valid(turns)), -- [{"recordingId", "at"}]
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER,
    sync_meta  BLOB
) STRICT;
CREATE INDEX voice_sessions_started ON voice_sessions (user_id, started_at DESC);
CREATE INDEX voice_sessions_deleted ON voice_sessions (deleted_at) WHERE deleted_at IS NOT NULL;
