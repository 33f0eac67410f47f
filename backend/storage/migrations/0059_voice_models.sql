-- +goose Up

ALTER TABLE voice_settings ADD COLUMN local_model TEXT NOT NULL DEFAULT ''; -- '': the best one that is installed
