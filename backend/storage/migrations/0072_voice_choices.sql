-- +goose Up

ALTER TABLE voice_settings ADD COLUMN save_transcripts INTEGER NOT NULL DEFAULT 1 CHECK (save_transcripts IN (0, 1));
ALTER TABLE voice_settings ADD COLUMN save_audio INTEGER NOT NULL DEFAULT 0 CHECK (save_audio IN (0, 1));
ALTER TABLE voice_settings ADD COLUMN tts_provider TEXT NOT NULL DEFAULT 'system' CHECK (tts_provider IN ('system', 'none'));
ALTER TABLE voice_settings ADD COLUMN wake_word TEXT NOT NULL DEFAULT 'hey helix';

-- A transcript of the time when save_transcripts was off. It never leaves this device.
ALTER TABLE voice_transcripts ADD COLUMN device_only INTEGER NOT NULL DEFAULT 0 CHECK (device_only IN (0, 1));

-- The sound on the hub, while save_audio is on.
ALTER TABLE voice_recordings ADD COLUMN hub_audio TEXT CHECK (hub_audio GLOB 'sha256:*');
