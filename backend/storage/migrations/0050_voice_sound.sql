-- +goose Up

ALTER TABLE voice_settings ADD COLUMN denoise INTEGER NOT NULL DEFAULT 0 CHECK (denoise IN (0, 1)); -- engines on the device get the sound without noise
ALTER TABLE voice_settings ADD COLUMN denoise_for_cloud INTEGER NOT NULL DEFAULT 0 CHECK (denoise_for_cloud IN (0, 1)); -- so do services
ALTER TABLE voice_settings ADD COLUMN trim_silence INTEGER NOT NULL DEFAULT 1 CHECK (trim_silence IN (0, 1));
