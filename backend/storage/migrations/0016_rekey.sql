-- +goose Up

-- What is final stays with its user, who may become another one: users.hub_user_id says who.
DROP TRIGGER composite_skill_versions_final;
-- +goose StatementBegin
CREATE TRIGGER composite_skill_versions_final BEFORE UPDATE ON composite_skill_versions
WHEN (OLD.composite_skill_id, OLD.version, OLD.body, OLD.definition_hash, OLD.note, OLD.origin, OLD.created_at) IS NOT
    (NEW.composite_skill_id, NEW.version, NEW.body, NEW.definition_hash, NEW.note, NEW.origin, NEW.created_at)
    OR OLD.user_id <> NEW.user_id AND NOT EXISTS (SELECT 1 FROM users WHERE id = OLD.user_id AND hub_user_id = NEW.user_id)
BEGIN
    SELECT RAISE(ABORT, 'a version of a skill cannot change');
END;
-- +goose StatementEnd
DROP TRIGGER composite_skill_executions_final;
-- +goose StatementBegin
CREATE TRIGGER composite_skill_executions_final BEFORE UPDATE ON composite_skill_executions
WHEN OLD.status IN ('completed', 'failed', 'cancelled') AND
    ((OLD.version_id, OLD.definition_hash, OLD.mode, OLD.trigger, OLD.status, OLD.error_kind, OLD.error_message, OLD.steps_completed,
     OLD.total_steps, OLD.parent_execution_id, OLD.restarted_from, OLD.device_id, OLD.started_at, OLD.finished_at) IS NOT
    (NEW.version_id, NEW.definition_hash, NEW.mode, NEW.trigger, NEW.status, NEW.error_kind, NEW.error_message, NEW.steps_completed,
     NEW.total_steps, NEW.parent_execution_id, NEW.restarted_from, NEW.device_id, NEW.started_at, NEW.finished_at)
    OR OLD.user_id <> NEW.user_id AND NOT EXISTS (SELECT 1 FROM users WHERE id = OLD.user_id AND hub_user_id = NEW.user_id))
BEGIN
    SELECT RAISE(ABORT, 'a finished execution cannot change');
END;
-- +goose StatementEnd
DROP TRIGGER skill_executions_final;
-- +goose StatementBegin
CREATE TRIGGER skill_executions_final BEFORE UPDATE ON skill_executions
WHEN OLD.status <> 'running' AND
    ((OLD.skill_id, OLD.status, OLD.error_class, OLD.error_message, OLD.execution_time_ms, OLD.cpu_time_ms, OLD.memory_used_mb,
     OLD.host_calls, OLD.tier, OLD.isolation, OLD.version, OLD.definition_hash, OLD.caller, OLD.parent_id, OLD.timestamp) IS NOT
    (NEW.skill_id, NEW.status, NEW.error_class, NEW.error_message, NEW.execution_time_ms, NEW.cpu_time_ms, NEW.memory_used_mb,
     NEW.host_calls, NEW.tier, NEW.isolation, NEW.version, NEW.definition_hash, NEW.caller, NEW.parent_id, NEW.timestamp)
    OR OLD.user_id <> NEW.user_id AND NOT EXISTS (SELECT 1 FROM users WHERE id = OLD.user_id AND hub_user_id = NEW.user_id))
BEGIN
    SELECT RAISE(ABORT, 'a finished execution cannot change');
END;
-- +goose StatementEnd
