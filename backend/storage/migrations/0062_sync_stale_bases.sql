-- +goose Up

-- A base is the version that pending changes of a row started from. Former versions of Helix left
-- some after the hub had acknowledged the changes, and later edits were compared with them.
DELETE FROM sync_base
WHERE NOT EXISTS (SELECT 1 FROM change_log c WHERE c.tbl = sync_base.tbl AND c.row_id = sync_base.row_id)
  AND NOT EXISTS (SELECT 1 FROM sync_outbox o WHERE o.tbl = sync_base.tbl AND o.row_id = sync_base.row_id);
