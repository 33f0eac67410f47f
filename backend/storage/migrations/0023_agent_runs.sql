-- +goose Up

-- The input of a turn that a schedule has enqueued and that is not in the log of its session yet.
ALTER TABLE agent_turns ADD COLUMN pending TEXT CHECK (pending IS NULL OR json_valid(pending));
