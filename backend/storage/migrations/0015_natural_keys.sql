-- +goose Up

-- Two devices may both make version 1.0.1 of a tool or skill before they know of each other: both
-- rows are kept. A label means the current definition, else the newest row that bears it.
DROP INDEX custom_tool_versions_label;
CREATE INDEX custom_tool_versions_label ON custom_tool_versions (custom_tool_id, version);
DROP INDEX composite_skill_versions_label;
CREATE INDEX composite_skill_versions_label ON composite_skill_versions (composite_skill_id, version);

-- The system schedules get the ids that they have on all devices of their user.
PRAGMA defer_foreign_keys = ON;
CREATE TEMP TABLE system_ids AS
SELECT id AS former, CASE system_key WHEN 'decay' THEN x'74544b28be265a91b73df1e15ceca9a2' ELSE x'93b48593baa35296b2a9beb3a560a380' END AS now
FROM schedules WHERE system_key IN ('decay', 'cleanup') AND user_id = (SELECT user_id FROM sync_local);
UPDATE schedules SET id = i.now FROM system_ids i WHERE id = i.former;
UPDATE schedule_runs SET schedule_id = i.now FROM system_ids i WHERE schedule_id = i.former;
UPDATE schedule_state SET schedule_id = i.now FROM system_ids i WHERE schedule_id = i.former;
UPDATE schedule_notices SET schedule_id = i.now FROM system_ids i WHERE schedule_id = i.former;
UPDATE change_log SET row_id = i.now FROM system_ids i WHERE tbl = 'schedules' AND row_id = i.former;
DROP TABLE system_ids;
