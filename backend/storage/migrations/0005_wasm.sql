-- +goose Up

-- One row a WASM skill. wasm_bytecode is the content address of the module, whose bytes are
-- a blob. The definition (description, wasm_bytecode, capabilities, input_schema) is what
-- definition_hash covers.
CREATE TABLE skills (
    id                 BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id            BLOB NOT NULL CHECK (length(user_id) = 16),
    name               TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
    description        TEXT NOT NULL DEFAULT '' CHECK (length(description) <= 2000),
    wasm_bytecode      TEXT NOT NULL CHECK (wasm_bytecode GLOB 'sha256:*' AND length(wasm_bytecode) = 71),
    wasm_size          INTEGER NOT NULL CHECK (wasm_size >= 0),
    abi                TEXT NOT NULL DEFAULT 'execute' CHECK (abi IN ('execute', 'command')),
    version            TEXT NOT NULL DEFAULT '1.0.0',
    timeout_ms         INTEGER NOT NULL DEFAULT 5000 CHECK (timeout_ms BETWEEN 100 AND 60000),
    memory_mb          INTEGER NOT NULL DEFAULT 128 CHECK (memory_mb IN (64, 128, 256)),
    capabilities       TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(capabilities)),
    input_schema       TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(input_schema)),
    definition_hash    BLOB NOT NULL CHECK (length(definition_hash) = 32),
    signature          TEXT CHECK (signature IS NULL OR json_valid(signature)),
    signer_fingerprint TEXT,
    origin             TEXT NOT NULL DEFAULT 'import' CHECK (origin IN ('local', 'import', 'hub')),
    is_enabled         INTEGER NOT NULL DEFAULT 1 CHECK (is_enabled IN (0, 1)),
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    deleted_at         INTEGER,
    sync_meta          BLOB
) STRICT;
CREATE UNIQUE INDEX skills_name ON skills (user_id, lower(name)) WHERE deleted_at IS NULL;
CREATE INDEX skills_user ON skills (user_id, updated_at DESC) WHERE deleted_at IS NULL;

-- One row a run of a WASM skill. It is written when the run starts and once more when it
-- ends; from then on it never changes, except that old payloads are cut.
CREATE TABLE skill_executions (
    id                BLOB PRIMARY KEY CHECK (length(id) = 16),
    skill_id          BLOB NOT NULL REFERENCES skills (id) ON DELETE CASCADE,
    user_id           BLOB NOT NULL CHECK (length(user_id) = 16),
    input_params      TEXT CHECK (input_params IS NULL OR json_valid(input_params)),
    output_result     TEXT CHECK (output_result IS NULL OR json_valid(output_result)),
    status            TEXT NOT NULL CHECK (status IN ('running', 'success', 'failure', 'timeout', 'canceled')),
    error_class       TEXT,
    error_message     TEXT,
    execution_time_ms REAL NOT NULL DEFAULT 0,
    cpu_time_ms       REAL NOT NULL DEFAULT 0,
    memory_used_mb    REAL NOT NULL DEFAULT 0,
    host_calls        INTEGER NOT NULL DEFAULT 0,
    tier              TEXT NOT NULL DEFAULT '' CHECK (tier IN ('', 't0', 't1')),
    isolation         TEXT NOT NULL DEFAULT '',
    version           TEXT NOT NULL DEFAULT '',
    definition_hash   BLOB,
    caller            TEXT NOT NULL DEFAULT 'user',
    parent_id         BLOB,
    timestamp         INTEGER NOT NULL,
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    deleted_at        INTEGER,
    sync_meta         BLOB
) STRICT;
CREATE INDEX skill_executions_skill ON skill_executions (skill_id, timestamp DESC);
CREATE INDEX skill_executions_user ON skill_executions (user_id, timestamp DESC);
CREATE INDEX skill_executions_running ON skill_executions (status) WHERE status = 'running';

-- A finished run is final: only what it was given and gave may be cut later.
-- +goose StatementBegin
CREATE TRIGGER skill_executions_final BEFORE UPDATE ON skill_executions
WHEN OLD.status <> 'running' AND
    (OLD.skill_id, OLD.user_id, OLD.status, OLD.error_class, OLD.error_message, OLD.execution_time_ms, OLD.cpu_time_ms, OLD.memory_used_mb,
     OLD.host_calls, OLD.tier, OLD.isolation, OLD.version, OLD.definition_hash, OLD.caller, OLD.parent_id, OLD.timestamp) IS NOT
    (NEW.skill_id, NEW.user_id, NEW.status, NEW.error_class, NEW.error_message, NEW.execution_time_ms, NEW.cpu_time_ms, NEW.memory_used_mb,
     NEW.host_calls, NEW.tier, NEW.isolation, NEW.version, NEW.definition_hash, NEW.caller, NEW.parent_id, NEW.timestamp)
BEGIN
    SELECT RAISE(ABORT, 'a finished execution cannot change');
END;
-- +goose StatementEnd

CREATE TABLE skill_state (
    skill_id    BLOB NOT NULL REFERENCES skills (id) ON DELETE CASCADE,
    user_id     BLOB NOT NULL CHECK (length(user_id) = 16),
    state_key   TEXT NOT NULL CHECK (length(CAST(state_key AS BLOB)) BETWEEN 1 AND 256),
    state_value TEXT NOT NULL CHECK (json_valid(state_value)),
    size_bytes  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    PRIMARY KEY (skill_id, user_id, state_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX skill_state_user ON skill_state (user_id);
