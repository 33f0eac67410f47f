-- +goose Up

ALTER TABLE voice_recordings ADD COLUMN audio_deleted_at INTEGER; -- the sound, but not the text, is in the trash of this device
ALTER TABLE voice_settings ADD COLUMN vad_enabled INTEGER NOT NULL DEFAULT 1 CHECK (vad_enabled IN (0, 1));
ALTER TABLE voice_settings ADD COLUMN retain_audio TEXT NOT NULL DEFAULT 'forever'; -- forever, until_transcribed or days:n
ALTER TABLE voice_settings ADD COLUMN push_to_talk_key TEXT NOT NULL DEFAULT '';
ALTER TABLE voice_settings ADD COLUMN command_confirm_ms INTEGER NOT NULL DEFAULT 15000;

-- The microphone of this device, for each user.
CREATE TABLE voice_microphones (
    user_id       BLOB PRIMARY KEY CHECK (length(user_id) = 16),
    input_device  TEXT NOT NULL, -- '': the default device
    keep_mic_open INTEGER NOT NULL CHECK (keep_mic_open IN (0, 1)),
    pre_roll_ms   INTEGER NOT NULL CHECK (pre_roll_ms BETWEEN 0 AND 2000),
    updated_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
