-- +goose Up

-- On whose behalf a run goes on when it is not the user's own: what the caller held when it began,
-- and what the run may spend. It is as final as the run and means nothing on another device.
ALTER TABLE composite_skill_executions ADD COLUMN caller TEXT CHECK (caller IS NULL OR json_valid(caller));
