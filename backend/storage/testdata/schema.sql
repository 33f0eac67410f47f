CREATE TABLE agent_budgets (
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    scope           TEXT NOT NULL CHECK (scope IN ('day', 'month', 'provider', 'session', 'schedule', 'agent')),
    key             TEXT NOT NULL DEFAULT '',
    max_cost_micros INTEGER NOT NULL DEFAULT 0 CHECK (max_cost_micros >= 0),
    max_tokens      INTEGER NOT NULL DEFAULT 0 CHECK (max_tokens >= 0),
    warn_at         REAL NOT NULL DEFAULT 0.8 CHECK (warn_at BETWEEN 0 AND 1),
    PRIMARY KEY (user_id, scope, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE agent_ledger (
    id              BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    session_id      BLOB CHECK (length(session_id) = 16),
    turn_id         BLOB CHECK (length(turn_id) = 16),
    parent_id       BLOB CHECK (length(parent_id) = 16), -- the session that a subagent works for
    schedule_id     BLOB CHECK (length(schedule_id) = 16),
    agent_name      TEXT NOT NULL DEFAULT '',
    purpose         TEXT NOT NULL,
    provider        TEXT NOT NULL,
    model           TEXT NOT NULL,
    attempt         INTEGER NOT NULL DEFAULT 1,
    state           TEXT NOT NULL CHECK (state IN ('reserved', 'settled', 'released', 'lost')),
    reserved_micros INTEGER NOT NULL DEFAULT 0,
    reserved_tokens INTEGER NOT NULL DEFAULT 0,
    cost_micros     INTEGER NOT NULL DEFAULT 0, -- what counts against budgets now
    reported_micros INTEGER NOT NULL DEFAULT 0,
    input           INTEGER NOT NULL DEFAULT 0,
    cache_read      INTEGER NOT NULL DEFAULT 0,
    cache_write     INTEGER NOT NULL DEFAULT 0,
    output          INTEGER NOT NULL DEFAULT 0,
    reasoning       INTEGER NOT NULL DEFAULT 0,
    estimated       INTEGER NOT NULL DEFAULT 0 CHECK (estimated IN (0, 1)),
    outcome         TEXT NOT NULL DEFAULT '',
    at              INTEGER NOT NULL,
    settled_at      INTEGER
) STRICT;

CREATE TABLE agent_skill_folders (
    user_id    BLOB NOT NULL CHECK (length(user_id) = 16),
    path       TEXT NOT NULL,
    trusted_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, path)
) STRICT, WITHOUT ROWID;

CREATE TABLE agent_skills (
    id              BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    name            TEXT NOT NULL,
    source          TEXT NOT NULL CHECK (source IN ('project', 'user', 'shared', 'managed')),
    path            TEXT NOT NULL,
    definition_hash TEXT NOT NULL,
    approved_hash   TEXT NOT NULL DEFAULT '',
    approved_text   TEXT NOT NULL DEFAULT '', -- to show what has changed since
    state           TEXT NOT NULL CHECK (state IN ('inactive', 'active', 'disabled', 'changed', 'invalid')),
    origin          TEXT NOT NULL CHECK (origin IN ('user', 'agent', 'import', 'project')),
    frontmatter     TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(frontmatter)),
    body_tokens     INTEGER NOT NULL DEFAULT 0,
    diagnostics     TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(diagnostics)),
    last_used       INTEGER,
    UNIQUE (user_id, path)
) STRICT;

CREATE TABLE agent_turns (
    id                  BLOB PRIMARY KEY CHECK (length(id) = 16),
    session_id          BLOB NOT NULL CHECK (length(session_id) = 16),
    user_id             BLOB NOT NULL CHECK (length(user_id) = 16),
    state               TEXT NOT NULL CHECK (state IN ('queued', 'running', 'waiting', 'completed', 'cancelled', 'failed')),
    phase               TEXT NOT NULL DEFAULT '',
    wait_reason         TEXT NOT NULL DEFAULT '',
    queue_mode          TEXT NOT NULL DEFAULT 'followup',
    lane                TEXT NOT NULL DEFAULT 'chat' CHECK (lane IN ('chat', 'background')),
    stop_reason         TEXT NOT NULL DEFAULT '',
    steps               INTEGER NOT NULL DEFAULT 0,
    usage               TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(usage)),
    cost_micros         INTEGER NOT NULL DEFAULT 0,
    provider            TEXT NOT NULL DEFAULT '',
    model               TEXT NOT NULL DEFAULT '',
    error_kind          TEXT NOT NULL DEFAULT '',
    error_message       TEXT NOT NULL DEFAULT '',
    schedule_run_id     BLOB CHECK (length(schedule_run_id) = 16),
    retry_of            BLOB CHECK (length(retry_of) = 16),
    created_at          INTEGER NOT NULL,
    started_at          INTEGER,
    finished_at         INTEGER,
    cancel_requested_at INTEGER
, pending TEXT CHECK (pending IS NULL OR json_valid(pending)), report_to BLOB CHECK (length(report_to) = 16)) STRICT;

CREATE TABLE audit_details (
    seq     INTEGER PRIMARY KEY,
    details TEXT NOT NULL CHECK (json_valid(details) AND length(CAST(details AS BLOB)) <= 8192)
) STRICT;

CREATE TABLE audit_log (
    seq          INTEGER PRIMARY KEY,
    id           BLOB NOT NULL CHECK (length(id) = 16),
    user_id      BLOB NOT NULL CHECK (length(user_id) = 16),
    device_id    BLOB NOT NULL CHECK (length(device_id) = 16),
    at           INTEGER NOT NULL,
    actor_kind   TEXT NOT NULL,
    actor_id     TEXT NOT NULL,
    action       TEXT NOT NULL CHECK (length(action) BETWEEN 1 AND 64),
    subject_kind TEXT NOT NULL,
    subject_id   TEXT NOT NULL,
    outcome      TEXT NOT NULL,
    run_id       BLOB CHECK (length(run_id) = 16),
    details_hash BLOB NOT NULL CHECK (length(details_hash) = 32),
    prev_hash    BLOB NOT NULL CHECK (length(prev_hash) = 32),
    hash         BLOB NOT NULL CHECK (length(hash) = 32)
) STRICT;

CREATE TABLE audit_pruning (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    through INTEGER NOT NULL
) STRICT;

CREATE TABLE audit_segments (
    device_id  BLOB NOT NULL CHECK (length(device_id) = 16),
    no         INTEGER NOT NULL CHECK (no >= 1),
    first_seq  INTEGER NOT NULL,
    last_seq   INTEGER NOT NULL CHECK (last_seq >= first_seq),
    count      INTEGER NOT NULL CHECK (count = last_seq - first_seq + 1),
    first_prev BLOB NOT NULL CHECK (length(first_prev) = 32),
    last_hash  BLOB NOT NULL CHECK (length(last_hash) = 32),
    root       BLOB NOT NULL CHECK (length(root) = 32),
    public_key BLOB NOT NULL CHECK (length(public_key) = 32),
    signature  BLOB NOT NULL CHECK (length(signature) = 64),
    signed_at  INTEGER NOT NULL,
    PRIMARY KEY (device_id, no)
) STRICT, WITHOUT ROWID;

CREATE TABLE capability_denials (
    id           BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id      BLOB NOT NULL CHECK (length(user_id) = 16),
    subject_kind TEXT NOT NULL,
    subject_id   TEXT NOT NULL,
    capability   TEXT NOT NULL,
    resource     TEXT NOT NULL,
    reason       TEXT NOT NULL DEFAULT '',
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    deleted_at   INTEGER,
    sync_meta    BLOB
) STRICT;

CREATE TABLE capability_grants (
    id              BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    device_id       BLOB NOT NULL CHECK (length(device_id) = 16),
    subject_kind    TEXT NOT NULL,
    subject_id      TEXT NOT NULL,
    definition_hash BLOB NOT NULL CHECK (length(definition_hash) = 32),
    capability      TEXT NOT NULL,
    resource        TEXT NOT NULL,
    scope           TEXT NOT NULL CHECK (scope IN ('once', 'run', 'session', 'always')),
    run_id          BLOB CHECK (length(run_id) = 16),
    session_id      BLOB CHECK (length(session_id) = 16),
    uses_left       INTEGER CHECK (uses_left >= 0),
    expires_at      INTEGER,
    origin          TEXT NOT NULL CHECK (origin IN ('user', 'preset', 'policy')),
    pending_id      BLOB CHECK (length(pending_id) = 16),
    created_at      INTEGER NOT NULL,
    last_used_at    INTEGER,
    revoked_at      INTEGER,
    revoke_reason   TEXT,
    suspended_at    INTEGER
) STRICT;

CREATE TABLE change_log (
    seq    INTEGER PRIMARY KEY AUTOINCREMENT,
    tbl    TEXT NOT NULL,
    row_id BLOB NOT NULL CHECK (length(row_id) = 16),
    op     TEXT NOT NULL CHECK (op = 'I' OR op = 'U' OR op = 'D'),
    fields INTEGER NOT NULL,
    hlc    INTEGER NOT NULL,
    txn    INTEGER NOT NULL,
    at     INTEGER NOT NULL
) STRICT;

CREATE TABLE channel_inbox (
    id          BLOB PRIMARY KEY CHECK (length(id) = 16), -- also the id of the turn
    user_id     BLOB NOT NULL CHECK (length(user_id) = 16),
    channel_id  BLOB NOT NULL REFERENCES channels (id) ON DELETE CASCADE,
    external_id TEXT NOT NULL,
    context_id  TEXT NOT NULL,
    sender_id   TEXT NOT NULL,
    payload     ANY NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('received', 'submitted', 'done', 'failed')),
    session_id  BLOB CHECK (length(session_id) = 16), -- set before it is submitted
    received_at INTEGER NOT NULL,
    done_at     INTEGER,
    UNIQUE (channel_id, external_id)
) STRICT;

CREATE TABLE channel_outbox (
    id           BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id      BLOB NOT NULL CHECK (length(user_id) = 16),
    channel_id   BLOB NOT NULL REFERENCES channels (id) ON DELETE CASCADE,
    context_id   TEXT NOT NULL,
    dedupe_key   TEXT NOT NULL,
    reply        INTEGER NOT NULL CHECK (reply IN (0, 1)), -- 0: a notification
    payload      ANY NOT NULL,
    repeated     INTEGER NOT NULL DEFAULT 0 CHECK (repeated IN (0, 1)), -- it may have been sent before
    state        TEXT NOT NULL CHECK (state IN ('queued', 'sending', 'sent', 'unknown', 'failed', 'dropped')),
    attempts     INTEGER NOT NULL DEFAULT 0,
    next_at      INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    external_ref TEXT NOT NULL DEFAULT '',
    last_error   TEXT NOT NULL DEFAULT '',
    created_at   INTEGER NOT NULL,
    sent_at      INTEGER,
    UNIQUE (channel_id, dedupe_key)
) STRICT;

CREATE TABLE channel_rejections (
    user_id    BLOB NOT NULL CHECK (length(user_id) = 16),
    channel_id BLOB NOT NULL REFERENCES channels (id) ON DELETE CASCADE,
    sender_id  TEXT NOT NULL,
    context_id TEXT NOT NULL,
    reason     TEXT NOT NULL CHECK (reason IN ('not_allowed', 'context', 'rate', 'size', 'signature', 'replay', 'pairing')),
    first_at   INTEGER NOT NULL,
    last_at    INTEGER NOT NULL,
    logged_at  INTEGER NOT NULL, -- of the last audit entry
    count      INTEGER NOT NULL,
    PRIMARY KEY (channel_id, sender_id, context_id, reason)
) STRICT, WITHOUT ROWID;

CREATE TABLE channel_routes (
    user_id BLOB NOT NULL CHECK (length(user_id) = 16),
    topic   TEXT NOT NULL CHECK (topic IN ('schedule', 'approval', 'job', 'system')),
    target  TEXT NOT NULL, -- channel:<id>:<contextId>
    "when"  TEXT NOT NULL CHECK ("when" IN ('always', 'away', 'never')),
    PRIMARY KEY (user_id, topic)
) STRICT, WITHOUT ROWID;

CREATE TABLE channel_senders (
    user_id     BLOB NOT NULL CHECK (length(user_id) = 16),
    channel_id  BLOB NOT NULL REFERENCES channels (id) ON DELETE CASCADE,
    sender_id   TEXT NOT NULL,
    label       TEXT NOT NULL,
    context_ids TEXT NOT NULL CHECK (json_valid(context_ids)), -- groups in which the sender is allowed too
    role        TEXT NOT NULL CHECK (role IN ('chat', 'notify')),
    added_by    TEXT NOT NULL CHECK (added_by IN ('user', 'pairing')),
    added_at    INTEGER NOT NULL,
    last_seen   INTEGER,
    PRIMARY KEY (channel_id, sender_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE channel_sessions (
    user_id    BLOB NOT NULL CHECK (length(user_id) = 16),
    channel_id BLOB NOT NULL REFERENCES channels (id) ON DELETE CASCADE,
    context_id TEXT NOT NULL,
    session_id BLOB NOT NULL CHECK (length(session_id) = 16),
    created_at INTEGER NOT NULL,
    last_at    INTEGER NOT NULL,
    PRIMARY KEY (channel_id, context_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE channels (
    id           BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id      BLOB NOT NULL CHECK (length(user_id) = 16),
    kind         TEXT NOT NULL CHECK (kind IN ('telegram', 'webhook')),
    name         TEXT NOT NULL,
    config       TEXT NOT NULL CHECK (json_valid(config)),
    secret_name  TEXT NOT NULL, -- of the sealed token or signing secret
    enabled      INTEGER NOT NULL CHECK (enabled IN (0, 1)),
    cursor       TEXT NOT NULL DEFAULT '', -- position in the service's updates
    last_error   TEXT NOT NULL DEFAULT '',
    pair_hash    BLOB CHECK (length(pair_hash) = 32), -- of the live pairing code
    pair_expires INTEGER,
    pair_tries   INTEGER NOT NULL DEFAULT 0, -- wrong codes since the last correct one
    pair_locked  INTEGER, -- until when no code is accepted
    device_id    BLOB NOT NULL CHECK (length(device_id) = 16),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL, deleted_at INTEGER,
    UNIQUE (user_id, name)
) STRICT;

CREATE TABLE chat_attachments (
    user_id BLOB NOT NULL CHECK (length(user_id) = 16),
    sha256  TEXT NOT NULL CHECK (sha256 GLOB 'sha256:*'),
    name    TEXT NOT NULL,
    mime    TEXT NOT NULL,
    bytes   INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (user_id, sha256)
) STRICT, WITHOUT ROWID;

CREATE TABLE chunks (
    id           BLOB PRIMARY KEY CHECK (length(id) = 16),
    document_id  BLOB NOT NULL REFERENCES documents (id) ON DELETE CASCADE,
    user_id      BLOB NOT NULL CHECK (length(user_id) = 16),
    seq          INTEGER NOT NULL CHECK (seq >= 0),
    heading      TEXT NOT NULL DEFAULT '',
    content      ANY NOT NULL CHECK (typeof(content) IN ('text', 'blob')),
    content_hash BLOB NOT NULL CHECK (length(content_hash) = 32),
    start_offset INTEGER,
    end_offset   INTEGER,
    metadata     TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(metadata)),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    deleted_at   INTEGER,
    sync_meta    BLOB
) STRICT;

CREATE TABLE composite_skill_events (
    execution_id BLOB NOT NULL REFERENCES composite_skill_executions (id) ON DELETE CASCADE,
    seq          INTEGER NOT NULL,
    type         TEXT NOT NULL,
    step_path    TEXT NOT NULL DEFAULT '',
    iteration    TEXT NOT NULL DEFAULT '',
    attempt      INTEGER NOT NULL DEFAULT 0,
    payload      TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(payload)),
    at           INTEGER NOT NULL,
    PRIMARY KEY (execution_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE composite_skill_executions (
    id                  BLOB PRIMARY KEY CHECK (length(id) = 16),
    composite_skill_id  BLOB REFERENCES composite_skills (id) ON DELETE CASCADE,
    user_id             BLOB NOT NULL CHECK (length(user_id) = 16),
    version_id          BLOB CHECK (version_id IS NULL OR length(version_id) = 16),
    definition_hash     BLOB NOT NULL CHECK (length(definition_hash) = 32),
    body                TEXT CHECK (body IS NULL OR json_valid(body)),
    mode                TEXT NOT NULL DEFAULT 'live' CHECK (mode IN ('live', 'dry', 'replay')),
    trigger             TEXT NOT NULL DEFAULT 'user' CHECK (trigger IN ('user', 'rpc', 'cli', 'voice', 'schedule', 'agent', 'skill')),
    input_params        TEXT NOT NULL CHECK (json_valid(input_params)),
    steps_executed      TEXT CHECK (steps_executed IS NULL OR json_valid(steps_executed)),
    final_output        TEXT CHECK (final_output IS NULL OR json_valid(final_output)),
    status              TEXT NOT NULL DEFAULT 'completed' CHECK (status IN ('queued', 'running', 'waiting', 'completed', 'failed', 'cancelled')),
    wait_reason         TEXT CHECK (wait_reason IS NULL OR wait_reason IN ('approval', 'unknown_outcome', 'permission', 'timer')),
    error_kind          TEXT,
    error_message       TEXT,
    execution_time_ms   REAL NOT NULL DEFAULT 0,
    steps_completed     INTEGER NOT NULL DEFAULT 0,
    steps_failed        INTEGER NOT NULL DEFAULT 0,
    steps_skipped       INTEGER NOT NULL DEFAULT 0,
    total_steps         INTEGER NOT NULL DEFAULT 0,
    parent_execution_id BLOB CHECK (parent_execution_id IS NULL OR length(parent_execution_id) = 16),
    parent_step_path    TEXT,
    depth               INTEGER NOT NULL DEFAULT 0 CHECK (depth BETWEEN 0 AND 4),
    restarted_from      BLOB CHECK (restarted_from IS NULL OR length(restarted_from) = 16),
    request_id          TEXT,
    device_id           BLOB NOT NULL CHECK (length(device_id) = 16),
    pinned              INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)),
    bytes               INTEGER NOT NULL DEFAULT 0,
    started_at          INTEGER,
    finished_at         INTEGER,
    deadline_at         INTEGER,
    wake_at             INTEGER,
    cancel_requested_at INTEGER,
    created_at          INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL,
    deleted_at          INTEGER,
    sync_meta           BLOB
, caller TEXT CHECK (caller IS NULL OR json_valid(caller))) STRICT;

CREATE TABLE composite_skill_interruptions (
    execution_id   BLOB PRIMARY KEY REFERENCES composite_skill_executions (id) ON DELETE CASCADE,
    times          INTEGER NOT NULL,
    stopped        INTEGER NOT NULL DEFAULT 0 CHECK (stopped IN (0, 1)), -- the last end of the process was in order
    quarantined_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE composite_skill_steps (
    id            BLOB PRIMARY KEY CHECK (length(id) = 16),
    execution_id  BLOB NOT NULL REFERENCES composite_skill_executions (id) ON DELETE CASCADE,
    user_id       BLOB NOT NULL CHECK (length(user_id) = 16),
    ordinal       INTEGER NOT NULL,
    step_path     TEXT NOT NULL,
    iteration     TEXT NOT NULL DEFAULT '',
    tool_type     TEXT NOT NULL,
    tool_name     TEXT NOT NULL DEFAULT '',
    status        TEXT NOT NULL CHECK (status IN ('running', 'waiting', 'completed', 'failed', 'skipped', 'cancelled', 'unmocked')),
    reason        TEXT,
    attempts      INTEGER NOT NULL DEFAULT 0,
    input_hash    TEXT,
    output        TEXT CHECK (output IS NULL OR json_valid(output)),
    output_blob   TEXT,
    error_kind    TEXT,
    error_message TEXT,
    outcome       TEXT NOT NULL DEFAULT 'known' CHECK (outcome IN ('known', 'unknown')),
    took_ms       REAL NOT NULL DEFAULT 0,
    started_at    INTEGER,
    finished_at   INTEGER,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    deleted_at    INTEGER,
    sync_meta     BLOB
) STRICT;

CREATE TABLE composite_skill_versions (
    id                 BLOB PRIMARY KEY CHECK (length(id) = 16),
    composite_skill_id BLOB NOT NULL REFERENCES composite_skills (id) ON DELETE CASCADE,
    user_id            BLOB NOT NULL CHECK (length(user_id) = 16),
    version            TEXT NOT NULL,
    body               TEXT NOT NULL CHECK (json_valid(body)),
    definition_hash    BLOB NOT NULL CHECK (length(definition_hash) = 32),
    note               TEXT NOT NULL DEFAULT '',
    origin             TEXT NOT NULL DEFAULT 'edit' CHECK (origin IN ('edit', 'import', 'rollback', 'sync', 'agent')),
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    deleted_at         INTEGER,
    sync_meta          BLOB
) STRICT;

CREATE TABLE composite_skills (
    id                 BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id            BLOB NOT NULL CHECK (length(user_id) = 16),
    name               TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
    description        TEXT NOT NULL DEFAULT '' CHECK (length(description) <= 2000),
    steps              TEXT NOT NULL CHECK (json_valid(steps)),
    version            TEXT NOT NULL DEFAULT '1.0.0',
    tags               TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(tags)),
    icon               TEXT NOT NULL DEFAULT '',
    execution_count    INTEGER NOT NULL DEFAULT 0,
    last_executed      INTEGER,
    is_enabled         INTEGER NOT NULL DEFAULT 1 CHECK (is_enabled IN (0, 1)),
    visibility         TEXT NOT NULL DEFAULT 'private' CHECK (visibility IN ('private', 'public')),
    input_schema       TEXT CHECK (input_schema IS NULL OR json_valid(input_schema)),
    output_mapping     TEXT CHECK (output_mapping IS NULL OR json_valid(output_mapping)),
    notification       TEXT CHECK (notification IS NULL OR json_valid(notification)),
    overall_timeout_ms INTEGER CHECK (overall_timeout_ms IS NULL OR overall_timeout_ms BETWEEN 1 AND 86400000),
    definition_hash    BLOB NOT NULL CHECK (length(definition_hash) = 32),
    head_version_id    BLOB CHECK (head_version_id IS NULL OR length(head_version_id) = 16),
    clone_source_id    BLOB REFERENCES composite_skills (id) ON DELETE SET NULL,
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    deleted_at         INTEGER,
    sync_meta          BLOB
) STRICT;

CREATE TABLE container_orphans (
    volume  TEXT PRIMARY KEY,
    seen_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE container_runs (
    id              BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    tool_id         BLOB NOT NULL CHECK (length(tool_id) = 16),
    input           TEXT NOT NULL CHECK (json_valid(input)), -- without secrets
    output          TEXT NOT NULL DEFAULT '', -- the beginning
    log             TEXT NOT NULL DEFAULT '', -- the end of standard error
    status          TEXT NOT NULL CHECK (status IN ('running', 'success', 'failure', 'timeout', 'cancelled')),
    error_class     TEXT NOT NULL DEFAULT '',
    error_message   TEXT NOT NULL DEFAULT '',
    exit_code       INTEGER,
    container_id    TEXT NOT NULL DEFAULT '',
    duration_ms     INTEGER,
    definition_hash BLOB NOT NULL CHECK (length(definition_hash) = 32),
    caller          TEXT NOT NULL, -- kind of the caller; '': the person
    run_id          BLOB CHECK (length(run_id) = 16),
    created_at      INTEGER NOT NULL
) STRICT;

CREATE TABLE container_tools (
    id              BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    name            TEXT NOT NULL CHECK (name GLOB '[a-z]*'),
    status          TEXT NOT NULL CHECK (status IN ('pending_approval', 'active', 'disabled', 'revoked')),
    definition      TEXT NOT NULL CHECK (json_valid(definition)),
    definition_hash BLOB NOT NULL CHECK (length(definition_hash) = 32),
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    approved_at     INTEGER,
    CHECK (status NOT IN ('active', 'disabled') OR approved_at IS NOT NULL)
) STRICT;

CREATE TABLE conversation_events (
    no             INTEGER PRIMARY KEY,
    session_id     BLOB NOT NULL CHECK (length(session_id) = 16),
    sequence       INTEGER NOT NULL,
    type           TEXT NOT NULL,
    turn_id        BLOB CHECK (length(turn_id) = 16),
    payload_json   ANY NOT NULL, -- sealed with storage.private
    schema_version INTEGER NOT NULL DEFAULT 1,
    causation      INTEGER,
    at             INTEGER NOT NULL,
    UNIQUE (session_id, sequence)
) STRICT;

CREATE TABLE conversation_turns (
    id              BLOB PRIMARY KEY CHECK (length(id) = 16),
    conversation_id BLOB NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    seq             INTEGER NOT NULL CHECK (seq >= 0),
    external_id     TEXT,
    role            TEXT NOT NULL DEFAULT 'user' CHECK (role IN ('user', 'assistant')),
    speaker         TEXT NOT NULL DEFAULT '',
    content         ANY NOT NULL CHECK (typeof(content) IN ('text', 'blob')),
    occurred_at     INTEGER,
    content_hash    BLOB NOT NULL CHECK (length(content_hash) = 32),
    metadata        TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(metadata)),
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    deleted_at      INTEGER,
    sync_meta       BLOB
) STRICT;

CREATE TABLE conversations (
    id           BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id      BLOB NOT NULL CHECK (length(user_id) = 16),
    source       TEXT NOT NULL,
    external_id  TEXT NOT NULL,
    title        TEXT NOT NULL DEFAULT '',
    started_at   INTEGER,
    ended_at     INTEGER,
    participants TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(participants)),
    tags         TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(tags)),
    layer        INTEGER CHECK (layer IS NULL OR layer BETWEEN 1 AND 7),
    type         TEXT NOT NULL DEFAULT 'episodic' CHECK (type IN ('episodic', 'semantic', 'procedural')),
    untrusted    INTEGER NOT NULL DEFAULT 1 CHECK (untrusted IN (0, 1)),
    metadata     TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(metadata)),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    deleted_at   INTEGER,
    sync_meta    BLOB
) STRICT;

CREATE TABLE custom_tool_replies (
    user_id      BLOB NOT NULL CHECK (length(user_id) = 16),
    key          TEXT NOT NULL CHECK (length(key) BETWEEN 1 AND 128),
    request_hash BLOB NOT NULL,
    response     TEXT NOT NULL CHECK (json_valid(response)),
    created_at   INTEGER NOT NULL,
    PRIMARY KEY (user_id, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE custom_tool_runs (
    id              BLOB PRIMARY KEY CHECK (length(id) = 16),
    custom_tool_id  BLOB NOT NULL REFERENCES custom_tools (id) ON DELETE CASCADE,
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    input_params    TEXT CHECK (input_params IS NULL OR json_valid(input_params)),
    version         TEXT NOT NULL,
    definition_hash BLOB NOT NULL,
    caller          TEXT NOT NULL,
    parent_id       BLOB,
    started_at      INTEGER NOT NULL
) STRICT;

CREATE TABLE custom_tool_shares (
    id              BLOB PRIMARY KEY CHECK (length(id) = 16),
    custom_tool_id  BLOB NOT NULL REFERENCES custom_tools (id) ON DELETE CASCADE,
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    version         TEXT NOT NULL,
    definition_hash BLOB NOT NULL CHECK (length(definition_hash) = 32),
    access          TEXT NOT NULL CHECK (access IN ('link', 'public')),
    expires_at      INTEGER,
    revoked_at      INTEGER,
    opens           INTEGER NOT NULL DEFAULT 0,
    created_at      INTEGER NOT NULL
) STRICT;

CREATE TABLE custom_tool_state (
    custom_tool_id BLOB NOT NULL REFERENCES custom_tools (id) ON DELETE CASCADE,
    user_id        BLOB NOT NULL CHECK (length(user_id) = 16),
    state_key      TEXT NOT NULL CHECK (length(CAST(state_key AS BLOB)) BETWEEN 1 AND 256),
    state_value    TEXT NOT NULL CHECK (json_valid(state_value)),
    size_bytes     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    PRIMARY KEY (custom_tool_id, user_id, state_key)
) STRICT, WITHOUT ROWID;

CREATE TABLE custom_tool_usage (
    id                BLOB PRIMARY KEY CHECK (length(id) = 16),
    custom_tool_id    BLOB NOT NULL REFERENCES custom_tools (id) ON DELETE CASCADE,
    user_id           BLOB NOT NULL CHECK (length(user_id) = 16),
    input_params      TEXT CHECK (input_params IS NULL OR json_valid(input_params)),
    output_result     TEXT CHECK (output_result IS NULL OR json_valid(output_result)),
    status            TEXT NOT NULL CHECK (status IN ('success', 'failure', 'timeout')),
    error_class       TEXT,
    error_message     TEXT,
    execution_time_ms REAL NOT NULL DEFAULT 0,
    cpu_time_ms       REAL NOT NULL DEFAULT 0,
    memory_used_mb    REAL NOT NULL DEFAULT 0,
    host_calls        INTEGER NOT NULL DEFAULT 0,
    version           TEXT NOT NULL DEFAULT '',
    definition_hash   BLOB,
    caller            TEXT NOT NULL DEFAULT 'user' CHECK (caller IN ('user', 'agent', 'skill', 'schedule', 'voice', 'tool', 'cli')),
    parent_id         BLOB,
    timestamp         INTEGER NOT NULL,
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    deleted_at        INTEGER,
    sync_meta         BLOB
) STRICT;

CREATE TABLE custom_tool_versions (
    id              BLOB PRIMARY KEY CHECK (length(id) = 16),
    custom_tool_id  BLOB NOT NULL REFERENCES custom_tools (id) ON DELETE CASCADE,
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    version         TEXT NOT NULL,
    definition_hash BLOB NOT NULL CHECK (length(definition_hash) = 32),
    language        TEXT NOT NULL CHECK (language IN ('typescript', 'javascript')),
    code            TEXT NOT NULL,
    parameters      TEXT NOT NULL CHECK (json_valid(parameters)),
    capabilities    TEXT NOT NULL CHECK (json_valid(capabilities)),
    sandbox_profile TEXT NOT NULL CHECK (sandbox_profile IN ('strict', 'standard', 'permissive')),
    limits          TEXT CHECK (limits IS NULL OR json_valid(limits)),
    description     TEXT NOT NULL DEFAULT '',
    note            TEXT NOT NULL DEFAULT '',
    author          TEXT NOT NULL DEFAULT '',
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    deleted_at      INTEGER,
    sync_meta       BLOB
) STRICT;

CREATE TABLE custom_tools (
    id                 BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id            BLOB NOT NULL CHECK (length(user_id) = 16),
    name               TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
    description        TEXT NOT NULL DEFAULT '' CHECK (length(description) <= 2000),
    language           TEXT NOT NULL DEFAULT 'javascript' CHECK (language IN ('typescript', 'javascript')),
    code               TEXT NOT NULL,
    parameters         TEXT NOT NULL DEFAULT '{"type":"object"}' CHECK (json_valid(parameters)),
    capabilities       TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(capabilities)),
    sandbox_profile    TEXT NOT NULL DEFAULT 'standard' CHECK (sandbox_profile IN ('strict', 'standard', 'permissive')),
    limits             TEXT CHECK (limits IS NULL OR json_valid(limits)),
    definition_hash    BLOB NOT NULL CHECK (length(definition_hash) = 32),
    version            TEXT NOT NULL DEFAULT '1.0.0',
    author             TEXT NOT NULL DEFAULT '',
    signature          TEXT CHECK (signature IS NULL OR json_valid(signature)),
    signer_fingerprint TEXT,
    signed_at          INTEGER,
    samples            TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(samples)),
    tags               TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(tags)),
    icon               TEXT NOT NULL DEFAULT '',
    origin             TEXT NOT NULL DEFAULT 'local' CHECK (origin IN ('local', 'clone', 'import', 'share', 'hub')),
    clone_source_id    BLOB REFERENCES custom_tools (id) ON DELETE SET NULL,
    visibility         TEXT NOT NULL DEFAULT 'private' CHECK (visibility IN ('private', 'public')),
    is_enabled         INTEGER NOT NULL DEFAULT 1 CHECK (is_enabled IN (0, 1)),
    sync_state         INTEGER NOT NULL DEFAULT 0 CHECK (sync_state IN (0, 1)),
    usage_count        INTEGER NOT NULL DEFAULT 0,
    last_used          INTEGER,
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    deleted_at         INTEGER,
    sync_meta          BLOB
) STRICT;

CREATE TABLE data_keys (
    no         INTEGER PRIMARY KEY,
    wrapped    BLOB NOT NULL,
    uses       INTEGER NOT NULL DEFAULT 0 CHECK (uses >= 0),
    created_at INTEGER NOT NULL,
    retired_at INTEGER
) STRICT;

CREATE TABLE decay_runs (
    id          BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id     BLOB NOT NULL CHECK (length(user_id) = 16),
    started_at  INTEGER NOT NULL,
    finished_at INTEGER,
    layers      INTEGER NOT NULL DEFAULT 0,
    items       INTEGER NOT NULL DEFAULT 0,
    changed     INTEGER NOT NULL DEFAULT 0,
    skipped     TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(skipped)),
    trashed     TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(trashed)), -- ids
    errors      TEXT,
    announced   INTEGER NOT NULL DEFAULT 0 CHECK (announced IN (0, 1)) -- that something fades
) STRICT;

CREATE TABLE definitions (
    id           BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id      BLOB NOT NULL CHECK (length(user_id) = 16),
    subject_kind TEXT NOT NULL,
    subject_id   TEXT NOT NULL,
    hash         BLOB NOT NULL CHECK (length(hash) = 32),
    document     TEXT NOT NULL CHECK (json_valid(document)),
    first_seen   INTEGER NOT NULL,
    approved_at  INTEGER,
    approved_by  TEXT,
    UNIQUE (user_id, subject_kind, subject_id, hash)
) STRICT;

CREATE TABLE deletions (
    item_id BLOB PRIMARY KEY CHECK (length(item_id) = 16),
    user_id BLOB NOT NULL CHECK (length(user_id) = 16),
    actor   TEXT NOT NULL,
    at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE device_keys (
    id          BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id     BLOB NOT NULL REFERENCES users (id),
    public_key  BLOB NOT NULL CHECK (length(public_key) = 32),
    private_key BLOB NOT NULL,
    created_at  INTEGER NOT NULL,
    retired_at  INTEGER
) STRICT;

CREATE TABLE discovery_catalog (
    id         BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id    BLOB NOT NULL CHECK (length(user_id) = 16),
    kind       TEXT NOT NULL CHECK (kind IN ('dir', 'list')),
    location   TEXT NOT NULL, -- path or address
    entries    TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(entries)),
    signature  BLOB,          -- of the names, sizes and times of the files of a folder
    error      TEXT NOT NULL DEFAULT '', -- of the last reading; the former entries stay
    read_at    INTEGER,
    created_at INTEGER NOT NULL,
    UNIQUE (user_id, location)
) STRICT;

CREATE TABLE documents (
    id           BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id      BLOB NOT NULL CHECK (length(user_id) = 16),
    source       TEXT NOT NULL DEFAULT 'document',
    source_uri   TEXT NOT NULL,
    title        TEXT NOT NULL DEFAULT '',
    mime         TEXT NOT NULL DEFAULT 'text/plain',
    content_hash BLOB NOT NULL CHECK (length(content_hash) = 32),
    untrusted    INTEGER NOT NULL DEFAULT 1 CHECK (untrusted IN (0, 1)),
    tags         TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(tags)),
    layer        INTEGER CHECK (layer IS NULL OR layer BETWEEN 1 AND 7),
    type         TEXT NOT NULL DEFAULT 'semantic' CHECK (type IN ('episodic', 'semantic', 'procedural')),
    occurred_at  INTEGER,
    metadata     TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(metadata)),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    deleted_at   INTEGER,
    sync_meta    BLOB
) STRICT;

CREATE TABLE embedding_jobs (
    item      INTEGER NOT NULL REFERENCES search_items (item) ON DELETE CASCADE,
    model_id  TEXT NOT NULL,
    user_id   BLOB NOT NULL CHECK (length(user_id) = 16),
    attempts  INTEGER NOT NULL DEFAULT 0,
    error     TEXT,
    queued_at INTEGER NOT NULL,
    PRIMARY KEY (item, model_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE eval_runs (
    id       BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id  BLOB NOT NULL CHECK (length(user_id) = 16),
    eval_id  BLOB NOT NULL CHECK (length(eval_id) = 16),
    scenario TEXT NOT NULL,
    live     INTEGER NOT NULL CHECK (live IN (0, 1)),
    passed   INTEGER NOT NULL CHECK (passed IN (0, 1)),
    problems TEXT NOT NULL CHECK (json_valid(problems)),
    metrics  TEXT NOT NULL CHECK (json_valid(metrics)),
    build    TEXT NOT NULL,
    at       INTEGER NOT NULL
) STRICT;

CREATE TABLE gateway_tokens (
    id           BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id      BLOB NOT NULL CHECK (length(user_id) = 16),
    name         TEXT NOT NULL,
    token_hash   BLOB NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    scopes       TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    last_used_at INTEGER,
    expires_at   INTEGER,
    revoked_at   INTEGER
) STRICT;

CREATE TABLE item_vectors (
    item_kind TEXT NOT NULL CHECK (item_kind IN ('memory', 'turn', 'chunk')),
    item_id   BLOB NOT NULL CHECK (length(item_id) = 16),
    model_id  TEXT NOT NULL,
    user_id   BLOB NOT NULL CHECK (length(user_id) = 16),
    dims      INTEGER NOT NULL CHECK (dims > 0),
    text_hash BLOB NOT NULL CHECK (length(text_hash) = 32),
    vector    BLOB NOT NULL CHECK (length(vector) = 4 * dims),
    PRIMARY KEY (item_kind, item_id, model_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE "mcp_calls" (
    id              BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    server_id       BLOB NOT NULL,
    server          TEXT NOT NULL,
    tool            TEXT NOT NULL,
    arguments       TEXT NOT NULL, -- without secrets
    output          TEXT NOT NULL DEFAULT '',
    output_sha256   TEXT CHECK (output_sha256 GLOB 'sha256:*'), -- an output too large for the row
    status          TEXT NOT NULL CHECK (status IN ('running', 'success', 'failure', 'timeout', 'cancelled')),
    error_class     TEXT NOT NULL DEFAULT '',
    duration_ms     INTEGER NOT NULL DEFAULT 0,
    bytes           INTEGER NOT NULL DEFAULT 0, -- of the output
    definition_hash BLOB NOT NULL CHECK (length(definition_hash) = 32),
    caller          TEXT NOT NULL,
    run_id          BLOB CHECK (length(run_id) = 16),
    created_at      INTEGER NOT NULL
) STRICT;

CREATE TABLE mcp_exposed (
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    kind            TEXT NOT NULL CHECK (kind IN ('tool', 'skill', 'discovery', 'memory')),
    ref_id          TEXT NOT NULL,
    name            TEXT NOT NULL,
    definition_hash TEXT NOT NULL,
    exposed_at      INTEGER NOT NULL,
    PRIMARY KEY (user_id, kind, ref_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE mcp_servers (
    id              BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    name            TEXT NOT NULL,
    entry           TEXT NOT NULL CHECK (json_valid(entry)), -- with ${VAR}, never with the value of a secret
    enabled         INTEGER NOT NULL CHECK (enabled IN (0, 1)),
    source          TEXT NOT NULL, -- user, or the place it was imported from
    definition_hash BLOB NOT NULL CHECK (length(definition_hash) = 32), -- of what it runs or connects to
    approved_hash   BLOB CHECK (length(approved_hash) = 32),
    version         TEXT NOT NULL DEFAULT '', -- what the server said about itself when it last started
    protocol        TEXT NOT NULL DEFAULT '',
    listed_at       INTEGER, -- NULL: its tools were never listed
    last_error      TEXT NOT NULL DEFAULT '',
    last_started    INTEGER,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    deleted_at      INTEGER
) STRICT;

CREATE TABLE mcp_tools (
    id              BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    server_id       BLOB NOT NULL REFERENCES mcp_servers (id) ON DELETE CASCADE,
    name            TEXT NOT NULL,
    function_name   TEXT NOT NULL,
    document        TEXT NOT NULL CHECK (json_valid(document)),
    definition_hash BLOB NOT NULL CHECK (length(definition_hash) = 32),
    approved_hash   BLOB CHECK (length(approved_hash) = 32),
    tier            TEXT NOT NULL CHECK (tier IN ('read_only', 'side_effecting', 'privileged')),
    state           TEXT NOT NULL CHECK (state IN ('approved', 'new', 'changed', 'removed', 'denied')),
    problem         TEXT NOT NULL DEFAULT '', -- why it cannot be used
    tokens          INTEGER NOT NULL,
    first_seen      INTEGER NOT NULL,
    last_seen       INTEGER NOT NULL
) STRICT;

CREATE TABLE memories (
    id                 BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id            BLOB NOT NULL CHECK (length(user_id) = 16),
    type               TEXT NOT NULL DEFAULT 'episodic' CHECK (type IN ('episodic', 'semantic', 'procedural')),
    content            ANY NOT NULL CHECK (typeof(content) IN ('text', 'blob')),
    emotional_valence  REAL CHECK (emotional_valence IS NULL OR emotional_valence BETWEEN -1 AND 1),
    last_accessed      INTEGER,
    occurred_at        INTEGER,
    layer              INTEGER CHECK (layer IS NULL OR layer BETWEEN 1 AND 7),
    source             TEXT NOT NULL DEFAULT 'manual' CHECK (source IN ('manual', 'note', 'agent', 'chatgpt', 'claude', 'markdown', 'text', 'jsonl', 'locomo', 'voice', 'document', 'tool')),
    source_ref         TEXT,
    untrusted          INTEGER NOT NULL DEFAULT 0 CHECK (untrusted IN (0, 1)),
    content_hash       BLOB NOT NULL CHECK (length(content_hash) = 32),
    salience           REAL NOT NULL DEFAULT 50 CHECK (salience BETWEEN 0 AND 100),
    salience_tier      TEXT NOT NULL DEFAULT 'medium' CHECK (salience_tier IN ('critical', 'high', 'medium', 'low')),
    pinned             INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)),
    access_count       INTEGER NOT NULL DEFAULT 0,
    initial_strength   REAL NOT NULL DEFAULT 1 CHECK (initial_strength BETWEEN 0 AND 1),
    last_reinforced_at INTEGER,
    retention          REAL CHECK (retention IS NULL OR retention BETWEEN 0 AND 1),
    decayed_at         INTEGER,
    metadata           TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(metadata)),
    version            INTEGER NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    deleted_at         INTEGER,
    sync_meta          BLOB
) STRICT;

CREATE TABLE memory_decay_history (
    id                 BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id            BLOB NOT NULL CHECK (length(user_id) = 16),
    item_id            BLOB NOT NULL CHECK (length(item_id) = 16),
    layer_number       INTEGER NOT NULL,
    previous_retention REAL NOT NULL,
    new_retention      REAL NOT NULL,
    threshold          REAL NOT NULL,
    at                 INTEGER NOT NULL,
    run_id             BLOB NOT NULL CHECK (length(run_id) = 16)
) STRICT;

CREATE TABLE memory_imports (
    id          BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id     BLOB NOT NULL CHECK (length(user_id) = 16),
    format      TEXT NOT NULL,
    path        TEXT NOT NULL,
    options     TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(options)),
    status      TEXT NOT NULL CHECK (status IN ('pending', 'running', 'completed', 'failed', 'cancelled')),
    progress    REAL NOT NULL DEFAULT 0 CHECK (progress BETWEEN 0 AND 1),
    counters    TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(counters)),
    errors      TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(errors)),
    checkpoint  TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(checkpoint)),
    created_at  INTEGER NOT NULL,
    started_at  INTEGER,
    finished_at INTEGER
, source_blob TEXT GENERATED ALWAYS AS (CASE WHEN status IN ('pending', 'running') THEN options ->> '$.blob' END) VIRTUAL) STRICT;

CREATE TABLE memory_patterns (
    id                BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id           BLOB NOT NULL CHECK (length(user_id) = 16),
    pattern_id        TEXT NOT NULL,
    pattern_type      TEXT NOT NULL,
    category          TEXT NOT NULL,
    layer             INTEGER NOT NULL CHECK (layer BETWEEN 1 AND 7),
    description       ANY NOT NULL CHECK (typeof(description) IN ('text', 'blob')),
    evidence          ANY NOT NULL DEFAULT '[]' CHECK (typeof(evidence) = 'blob' OR json_valid(evidence)),
    confidence        REAL NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    measured          REAL NOT NULL CHECK (measured BETWEEN 0 AND 1),
    confidence_parts  TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(confidence_parts)),
    salience          REAL NOT NULL DEFAULT 0 CHECK (salience BETWEEN 0 AND 1),
    subject           ANY NOT NULL DEFAULT '' CHECK (typeof(subject) IN ('text', 'blob')),
    subjects          ANY NOT NULL DEFAULT '[]' CHECK (typeof(subjects) = 'blob' OR json_valid(subjects)),
    recommendations   ANY NOT NULL DEFAULT '[]' CHECK (typeof(recommendations) = 'blob' OR json_valid(recommendations)),
    series            TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(series)),
    first_detected    INTEGER NOT NULL,
    last_observed     INTEGER NOT NULL,
    observation_count INTEGER NOT NULL DEFAULT 1 CHECK (observation_count >= 1),
    last_confirmed    INTEGER,
    status            TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'stale', 'rejected', 'superseded')),
    superseded_by     BLOB CHECK (superseded_by IS NULL OR length(superseded_by) = 16),
    user_confirmed    INTEGER CHECK (user_confirmed IS NULL OR user_confirmed IN (0, 1)),
    user_notes        ANY NOT NULL DEFAULT '' CHECK (typeof(user_notes) IN ('text', 'blob')),
    undo              ANY CHECK (undo IS NULL OR typeof(undo) = 'blob' OR json_valid(undo)),
    engine            TEXT NOT NULL DEFAULT 'local',
    job_id            BLOB CHECK (job_id IS NULL OR length(job_id) = 16),
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    deleted_at        INTEGER,
    sync_meta         BLOB
) STRICT;

CREATE TABLE memory_revisions (
    id         BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id    BLOB NOT NULL CHECK (length(user_id) = 16),
    memory_id  BLOB NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
    version    INTEGER NOT NULL,
    content    ANY NOT NULL CHECK (typeof(content) IN ('text', 'blob')),
    tags       TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(tags)),
    edited_at  INTEGER NOT NULL,
    origin     TEXT NOT NULL DEFAULT 'person' CHECK (origin IN ('person', 'agent', 'import', 'sync', 'undo')),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER,
    sync_meta  BLOB
) STRICT;

CREATE TABLE memory_synthesis (
    id                BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id           BLOB NOT NULL CHECK (length(user_id) = 16),
    pattern_type      TEXT NOT NULL,
    memory_ids        TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(memory_ids)),
    synthesis_content ANY NOT NULL CHECK (typeof(synthesis_content) IN ('text', 'blob')),
    confidence_score  REAL NOT NULL CHECK (confidence_score BETWEEN 0 AND 1),
    fingerprint       TEXT NOT NULL,
    job_id            BLOB CHECK (job_id IS NULL OR length(job_id) = 16),
    engine            TEXT NOT NULL DEFAULT 'local',
    layer             INTEGER NOT NULL CHECK (layer BETWEEN 1 AND 7),
    last_observed     INTEGER NOT NULL,
    observation_count INTEGER NOT NULL DEFAULT 1 CHECK (observation_count >= 1),
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    deleted_at        INTEGER,
    sync_meta         BLOB
) STRICT;

CREATE TABLE memory_synthesis_jobs (
    id                BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id           BLOB NOT NULL CHECK (length(user_id) = 16),
    synthesis_type    TEXT NOT NULL CHECK (synthesis_type IN ('emotional_patterns', 'prospective_self', 'relational_memory', 'narrative_coherence', 'full_synthesis')),
    time_range_start  INTEGER,
    time_range_end    INTEGER,
    status            TEXT NOT NULL CHECK (status IN ('pending', 'running', 'completed', 'failed', 'cancelled')),
    progress          REAL NOT NULL DEFAULT 0 CHECK (progress BETWEEN 0 AND 1),
    stage             TEXT NOT NULL DEFAULT '',
    error_message     TEXT,
    insights          ANY NOT NULL DEFAULT '{}' CHECK (typeof(insights) = 'blob' OR json_valid(insights)),
    memories_analyzed INTEGER NOT NULL DEFAULT 0,
    patterns_detected INTEGER NOT NULL DEFAULT 0,
    engine            TEXT NOT NULL DEFAULT 'local',
    params            ANY NOT NULL DEFAULT '{}' CHECK (typeof(params) = 'blob' OR json_valid(params)),
    input_hash        TEXT NOT NULL DEFAULT '',
    model             TEXT NOT NULL DEFAULT '',
    cost_usd          REAL NOT NULL DEFAULT 0,
    input_tokens      INTEGER NOT NULL DEFAULT 0,
    output_tokens     INTEGER NOT NULL DEFAULT 0,
    is_recurring      INTEGER NOT NULL DEFAULT 0 CHECK (is_recurring IN (0, 1)),
    cron_schedule     TEXT,
    last_run          INTEGER,
    next_run          INTEGER,
    started_at        INTEGER,
    completed_at      INTEGER,
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL
) STRICT;

CREATE TABLE memory_tags (
    memory_id BLOB NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
    user_id   BLOB NOT NULL CHECK (length(user_id) = 16),
    tag       TEXT NOT NULL CHECK (length(tag) BETWEEN 1 AND 64),
    PRIMARY KEY (memory_id, tag)
) STRICT, WITHOUT ROWID;

CREATE TABLE memory_undo (
    token      TEXT PRIMARY KEY,
    user_id    BLOB NOT NULL CHECK (length(user_id) = 16),
    act        TEXT NOT NULL,
    state      TEXT NOT NULL CHECK (json_valid(state)),
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE migration_log (
    version     INTEGER PRIMARY KEY,
    name        TEXT NOT NULL,
    sha256      BLOB NOT NULL CHECK (length(sha256) = 32),
    app_version TEXT NOT NULL,
    started_at  INTEGER NOT NULL,
    finished_at INTEGER,
    snapshot    TEXT
) STRICT;

CREATE TABLE model_roles (
    id         BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id    BLOB NOT NULL CHECK (length(user_id) = 16),
    role       TEXT NOT NULL,
    config     TEXT NOT NULL CHECK (json_valid(config)),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (user_id, role)
) STRICT;

CREATE TABLE pending_approvals (
    id              BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    kind            TEXT NOT NULL CHECK (kind IN ('capability', 'definition', 'tier', 'command')),
    subject_kind    TEXT NOT NULL,
    subject_id      TEXT NOT NULL,
    subject_name    TEXT NOT NULL DEFAULT '',
    definition_hash BLOB NOT NULL CHECK (length(definition_hash) = 32),
    tier            TEXT NOT NULL CHECK (tier IN ('read_only', 'side_effecting', 'privileged')),
    requested       TEXT NOT NULL CHECK (json_valid(requested)),
    run_kind        TEXT NOT NULL DEFAULT '',
    run_id          BLOB CHECK (length(run_id) = 16),
    session_id      BLOB CHECK (length(session_id) = 16),
    rerun           TEXT CHECK (json_valid(rerun)),
    status          TEXT NOT NULL CHECK (status IN ('pending', 'approved', 'denied', 'expired', 'superseded')),
    dedupe_key      BLOB NOT NULL CHECK (length(dedupe_key) = 32),
    count           INTEGER NOT NULL DEFAULT 1 CHECK (count >= 1),
    created_at      INTEGER NOT NULL,
    last_at         INTEGER NOT NULL,
    expires_at      INTEGER NOT NULL,
    decided_at      INTEGER,
    decided_by      TEXT,
    decision        TEXT CHECK (json_valid(decision))
, question TEXT CHECK (json_valid(question)), ref TEXT NOT NULL DEFAULT '') STRICT;

CREATE TABLE person_aliases (
    id          BLOB PRIMARY KEY CHECK (length(id) = 16), -- made of the alias
    user_id     BLOB NOT NULL CHECK (length(user_id) = 16),
    alias       ANY NOT NULL CHECK (typeof(alias) IN ('text', 'blob')),
    person      ANY NOT NULL CHECK (typeof(person) IN ('text', 'blob')), -- their name
    undo_token  TEXT,
    undo_person ANY CHECK (undo_person IS NULL OR typeof(undo_person) IN ('text', 'blob')), -- before; NULL: there was no correction
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    deleted_at  INTEGER,
    sync_meta   BLOB
) STRICT;

CREATE TABLE pinned_skills (
    user_id  BLOB NOT NULL CHECK (length(user_id) = 16),
    skill_id BLOB NOT NULL REFERENCES composite_skills (id) ON DELETE CASCADE,
    position INTEGER NOT NULL CHECK (position >= 0),
    PRIMARY KEY (user_id, skill_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE planned_reviews (
    id         BLOB PRIMARY KEY CHECK (length(id) = 16), -- made of item and day
    user_id    BLOB NOT NULL CHECK (length(user_id) = 16),
    item_id    BLOB NOT NULL CHECK (length(item_id) = 16),
    at         INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER,
    sync_meta  BLOB
) STRICT;

CREATE TABLE providers (
    id         BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id    BLOB NOT NULL CHECK (length(user_id) = 16),
    name       TEXT NOT NULL,
    entry      TEXT NOT NULL CHECK (json_valid(entry)),
    removed    INTEGER NOT NULL DEFAULT 0 CHECK (removed IN (0, 1)), -- of those that come with Helix
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (user_id, name)
) STRICT;

CREATE TABLE psychology_entries (
    id                  BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id             BLOB NOT NULL CHECK (length(user_id) = 16),
    layer_number        INTEGER NOT NULL CHECK (layer_number BETWEEN 1 AND 7),
    kind                TEXT NOT NULL,
    data                BLOB NOT NULL, -- sealed JSON
    memory_ids          TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(memory_ids)),
    origin              TEXT NOT NULL DEFAULT 'person' CHECK (origin IN ('person', 'synthesis', 'import')),
    pattern_id          BLOB CHECK (length(pattern_id) = 16),
    initial_strength    REAL NOT NULL DEFAULT 1 CHECK (initial_strength BETWEEN 0 AND 1),
    last_reinforced_at  INTEGER,
    reinforcement_count INTEGER NOT NULL DEFAULT 0,
    open_until          INTEGER, -- edits until then keep what the entry said before
    salience_tier       TEXT NOT NULL DEFAULT 'medium' CHECK (salience_tier IN ('critical', 'high', 'medium', 'low')),
    pinned              INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)),
    retention           REAL,
    decayed_at          INTEGER,
    version             INTEGER NOT NULL DEFAULT 1,
    created_at          INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL,
    deleted_at          INTEGER,
    sync_meta           BLOB
) STRICT;

CREATE TABLE psychology_layers (
    id                 BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id            BLOB NOT NULL CHECK (length(user_id) = 16),
    layer_number       INTEGER NOT NULL CHECK (layer_number BETWEEN 1 AND 7),
    layer_name         TEXT NOT NULL,
    data               BLOB NOT NULL, -- sealed JSON
    decay_model        TEXT NOT NULL,
    decay_rate         REAL NOT NULL,
    initial_strength   REAL NOT NULL DEFAULT 1 CHECK (initial_strength BETWEEN 0 AND 1),
    enabled            INTEGER NOT NULL DEFAULT 1 CHECK (enabled IN (0, 1)),
    last_updated       INTEGER NOT NULL, -- changes with a person's edit only
    last_reinforced_at INTEGER,
    version            INTEGER NOT NULL DEFAULT 1,
    retention          REAL,
    decayed_at         INTEGER,
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    deleted_at         INTEGER,
    sync_meta          BLOB,
    UNIQUE (user_id, layer_number)
) STRICT;

CREATE TABLE psychology_settings (
    id                     BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id                BLOB NOT NULL UNIQUE CHECK (length(user_id) = 16),
    enabled                INTEGER NOT NULL DEFAULT 1 CHECK (enabled IN (0, 1)),
    decay_enabled          INTEGER NOT NULL DEFAULT 1 CHECK (decay_enabled IN (0, 1)),
    mode                   TEXT NOT NULL DEFAULT 'soft' CHECK (mode IN ('soft', 'hard')),
    rate                   REAL NOT NULL DEFAULT 0.95 CHECK (rate BETWEEN 0.8 AND 0.99),
    minimum_intensity      REAL NOT NULL DEFAULT 0.1 CHECK (minimum_intensity BETWEEN 0 AND 0.5),
    trust_decay            INTEGER NOT NULL DEFAULT 0 CHECK (trust_decay IN (0, 1)),
    preserve_high_salience INTEGER NOT NULL DEFAULT 1 CHECK (preserve_high_salience IN (0, 1)),
    hard_grace_days        INTEGER NOT NULL DEFAULT 30 CHECK (hard_grace_days BETWEEN 1 AND 365),
    agent_may_read         INTEGER NOT NULL DEFAULT 1 CHECK (agent_may_read IN (0, 1)),
    proposals              INTEGER NOT NULL DEFAULT 1 CHECK (proposals IN (0, 1)),
    created_at             INTEGER NOT NULL,
    updated_at             INTEGER NOT NULL,
    deleted_at             INTEGER,
    sync_meta              BLOB
) STRICT;

CREATE TABLE recall_log (
    id         INTEGER PRIMARY KEY,
    user_id    BLOB NOT NULL CHECK (length(user_id) = 16),
    session_id TEXT NOT NULL DEFAULT '',
    kind       TEXT NOT NULL CHECK (kind IN ('memory', 'turn', 'chunk', 'prompt', 'tool')),
    item_id    BLOB NOT NULL CHECK (length(item_id) = 16),
    shingles   ANY NOT NULL CHECK (typeof(shingles) IN ('text', 'blob')),
    at         INTEGER NOT NULL
) STRICT;

CREATE TABLE relay_clients (
    device_id BLOB PRIMARY KEY CHECK (length(device_id) = 16),
    token_id  BLOB NOT NULL UNIQUE CHECK (length(token_id) = 16)
) STRICT, WITHOUT ROWID;

CREATE TABLE relay_rows (
    seq       INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id   BLOB NOT NULL CHECK (length(user_id) = 16),
    tbl       TEXT NOT NULL,
    row_id    BLOB NOT NULL CHECK (length(row_id) = 16),
    clocks    TEXT NOT NULL CHECK (json_valid(clocks)),
    device_id BLOB NOT NULL CHECK (length(device_id) = 16), -- who made the change
    UNIQUE (tbl, row_id)
) STRICT;

CREATE TABLE relay_state (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    seen_seq INTEGER NOT NULL
) STRICT;

CREATE TABLE rpc_idempotency (
    user_id     BLOB NOT NULL CHECK (length(user_id) = 16),
    key         BLOB NOT NULL CHECK (length(key) = 16),
    method      TEXT NOT NULL,
    params_hash BLOB NOT NULL CHECK (length(params_hash) = 32),
    response    BLOB,
    created_at  INTEGER NOT NULL,
    PRIMARY KEY (user_id, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE schedule_notices (
    id          BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id     BLOB NOT NULL CHECK (length(user_id) = 16),
    schedule_id BLOB NOT NULL REFERENCES schedules (id) ON DELETE CASCADE,
    run_id      BLOB CHECK (run_id IS NULL OR length(run_id) = 16),
    title       TEXT NOT NULL,
    body        TEXT NOT NULL DEFAULT '',
    level       TEXT NOT NULL DEFAULT 'info' CHECK (level IN ('info', 'success', 'warning', 'error')),
    created_at  INTEGER NOT NULL
) STRICT;

CREATE TABLE schedule_pause (
    user_id   BLOB PRIMARY KEY CHECK (length(user_id) = 16),
    paused_at INTEGER NOT NULL,
    until     INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE schedule_runs (
    id             BLOB PRIMARY KEY CHECK (length(id) = 16),
    schedule_id    BLOB NOT NULL REFERENCES schedules (id) ON DELETE CASCADE,
    user_id        BLOB NOT NULL CHECK (length(user_id) = 16),
    due_at         INTEGER NOT NULL,
    revision       INTEGER NOT NULL DEFAULT 1,
    attempt        INTEGER NOT NULL DEFAULT 0,
    trigger        TEXT NOT NULL CHECK (trigger IN ('due', 'catchup', 'retry', 'manual')),
    status         TEXT NOT NULL CHECK (status IN ('queued', 'running', 'waiting', 'success', 'failed', 'cancelled', 'interrupted', 'missed', 'skipped')),
    reason         TEXT,
    target_kind    TEXT NOT NULL,
    target_run_id  BLOB CHECK (target_run_id IS NULL OR length(target_run_id) = 16),
    device_id      BLOB NOT NULL CHECK (length(device_id) = 16),
    lease_term     INTEGER,
    claimed_at     INTEGER,
    started_at     INTEGER,
    finished_at    INTEGER,
    retry_at       INTEGER,
    late_ms        INTEGER NOT NULL DEFAULT 0,
    output_summary TEXT,
    output         TEXT,
    error_kind     TEXT,
    error_message  TEXT,
    notified       INTEGER NOT NULL DEFAULT 0 CHECK (notified IN (0, 1)),
    turn_count     INTEGER NOT NULL DEFAULT 0,
    cost_micros    INTEGER NOT NULL DEFAULT 0,
    missed_count   INTEGER,
    missed_more    INTEGER,
    last_missed_at INTEGER,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    deleted_at     INTEGER,
    sync_meta      BLOB
) STRICT;

CREATE TABLE schedule_state (
    schedule_id          BLOB PRIMARY KEY REFERENCES schedules (id) ON DELETE CASCADE,
    user_id              BLOB NOT NULL CHECK (length(user_id) = 16),
    next_run_at          INTEGER,
    last_due_at          INTEGER,
    consecutive_failures INTEGER NOT NULL DEFAULT 0,
    run_count            INTEGER NOT NULL DEFAULT 0,
    tz_version           TEXT NOT NULL DEFAULT '',
    revision_seen        INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE schedules (
    id                 BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id            BLOB NOT NULL CHECK (length(user_id) = 16),
    name               TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
    description        TEXT NOT NULL DEFAULT '' CHECK (length(description) <= 1000),
    status             TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'paused', 'completed', 'disabled')),
    disabled_reason    TEXT CHECK (disabled_reason IS NULL OR disabled_reason IN ('failures', 'missed', 'target_gone', 'invalid')),
    system_key         TEXT,
    target_kind        TEXT NOT NULL,
    target_id          BLOB CHECK (target_id IS NULL OR length(target_id) = 16),
    target_name        TEXT NOT NULL DEFAULT '',
    target_version     TEXT NOT NULL DEFAULT '',
    target_input       TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(target_input)),
    is_enabled         INTEGER NOT NULL DEFAULT 1 CHECK (is_enabled IN (0, 1)),
    cadence            TEXT NOT NULL CHECK (json_valid(cadence)),
    timezone           TEXT NOT NULL DEFAULT 'UTC',
    os_zone            INTEGER NOT NULL DEFAULT 0 CHECK (os_zone IN (0, 1)),
    starts_at          INTEGER,
    ends_at            INTEGER,
    max_runs           INTEGER CHECK (max_runs IS NULL OR max_runs >= 1),
    missed_policy      TEXT NOT NULL DEFAULT 'once' CHECK (missed_policy IN ('skip', 'once', 'all')),
    grace_secs         INTEGER NOT NULL DEFAULT 86400 CHECK (grace_secs >= 0),
    overlap            TEXT NOT NULL DEFAULT 'skip' CHECK (overlap IN ('skip', 'queue', 'cancelPrevious')),
    jitter_secs        INTEGER NOT NULL DEFAULT 0 CHECK (jitter_secs >= 0),
    retry              TEXT NOT NULL DEFAULT '{"max":2,"baseSecs":60,"capSecs":3600}' CHECK (json_valid(retry)),
    auto_disable_after INTEGER NOT NULL DEFAULT 5 CHECK (auto_disable_after >= 0),
    notify_after       INTEGER NOT NULL DEFAULT 3 CHECK (notify_after >= 0),
    notification       TEXT NOT NULL DEFAULT 'conditional' CHECK (notification IN ('always', 'conditional', 'never')),
    notify_when        TEXT,
    max_run_ms         INTEGER NOT NULL DEFAULT 1800000 CHECK (max_run_ms >= 1),
    home_device_id     BLOB CHECK (home_device_id IS NULL OR length(home_device_id) = 16),
    takeover           INTEGER NOT NULL DEFAULT 0 CHECK (takeover IN (0, 1)),
    max_turns          INTEGER NOT NULL DEFAULT 10,
    max_cost_micros    INTEGER NOT NULL DEFAULT 500000,
    revision           INTEGER NOT NULL DEFAULT 1,
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    deleted_at         INTEGER,
    sync_meta          BLOB
) STRICT;

CREATE VIRTUAL TABLE search_fts USING fts5 (
    title, tags, content,
    content = '', contentless_delete = 1,
    tokenize = "porter unicode61 remove_diacritics 2"
);

CREATE TABLE 'search_fts_config'(k PRIMARY KEY, v) WITHOUT ROWID;

CREATE TABLE 'search_fts_data'(id INTEGER PRIMARY KEY, block BLOB);

CREATE TABLE 'search_fts_docsize'(id INTEGER PRIMARY KEY, sz BLOB, origin INTEGER);

CREATE TABLE 'search_fts_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID;

CREATE TABLE search_items (
    item      INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id   BLOB NOT NULL CHECK (length(user_id) = 16),
    kind      TEXT NOT NULL CHECK (kind IN ('memory', 'turn', 'chunk')),
    item_id   BLOB NOT NULL CHECK (length(item_id) = 16),
    parent_id BLOB CHECK (parent_id IS NULL OR length(parent_id) = 16),
    seq       INTEGER,
    text_hash BLOB NOT NULL CHECK (length(text_hash) = 32),
    tokens    INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE VIRTUAL TABLE search_terms USING fts5vocab (search_fts, instance);

CREATE TABLE secrets (
    id         BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id    BLOB NOT NULL REFERENCES users (id),
    name       TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
    value      BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (user_id, name)
) STRICT;

CREATE TABLE session_blobs (
    session_id BLOB NOT NULL CHECK (length(session_id) = 16),
    user_id    BLOB NOT NULL CHECK (length(user_id) = 16),
    sha256     TEXT NOT NULL CHECK (sha256 GLOB 'sha256:*'),
    name       TEXT NOT NULL DEFAULT '',
    mime       TEXT NOT NULL DEFAULT '',
    bytes      INTEGER NOT NULL,
    direction  TEXT NOT NULL CHECK (direction IN ('in', 'out')),
    at         INTEGER NOT NULL,
    PRIMARY KEY (session_id, sha256)
) STRICT, WITHOUT ROWID;

CREATE TABLE session_messages (
    id          BLOB PRIMARY KEY CHECK (length(id) = 16),
    session_id  BLOB NOT NULL CHECK (length(session_id) = 16),
    user_id     BLOB NOT NULL CHECK (length(user_id) = 16),
    seq         INTEGER NOT NULL,
    turn_id     BLOB NOT NULL CHECK (length(turn_id) = 16),
    role        TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'tool', 'system')),
    content     ANY NOT NULL, -- JSON; sealed with storage.private
    origin      TEXT CHECK (origin IS NULL OR json_valid(origin)),
    model       TEXT NOT NULL DEFAULT '',
    cost_micros INTEGER NOT NULL DEFAULT 0,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    deleted_at  INTEGER,
    sync_meta   BLOB,
    UNIQUE (session_id, seq)
) STRICT;

CREATE VIRTUAL TABLE session_messages_fts USING fts5(message_id UNINDEXED, text, tokenize = 'unicode61 remove_diacritics 2', prefix = '2 3');

CREATE TABLE 'session_messages_fts_config'(k PRIMARY KEY, v) WITHOUT ROWID;

CREATE TABLE 'session_messages_fts_content'(id INTEGER PRIMARY KEY, c0, c1);

CREATE TABLE 'session_messages_fts_data'(id INTEGER PRIMARY KEY, block BLOB);

CREATE TABLE 'session_messages_fts_docsize'(id INTEGER PRIMARY KEY, sz BLOB);

CREATE TABLE 'session_messages_fts_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID;

CREATE TABLE session_state (
    session_id BLOB PRIMARY KEY CHECK (length(session_id) = 16),
    user_id    BLOB NOT NULL CHECK (length(user_id) = 16),
    sequence   INTEGER NOT NULL,
    state      ANY NOT NULL, -- sealed with storage.private
    updated_at INTEGER NOT NULL
) STRICT;

CREATE TABLE sessions (
    id                BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id           BLOB NOT NULL CHECK (length(user_id) = 16),
    device_id         BLOB NOT NULL CHECK (length(device_id) = 16),
    kind              TEXT NOT NULL DEFAULT 'chat' CHECK (kind IN ('chat', 'channel', 'scheduled', 'subagent', 'run', 'eval')),
    title             TEXT NOT NULL DEFAULT '',
    agent_name        TEXT NOT NULL DEFAULT 'helix',
    parent_session_id BLOB CHECK (length(parent_session_id) = 16),
    parent_turn_id    BLOB CHECK (length(parent_turn_id) = 16),
    forked_from       BLOB CHECK (length(forked_from) = 16),
    mode              TEXT NOT NULL DEFAULT 'ask' CHECK (mode IN ('ask', 'read', 'work')),
    queue_mode        TEXT NOT NULL DEFAULT 'followup' CHECK (queue_mode IN ('followup', 'steer', 'collect', 'interrupt')),
    model             TEXT NOT NULL DEFAULT '',
    project_dir       TEXT NOT NULL DEFAULT '',
    budget            TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(budget)),
    remember          INTEGER NOT NULL DEFAULT 1 CHECK (remember IN (0, 1)),
    pinned            INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)),
    message_count     INTEGER NOT NULL DEFAULT 0,
    cost_micros       INTEGER NOT NULL DEFAULT 0,
    last_message_at   INTEGER,
    archived_at       INTEGER,
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    deleted_at        INTEGER,
    sync_meta         BLOB
) STRICT;

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

CREATE TABLE skill_state (
    skill_id    BLOB NOT NULL REFERENCES skills (id) ON DELETE CASCADE,
    user_id     BLOB NOT NULL CHECK (length(user_id) = 16),
    state_key   TEXT NOT NULL CHECK (length(CAST(state_key AS BLOB)) BETWEEN 1 AND 256),
    state_value TEXT NOT NULL CHECK (json_valid(state_value)),
    size_bytes  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    PRIMARY KEY (skill_id, user_id, state_key)
) STRICT, WITHOUT ROWID;

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

CREATE TABLE soul_documents (
    id         BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id    BLOB NOT NULL UNIQUE CHECK (length(user_id) = 16),
    text       BLOB NOT NULL, -- sealed
    version    INTEGER NOT NULL DEFAULT 1,
    sha256     TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER,
    sync_meta  BLOB
) STRICT;

CREATE TABLE soul_revisions (
    id         BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id    BLOB NOT NULL CHECK (length(user_id) = 16),
    version    INTEGER NOT NULL,
    text       BLOB NOT NULL, -- sealed
    at         INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER,
    sync_meta  BLOB
) STRICT;

CREATE TABLE sync_base (
    tbl    TEXT NOT NULL,
    row_id BLOB NOT NULL CHECK (length(row_id) = 16),
    row    TEXT NOT NULL CHECK (json_valid(row)),
    PRIMARY KEY (tbl, row_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE sync_batches (
    first_dot INTEGER PRIMARY KEY, -- version of the first row; the others follow it
    tbl       TEXT NOT NULL,
    columns   TEXT NOT NULL CHECK (json_valid(columns)), -- of the rows
    entries   TEXT NOT NULL CHECK (json_valid(entries)), -- seq and txn in change_log, for each row
    tuples    BLOB NOT NULL -- in the binary format of COPY; sensitive columns are encrypted
) STRICT;

CREATE TABLE sync_conflicts (
    id            BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id       BLOB NOT NULL CHECK (length(user_id) = 16),
    table_name    TEXT NOT NULL,
    row_id        BLOB NOT NULL CHECK (length(row_id) = 16),
    field         TEXT NOT NULL,
    kind          TEXT NOT NULL CHECK (kind IN ('concurrent_modification', 'version_mismatch', 'field_conflict', 'delete_edit')),
    strategy      TEXT NOT NULL CHECK (strategy IN ('last_write_wins', 'three_way_merge', 'set_union', 'manual', 'automatic')),
    base          ANY,
    local_value   ANY,
    remote_value  ANY,
    local_dot     INTEGER NOT NULL,
    remote_dot    INTEGER NOT NULL,
    status        TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'resolved', 'auto')),
    resolution    TEXT CHECK (resolution IN ('mine', 'theirs', 'both', 'merged')),
    resolved_at   INTEGER,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    deleted_at    INTEGER,
    sync_meta     BLOB
, local_at INTEGER, remote_at INTEGER) STRICT;

CREATE TABLE sync_cursor (
    one       INTEGER PRIMARY KEY CHECK (one = 1),
    seq       INTEGER NOT NULL DEFAULT 0, -- of the hub's feed, stored up to here
    packaged  INTEGER NOT NULL DEFAULT 0,
    pulled    INTEGER NOT NULL DEFAULT 0,
    pushed    INTEGER NOT NULL DEFAULT 0,
    synced_at INTEGER
, changed_at INTEGER, copying INTEGER NOT NULL DEFAULT 0 CHECK (copying IN (0, 1)), pruned_at INTEGER, fields TEXT, acked INTEGER NOT NULL DEFAULT 0) STRICT;

CREATE TABLE sync_dead_letter (
    op_id      BLOB PRIMARY KEY CHECK (length(op_id) = 16),
    direction  TEXT NOT NULL CHECK (direction IN ('out', 'in')),
    tbl        TEXT NOT NULL,
    row_id     BLOB NOT NULL CHECK (length(row_id) = 16),
    payload    TEXT NOT NULL CHECK (json_valid(payload)),
    sqlstate   TEXT NOT NULL DEFAULT '',
    message    TEXT NOT NULL,
    attempts   INTEGER NOT NULL DEFAULT 1,
    created_at INTEGER NOT NULL,
    UNIQUE (direction, tbl, row_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE sync_devices (
    site    INTEGER PRIMARY KEY,
    name    TEXT NOT NULL,
    removed INTEGER NOT NULL DEFAULT 0 CHECK (removed IN (0, 1))
) STRICT;

CREATE TABLE sync_local (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    device_id   BLOB CHECK (length(device_id) = 16),
    site        INTEGER CHECK (site BETWEEN 1 AND 4194303),
    epoch       BLOB CHECK (length(epoch) = 16),
    ctr         INTEGER NOT NULL DEFAULT 0,
    hlc_high    INTEGER NOT NULL DEFAULT 0,
    user_id     BLOB REFERENCES users (id),
    hub         TEXT,
    key_version INTEGER NOT NULL DEFAULT 0,
    offset_us   INTEGER NOT NULL DEFAULT 0,
    applying    INTEGER NOT NULL DEFAULT 0 CHECK (applying IN (0, 1)),
    txn         INTEGER NOT NULL DEFAULT 1,
    seen_seq    INTEGER NOT NULL DEFAULT 0
, hub_id BLOB, next_epoch BLOB) STRICT;

CREATE TABLE sync_outbox (
    op_id      BLOB PRIMARY KEY CHECK (length(op_id) = 16),
    tbl        TEXT NOT NULL,
    row_id     BLOB NOT NULL CHECK (length(row_id) = 16),
    dot        INTEGER NOT NULL,
    prev_dot   INTEGER,
    hlc        INTEGER NOT NULL,
    payload    TEXT NOT NULL CHECK (json_valid(payload)), -- sensitive columns are encrypted
    meta       BLOB NOT NULL,
    base       TEXT NOT NULL CHECK (json_valid(base)), -- the row as packaged, in the form of sync_base
    txn        INTEGER NOT NULL,
    attempts   INTEGER NOT NULL DEFAULT 0,
    parked     INTEGER NOT NULL DEFAULT 0 CHECK (parked IN (0, 1)), -- the hub refused it; a dead letter says why
    created_at INTEGER NOT NULL,
    UNIQUE (tbl, row_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE sync_progress (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    tbl     TEXT NOT NULL DEFAULT '', -- the table that is being copied; '': none yet
    last_id BLOB CHECK (length(last_id) = 16), -- its last row that is stored; NULL: none
    h0      INTEGER NOT NULL, -- the feed goes on from here
    rows    INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE synthesis_recommendations (
    id             BLOB PRIMARY KEY CHECK (length(id) = 16), -- made of the pattern and the text
    user_id        BLOB NOT NULL CHECK (length(user_id) = 16),
    pattern_id     BLOB NOT NULL REFERENCES memory_patterns (id) ON DELETE CASCADE,
    recommendation ANY NOT NULL CHECK (typeof(recommendation) IN ('text', 'blob')),
    category       TEXT NOT NULL CHECK (category IN ('psychological', 'behavioral', 'relational', 'growth')),
    priority       TEXT NOT NULL CHECK (priority IN ('low', 'medium', 'high')),
    status         TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'acknowledged', 'working_on', 'completed')),
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    deleted_at     INTEGER,
    sync_meta      BLOB
) STRICT;

CREATE TABLE "tool_credential" (
    id           BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id      BLOB NOT NULL CHECK (length(user_id) = 16),
    tool_id      BLOB NOT NULL CHECK (length(tool_id) = 16),
    scheme       TEXT NOT NULL,
    kind         TEXT NOT NULL CHECK (kind IN ('apiKey', 'basic', 'bearer', 'oauth2', 'clientCredentials')),
    hosts        TEXT NOT NULL CHECK (json_valid(hosts)),
    account_hint TEXT NOT NULL, -- user name of basic, client ID of OAuth
    scopes       TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(scopes)),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    UNIQUE (user_id, tool_id, scheme)
) STRICT;

CREATE TABLE tool_discovery_queue (
    id                     BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id                BLOB NOT NULL CHECK (length(user_id) = 16),
    capability_description TEXT NOT NULL,
    requested_by           TEXT NOT NULL CHECK (requested_by IN ('user', 'planner', 'agent', 'skill')),
    search_query           TEXT NOT NULL,
    status                 TEXT NOT NULL CHECK (status IN ('pending', 'searching', 'found', 'failed', 'rejected')),
    discovered_apis        TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(discovered_apis)),
    selected_api           TEXT NOT NULL DEFAULT '',
    tool_manifest_id       BLOB CHECK (length(tool_manifest_id) = 16),
    error_message          TEXT NOT NULL DEFAULT '',
    dedupe_key             BLOB NOT NULL CHECK (length(dedupe_key) = 32),
    run_id                 BLOB CHECK (length(run_id) = 16),
    lease_until            INTEGER,
    attempts               INTEGER NOT NULL DEFAULT 0,
    created_at             INTEGER NOT NULL,
    updated_at             INTEGER NOT NULL,
    finished_at            INTEGER
) STRICT;

CREATE TABLE tool_execution_log (
    id              BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    tool_id         BLOB NOT NULL CHECK (length(tool_id) = 16),
    operation       TEXT NOT NULL,
    input_params    TEXT NOT NULL CHECK (json_valid(input_params)), -- without secrets
    started_at      INTEGER NOT NULL,
    completed_at    INTEGER,
    duration_ms     INTEGER,
    status          TEXT NOT NULL CHECK (status IN ('running', 'success', 'failure', 'timeout', 'cancelled')),
    error_class     TEXT NOT NULL DEFAULT '',
    error_message   TEXT NOT NULL DEFAULT '',
    output          TEXT CHECK (json_valid(output)), -- at most 64 KiB
    output_blob     TEXT CHECK (output_blob GLOB 'sha256:*'),
    http_status     INTEGER,
    bytes_out       INTEGER NOT NULL DEFAULT 0,
    bytes_in        INTEGER NOT NULL DEFAULT 0,
    definition_hash BLOB NOT NULL CHECK (length(definition_hash) = 32),
    caller          TEXT NOT NULL, -- kind of the caller; '': the person
    run_id          BLOB CHECK (length(run_id) = 16),
    created_at      INTEGER NOT NULL
, updated_at INTEGER NOT NULL DEFAULT 0, deleted_at INTEGER, sync_meta BLOB) STRICT;

CREATE TABLE tool_install (
    tool_id         BLOB NOT NULL REFERENCES tool_manifest (id) ON DELETE CASCADE,
    definition_hash BLOB NOT NULL CHECK (length(definition_hash) = 32),
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    approved_at     INTEGER NOT NULL,
    active          INTEGER NOT NULL CHECK (active IN (0, 1)), -- its samples passed once, or it has none
    state           TEXT NOT NULL CHECK (state IN ('none', 'installing', 'ready', 'failed')),
    verified_at     INTEGER,
    verify_result   TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(verify_result)),
    error           TEXT NOT NULL DEFAULT '',
    updated_at      INTEGER NOT NULL,
    PRIMARY KEY (tool_id, definition_hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE "tool_manifest" (
    id                BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id           BLOB NOT NULL CHECK (length(user_id) = 16),
    name              TEXT NOT NULL CHECK (name GLOB '[a-z]*'),
    version           TEXT NOT NULL,
    description       TEXT NOT NULL,
    source_type       TEXT NOT NULL CHECK (source_type IN ('local', 'openapi_url', 'discovered')),
    source_location   TEXT NOT NULL, -- address or path it was imported from; '': it was pasted
    status            TEXT NOT NULL CHECK (status IN ('pending_approval', 'approved', 'active', 'disabled', 'revoked')), -- of all devices; here it needs an approval in tool_install
    execution_type    TEXT NOT NULL CHECK (execution_type IN ('docker', 'http', 'js', 'wasm')),
    execution_timeout INTEGER NOT NULL CHECK (execution_timeout BETWEEN 1 AND 600), -- seconds
    openapi_spec      TEXT CHECK (openapi_spec GLOB 'sha256:*'), -- the kept part of the description
    manifest          TEXT NOT NULL CHECK (json_valid(manifest)),
    definition_hash   BLOB NOT NULL CHECK (length(definition_hash) = 32),
    seen_hash         BLOB CHECK (length(seen_hash) = 32), -- the definition and the state that this device has acted on; sync may have brought others
    seen_status       TEXT,
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    revoked_at        INTEGER,
    deleted_at        INTEGER,
    sync_meta         BLOB
) STRICT;

CREATE TABLE tool_secrets (
    id          BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id     BLOB NOT NULL CHECK (length(user_id) = 16),
    name        TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
    hosts       TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(hosts)),
    tool_ids    TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(tool_ids)),
    keyring_ref TEXT NOT NULL DEFAULT 'helix/root',
    value       BLOB NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL
) STRICT;

CREATE TABLE tool_signers (
    id          BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id     BLOB NOT NULL CHECK (length(user_id) = 16),
    fingerprint TEXT NOT NULL CHECK (length(fingerprint) = 64),
    public_key  TEXT NOT NULL,
    name        TEXT NOT NULL DEFAULT '',
    trusted     INTEGER NOT NULL DEFAULT 0 CHECK (trusted IN (0, 1)),
    added_at    INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    deleted_at  INTEGER,
    sync_meta   BLOB
) STRICT;

CREATE TABLE trust_interactions (
    id            BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id       BLOB NOT NULL CHECK (length(user_id) = 16),
    person_id     BLOB NOT NULL CHECK (length(person_id) = 16),
    at            INTEGER NOT NULL,
    dimension     TEXT, -- NULL: all of them
    evidence      REAL CHECK (evidence BETWEEN -1 AND 1), -- NULL: not known
    salience_tier TEXT NOT NULL CHECK (salience_tier IN ('critical', 'high', 'medium', 'low')),
    note          BLOB, -- sealed
    memory_id     BLOB CHECK (length(memory_id) = 16),
    before        REAL NOT NULL,
    after         REAL NOT NULL,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    deleted_at    INTEGER,
    sync_meta     BLOB
) STRICT;

CREATE TABLE users (
    id           BLOB PRIMARY KEY CHECK (length(id) = 16),
    display_name TEXT NOT NULL,
    hub_user_id  BLOB CHECK (length(hub_user_id) = 16),
    created_at   INTEGER NOT NULL
) STRICT;

CREATE TABLE vector_meta (
    model_id   TEXT PRIMARY KEY,
    dims       INTEGER NOT NULL CHECK (dims > 0),
    state      TEXT NOT NULL CHECK (state IN ('active', 'building', 'old')),
    generation INTEGER NOT NULL DEFAULT 1,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE voice_commands (
    id                 BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id            BLOB NOT NULL CHECK (length(user_id) = 16),
    name               TEXT NOT NULL,
    trigger_phrase     TEXT NOT NULL,
    trigger_confidence REAL NOT NULL DEFAULT 0.8 CHECK (trigger_confidence BETWEEN 0.5 AND 1),
    action_type        TEXT NOT NULL CHECK (action_type IN ('tool', 'skill', 'navigation', 'system')),
    tool_id            TEXT NOT NULL DEFAULT '', -- kind:id of a callable other than a skill
    skill_id           TEXT NOT NULL DEFAULT '',
    navigation_target  TEXT NOT NULL DEFAULT '',
    system_action      TEXT NOT NULL DEFAULT '',
    action_params      TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(action_params)),
    target_hash        TEXT NOT NULL DEFAULT '', -- definition of the target when the command was saved
    risk_tier          TEXT NOT NULL CHECK (risk_tier IN ('low', 'medium', 'high')),
    enabled            INTEGER NOT NULL DEFAULT 1 CHECK (enabled IN (0, 1)),
    usage_count        INTEGER NOT NULL DEFAULT 0,
    last_used          INTEGER,
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    deleted_at         INTEGER,
    sync_meta          BLOB
) STRICT;

CREATE TABLE voice_memo_audit (
    id           BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id      BLOB NOT NULL CHECK (length(user_id) = 16),
    recording_id BLOB NOT NULL CHECK (length(recording_id) = 16),
    action       TEXT NOT NULL,
    detail       TEXT NOT NULL CHECK (json_valid(detail)),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    deleted_at   INTEGER,
    sync_meta    BLOB
) STRICT;

CREATE TABLE voice_memos (
    id                   BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id              BLOB NOT NULL CHECK (length(user_id) = 16),
    recording_id         BLOB NOT NULL CHECK (length(recording_id) = 16),
    title                ANY NOT NULL,
    tags                 TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(tags)),
    transcription_status TEXT NOT NULL CHECK (transcription_status IN ('pending', 'processing', 'completed', 'failed')),
    transcription_error  TEXT NOT NULL DEFAULT '',
    recorded_at          INTEGER NOT NULL,
    created_at           INTEGER NOT NULL,
    updated_at           INTEGER NOT NULL,
    deleted_at           INTEGER,
    sync_meta            BLOB
) STRICT;

CREATE TABLE voice_microphones (
    user_id       BLOB PRIMARY KEY CHECK (length(user_id) = 16),
    input_device  TEXT NOT NULL, -- '': the default device
    keep_mic_open INTEGER NOT NULL CHECK (keep_mic_open IN (0, 1)),
    pre_roll_ms   INTEGER NOT NULL CHECK (pre_roll_ms BETWEEN 0 AND 2000),
    updated_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE voice_processing_queue (
    id              BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id         BLOB NOT NULL CHECK (length(user_id) = 16),
    recording_id    BLOB NOT NULL CHECK (length(recording_id) = 16),
    task            TEXT NOT NULL CHECK (task = 'transcribe'),
    engine          TEXT NOT NULL,
    model           TEXT NOT NULL,
    language        TEXT NOT NULL,
    status          TEXT NOT NULL CHECK (status IN ('pending', 'processing', 'completed', 'failed')),
    attempts        INTEGER NOT NULL DEFAULT 0,
    max_attempts    INTEGER NOT NULL DEFAULT 3,
    next_attempt_at INTEGER NOT NULL,
    lease_until     INTEGER,
    error_kind      TEXT NOT NULL DEFAULT '',
    error_message   TEXT NOT NULL DEFAULT '',
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL
) STRICT;

CREATE TABLE voice_recordings (
    id           BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id      BLOB NOT NULL CHECK (length(user_id) = 16),
    device_id    BLOB NOT NULL CHECK (length(device_id) = 16),
    source       TEXT NOT NULL CHECK (source IN ('capture', 'upload', 'voicemail', 'command')),
    audio_sha256 TEXT CHECK (audio_sha256 GLOB 'sha256:*'), -- NULL: the sound is on another device
    audio_size   INTEGER NOT NULL,
    format       TEXT NOT NULL,
    codec        TEXT NOT NULL,
    sample_rate  INTEGER NOT NULL,
    channels     INTEGER NOT NULL,
    duration_ms  INTEGER, -- NULL: it was not decoded yet
    lost_ms      INTEGER NOT NULL DEFAULT 0, -- of it could not be decoded
    recorded_at  INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    deleted_at   INTEGER,
    sync_meta    BLOB
, pinned INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)), gaps TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(gaps)), recovered INTEGER NOT NULL DEFAULT 0 CHECK (recovered IN (0, 1)), sound_deleted_at INTEGER, audio_format TEXT NOT NULL DEFAULT '', hub_audio TEXT CHECK (hub_audio GLOB 'sha256:*')) STRICT;

CREATE TABLE voice_sessions (
    id         BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id    BLOB NOT NULL CHECK (length(user_id) = 16),
    mode       TEXT NOT NULL CHECK (mode IN ('talk')),
    started_at INTEGER NOT NULL,
    ended_at   INTEGER, -- NULL: another turn may follow
    turns      TEXT NOT NULL CHECK (json_valid(turns)), -- [{"recordingId", "at"}]
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER,
    sync_meta  BLOB
) STRICT;

CREATE TABLE voice_settings (
    id           BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id      BLOB NOT NULL UNIQUE CHECK (length(user_id) = 16),
    provider     TEXT NOT NULL CHECK (provider IN ('local', 'deepgram')),
    model        TEXT NOT NULL,
    language     TEXT NOT NULL,
    local_engine TEXT NOT NULL,
    fallback     TEXT NOT NULL CHECK (fallback IN ('queue', 'local')),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    deleted_at   INTEGER,
    sync_meta    BLOB
, vad_enabled INTEGER NOT NULL DEFAULT 1 CHECK (vad_enabled IN (0, 1)), retain_audio TEXT NOT NULL DEFAULT 'forever', push_to_talk_key TEXT NOT NULL DEFAULT '', command_confirm_ms INTEGER NOT NULL DEFAULT 15000, denoise INTEGER NOT NULL DEFAULT 0 CHECK (denoise IN (0, 1)), denoise_for_cloud INTEGER NOT NULL DEFAULT 0 CHECK (denoise_for_cloud IN (0, 1)), trim_silence INTEGER NOT NULL DEFAULT 1 CHECK (trim_silence IN (0, 1)), local_model TEXT NOT NULL DEFAULT '', save_transcripts INTEGER NOT NULL DEFAULT 1 CHECK (save_transcripts IN (0, 1)), save_audio INTEGER NOT NULL DEFAULT 0 CHECK (save_audio IN (0, 1)), tts_provider TEXT NOT NULL DEFAULT 'system' CHECK (tts_provider IN ('system', 'none')), wake_word TEXT NOT NULL DEFAULT 'hey helix') STRICT;

CREATE TABLE voice_transcript_items (
    item          INTEGER PRIMARY KEY, -- the row in voice_transcripts_fts
    transcript_id BLOB NOT NULL UNIQUE CHECK (length(transcript_id) = 16)
) STRICT;

CREATE TABLE voice_transcripts (
    id            BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id       BLOB NOT NULL CHECK (length(user_id) = 16),
    recording_id  BLOB NOT NULL CHECK (length(recording_id) = 16),
    engine        TEXT NOT NULL, -- person: it was edited
    model         TEXT NOT NULL,
    language_code TEXT NOT NULL,
    text          ANY NOT NULL,
    confidence    REAL,
    words         ANY NOT NULL, -- JSON
    is_current    INTEGER NOT NULL CHECK (is_current IN (0, 1)),
    edited_at     INTEGER,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    deleted_at    INTEGER,
    sync_meta     BLOB
, device_only INTEGER NOT NULL DEFAULT 0 CHECK (device_only IN (0, 1))) STRICT;

CREATE VIRTUAL TABLE voice_transcripts_fts USING fts5 (text, title, tags, tokenize = 'unicode61 remove_diacritics 2');

CREATE TABLE 'voice_transcripts_fts_config'(k PRIMARY KEY, v) WITHOUT ROWID;

CREATE TABLE 'voice_transcripts_fts_content'(id INTEGER PRIMARY KEY, c0, c1, c2);

CREATE TABLE 'voice_transcripts_fts_data'(id INTEGER PRIMARY KEY, block BLOB);

CREATE TABLE 'voice_transcripts_fts_docsize'(id INTEGER PRIMARY KEY, sz BLOB);

CREATE TABLE 'voice_transcripts_fts_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID;

CREATE TABLE voicemail_messages (
    id           BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id      BLOB NOT NULL CHECK (length(user_id) = 16),
    recording_id BLOB NOT NULL CHECK (length(recording_id) = 16),
    sender       ANY NOT NULL,
    received_at  INTEGER NOT NULL,
    is_heard     INTEGER NOT NULL DEFAULT 0 CHECK (is_heard IN (0, 1)),
    heard_at     INTEGER,
    archived_at  INTEGER,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    deleted_at   INTEGER,
    sync_meta    BLOB
) STRICT;

CREATE TABLE watched_files (
    folder_id  BLOB NOT NULL REFERENCES watched_folders (id) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    user_id    BLOB NOT NULL CHECK (length(user_id) = 16),
    size       INTEGER NOT NULL,
    modified   INTEGER NOT NULL,
    hash       BLOB NOT NULL CHECK (length(hash) IN (0, 32)),
    trashed_at INTEGER,
    PRIMARY KEY (folder_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE watched_folders (
    id         BLOB PRIMARY KEY CHECK (length(id) = 16),
    user_id    BLOB NOT NULL CHECK (length(user_id) = 16),
    path       TEXT NOT NULL,
    options    TEXT NOT NULL CHECK (json_valid(options)),
    paused     INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
    state      TEXT NOT NULL DEFAULT 'watching' CHECK (state IN ('watching', 'importing', 'missing', 'failed')),
    message    TEXT NOT NULL DEFAULT '',
    trashed    INTEGER NOT NULL DEFAULT 0,
    import_id  BLOB CHECK (import_id IS NULL OR length(import_id) = 16),
    attempt    TEXT NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX agent_ledger_at ON agent_ledger (user_id, at);

CREATE INDEX agent_ledger_open ON agent_ledger (at) WHERE state = 'reserved';

CREATE INDEX agent_ledger_schedule ON agent_ledger (schedule_id) WHERE schedule_id IS NOT NULL;

CREATE INDEX agent_ledger_session ON agent_ledger (session_id) WHERE session_id IS NOT NULL;

CREATE INDEX agent_ledger_turn ON agent_ledger (turn_id) WHERE turn_id IS NOT NULL;

CREATE INDEX agent_turns_open ON agent_turns (user_id, state) WHERE state IN ('queued', 'running', 'waiting');

CREATE INDEX agent_turns_report ON agent_turns (report_to) WHERE report_to IS NOT NULL;

CREATE INDEX agent_turns_retry ON agent_turns (retry_of) WHERE retry_of IS NOT NULL;

CREATE INDEX agent_turns_session ON agent_turns (session_id, created_at, id);

CREATE INDEX audit_log_action ON audit_log (action);

CREATE INDEX audit_log_outcome ON audit_log (outcome) WHERE outcome <> 'ok';

CREATE INDEX audit_log_run ON audit_log (run_id) WHERE run_id IS NOT NULL;

CREATE INDEX audit_log_subject ON audit_log (subject_id) WHERE subject_id <> '';

CREATE INDEX audit_log_user ON audit_log (user_id);

CREATE INDEX audit_segments_last ON audit_segments (last_seq);

CREATE INDEX capability_denials_subject ON capability_denials (user_id, subject_kind, subject_id);

CREATE INDEX capability_grants_expiry ON capability_grants (expires_at) WHERE expires_at IS NOT NULL AND revoked_at IS NULL;

CREATE INDEX capability_grants_pending ON capability_grants (pending_id) WHERE pending_id IS NOT NULL;

CREATE INDEX capability_grants_run ON capability_grants (run_id) WHERE run_id IS NOT NULL;

CREATE INDEX capability_grants_session ON capability_grants (session_id) WHERE session_id IS NOT NULL;

CREATE INDEX capability_grants_subject ON capability_grants (user_id, subject_id, subject_kind);

CREATE INDEX channel_inbox_open ON channel_inbox (state, id) WHERE state IN ('received', 'submitted');

CREATE INDEX channel_inbox_user ON channel_inbox (user_id, received_at);

CREATE INDEX channel_outbox_open ON channel_outbox (channel_id, id) WHERE state IN ('queued', 'sending');

CREATE INDEX channel_outbox_user ON channel_outbox (user_id, created_at);

CREATE INDEX channel_rejections_user ON channel_rejections (user_id, last_at);

CREATE INDEX channel_senders_user ON channel_senders (user_id);

CREATE INDEX channel_sessions_user ON channel_sessions (user_id);

CREATE INDEX chat_attachments_at ON chat_attachments (user_id, at);

CREATE INDEX chunks_document ON chunks (document_id, seq);

CREATE UNIQUE INDEX chunks_seq ON chunks (document_id, seq) WHERE deleted_at IS NULL;

CREATE INDEX chunks_user ON chunks (user_id);

CREATE INDEX composite_skill_executions_open ON composite_skill_executions (status, wake_at) WHERE status IN ('queued', 'running', 'waiting');

CREATE INDEX composite_skill_executions_parent ON composite_skill_executions (parent_execution_id) WHERE parent_execution_id IS NOT NULL;

CREATE UNIQUE INDEX composite_skill_executions_request ON composite_skill_executions (user_id, request_id) WHERE request_id IS NOT NULL;

CREATE INDEX composite_skill_executions_skill ON composite_skill_executions (composite_skill_id, user_id, created_at DESC, id DESC);

CREATE INDEX composite_skill_executions_user ON composite_skill_executions (user_id, created_at DESC, id DESC);

CREATE UNIQUE INDEX composite_skill_steps_place ON composite_skill_steps (execution_id, step_path, iteration);

CREATE INDEX composite_skill_steps_user ON composite_skill_steps (user_id);

CREATE INDEX composite_skill_versions_label ON composite_skill_versions (composite_skill_id, version);

CREATE INDEX composite_skill_versions_order ON composite_skill_versions (composite_skill_id, created_at DESC);

CREATE INDEX composite_skill_versions_user ON composite_skill_versions (user_id);

CREATE INDEX composite_skills_enabled ON composite_skills (user_id, is_enabled) WHERE deleted_at IS NULL;

CREATE UNIQUE INDEX composite_skills_name ON composite_skills (user_id, lower(name)) WHERE deleted_at IS NULL;

CREATE INDEX composite_skills_public ON composite_skills (execution_count DESC, id) WHERE visibility = 'public' AND deleted_at IS NULL;

CREATE INDEX composite_skills_source ON composite_skills (clone_source_id) WHERE clone_source_id IS NOT NULL;

CREATE INDEX composite_skills_user ON composite_skills (user_id, created_at DESC) WHERE deleted_at IS NULL;

CREATE INDEX container_runs_created ON container_runs (user_id, created_at DESC);

CREATE INDEX container_runs_running ON container_runs (status) WHERE status = 'running';

CREATE INDEX container_runs_tool ON container_runs (tool_id, created_at DESC);

CREATE UNIQUE INDEX container_tools_name ON container_tools (user_id, name) WHERE status <> 'revoked';

CREATE INDEX conversation_turns_conversation ON conversation_turns (conversation_id, seq);

CREATE UNIQUE INDEX conversation_turns_seq ON conversation_turns (conversation_id, seq) WHERE deleted_at IS NULL;

CREATE INDEX conversation_turns_user ON conversation_turns (user_id, occurred_at DESC);

CREATE INDEX conversations_deleted ON conversations (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE UNIQUE INDEX conversations_external ON conversations (user_id, source, external_id);

CREATE INDEX conversations_started ON conversations (user_id, started_at DESC);

CREATE INDEX custom_tool_replies_age ON custom_tool_replies (user_id, created_at);

CREATE INDEX custom_tool_runs_tool ON custom_tool_runs (custom_tool_id);

CREATE INDEX custom_tool_runs_user ON custom_tool_runs (user_id);

CREATE INDEX custom_tool_shares_tool ON custom_tool_shares (custom_tool_id);

CREATE INDEX custom_tool_shares_user ON custom_tool_shares (user_id);

CREATE INDEX custom_tool_state_user ON custom_tool_state (user_id);

CREATE INDEX custom_tool_usage_tool ON custom_tool_usage (custom_tool_id, timestamp DESC, status, execution_time_ms);

CREATE INDEX custom_tool_usage_user ON custom_tool_usage (user_id, timestamp DESC, status, execution_time_ms);

CREATE INDEX custom_tool_versions_label ON custom_tool_versions (custom_tool_id, version);

CREATE INDEX custom_tool_versions_order ON custom_tool_versions (custom_tool_id, created_at DESC);

CREATE INDEX custom_tool_versions_user ON custom_tool_versions (user_id);

CREATE INDEX custom_tools_enabled ON custom_tools (user_id, is_enabled) WHERE deleted_at IS NULL;

CREATE UNIQUE INDEX custom_tools_name ON custom_tools (user_id, lower(name)) WHERE deleted_at IS NULL;

CREATE INDEX custom_tools_public ON custom_tools (usage_count DESC, id) WHERE visibility = 'public' AND deleted_at IS NULL;

CREATE INDEX custom_tools_source ON custom_tools (clone_source_id) WHERE clone_source_id IS NOT NULL;

CREATE INDEX custom_tools_used ON custom_tools (user_id, last_used DESC) WHERE deleted_at IS NULL;

CREATE INDEX custom_tools_user ON custom_tools (user_id, updated_at DESC) WHERE deleted_at IS NULL;

CREATE INDEX decay_runs_user ON decay_runs (user_id, started_at DESC, id DESC);

CREATE INDEX deletions_user ON deletions (user_id, at);

CREATE INDEX device_keys_user ON device_keys (user_id);

CREATE INDEX documents_deleted ON documents (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE INDEX documents_updated ON documents (user_id, updated_at DESC, id DESC) WHERE deleted_at IS NULL;

CREATE UNIQUE INDEX documents_uri ON documents (user_id, source_uri);

CREATE INDEX embedding_jobs_next ON embedding_jobs (model_id, queued_at DESC) WHERE error IS NULL;

CREATE INDEX embedding_jobs_user ON embedding_jobs (user_id);

CREATE INDEX eval_runs_eval ON eval_runs (eval_id);

CREATE INDEX eval_runs_scenario ON eval_runs (user_id, scenario, live, at);

CREATE INDEX gateway_tokens_user ON gateway_tokens (user_id);

CREATE INDEX item_vectors_user ON item_vectors (user_id);

CREATE INDEX mcp_calls_running ON mcp_calls (created_at) WHERE status = 'running';

CREATE INDEX mcp_calls_user ON mcp_calls (user_id, created_at);

CREATE UNIQUE INDEX mcp_servers_name ON mcp_servers (user_id, name);

CREATE UNIQUE INDEX mcp_tools_name ON mcp_tools (server_id, name);

CREATE INDEX mcp_tools_user ON mcp_tools (user_id);

CREATE INDEX memories_created ON memories (user_id, created_at DESC, id DESC) WHERE deleted_at IS NULL;

CREATE INDEX memories_deleted ON memories (user_id, deleted_at DESC, id DESC) WHERE deleted_at IS NOT NULL;

CREATE INDEX memories_hash ON memories (user_id, content_hash, created_at, id);

CREATE INDEX memories_layer ON memories (user_id, layer) WHERE deleted_at IS NULL;

CREATE INDEX memories_occurred ON memories (user_id, occurred_at DESC, id DESC) WHERE deleted_at IS NULL;

CREATE INDEX memories_ref ON memories (user_id, source, source_ref) WHERE source_ref IS NOT NULL;

CREATE INDEX memories_retention ON memories (user_id, retention DESC, id DESC) WHERE deleted_at IS NULL;

CREATE INDEX memories_salience ON memories (user_id, salience DESC, id DESC) WHERE deleted_at IS NULL;

CREATE INDEX memory_decay_history_item ON memory_decay_history (item_id, at DESC);

CREATE INDEX memory_decay_history_user ON memory_decay_history (user_id, at DESC, id DESC);

CREATE INDEX memory_imports_user ON memory_imports (user_id, created_at DESC);

CREATE INDEX memory_patterns_confidence ON memory_patterns (user_id, confidence DESC, created_at DESC, id);

CREATE UNIQUE INDEX memory_patterns_key ON memory_patterns (user_id, pattern_id);

CREATE INDEX memory_patterns_layer ON memory_patterns (user_id, layer);

CREATE INDEX memory_patterns_type ON memory_patterns (user_id, pattern_type);

CREATE INDEX memory_revisions_edited ON memory_revisions (edited_at);

CREATE INDEX memory_revisions_memory ON memory_revisions (memory_id, version DESC);

CREATE INDEX memory_revisions_user ON memory_revisions (user_id);

CREATE INDEX memory_synthesis_jobs_status ON memory_synthesis_jobs (status);

CREATE INDEX memory_synthesis_jobs_user ON memory_synthesis_jobs (user_id, updated_at DESC, id DESC);

CREATE UNIQUE INDEX memory_synthesis_key ON memory_synthesis (user_id, fingerprint);

CREATE INDEX memory_tags_tag ON memory_tags (user_id, tag);

CREATE INDEX memory_undo_user ON memory_undo (user_id, created_at DESC);

CREATE UNIQUE INDEX pending_approvals_dedupe ON pending_approvals (user_id, dedupe_key) WHERE status = 'pending';

CREATE INDEX pending_approvals_expiry ON pending_approvals (expires_at) WHERE status = 'pending';

CREATE INDEX pending_approvals_run ON pending_approvals (run_id, ref) WHERE status = 'pending' AND question IS NOT NULL;

CREATE INDEX pending_approvals_subject ON pending_approvals (user_id, subject_id, subject_kind, created_at);

CREATE INDEX pending_approvals_user ON pending_approvals (user_id, status, last_at);

CREATE INDEX person_aliases_undo ON person_aliases (undo_token) WHERE undo_token IS NOT NULL;

CREATE INDEX person_aliases_user ON person_aliases (user_id);

CREATE INDEX pinned_skills_skill ON pinned_skills (skill_id);

CREATE INDEX planned_reviews_at ON planned_reviews (user_id, at);

CREATE INDEX planned_reviews_item ON planned_reviews (user_id, item_id);

CREATE INDEX psychology_entries_layer ON psychology_entries (user_id, layer_number);

CREATE INDEX psychology_entries_retention ON psychology_entries (user_id, retention);

CREATE UNIQUE INDEX recall_log_item ON recall_log (user_id, kind, item_id, session_id);

CREATE INDEX recall_log_user ON recall_log (user_id, at DESC);

CREATE INDEX relay_rows_user ON relay_rows (user_id, seq);

CREATE INDEX rpc_idempotency_created ON rpc_idempotency (created_at);

CREATE INDEX schedule_notices_user ON schedule_notices (user_id, created_at);

CREATE INDEX schedule_runs_calendar ON schedule_runs (user_id, due_at);

CREATE UNIQUE INDEX schedule_runs_due ON schedule_runs (schedule_id, due_at, attempt) WHERE trigger <> 'manual';

CREATE INDEX schedule_runs_open ON schedule_runs (status) WHERE status IN ('queued', 'running', 'waiting', 'interrupted');

CREATE INDEX schedule_runs_retry ON schedule_runs (retry_at) WHERE retry_at IS NOT NULL;

CREATE INDEX schedule_runs_schedule ON schedule_runs (schedule_id, due_at DESC);

CREATE INDEX schedule_runs_user ON schedule_runs (user_id, created_at DESC, id DESC);

CREATE INDEX schedule_state_next ON schedule_state (next_run_at) WHERE next_run_at IS NOT NULL;

CREATE INDEX schedule_state_user ON schedule_state (user_id);

CREATE INDEX schedules_deleted ON schedules (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE INDEX schedules_status ON schedules (status) WHERE deleted_at IS NULL;

CREATE UNIQUE INDEX schedules_system ON schedules (user_id, system_key) WHERE system_key IS NOT NULL;

CREATE INDEX schedules_target ON schedules (target_kind, target_id);

CREATE INDEX schedules_user ON schedules (user_id, created_at DESC) WHERE deleted_at IS NULL;

CREATE UNIQUE INDEX search_items_id ON search_items (kind, item_id);

CREATE INDEX search_items_parent ON search_items (parent_id, seq) WHERE parent_id IS NOT NULL;

CREATE INDEX search_items_user ON search_items (user_id, kind);

CREATE INDEX session_blobs_user ON session_blobs (user_id, sha256);

CREATE INDEX session_messages_turn ON session_messages (turn_id, seq);

CREATE INDEX session_messages_user ON session_messages (user_id);

CREATE INDEX session_state_user ON session_state (user_id);

CREATE INDEX sessions_deleted ON sessions (user_id, deleted_at) WHERE deleted_at IS NOT NULL;

CREATE INDEX sessions_newest ON sessions (user_id, pinned DESC, coalesce(last_message_at, created_at) DESC, id);

CREATE INDEX sessions_parent ON sessions (parent_session_id) WHERE parent_session_id IS NOT NULL;

CREATE INDEX sessions_parent_turn ON sessions (parent_turn_id) WHERE parent_turn_id IS NOT NULL;

CREATE INDEX skill_executions_running ON skill_executions (status) WHERE status = 'running';

CREATE INDEX skill_executions_skill ON skill_executions (skill_id, timestamp DESC);

CREATE INDEX skill_executions_user ON skill_executions (user_id, timestamp DESC);

CREATE INDEX skill_state_user ON skill_state (user_id);

CREATE UNIQUE INDEX skills_name ON skills (user_id, lower(name)) WHERE deleted_at IS NULL;

CREATE INDEX skills_user ON skills (user_id, updated_at DESC) WHERE deleted_at IS NULL;

CREATE INDEX soul_revisions_user ON soul_revisions (user_id, version DESC);

CREATE INDEX sync_conflicts_open ON sync_conflicts (user_id, status, created_at);

CREATE INDEX sync_local_user ON sync_local (user_id);

CREATE INDEX sync_outbox_order ON sync_outbox (txn, dot) WHERE parked = 0;

CREATE UNIQUE INDEX synthesis_recommendations_key ON synthesis_recommendations (user_id, pattern_id, recommendation);

CREATE INDEX synthesis_recommendations_pattern ON synthesis_recommendations (pattern_id);

CREATE UNIQUE INDEX tool_discovery_queue_open ON tool_discovery_queue (user_id, dedupe_key) WHERE finished_at IS NULL;

CREATE INDEX tool_discovery_queue_user ON tool_discovery_queue (user_id, created_at DESC);

CREATE INDEX tool_discovery_queue_work ON tool_discovery_queue (created_at) WHERE status IN ('pending', 'searching');

CREATE INDEX tool_execution_log_deleted ON tool_execution_log (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE INDEX tool_execution_log_running ON tool_execution_log (status) WHERE status = 'running';

CREATE INDEX tool_execution_log_started ON tool_execution_log (user_id, started_at DESC);

CREATE INDEX tool_execution_log_tool ON tool_execution_log (tool_id, started_at DESC);

CREATE INDEX tool_install_user ON tool_install (user_id);

CREATE INDEX tool_manifest_deleted ON tool_manifest (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE UNIQUE INDEX tool_manifest_name ON tool_manifest (user_id, name) WHERE status <> 'revoked' AND deleted_at IS NULL;

CREATE INDEX tool_manifest_status ON tool_manifest (user_id, status);

CREATE UNIQUE INDEX tool_secrets_name ON tool_secrets (user_id, name);

CREATE UNIQUE INDEX tool_signers_key ON tool_signers (user_id, fingerprint) WHERE deleted_at IS NULL;

CREATE INDEX trust_interactions_person ON trust_interactions (user_id, person_id, at, id);

CREATE INDEX voice_commands_deleted ON voice_commands (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE INDEX voice_commands_user ON voice_commands (user_id, trigger_phrase);

CREATE INDEX voice_memo_audit_recording ON voice_memo_audit (user_id, recording_id);

CREATE INDEX voice_memos_deleted ON voice_memos (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE INDEX voice_memos_recorded ON voice_memos (user_id, recorded_at DESC);

CREATE INDEX voice_memos_recording ON voice_memos (recording_id);

CREATE INDEX voice_memos_status ON voice_memos (user_id, transcription_status);

CREATE INDEX voice_processing_queue_due ON voice_processing_queue (status, next_attempt_at);

CREATE UNIQUE INDEX voice_processing_queue_open ON voice_processing_queue (recording_id, engine) WHERE status IN ('pending', 'processing');

CREATE INDEX voice_processing_queue_recording ON voice_processing_queue (recording_id);

CREATE INDEX voice_processing_queue_user ON voice_processing_queue (user_id, status);

CREATE INDEX voice_recordings_audio ON voice_recordings (user_id, audio_sha256);

CREATE INDEX voice_recordings_deleted ON voice_recordings (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE INDEX voice_sessions_deleted ON voice_sessions (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE INDEX voice_sessions_started ON voice_sessions (user_id, started_at DESC);

CREATE INDEX voice_transcripts_deleted ON voice_transcripts (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE INDEX voice_transcripts_recording ON voice_transcripts (recording_id);

CREATE INDEX voice_transcripts_user ON voice_transcripts (user_id);

CREATE INDEX voicemail_messages_deleted ON voicemail_messages (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE INDEX voicemail_messages_received ON voicemail_messages (user_id, is_heard, received_at DESC);

CREATE INDEX voicemail_messages_recording ON voicemail_messages (recording_id);

CREATE INDEX watched_files_user ON watched_files (user_id);

CREATE UNIQUE INDEX watched_folders_path ON watched_folders (user_id, path);

CREATE VIEW memories_full AS
SELECT m.*, v.vector AS embedding, v.model_id AS embedding_model, v.dims AS embedding_dims, v.text_hash AS embedding_hash
FROM memories m
LEFT JOIN vector_meta g ON g.state = 'active'
LEFT JOIN item_vectors v ON v.item_kind = 'memory' AND v.item_id = m.id AND v.model_id = g.model_id AND v.text_hash = m.content_hash;

CREATE VIEW psychology_layers_legacy AS
SELECT id, user_id, layer_number, layer_name, data, coalesce(retention, initial_strength) AS decay_rate, last_updated FROM psychology_layers WHERE deleted_at IS NULL;

CREATE VIEW public_skills AS
SELECT id, name, description, steps, version, tags, icon, execution_count, input_schema, output_mapping, notification, overall_timeout_ms,
       definition_hash, created_at, updated_at
FROM composite_skills WHERE visibility = 'public' AND is_enabled = 1 AND deleted_at IS NULL;

CREATE VIEW public_tools AS
SELECT id, name, description, language, code, parameters, capabilities, sandbox_profile, limits, definition_hash,
       version, author, tags, icon, origin, usage_count, created_at, updated_at
FROM custom_tools WHERE visibility = 'public' AND deleted_at IS NULL;

CREATE TRIGGER audit_details_no_update BEFORE UPDATE ON audit_details
BEGIN SELECT RAISE(ABORT, 'audit_details is append only'); END;

CREATE TRIGGER audit_log_no_delete BEFORE DELETE ON audit_log
WHEN NOT EXISTS (SELECT 1 FROM audit_pruning WHERE through >= OLD.seq)
BEGIN SELECT RAISE(ABORT, 'audit_log is append only'); END;

CREATE TRIGGER audit_log_no_gap BEFORE INSERT ON audit_log
WHEN NOT EXISTS (SELECT 1 FROM audit_log WHERE seq = NEW.seq - 1) AND NEW.seq <> 1
BEGIN SELECT RAISE(ABORT, 'audit_log has no gaps'); END;

CREATE TRIGGER audit_log_no_update BEFORE UPDATE ON audit_log
BEGIN SELECT RAISE(ABORT, 'audit_log is append only'); END;

CREATE TRIGGER audit_pruning_no_update BEFORE UPDATE ON audit_pruning
BEGIN SELECT RAISE(ABORT, 'only whole signed segments may leave'); END;

CREATE TRIGGER audit_pruning_whole_segments BEFORE INSERT ON audit_pruning
WHEN NOT EXISTS (SELECT 1 FROM audit_segments WHERE last_seq = NEW.through)
BEGIN SELECT RAISE(ABORT, 'only whole signed segments may leave'); END;

CREATE TRIGGER audit_segments_no_delete BEFORE DELETE ON audit_segments
BEGIN SELECT RAISE(ABORT, 'audit_segments is append only'); END;

CREATE TRIGGER audit_segments_no_update BEFORE UPDATE ON audit_segments
BEGIN SELECT RAISE(ABORT, 'audit_segments is append only'); END;

CREATE TRIGGER composite_skill_events_final BEFORE UPDATE ON composite_skill_events
BEGIN
    SELECT RAISE(ABORT, 'the journal of a run cannot change');
END;

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

CREATE TRIGGER composite_skill_versions_final BEFORE UPDATE ON composite_skill_versions
WHEN (OLD.composite_skill_id, OLD.version, OLD.body, OLD.definition_hash, OLD.note, OLD.origin, OLD.created_at) IS NOT
    (NEW.composite_skill_id, NEW.version, NEW.body, NEW.definition_hash, NEW.note, NEW.origin, NEW.created_at)
    OR OLD.user_id <> NEW.user_id AND NOT EXISTS (SELECT 1 FROM users WHERE id = OLD.user_id AND hub_user_id = NEW.user_id)
BEGIN
    SELECT RAISE(ABORT, 'a version of a skill cannot change');
END;

CREATE TRIGGER conversation_events_final BEFORE UPDATE OF session_id, sequence, type, turn_id, schema_version, causation, at ON conversation_events BEGIN
    SELECT RAISE(ABORT, 'events are never changed'); -- only the form of the payload, plain or sealed
END;

CREATE TRIGGER sessions_purged AFTER DELETE ON sessions BEGIN
    DELETE FROM session_messages WHERE session_id = OLD.id;
    DELETE FROM conversation_events WHERE session_id = OLD.id;
    DELETE FROM agent_turns WHERE session_id = OLD.id;
    DELETE FROM session_state WHERE session_id = OLD.id;
    DELETE FROM session_blobs WHERE session_id = OLD.id;
END;

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

CREATE TRIGGER voice_memos_added AFTER INSERT ON voice_memos BEGIN
    UPDATE voice_transcripts_fts SET title = iif(typeof(NEW.title) = 'text', NEW.title, ''), tags = NEW.tags
        WHERE rowid IN (SELECT i.item FROM voice_transcripts t JOIN voice_transcript_items i ON i.transcript_id = t.id WHERE t.recording_id = NEW.recording_id);
END;

CREATE TRIGGER voice_memos_changed AFTER UPDATE OF title, tags ON voice_memos BEGIN
    UPDATE voice_transcripts_fts SET title = iif(typeof(NEW.title) = 'text', NEW.title, ''), tags = NEW.tags
        WHERE rowid IN (SELECT i.item FROM voice_transcripts t JOIN voice_transcript_items i ON i.transcript_id = t.id WHERE t.recording_id = NEW.recording_id);
END;

CREATE TRIGGER voice_transcripts_added AFTER INSERT ON voice_transcripts WHEN NEW.is_current = 1 AND typeof(NEW.text) = 'text' BEGIN
    INSERT INTO voice_transcript_items (transcript_id) VALUES (NEW.id);
    INSERT INTO voice_transcripts_fts (rowid, text, title, tags)
        SELECT i.item, NEW.text, coalesce((SELECT m.title FROM voice_memos m WHERE m.recording_id = NEW.recording_id AND typeof(m.title) = 'text'), ''),
            coalesce((SELECT m.tags FROM voice_memos m WHERE m.recording_id = NEW.recording_id), '')
        FROM voice_transcript_items i WHERE i.transcript_id = NEW.id;
END;

CREATE TRIGGER voice_transcripts_changed AFTER UPDATE OF text, is_current ON voice_transcripts BEGIN
    DELETE FROM voice_transcripts_fts WHERE rowid = (SELECT item FROM voice_transcript_items WHERE transcript_id = NEW.id);
    DELETE FROM voice_transcript_items WHERE transcript_id = NEW.id;
    INSERT INTO voice_transcript_items (transcript_id) SELECT NEW.id WHERE NEW.is_current = 1 AND typeof(NEW.text) = 'text';
    INSERT INTO voice_transcripts_fts (rowid, text, title, tags)
        SELECT i.item, NEW.text, coalesce((SELECT m.title FROM voice_memos m WHERE m.recording_id = NEW.recording_id AND typeof(m.title) = 'text'), ''),
            coalesce((SELECT m.tags FROM voice_memos m WHERE m.recording_id = NEW.recording_id), '')
        FROM voice_transcript_items i WHERE i.transcript_id = NEW.id;
END;

CREATE TRIGGER voice_transcripts_removed AFTER DELETE ON voice_transcripts BEGIN
    DELETE FROM voice_transcripts_fts WHERE rowid = (SELECT item FROM voice_transcript_items WHERE transcript_id = OLD.id);
    DELETE FROM voice_transcript_items WHERE transcript_id = OLD.id;
END;

