-- +goose Up

-- The session that hears of the end of a detached subagent's turn, until it has.
ALTER TABLE agent_turns ADD COLUMN report_to BLOB CHECK (length(report_to) = 16);
CREATE INDEX agent_turns_report ON agent_turns (report_to) WHERE report_to IS NOT NULL;
CREATE INDEX sessions_parent_turn ON sessions (parent_turn_id) WHERE parent_turn_id IS NOT NULL;
