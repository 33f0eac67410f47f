-- +goose Up

-- Only turns that have not ended are looked for by their state.
DROP INDEX agent_turns_state;
DROP INDEX agent_turns_user;
CREATE INDEX agent_turns_open ON agent_turns (user_id, state) WHERE state IN ('queued', 'running', 'waiting');
